//! The table of functions: their buffers, in the order of their indices, and their numbers.

/// A row of the table.
pub(super) struct Row {
    /// The function.
    pub(super) function: BitNetShaderFunction,
    /// Its name.
    pub(super) name: &'static str,
    /// The shader of grilly that writes its first result.
    pub(super) shader: &'static str,
    /// Names of its buffers; `?` ends that of one which may be left out, `!` that of a result.
    pub(super) buffers: &'static [&'static str],
    /// Its numbers, with their defaults.
    pub(super) numbers: &'static [(&'static str, f64)],
}

macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident $name:literal $shader:literal $buffers:tt $numbers:tt;)*) => {
        /// A function, by the name that it has in `grilly.quant`.
        ///
        /// In a list of buffers, in the order of their indices, `?` is after one that may be left out and `!` after a
        /// result; then come numbers with their defaults. Weights are signs, ternary values or int8, by their type and their
        /// bytes per row (signs, where up to four columns fit one byte either way); `weight_scale` is `[1]`, without it 1, or
        /// `[N]`, or `[N, G]` with `group_size`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum BitNetShaderFunction {
            $(
                $(#[$doc])*
                #[doc = concat!("\n\nBuffers and numbers: `", stringify!($buffers), "`, `", stringify!($numbers), "`.")]
                $variant,
            )*
        }

        const ROWS: &[Row] = &[
            $(Row {
                function: BitNetShaderFunction::$variant,
                name: $name,
                shader: $shader,
                buffers: &$buffers,
                numbers: &$numbers,
            },)*
        ];
    };
}

functions! {
    /// Int8 rows times a quantised weight, plus the bias.
    BitLinearForward "bitlinear_forward" "quantized-linear"
        ["input", "weights", "bias?", "output!", "weight_scale?"] [("group_size", 0.0)];
    /// The gradient of [`BitNetShaderFunction::BitLinearForward`] in its input, straight-through.
    BitLinearBackwardInput "bitlinear_backward_input" "matmul"
        ["grad_output", "weights", "grad_input!", "weight_scale?"] [("group_size", 0.0)];
    /// The gradient of [`BitNetShaderFunction::BitLinearForward`] in its weight, straight-through.
    BitLinearBackwardWeight "bitlinear_backward_weight" "matmul" ["grad_output", "input", "grad_weight!"] [];
    /// Signs of a weight, and one scale.
    BinarizeWeights "binarize_weights" "quantize-rows" ["weights", "output!", "scale!"] [];
    /// Int8 by the largest magnitude of each row.
    QuantizeActivations "quantize_activations" "quantize-rows" ["input", "output!", "scale!"] [];
    /// Signs of a weight, and a scale per group of columns.
    QuantizeWeights1Bit "quantize_weights_1bit" "quantize-rows"
        ["weights", "output!", "scale!"] [("group_size", 128.0)];
    /// Int8 of the range of each row, with its zero point.
    QuantizeActivations8Bit "quantize_activations_8bit" "quantize-rows-affine"
        ["input", "output!", "scale!", "zero!"] [];
    /// The inverse of [`BitNetShaderFunction::QuantizeWeights1Bit`].
    DequantizeWeights1Bit "dequantize_weights_1bit" "dequantize-rows"
        ["weights", "scale", "output!"] [("group_size", 128.0)];
    /// The inverse of [`BitNetShaderFunction::QuantizeActivations8Bit`].
    DequantizeActivations8Bit "dequantize_activations_8bit" "dequantize-rows"
        ["input", "scale", "output!", "zero?"] [];
    /// Int8 of the range of all rows, with one zero point.
    DynamicQuantizeActivations "dynamic_quantize_activations" "quantize-rows-affine"
        ["input", "output!", "scale!", "zero!"] [];
    /// Int8 by the largest magnitude, rounded at random.
    QuantizeGradients "quantize_gradients" "quantize-rows" ["gradients", "output!", "scale!"] [("seed", 0.0)];
    /// Rows of floats times a quantised weight.
    MixedPrecisionMatmul "mixed_precision_matmul" "linear"
        ["input", "weights", "output!", "weight_scale?"] [("group_size", 0.0)];
    /// `max(x, 0)`
    ReluForward "relu_forward" "activation" ["input", "output!"] [];
    /// The gradient of relu.
    ReluBackward "relu_backward" "activation-backward" ["grad_output", "input", "grad_input!"] [];
    /// GELU by tanh.
    GeluForward "gelu_forward" "activation" ["input", "output!"] [];
    /// The gradient of GELU.
    GeluBackward "gelu_backward" "activation-backward" ["grad_output", "input", "grad_input!"] [];
    /// `x sigmoid(x)`
    SwishForward "swish_forward" "activation" ["input", "output!"] [];
    /// The gradient of swish.
    SwishBackward "swish_backward" "activation-backward" ["grad_output", "input", "grad_input!"] [];
    /// `1 / (1 + exp(-x))`
    SigmoidForward "sigmoid_forward" "activation" ["input", "output!"] [];
    /// The gradient of the sigmoid.
    SigmoidBackward "sigmoid_backward" "activation-backward" ["grad_output", "input", "grad_input!"] [];
    /// `tanh(x)`
    TanhForward "tanh_forward" "activation" ["input", "output!"] [];
    /// The gradient of tanh.
    TanhBackward "tanh_backward" "activation-backward" ["grad_output", "input", "grad_input!"] [];
    /// `x` where it is not negative, else `negative_slope x`.
    LeakyReluForward "leaky_relu_forward" "activation" ["input", "output!"] [("negative_slope", 0.01)];
    /// The gradient of leaky relu.
    LeakyReluBackward "leaky_relu_backward" "activation-backward"
        ["grad_output", "input", "grad_input!"] [("negative_slope", 0.01)];
    /// Softmax over the last axis.
    SoftmaxForward "softmax_forward" "softmax" ["input", "output!"] [];
    /// The gradient of softmax, by its result.
    SoftmaxBackward "softmax_backward" "softmax-backward" ["grad_output", "output", "grad_input!"] [];
    /// Layer norm over the last axis.
    LayerNormForward "layer_norm_forward" "layer-norm" ["input", "weight", "bias", "output!"] [("eps", 1e-5)];
    /// Dropout of relu, with the mask of this seed.
    FusedReluDropout "fused_relu_dropout" "dropout" ["input", "output!"] [("p", 0.5), ("seed", 0.0)];
}

impl BitNetShaderFunction {
    /// Every function.
    pub fn all() -> impl Iterator<Item = BitNetShaderFunction> {
        ROWS.iter().map(|row| row.function)
    }

    /// The name in `grilly.quant`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Names of the buffers by index: `?` ends that of one which may be left out, `!` that of a result.
    pub fn buffers(self) -> &'static [&'static str] {
        self.row().buffers
    }

    pub(super) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}
