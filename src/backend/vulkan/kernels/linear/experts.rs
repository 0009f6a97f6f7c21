//! Dispatches of `expert_linear`: one, or one per slice of the experts where their matrices are too large to bind.

use super::super::rows::{Rows, Slice, slices};
use super::{How, Multiplied, Product, Tile, number};
use crate::Result;
use crate::backend::vulkan::generated::expert_linear;
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::ExpertLinear;

/// Adds the node's dispatches.
pub fn expert_linear(to: &mut Lowering<'_>, op: &ExpertLinear) -> Result<()> {
    let epilogue = Tile { bias: op.bias, activation: number(op.activation), ..Tile::default() };
    let rows = Rows::of_each(&to.result().shape)?;
    let product = Multiplied::new(to, &expert_linear::KERNEL, rows, [1, 1], epilogue)?;
    to.check_narrow(to.dtype(1), product.build.how == How::Matrix)?;
    let [experts, n, k] = ExpertLinear::sizes(to.shape(1));
    let [height, width, group] = product.workgroup();
    let across = (n as u32).div_ceil(width);
    for slice in slices(to.operand(1), experts, to.dtype(1).bytes(n * k) as u64, to.capabilities)? {
        let push = experts_push(to, rows, [n, k], slice);
        let build = (product.build.make)(to, push, product.build.tile)?;
        let down = rows.tiles_of_groups(slice.rows, height, group);
        to.add(
            build,
            "",
            &[("weight", slice.range)],
            [Extent::Fixed(group * across), down, Extent::Continued { axis: 1 }],
        )?;
    }
    Ok(())
}

/// The push block for a slice of the experts, of matrices `[n, k]`.
pub fn experts_push(to: &Lowering<'_>, rows: Rows, [n, k]: [usize; 2], slice: Slice) -> Product {
    Product {
        rows_of: rows.rows_of,
        rows: rows.rows,
        n: n as u32,
        k: k as u32,
        y_columns: n as u32,
        first_expert: slice.first,
        experts: slice.rows,
        shared_by: if to.shape(0).0.len() == 2 { to.shape(2).columns() as u32 } else { 1 },
        ..Product::default()
    }
}
