//! The kernels of [`Numerics::Everywhere`](crate::numerics::Numerics::Everywhere): their numbers depend on no processor.
//!
//! Products are exact sums of integers (`backend/cpu/exact.rs`), everything else consists of float32 operations that IEEE 754
//! rounds in one way, in an order that only the shapes determine. No function of the standard library but roots.

mod attention;
mod elements;
mod embedding_sum;
mod experts;
mod functions;
mod linear;
mod matmul;
mod norms;
mod pool;
mod quantized;
mod reduce;
mod softmax;
mod token_convolution;

use self::quantized::Same;
use super::{Memory, dequantize_rows, integer_linear, max_sum, quantize_rows, quantized_linear, set_rows, top_k};
use crate::backend::cpu::simd::{Standard, sum_in_chains};
use crate::backend::cpu::step::Step;
use crate::ops::Op;
use crate::{Error, Result};

/// Runs one step of a plan whose numbers are the same everywhere.
///
/// # Errors
/// As [`super::run`]; `Unsupported` for an op without a kernel of these numbers.
pub(super) fn run(step: &Step<'_>, op: &Op, memory: Memory<'_, '_>) -> Result<()> {
    let _standard = Standard::enter();
    match op {
        Op::Activation(op) => elements::activation(step, op, memory.into()),
        Op::Attention(op) => attention::attention(step, op, memory.into()),
        Op::Binary(op) => elements::binary(step, op, memory.into()),
        Op::Cast(op) => elements::cast(step, op, memory.into()),
        Op::DequantizeRows(op) => dequantize_rows::with::<Same>(step, op, memory.into()),
        Op::EmbeddingSum(_) => embedding_sum::embedding_sum(step, memory.into()),
        Op::ExpertLinear(op) => experts::expert_linear(step, op, memory.into()),
        Op::Gated(op) => elements::gated(step, op, memory.into()),
        Op::IntegerLinear(op) => integer_linear::integer_linear(step, op, memory.into()),
        Op::LayerNorm(op) => norms::layer_norm(step, op, memory.into()),
        Op::Linear(op) => linear::linear(step, op, memory.into()),
        Op::Matmul(op) => matmul::matmul(step, op, memory.into()),
        Op::MaxSum(_) => max_sum::with::<Same>(step, memory.into()),
        Op::Normalize(op) => norms::normalize(step, op, memory.into()),
        Op::Pool(op) => pool::pool(step, op, memory.into()),
        Op::QuantizeRows(op) => quantize_rows::quantize_rows(step, op, memory.into()),
        Op::QuantizedLinear(op) => quantized_linear::with::<Same>(step, op, memory.into()),
        Op::Reduce(op) => reduce::reduce(step, op, memory.into()),
        Op::RmsNorm(op) => norms::rms_norm(step, op, memory.into()),
        Op::Rope(op) => elements::rope(step, op, memory.into()),
        Op::Route(op) => experts::route(step, op, memory),
        Op::SetRows(op) => set_rows::set_rows(step, op, memory.into()),
        Op::Softmax(op) => softmax::softmax(step, op, memory.into()),
        Op::TokenConvolution(op) => token_convolution::token_convolution(step, op, memory.into()),
        Op::TopK(op) => top_k::top_k(step, op, memory),
        Op::WeightedSum(op) => experts::weighted_sum(step, op, memory.into()),
        other => Err(refused(other.name())),
    }
}

/// The error of what has no kernel of these numbers.
fn refused(what: &str) -> Error {
    Error::unsupported(what, "the CPU has no kernel of numerics=\"everywhere\" for it")
}

/// Sum of settled terms in 64 chains: term `i` is in chain `i mod 64`.
#[inline(always)]
fn sum<const K: usize>(operands: [&[f32]; K], term: impl Fn([f32; K]) -> f32) -> f32 {
    sum_in_chains::<64, K>(operands, term)
}

#[cfg(test)]
mod tests;
