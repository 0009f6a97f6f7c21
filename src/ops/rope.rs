//! Rotary positions: pairs of columns turned by an angle of the row.

use super::{Counts, Operand, Operation, Shape};
use crate::{Error, Result};

/// Column `d` of a head's first half and of its second are turned as one pair:
/// `(x1 cos - x2 sin, x2 cos + x1 sin)`.
///
/// Operands: `x [B, S, H, D]`, `cos [S, D/2]` or `[B, S, D/2]`, `sin` likewise. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rope {}

impl Operation for Rope {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("x").narrow(), Operand::rows("cos"), Operand::rows("sin")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [x, cos, sin] = operands else {
            return Err(Error::InvalidArgument(format!("rope: {} operands, expected 3", operands.len())));
        };
        let [batch, rows, _, columns] = x.fixed_axes("rope", "x")?[..] else {
            return Err(Error::InvalidArgument(format!("rope: x has shape {x}, expected [B, S, H, D]")));
        };
        if columns % 2 != 0 {
            return Err(Error::InvalidArgument(format!("rope: x has shape {x}, expected an even last axis")));
        }
        let shared = Shape::fixed(&[rows, columns / 2]);
        let each = Shape::fixed(&[batch, rows, columns / 2]);
        if **cos != shared && **cos != each {
            return Err(Error::InvalidArgument(format!("rope: cos has shape {cos}, expected {shared} or {each}")));
        }
        if sin != cos {
            return Err(Error::InvalidArgument(format!("rope: sin has shape {sin}, expected {cos} as cos")));
        }
        Ok(vec![(*x).clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        3 * operands[0].elements(counts) as u64
    }
}
