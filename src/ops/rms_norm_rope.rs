//! Normalisation by the root mean square, then rotary positions.

use super::definition::{self, Origin, Pattern, RMS_NORM, Sought, Step};
use super::rope;
use super::{Op, Operand, Operation, RmsNorm, Rope, Shape, Signature};
use crate::{Error, Result};

/// `y = rope(rms_norm(x))`; attributes as [`RmsNorm`].
///
/// Operands: `x [B, S, H, D]`, `weight [H D]` to normalise all heads of a position as one row, or `[D]` to normalise
/// each head separately; `cos [S, D/2]` or `[B, S, D/2]`, `sin` likewise. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct RmsNormRope(pub RmsNorm);

impl Operation for RmsNormRope {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        ("{}", &[&[2, 5, 4, 16], &[64], &[5, 8], &[5, 8]], &[0, 1]),
        ("{}", &[&[2, 5, 4, 16], &[16], &[5, 8], &[5, 8]], &[0, 1]),
    ];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow(),
        Operand::vector("weight"),
        Operand::rows("cos"),
        Operand::rows("sin"),
    ]);

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let [x, weight, ..] = operands else { return Ok(Vec::new()) };
        let [batch, rows, heads, columns] = rope::heads("rms_norm_rope", x)?;
        let normal = match weight.fixed_axes("rms_norm_rope", "weight")?[..] {
            [n] if n == columns => (*x).clone(),
            [n] if n == heads * columns => Shape::fixed(&[batch, rows, n]),
            _ => {
                let expected = format!("[{columns}] or [{}], a head's columns or a place's", heads * columns);
                let found = format!("rms_norm_rope: weight has shape {weight}, expected {expected}");
                return Err(Error::InvalidArgument(found));
            }
        };
        let norm = Step::new(self.0.clone(), &definition::given(0..2)).viewing(0, normal);
        let turn = Step::new(Rope::default(), &[Origin::Step(0), Origin::Operand(2), Origin::Operand(3)])
            .viewing(0, (*x).clone());
        Ok(vec![norm, turn])
    }

    fn sought() -> Option<Sought> {
        Some(Sought {
            pass: "rms_norm_rope",
            priority: 20,
            tree: Pattern::new("rope", |op| matches!(op, Op::Rope(_))).of(&[RMS_NORM]),
            op: |ops| RmsNorm::of(ops[0]).map(|norm| RmsNormRope(norm.clone()).into()),
        })
    }
}
