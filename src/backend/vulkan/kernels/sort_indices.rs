//! Dispatches of `sort_indices`: the order, then where each bucket begins.

use super::rows::{Rows, along, spread};
use crate::Result;
use crate::backend::vulkan::generated::{sort_indices as order, sort_indices_starts as starts};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::dtype::DType;
use crate::ops::SortIndices;

/// Places, or buckets, per workgroup.
const EACH: u32 = 256;

/// Adds the node's dispatches.
pub fn sort_indices(to: &mut Lowering<'_>, op: &SortIndices) -> Result<()> {
    let places = Rows { columns: op.rows as u32, ..Rows::of_elements(to.shape(0))? };
    let variant = order::KERNEL.own(DType::F32, to.capabilities)?;
    to.add(Build::new(variant, places.into(), order::Constants {}), "", &[], along(places.tiles(EACH)))?;
    let variant = starts::KERNEL.own(DType::F32, to.capabilities)?;
    let build = Build::new(variant, places.into(), starts::Constants {});
    to.add(build, "starts", &[], spread(u64::from((op.rows as u32 + 1).div_ceil(EACH))))
}
