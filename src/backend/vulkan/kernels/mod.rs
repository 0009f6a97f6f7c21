//! How each op runs on a Vulkan device: the table of all ops, and the files of those that take more than a row.

pub mod attention;
mod attention_mask;
mod attention_output;
pub mod elementwise;
mod embedding_backward;
mod embedding_sum;
pub mod linear;
mod matmul;
mod pool;
mod quantize;
mod reduce;
mod rope;
pub mod rows;
mod rowwise;

#[cfg(test)]
mod flash_limits;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod tests;

use super::Capabilities;
use super::generated::{
    layer_norm, layer_norm_backward, residual_layer_norm, residual_rms_norm, rms_norm, rms_norm_backward,
};
use super::kernel::Dispatch;
use super::lowering::{Lowering, Narrow, Target};
use crate::Result;
use crate::graph::Plan;
use crate::ops::Op;

/// Lowers every node of the plan to the shaders that its registry has for its architecture.
///
/// # Errors
/// `Unsupported` when an op has no variant for the device.
pub fn lower(plan: &Plan, capabilities: &Capabilities) -> Result<Vec<Dispatch>> {
    lower_for(plan, Target { capabilities, narrow: Narrow::Every })
}

/// As [`lower`], with the builds that the target may have.
///
/// # Errors
/// As [`lower`].
pub fn lower_for(plan: &Plan, target: Target<'_>) -> Result<Vec<Dispatch>> {
    let mut dispatches = Vec::new();
    for node in &plan.graph.nodes {
        let mut lowering = Lowering::new(plan, node, target);
        lower_node(&mut lowering)?;
        dispatches.append(&mut lowering.dispatches);
    }
    Ok(dispatches)
}

/// Adds the dispatches of a node.
fn lower_node(to: &mut Lowering<'_>) -> Result<()> {
    match to.op() {
        Op::Activation(op) => elementwise::activation(to, op),
        Op::ActivationBackward(op) => elementwise::activation_backward(to, op),
        Op::Adam(op) => elementwise::adam(to, op),
        Op::Attention(op) => attention::attention(to, op),
        Op::AttentionMask(op) => attention_mask::attention_mask(to, op),
        Op::AttentionOutput(op) => attention_output::attention_output(to, op),
        Op::AttentionScores(op) => matmul::attention_scores(to, op),
        Op::BiasGelu(op) => elementwise::bias_gelu(to, op),
        Op::BinaryCrossEntropy(_) => elementwise::binary_cross_entropy(to),
        Op::Binary(op) => elementwise::binary(to, op),
        Op::Cast(op) => elementwise::cast(to, op),
        Op::CrossEntropyBackward(op) => rowwise::cross_entropy_backward(to, op),
        Op::CrossEntropy(op) => rowwise::cross_entropy(to, op),
        Op::DequantizeRows(_) => quantize::dequantize_rows(to),
        Op::Dropout(op) => elementwise::dropout(to, op),
        Op::EmbeddingBackward(_) => embedding_backward::embedding_backward(to),
        Op::EmbeddingSum(_) => embedding_sum::embedding_sum(to),
        Op::Gated(op) => elementwise::gated(to, op),
        Op::GatedBackward(op) => elementwise::gated_backward(to, op),
        Op::GatedLinear(op) => linear::gated_linear(to, op),
        Op::IntegerLinear(_) => quantize::integer_linear(to),
        Op::LayerNorm(op) => rowwise::norm::<layer_norm::Constants>(to, op.eps),
        Op::LayerNormBackward(op) => rowwise::norm::<layer_norm_backward::Constants>(to, op.eps),
        Op::LayerNormLinear(op) => linear::layer_norm_linear(to, op),
        Op::Linear(op) => linear::linear(to, op),
        Op::Matmul(op) => matmul::matmul(to, op),
        Op::Normalize(op) => rowwise::normalize(to, op),
        Op::Pool(op) => pool::pool(to, op),
        Op::QuantizeRows(_) => quantize::quantize_rows(to),
        Op::Reduce(op) => reduce::reduce(to, op),
        Op::ResidualLayerNorm(op) => rowwise::norm::<residual_layer_norm::Constants>(to, op.0.eps),
        Op::ResidualRmsNorm(op) => rowwise::norm::<residual_rms_norm::Constants>(to, op.0.eps),
        Op::RmsNormBackward(op) => rowwise::norm::<rms_norm_backward::Constants>(to, op.eps),
        Op::RmsNorm(op) => rowwise::norm::<rms_norm::Constants>(to, op.eps),
        Op::RmsNormRope(op) => rowwise::rms_norm_rope(to, op),
        Op::Rope(_) => rope::rope(to),
        Op::SetRows(_) => elementwise::set_rows(to),
        Op::SoftmaxBackward(_) => rowwise::softmax_backward(to),
        Op::SoftmaxDropout(op) => rowwise::softmax_dropout(to, op),
        Op::Softmax(op) => rowwise::softmax(to, op),
    }
}
