//! One file an op, of the op's name, with its gradient: how a step runs on the CPU.

mod activation;
mod activation_backward;
mod adam;
mod attention;
mod attention_mask;
mod attention_output;
mod attention_scores;
mod bias_gelu;
mod binary;
mod binary_cross_entropy;
mod cast;
mod cross_entropy;
mod dequantize_rows;
mod dropout;
mod embedding_backward;
mod embedding_sum;
mod functions;
mod gated;
mod gated_backward;
mod gated_linear;
mod integer_linear;
mod layer_norm;
mod layer_norm_linear;
mod linear;
mod matmul;
mod normalize;
mod pool;
mod quantize_rows;
mod reduce;
mod residual_layer_norm;
mod residual_rms_norm;
mod rms_norm;
mod rms_norm_rope;
mod rope;
mod set_rows;
mod softmax;
mod softmax_dropout;

use super::floats::Floats;
use super::step::Step;
use crate::Result;
use crate::graph::Node;
use crate::ops::Op;

/// Runs one node; `results` are exactly as long as its results, and one that is written in an operand's place holds that operand.
/// `scratch` belongs to the caller's arena.
///
/// # Errors
/// `InvalidArgument` or `IndexOutOfRange` for operands that contradict the plan, `OutOfMemory` for scratch memory.
pub fn run(step: &Step<'_>, node: &Node, scratch: &mut Floats, results: &mut [&mut [f32]]) -> Result<()> {
    let operands = &node.operands[..];
    let out = &mut *results[0];
    match &node.op {
        Op::Activation(op) => activation::run(step, op, operands, out),
        Op::ActivationBackward(op) => activation_backward::run(step, op, operands, out),
        Op::Adam(op) => adam::run(step, op, operands, results),
        Op::Attention(op) => attention::run(step, op, operands, scratch, out),
        Op::AttentionMask(op) => attention_mask::run(step, op, operands, out),
        Op::AttentionOutput(op) => attention_output::run(step, op, operands, out),
        Op::AttentionScores(op) => attention_scores::run(step, op, operands, scratch, out),
        Op::BiasGelu(op) => bias_gelu::run(step, op, operands, out),
        Op::BinaryCrossEntropy(_) => binary_cross_entropy::run(step, operands, out),
        Op::Binary(op) => binary::run(step, op, operands, out),
        Op::Cast(op) => cast::run(step, op, operands, out),
        Op::CrossEntropyBackward(op) => cross_entropy::backward(step, op, operands, out),
        Op::CrossEntropy(op) => cross_entropy::run(step, op, operands, out),
        Op::DequantizeRows(_) => dequantize_rows::run(step, operands, out),
        Op::Dropout(op) => dropout::run(step, op, operands, out),
        Op::EmbeddingBackward(_) => embedding_backward::run(step, operands, out),
        Op::EmbeddingSum(_) => embedding_sum::run(step, operands, out),
        Op::Gated(op) => gated::run(step, op, operands, out),
        Op::GatedBackward(op) => gated_backward::run(step, op, operands, out),
        Op::GatedLinear(op) => gated_linear::run(step, op, operands, scratch, out),
        Op::IntegerLinear(_) => integer_linear::run(step, operands, out),
        Op::LayerNorm(op) => layer_norm::run(step, op, operands, out),
        Op::LayerNormBackward(op) => layer_norm::backward(step, op, operands, out),
        Op::LayerNormLinear(op) => layer_norm_linear::run(step, op, operands, scratch, out),
        Op::Linear(op) => linear::run(step, op, operands, out),
        Op::Matmul(op) => matmul::run(step, op, operands, scratch, out),
        Op::Normalize(op) => normalize::run(step, op, operands, out),
        Op::Pool(op) => pool::run(step, op, operands, out),
        Op::QuantizeRows(_) => quantize_rows::run(step, operands, results),
        Op::Reduce(op) => reduce::run(step, op, operands, out),
        Op::ResidualLayerNorm(op) => residual_layer_norm::run(step, op, operands, out),
        Op::ResidualRmsNorm(op) => residual_rms_norm::run(step, op, operands, out),
        Op::RmsNormBackward(op) => rms_norm::backward(step, op, operands, out),
        Op::RmsNorm(op) => rms_norm::run(step, op, operands, out),
        Op::RmsNormRope(op) => rms_norm_rope::run(step, op, operands, out),
        Op::Rope(_) => rope::run(step, operands, out),
        Op::SetRows(_) => set_rows::run(step, operands, out),
        Op::SoftmaxBackward(_) => softmax::backward(step, operands, out),
        Op::SoftmaxDropout(op) => softmax_dropout::run(step, op, operands, out),
        Op::Softmax(op) => softmax::run(step, op, operands, out),
    }
}
