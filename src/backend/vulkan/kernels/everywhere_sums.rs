//! Dispatches of `matmul` and `reduce` with the same bits on every device.

use super::everywhere::{TILE, check_terms};
use super::matmul::{push, tiles};
use super::rows::{EVERYWHERE_LANES, rows_per_group, spread};
use crate::Result;
use crate::backend::vulkan::generated::{matmul_everywhere as matrices, reduce_everywhere as reduce};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::reduce::Stage;
use crate::ops::{Counts, Matmul, Reduce};

/// Steps of a loop, of which lavapipe runs 65,535 in an invocation: twice, of four elements each.
const MOST_STEPS: usize = 30_000;

/// `matmul`: one dispatch.
pub fn matmul_everywhere(to: &mut Lowering<'_>, op: &Matmul) -> Result<()> {
    let product = op.strided([to.shape(0), to.shape(1)])?;
    check_terms(to, product.depth)?;
    let build = to.own(DType::F32, push(&product), matrices::Constants::default())?;
    let batches = (product.batches() as u32).min(to.capabilities.workgroup_count[2]);
    let [across, down] = [product.columns, product.rows].map(|size| tiles(size, TILE));
    to.add(build, "", &[], [across, down, Extent::Fixed(batches)])
}

/// `reduce`: one dispatch.
pub fn reduce_everywhere(to: &mut Lowering<'_>, op: &Reduce) -> Result<()> {
    let [outer, n, inner] = op.axes(to.shape(0));
    if op.stage != Stage::Whole || n.div_ceil(4 * EVERYWHERE_LANES as usize) > MOST_STEPS {
        return Err(to.unsupported(format!("an axis of {n} is too long for numerics=\"everywhere\" on Vulkan")));
    }
    let push = reduce::Push { outer: outer as u32, n: n as u32, inner: inner as u32 };
    let constants = reduce::Constants { kind: op.kind as u32, weighted: to.operands() > 1 };
    let build = to.own(DType::F32, push, constants)?;
    let columns = to.result().shape.elements(Counts::default()) as u64;
    to.add(build, "", &[], spread(columns.div_ceil(rows_per_group(EVERYWHERE_LANES).into())))
}
