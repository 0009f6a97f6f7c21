//! How each op runs on a Vulkan device: one file an op, named as the op.

pub(super) mod activation;
pub(super) mod activation_backward;
pub(super) mod attention;
pub(super) mod attention_mask;
pub(super) mod attention_matrix;
pub(super) mod attention_output;
pub(super) mod attention_scores;
pub(super) mod bias_gelu;
pub(super) mod binary;
pub(super) mod binary_cross_entropy;
pub(super) mod cast;
pub(super) mod cross_entropy;
pub(super) mod cross_entropy_backward;
pub(super) mod dropout;
mod elements;
pub(super) mod embedding_backward;
pub(super) mod embedding_sum;
pub(super) mod gated;
pub(super) mod gated_backward;
pub(super) mod gated_linear;
pub(super) mod layer_norm;
pub(super) mod layer_norm_backward;
pub(super) mod layer_norm_linear;
pub(super) mod linear;
pub(super) mod linear_matrix;
pub(super) mod matmul;
pub(super) mod normalize;
pub(super) mod pool;
pub(super) mod reduce;
pub(super) mod residual_layer_norm;
pub(super) mod residual_rms_norm;
pub(super) mod rms_norm;
pub(super) mod rms_norm_backward;
pub(super) mod rms_norm_rope;
pub(super) mod rope;
mod rows;
pub(super) mod softmax;
pub(super) mod softmax_backward;
pub(super) mod softmax_dropout;

#[cfg(test)]
mod flash_limits;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod moved;
#[cfg(test)]
mod tests;
