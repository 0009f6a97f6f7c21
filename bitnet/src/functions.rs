//! The table of functions: their buffers, in the order of their indices, and their numbers.

/// A row of the table.
#[derive(Debug)]
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

/// Gives all rows to a macro: the function, its name, its shader, its buffers and numbers, the functions that create its encoder
/// and dispatch it by name; a row without the last has a dispatch with sizes in `by_name.rs`.
macro_rules! each_function {
    ($with:ident) => {
        $with! {
            /// Int8 rows times a quantised weight, plus the bias.
            BitLinearForward "bitlinear_forward" "quantized-linear"
                ((input) (weights) (bias?) (output!) (weight_scale?)) [group_size = 0.0]
                create_bitlinear_forward_encoder;
            /// The gradient of [`BitNetShaderFunction::BitLinearForward`] in its input, straight-through.
            BitLinearBackwardInput "bitlinear_backward_input" "matmul"
                ((grad_output) (weights) (grad_input!) (weight_scale?)) [group_size = 0.0]
                create_bitlinear_backward_input_encoder;
            /// The gradient of [`BitNetShaderFunction::BitLinearForward`] in its weight, straight-through.
            BitLinearBackwardWeight "bitlinear_backward_weight" "matmul"
                ((grad_output) (input) (grad_weight!)) []
                create_bitlinear_backward_weight_encoder dispatch_bitlinear_backward_weight;
            /// Signs of a weight, and one scale.
            BinarizeWeights "binarize_weights" "quantize-rows"
                ((weights) (output!) (scale!)) []
                create_binarize_weights_encoder dispatch_binarize_weights;
            /// Int8 by the largest magnitude of each row.
            QuantizeActivations "quantize_activations" "quantize-rows"
                ((input) (output!) (scale!)) []
                create_quantize_activations_encoder dispatch_quantize_activations;
            /// Signs of a weight, and a scale per group of columns.
            QuantizeWeights1Bit "quantize_weights_1bit" "quantize-rows"
                ((weights) (output!) (scale!)) [group_size = 128.0]
                create_quantize_weights_1bit_encoder dispatch_quantize_weights_1bit;
            /// Int8 of the range of each row, with its zero point.
            QuantizeActivations8Bit "quantize_activations_8bit" "quantize-rows-affine"
                ((input) (output!) (scale!) (zero!)) []
                create_quantize_activations_8bit_encoder dispatch_quantize_activations_8bit;
            /// The inverse of [`BitNetShaderFunction::QuantizeWeights1Bit`].
            DequantizeWeights1Bit "dequantize_weights_1bit" "dequantize-rows"
                ((weights) (scale) (output!)) [group_size = 128.0]
                create_dequantize_weights_1bit_encoder dispatch_dequantize_weights_1bit;
            /// The inverse of [`BitNetShaderFunction::QuantizeActivations8Bit`].
            DequantizeActivations8Bit "dequantize_activations_8bit" "dequantize-rows"
                ((input) (scale) (output!) (zero?)) []
                create_dequantize_activations_8bit_encoder dispatch_dequantize_activations_8bit;
            /// Int8 of the range of all rows, with one zero point.
            DynamicQuantizeActivations "dynamic_quantize_activations" "quantize-rows-affine"
                ((input) (output!) (scale!) (zero!)) []
                create_dynamic_quantize_activations_encoder dispatch_dynamic_quantize_activations;
            /// Int8 by the largest magnitude, rounded at random.
            QuantizeGradients "quantize_gradients" "quantize-rows"
                ((gradients) (output!) (scale!)) [seed = 0.0]
                create_quantize_gradients_encoder dispatch_quantize_gradients;
            /// Rows of floats times a quantised weight.
            MixedPrecisionMatmul "mixed_precision_matmul" "linear"
                ((input) (weights) (output!) (weight_scale?)) [group_size = 0.0]
                create_mixed_precision_matmul_encoder dispatch_mixed_precision_matmul;
            /// `max(x, 0)`
            ReluForward "relu_forward" "activation"
                ((input) (output!)) []
                create_relu_forward_encoder dispatch_relu_forward;
            /// The gradient of relu.
            ReluBackward "relu_backward" "activation-backward"
                ((grad_output) (input) (grad_input!)) []
                create_relu_backward_encoder dispatch_relu_backward;
            /// GELU by tanh.
            GeluForward "gelu_forward" "activation"
                ((input) (output!)) []
                create_gelu_forward_encoder dispatch_gelu_forward;
            /// The gradient of GELU.
            GeluBackward "gelu_backward" "activation-backward"
                ((grad_output) (input) (grad_input!)) []
                create_gelu_backward_encoder dispatch_gelu_backward;
            /// `x sigmoid(x)`
            SwishForward "swish_forward" "activation"
                ((input) (output!)) []
                create_swish_forward_encoder dispatch_swish_forward;
            /// The gradient of swish.
            SwishBackward "swish_backward" "activation-backward"
                ((grad_output) (input) (grad_input!)) []
                create_swish_backward_encoder dispatch_swish_backward;
            /// `1 / (1 + exp(-x))`
            SigmoidForward "sigmoid_forward" "activation"
                ((input) (output!)) []
                create_sigmoid_forward_encoder dispatch_sigmoid_forward;
            /// The gradient of the sigmoid.
            SigmoidBackward "sigmoid_backward" "activation-backward"
                ((grad_output) (input) (grad_input!)) []
                create_sigmoid_backward_encoder dispatch_sigmoid_backward;
            /// `tanh(x)`
            TanhForward "tanh_forward" "activation"
                ((input) (output!)) []
                create_tanh_forward_encoder dispatch_tanh_forward;
            /// The gradient of tanh.
            TanhBackward "tanh_backward" "activation-backward"
                ((grad_output) (input) (grad_input!)) []
                create_tanh_backward_encoder dispatch_tanh_backward;
            /// `x` where it is not negative, else `negative_slope x`.
            LeakyReluForward "leaky_relu_forward" "activation"
                ((input) (output!)) [negative_slope = 0.01]
                create_leaky_relu_forward_encoder dispatch_leaky_relu_forward;
            /// The gradient of leaky relu.
            LeakyReluBackward "leaky_relu_backward" "activation-backward"
                ((grad_output) (input) (grad_input!)) [negative_slope = 0.01]
                create_leaky_relu_backward_encoder dispatch_leaky_relu_backward;
            /// Softmax over the last axis.
            SoftmaxForward "softmax_forward" "softmax"
                ((input) (output!)) []
                create_softmax_forward_encoder dispatch_softmax_forward;
            /// The gradient of softmax, by its result.
            SoftmaxBackward "softmax_backward" "softmax-backward"
                ((grad_output) (output) (grad_input!)) []
                create_softmax_backward_encoder dispatch_softmax_backward;
            /// Layer norm over the last axis.
            LayerNormForward "layer_norm_forward" "layer-norm"
                ((input) (weight) (bias) (output!)) [eps = 1e-5]
                create_layer_norm_forward_encoder dispatch_layer_norm_forward;
            /// Dropout of relu, with the mask of this seed.
            FusedReluDropout "fused_relu_dropout" "dropout"
                ((input) (output!)) [p = 0.5, seed = 0.0]
                create_fused_relu_dropout_encoder dispatch_fused_relu_dropout;
        }
    };
}
pub(super) use each_function;

