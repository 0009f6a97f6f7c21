//! Dispatches of `sort_indices`: the order, then where each bucket begins.

use super::rows::{Rows, along, spread};
use crate::Result;
use crate::backend::vulkan::generated::{sort_indices as order, sort_indices_starts as starts};
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::{Dim, SortIndices};

/// Places per workgroup of the first kernel, and buckets of the second.
const PLACES: u32 = 32;
const BUCKETS: u32 = 256;

/// Adds the node's dispatches.
pub fn sort_indices(to: &mut Lowering<'_>, op: &SortIndices) -> Result<()> {
    let places = Rows { columns: op.rows as u32, ..Rows::of_elements(to.shape(0))? };
    let grid = match places.count {
        Dim::Fixed(all) => spread((all as u64).div_ceil(PLACES.into())),
        _ => along(places.tiles(PLACES)),
    };
    to.add(to.own(DType::F32, places.into(), order::Constants {})?, "", &[], grid)?;
    let build = to.own(DType::F32, places.into(), starts::Constants {})?;
    to.add(build, "starts", &[], spread(u64::from((op.rows as u32 + 1).div_ceil(BUCKETS))))
}
