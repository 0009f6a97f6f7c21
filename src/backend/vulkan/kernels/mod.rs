//! How each op runs on a Vulkan device: one file an op, named as the op.

pub(super) mod activation;
pub(super) mod activation_backward;
pub(super) mod attention;
pub(super) mod attention_output;
pub(super) mod binary;
pub(super) mod binary_cross_entropy;
pub(super) mod cast;
pub(super) mod dropout;
mod elements;
pub(super) mod embedding_sum;
pub(super) mod gated;
pub(super) mod gated_backward;
pub(super) mod layer_norm;
pub(super) mod linear;
pub(super) mod normalize;
pub(super) mod pool;
mod rows;

#[cfg(test)]
mod guards;
#[cfg(test)]
mod tests;