macro_rules! functions {
    ($(
        $(#[$doc:meta])* $variant:ident $name:literal $shader:literal
        ($(($buffer:ident $($mark:tt)?))*) [$($number:ident = $default:literal),*] $create:ident $($dispatch:ident)?;
    )*) => {
        /// A function, by the name that it has in `grilly.quant`, or one of a user's shader.
        ///
        /// In a list of buffers, in the order of their indices, `?` is after one that may be left out and `!` after a
        /// result; then come numbers with their defaults. Weights are signs, ternary values or int8, by their type and their
        /// bytes per row (signs, where up to four columns fit one byte either way); `weight_scale` is `[1]`, without it 1, or
        /// `[N]`, or `[N, G]` with `group_size`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum BitNetShaderFunction {
            $(
                $(#[$doc])*
                #[doc = concat!(
                    "\n\nBuffers and numbers: `", stringify!($($buffer $($mark)?),*), "`, `",
                    stringify!($($number = $default),*), "`."
                )]
                $variant,
            )*
            /// A function of a user's shader, which [`BitNetShaders::get_pipeline`](crate::BitNetShaders::get_pipeline)
            /// compiles. Its buffers have the indices of its bindings, and its numbers are its push constants.
            User {
                /// The shader: its file in the compiler's folder, without the ending.
                shader: &'static str,
                /// The function that the file declares, `main` where it declares none.
                function: &'static str,
            },
        }

        const ROWS: &[Row] = &[
            $(Row {
                function: BitNetShaderFunction::$variant,
                name: $name,
                shader: $shader,
                buffers: &[$(concat!(stringify!($buffer) $(, stringify!($mark))?)),*],
                numbers: &[$((stringify!($number), $default)),*],
            },)*
        ];
    };
}

each_function!(functions);

impl BitNetShaderFunction {
    /// Every function of grilly.
    pub fn all() -> impl Iterator<Item = BitNetShaderFunction> {
        ROWS.iter().map(|row| row.function)
    }

    /// The name in `grilly.quant`, or in the user's shader.
    pub fn name(self) -> &'static str {
        match self {
            BitNetShaderFunction::User { function, .. } => function,
            _ => self.row().map_or("", |row| row.name),
        }
    }

    /// Names of the buffers by index: `?` ends that of one which may be left out, `!` that of a result. None of a user's,
    /// whose shader has them.
    pub fn buffers(self) -> &'static [&'static str] {
        self.row().map_or(&[], |row| row.buffers)
    }

    /// The row of one of grilly's.
    pub(super) fn row(self) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.function == self)
    }
}
