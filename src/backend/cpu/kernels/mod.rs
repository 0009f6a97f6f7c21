//! One file an op, of the op's name: how a step runs on the CPU.

mod activation;
mod add;
mod attention;
mod cast;
mod embedding_sum;
mod layer_norm;
mod linear;
mod normalize;
mod pool;

use super::floats::Floats;
use super::step::Step;
use crate::Result;
use crate::graph::Node;
use crate::ops::Op;

/// Runs one node; `out` is exactly as long as its result, `scratch` belongs to the caller's arena.
///
/// # Errors
/// `InvalidArgument` or `IndexOutOfRange` for operands that contradict the plan, `OutOfMemory` for scratch memory.
pub fn run(step: &Step<'_>, node: &Node, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
    let operands = &node.operands[..];
    match &node.op {
        Op::Activation(op) => activation::run(step, op, operands, out),
        Op::Add(_) => add::run(step, operands, out),
        Op::Attention(op) => attention::run(step, op, operands, scratch, out),
        Op::Cast(op) => cast::run(step, op, operands, out),
        Op::EmbeddingSum(_) => embedding_sum::run(step, operands, out),
        Op::LayerNorm(op) => layer_norm::run(step, op, operands, out),
        Op::Linear(op) => linear::run(step, op, operands, out),
        Op::Normalize(op) => normalize::run(step, op, operands, out),
        Op::Pool(op) => pool::run(step, op, operands, out),
    }
}
