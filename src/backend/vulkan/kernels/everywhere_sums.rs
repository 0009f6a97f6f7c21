//! Dispatches of `matmul` and `reduce` with the same bits on every device.

use super::everywhere::{TILE, are_long};
use super::matmul::{push, tiles};
use super::reduce::Work;
use super::rows::{EVERYWHERE_LANES, rows_per_group, spread};
use crate::Result;
use crate::backend::vulkan::generated::{matmul_everywhere as matrices, reduce_everywhere as reduce};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::{Matmul, Reduce};

/// `matmul`: one dispatch.
pub fn matmul_everywhere(to: &mut Lowering<'_>, op: &Matmul) -> Result<()> {
    let product = op.strided([to.shape(0), to.shape(1)])?;
    let long = are_long(to, product.depth)?;
    let build = to.own(DType::F32, push(&product), matrices::Constants { long, ..matrices::Constants::default() })?;
    let batches = (product.batches() as u32).min(to.capabilities.workgroup_count[2]);
    let [across, down] = [product.columns, product.rows].map(|size| tiles(size, TILE));
    to.add(build, "", &[], [across, down, Extent::Fixed(batches)])
}

/// `reduce`: one dispatch.
pub fn reduce_everywhere(to: &mut Lowering<'_>, op: &Reduce) -> Result<()> {
    let Work { axes: [outer, n, inner], stage, chunk, chunks, all, weighted } = Work::of(to, op);
    let part = Reduce::chunk(all);
    let [columns, planes] = [outer * chunks * inner, op.planes(weighted)];
    let [outer, n, inner, chunk, chunks, all, part] =
        [outer, n, inner, chunk, chunks, all, part].map(|size| size as u32);
    let push = reduce::Push { outer, n, inner, chunk, chunks, all, part };
    let constants = reduce::Constants { kind: op.kind as u32, weighted, stage, planes: planes as u32 };
    let (build, columns) = (to.own(DType::F32, push, constants)?, columns as u64);
    to.add(build, "", &[], spread(columns.div_ceil(rows_per_group(EVERYWHERE_LANES).into())))
}
