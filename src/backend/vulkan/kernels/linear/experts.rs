//! Dispatches of `expert_linear`: one, or one per slice of the experts where their matrices are too large to bind.

use super::super::rows::slices;
use super::{Chosen, Form, How, Product, Tile, number};
use crate::Result;
use crate::backend::vulkan::generated::expert_linear;
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::ExpertLinear;

/// Adds the node's dispatches.
pub fn expert_linear(to: &mut Lowering<'_>, op: &ExpertLinear) -> Result<()> {
    let epilogue = Tile { bias: op.bias, activation: number(op.activation), ..Tile::default() };
    let product = Chosen::new(to, Form::Experts, &expert_linear::KERNEL, 1, epilogue)?;
    if product.how != How::Matrix {
        to.without_matrix_cores(to.dtype(1))?;
    }
    let [experts, n, k] = ExpertLinear::sizes(to.shape(1));
    let places = to.shape(2).columns() as u32;
    let (height, width) = product.tile.workgroup(product.how);
    let across = (n as u32).div_ceil(width);
    for slice in slices(to.operand(1), experts, to.dtype(1).bytes(n * k) as u64, to.capabilities)? {
        let push = Product {
            rows_of: product.rows.rows_of,
            rows: product.rows.rows,
            n: n as u32,
            k: k as u32,
            y_columns: n as u32,
            first_expert: slice.first,
            experts: slice.rows,
            shared_by: if to.shape(0).0.len() == 2 { places } else { 1 },
            ..Product::default()
        };
        let build = (product.make)(to, push, product.tile)?;
        let group = product.how.group();
        let down = product.rows.tiles_of_groups(slice.rows, height, group);
        to.add(build, "", &[("weight", slice.range)], [Extent::Fixed(group * across), down, Extent::ONE])?;
    }
    Ok(())
}
