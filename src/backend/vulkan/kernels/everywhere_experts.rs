//! Dispatches of `expert_linear` with the same bits on every device.

use super::everywhere::{Needs, TILE, are_long};
use super::linear::{experts_push, number};
use super::rows::{Rows, slices};
use crate::Result;
use crate::backend::vulkan::generated::expert_linear_everywhere as exact;
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::ExpertLinear;

/// `expert_linear`: one dispatch, or one per slice of the experts where their matrices are too large to bind; before it those that
/// make integers of a weight that is given at run time.
pub fn expert_linear_everywhere(to: &mut Lowering<'_>, op: &ExpertLinear) -> Result<()> {
    let rows = Rows::of_each(&to.result().shape)?;
    let needs = Needs::of(to);
    let [experts, n, k] = needs.sizes;
    let long = are_long(to, k)?;
    let [integers, exponents] = needs.weight(to)?;
    for slice in slices(integers, experts, 4 * (n * k) as u64, to.capabilities)? {
        let push = experts_push(to, rows, [n, k], slice);
        let constants = exact::Constants { bias: op.bias, activation: number(op.activation), long };
        let build = to.own(DType::F32, push.into(), constants)?;
        let (across, down) = (Extent::Fixed((n as u32).div_ceil(TILE)), rows.tiles_of_groups(slice.rows, TILE, 1));
        let given = [("weight", slice.range), ("exponents", exponents)];
        to.add(build, "", &given, [across, down, Extent::Continued { axis: 1 }])?;
    }
    Ok(())
}
