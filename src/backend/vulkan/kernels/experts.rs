//! Dispatches of `route`, the choice and then the order of places, and of `weighted_sum`.

use super::elementwise::walk;
use super::rows::{Rows, continued};
use crate::Result;
use crate::backend::vulkan::generated::{route as choice, route_order, weighted_sum as sum};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::numerics::Numerics;
use crate::ops::{Route, WeightedSum};

/// Rows per workgroup.
const ROWS: u32 = 256;
/// Experts that a workgroup can count.
const MOST_EXPERTS: u32 = 4096;
/// Steps of an invocation's loops, of which lavapipe runs 65,535, where results are the same on every device.
const MOST_STEPS: usize = 65_000;

/// `route`
pub fn route(to: &mut Lowering<'_>, op: &Route) -> Result<()> {
    let rows = Rows::of(to.shape(0))?;
    let (experts, top_k) = (rows.columns, op.top_k as u32);
    if experts > MOST_EXPERTS {
        return Err(to.unsupported(format!("{experts} experts, at most {MOST_EXPERTS} are known")));
    }
    // Loops over experts: for the largest, for each place, for the sum, and, in parts, for counts.
    if to.numerics() == Numerics::Everywhere && (op.top_k + 3) * experts as usize > MOST_STEPS {
        let reason = format!("{top_k} of {experts} experts, numerics=\"everywhere\" takes {MOST_STEPS} steps a row");
        return Err(to.unsupported(reason));
    }
    let blocks = rows.tiles(ROWS);
    let constants = choice::Constants { experts, top_k, normalized: op.normalized };
    to.dispatch(rows.into(), constants, continued(blocks))?;
    // Of no rows, starts are written, too.
    let blocks = match blocks {
        Extent::Fixed(n) => Extent::Fixed(n.max(1)),
        counted => counted,
    };
    let build = to.own(DType::F32, rows.into(), route_order::Constants { experts, top_k })?;
    to.add(build, "order", &[], [blocks, Extent::Fixed(experts), Extent::Continued { axis: 0 }])
}

/// `weighted_sum`
pub fn weighted_sum(to: &mut Lowering<'_>, op: &WeightedSum) -> Result<()> {
    let (width, each) = (to.shape(0).columns() as u32, to.shape(1).columns() as u32);
    let constants = sum::Constants { vector: width.is_multiple_of(4), bias: op.bias };
    walk(to, &to.result().shape, constants, |walk| sum::Push { width, each, ..walk })
}
