//! Dispatches of `route`, the choice and then the order of places, and of `weighted_sum`.

use super::elementwise::walk;
use super::rows::{Rows, continued};
use crate::Result;
use crate::backend::vulkan::generated::{route as choice, route_order, weighted_sum as sum};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::{Route, WeightedSum};

/// Rows per workgroup.
const ROWS: u32 = 256;
/// Experts that a workgroup can count.
const MOST_EXPERTS: u32 = 4096;

/// `route`
pub fn route(to: &mut Lowering<'_>, op: &Route) -> Result<()> {
    let rows = Rows::of(to.shape(0))?;
    let (experts, top_k) = (rows.columns, op.top_k as u32);
    if experts > MOST_EXPERTS {
        return Err(to.unsupported(format!("{experts} experts, at most {MOST_EXPERTS} are known")));
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
