//! How each op runs on a Vulkan device: a function named after the op, in `elementwise.rs`, `rowwise.rs` or its own
//! file.

pub mod attention;
mod attention_backward;
mod attention_bias;
mod attention_mask;
mod attention_output;
mod builds;
pub mod elementwise;
mod embedding_backward;
mod embedding_sum;
mod everywhere;
mod everywhere_experts;
mod everywhere_sums;
mod experts;
mod grow_unit;
pub mod linear;
mod matmul;
mod max_sim;
mod pool;
mod quantize;
mod reduce;
mod rope;
pub mod rows;
mod rowwise;
mod sort_indices;
mod token_convolution;
mod top_k;

#[cfg(test)]
mod flash_limits;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::everywhere::with_scratch;
use self::{
    attention::*, attention_backward::*, attention_bias::*, attention_mask::*, attention_output::*, elementwise::*,
    embedding_backward::*, embedding_sum::*, everywhere::*, everywhere_experts::*, everywhere_sums::*, experts::*,
    grow_unit::*, linear::*, matmul::*, max_sim::*, pool::*, quantize::*, reduce::*, rope::*, rowwise::*,
    sort_indices::*, token_convolution::*, top_k::*,
};
use super::Capabilities;
use super::kernel::Dispatch;
use super::lowering::Lowering;
use crate::backend::Narrow;
use crate::graph::Plan;
use crate::numerics::Numerics;
use crate::ops::{Op, each_op};
use crate::{Error, Result, exit};

/// Lowers every node of the plan to the shaders registered for its architecture.
///
/// # Errors
/// `Unsupported` when an op has no variant for the device.
pub fn lower(plan: &Plan, capabilities: &Capabilities) -> Result<Vec<Dispatch>> {
    lower_for(plan, capabilities, Narrow::Every)
}

/// As [`lower`], with the 16-bit builds that `narrow` allows.
///
/// # Errors
/// As [`lower`].
pub fn lower_for(plan: &Plan, capabilities: &Capabilities, narrow: Narrow) -> Result<Vec<Dispatch>> {
    let mut dispatches = Vec::new();
    for node in &plan.graph.nodes {
        exit::check()?;
        let mut lowering = Lowering::new(plan, node, capabilities, narrow);
        lower_node(&mut lowering)?;
        dispatches.append(&mut lowering.dispatches);
    }
    Ok(dispatches)
}

/// The builds that run a plan's products and attention, with what those before them lack: a line for equal steps, with their
/// number.
///
/// # Errors
/// As [`lower`].
pub fn builds_of(plan: &Plan, capabilities: &Capabilities) -> Result<String> {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for node in &plan.graph.nodes {
        let mut lowering = Lowering::new(plan, node, capabilities, Narrow::Every);
        lower_node(&mut lowering)?;
        for choice in lowering.choices {
            *lines.entry(format!("{}: {choice}", node.op.name())).or_default() += 1;
        }
    }
    Ok(lines.into_iter().map(|(line, steps)| format!("{steps} x {line}\n")).collect())
}

macro_rules! lowerings {
    ({ $($rows:tt)* } { $($fused:tt)* } $composed:tt) => { lowerings! { $($rows)* $($fused)* } };
    ($($file:ident { $($variant:ident = $name:ident),+ })*) => {
        /// Adds the dispatches of a node, by the function named after the op.
        fn lower_node(to: &mut Lowering<'_>) -> Result<()> {
            match (to.numerics(), to.op()) {
                (Numerics::Everywhere, Op::Linear(op)) => return linear_everywhere(to, op),
                (Numerics::Everywhere, Op::ExpertLinear(op)) => return expert_linear_everywhere(to, op),
                (Numerics::Everywhere, Op::Attention(op)) => return attention_everywhere(to, op),
                (Numerics::Everywhere, Op::Matmul(op)) => return matmul_everywhere(to, op),
                (Numerics::Everywhere, Op::Reduce(op)) => return reduce_everywhere(to, op),
                _ => {}
            }
            match to.op() {
                $($(Op::$variant(op) => $name(to, op),)+)*
                op => Err(Error::unsupported(op.name(), "no device has a kernel for it")),
            }
        }
    };
}

each_op!(lowerings);
