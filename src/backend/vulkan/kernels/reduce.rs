//! Dispatches of `reduce`.

use super::rows::spread;
use crate::Result;
use crate::backend::vulkan::generated::reduce::{Constants, KERNEL, Push};
use crate::backend::vulkan::generated::reduce_quads;
use crate::backend::vulkan::kernel::Range;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::dtype::DType;
use crate::ops::reduce::Stage;
use crate::ops::{Reduce, ReduceKind};

/// Invocations of a workgroup along neighbouring columns, and invocations that share a column: determined by the shape
/// alone. With quads, a column is four elements wide.
fn layout(n: usize, inner: usize) -> (u32, u32) {
    let columns = inner.next_power_of_two().min(32);
    // Sixteen elements per invocation: with fewer, the tree over the lanes takes longer than the loads.
    let lanes = n.div_ceil(16).next_power_of_two().min(256 / columns);
    (columns as u32, lanes as u32)
}

/// What a step of a reduction does.
pub(super) struct Work {
    /// The axes before, the elements or parts to reduce, the columns.
    pub(super) axes: [usize; 3],
    /// The number of the [`Stage`].
    pub(super) stage: u32,
    /// Elements of a chunk, and chunks.
    pub(super) chunk: usize,
    pub(super) chunks: usize,
    /// Elements of the whole axis.
    pub(super) all: usize,
    pub(super) weighted: bool,
}

impl Work {
    pub(super) fn of(to: &Lowering<'_>, op: &Reduce) -> Self {
        let [outer, n, mut inner] = op.axes(to.shape(0));
        let (stage, chunk, all, weighted) = match op.stage {
            Stage::Whole => (0, n.max(1), n, to.operands() > 1),
            Stage::Chunks => (1, Reduce::chunk(n), n, to.operands() > 1),
            Stage::Join { n: all, weighted } => {
                // The axis of planes follows the axis of parts.
                inner /= op.planes(weighted);
                (2, n.max(1), all, weighted)
            }
        };
        Work { axes: [outer, n, inner], stage, chunk, chunks: n.div_ceil(chunk).max(1), all, weighted }
    }
}

/// Adds the node's dispatch.
pub fn reduce(to: &mut Lowering<'_>, op: &Reduce) -> Result<()> {
    let Work { axes: [outer, n, mut inner], stage, chunk, chunks, all, weighted } = Work::of(to, op);
    // A user's shader has the interface of the single-column build.
    let quads = inner > 0 && inner.is_multiple_of(4) && to.replaced(&KERNEL).is_none();
    if quads {
        inner /= 4;
    }
    let (columns, lanes) = layout(n.min(chunk), inner);
    let planes = op.planes(weighted) as u32;
    let units = 256 / (columns * lanes);
    let push = Push {
        outer: outer as u32,
        n: n as u32,
        inner: inner as u32,
        chunk: chunk as u32,
        chunks: chunks as u32,
        all: all as u32,
        part: Reduce::chunk(all) as u32,
    };
    let groups = (outer * chunks).div_ceil(units as usize) as u64 * inner.div_ceil(columns as usize) as u64;
    let constants = Constants { lanes, columns, kind: op.kind as u32, weighted, stage, planes };
    let variant = to.select(if quads { &reduce_quads::KERNEL } else { &KERNEL })?;
    to.add(Build::new(variant, push, constants), "", &[], spread(groups))
}

/// Adds the sum of `parts` arrays of as many elements, which follow one another in `x`, in this order.
pub(super) fn sum_of_parts(to: &mut Lowering<'_>, x: Range, parts: usize, elements: usize) -> Result<()> {
    let quads = elements.is_multiple_of(4);
    let inner = if quads { elements / 4 } else { elements };
    let columns = inner.next_power_of_two().min(256);
    let n = parts as u32;
    let push = Push { outer: 1, n, inner: inner as u32, chunk: n, chunks: 1, all: n, part: n };
    let kind = ReduceKind::Sum as u32;
    let constants = Constants { lanes: 1, columns: columns as u32, kind, weighted: false, stage: 0, planes: 1 };
    let kernel = if quads { &reduce_quads::KERNEL } else { &KERNEL };
    let build = Build::new(kernel.own(DType::F32, to.capabilities)?, push, constants);
    to.add(build, "sum", &[("x", x), ("weights", x)], spread(inner.div_ceil(columns) as u64))
}
