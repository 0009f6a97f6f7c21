//! Dispatches of products and attention whose results have the same bits on every device.

use super::attention::{MOST_HEAD_DIM, push};
use super::linear::number;
use super::rows::{Rows, slices};
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::{
    Blocks, Product, attention_everywhere as attending, linear_everywhere as linear,
};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::{Attention, Dim, Linear, Residual};

/// Rows and columns of a workgroup's tile.
const TILE: u32 = 64;
/// Queries of a workgroup.
const QUERIES: u32 = 32;
/// Terms of 46 bits that 64 bits hold.
const MOST_TERMS: usize = 131_072;

/// `linear`: one dispatch, or one per slice of the weight where it is too large to bind.
pub fn linear_everywhere(to: &mut Lowering<'_>, op: &Linear) -> Result<()> {
    let rows = Rows::of(&to.result().shape)?;
    let (n, k) = (to.result().shape.columns(), to.shape(1).columns());
    if k > MOST_TERMS {
        return Err(to.unsupported(format!("sums of {k} terms, numerics=\"everywhere\" on Vulkan takes {MOST_TERMS}")));
    }
    let [integers, exponents] = to.integers(1)?;
    let row_bytes = 4 * k as u64;
    // As many as the grid has columns for.
    let range = to.capabilities.storage_buffer_range.min(u64::from(Extent::MOST * TILE) * row_bytes);
    let limited = Capabilities { storage_buffer_range: range, ..to.capabilities.clone() };
    for slice in slices(integers, n, row_bytes, &limited)? {
        let push = Product {
            rows_of: rows.rows_of,
            rows: rows.rows,
            n: slice.rows,
            k: k as u32,
            column: slice.first,
            y_columns: n as u32,
            ..Product::default()
        };
        let residual = op.residual == Residual::Added;
        let constants = linear::Constants { bias: op.bias, residual, activation: number(op.activation) };
        let build = to.own(DType::F32, push.into(), constants)?;
        let grid = [Extent::Fixed(slice.rows.div_ceil(TILE)), rows.tiles(TILE), Extent::Continued { axis: 1 }];
        to.add(build, "", &[("weight", slice.range), ("exponents", exponents)], grid)?;
    }
    Ok(())
}

/// `attention`: one dispatch.
pub fn attention_everywhere(to: &mut Lowering<'_>, op: &Attention) -> Result<()> {
    let reason = match op {
        Attention { distances: Some(_), .. } => Some("scores by distance".to_owned()),
        Attention { dropout, .. } if *dropout > 0.0 => Some("dropout".to_owned()),
        Attention { blocks: Some(_), .. } => Some("requested blocks".to_owned()),
        Attention { head_dim, .. } if *head_dim > MOST_HEAD_DIM => Some(format!("heads of {head_dim} columns")),
        _ => None,
    };
    if let Some(reason) = reason {
        return Err(to.unsupported(format!("numerics=\"everywhere\" on Vulkan has no {reason}")));
    }
    let build = to.own(DType::F32, push(to, op, 1), attending::Constants::from(Blocks::of(op)))?;
    let grid = [
        Extent::Tiles { dim: Dim::Tokens, per: QUERIES },
        Extent::Fixed(op.heads as u32),
        Extent::Continued { axis: 0 },
    ];
    to.add(build, "", &[], grid)
}
