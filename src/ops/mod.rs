//! The ops that a plan consists of: one row per op in the table of `each_op!`, one file per op.
//!
//! An op's file contains its attributes, its `operands` as data (`signature.rs`), `infer` (checks the operands' shapes
//! and returns the result's) and `flops`; a fused op's file contains its `definition`, the steps of other ops that it
//! consists of. Execution belongs to the backends: `backend/{cpu,vulkan}/kernels/<op>.rs`, with the shader of the same
//! name (`_` is `-`).

pub mod definition;
mod infer;
mod levels;
pub mod rng;
mod shape;
pub mod signature;
pub mod vjp;

pub use self::{
    activation::ActivationKind,
    attention::Sight,
    attention_output::{AttentionSizes, Family, Pattern},
    bias_gelu::Approximate,
    binary::BinaryKind,
    levels::{Levels, Places, Scope},
    linear::Residual,
    matmul::Strided,
    normalize::Floor,
    pool::PoolMode,
    quantize_rows::QuantizeKind,
    reduce::ReduceKind,
};
pub use definition::{Sought, Step};
pub use infer::Shapes;
pub use shape::{Counts, Dim, Shape};
pub use signature::{Operand, Signature};
pub use vjp::Vjp;

use crate::dtype::DType;
use crate::{Error, Result};

/// Operations and bytes of a step: each input is read once, each output written once, scratch memory both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations (a multiply-add counts two).
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// A call of an op: its attributes as JSON, the axes of its operands, and the places of those that have a gradient. A form
/// that only the documentation lists has no axes.
#[cfg(test)]
pub(crate) type Example = (&'static str, &'static [&'static [usize]], &'static [usize]);

/// Properties of an op, derived from its attributes.
pub trait Operation {
    /// The operands, the results and the work per element: by default operand `x` and result `y`.
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x")]);
    /// Whether programs are likely to repeat a call with the same attributes; not if one of them is a counter of random
    /// numbers.
    const RECURS: bool = true;
    /// Why the op has no derivative; `None` for one that has.
    const NO_DERIVATIVE: Option<&'static str> = None;
    /// Calls that tests make, which together have every operand; those of a fused op are found in plans.
    #[cfg(test)]
    const EXAMPLES: &'static [Example];
    /// The signature, for an op whose attributes change it.
    fn signature(&self) -> Signature {
        Self::SIGNATURE
    }
    /// Checks the operands' shapes, beyond what the signature states, and returns the results' shapes: by default that
    /// of the first operand, and for a fused op those of its steps.
    ///
    /// # Errors
    /// `InvalidArgument` naming op, operand, the shape found and the shape expected.
    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        definition::infer(&self.definition(of.all())?, of)
    }
    /// Runs the checks that need a batch's counts, on operands whose shapes fit.
    ///
    /// # Errors
    /// As [`Operation::infer`].
    fn check_counts(&self, of: &Shapes<'_>, counts: Counts) -> Result<()> {
        let _ = (of, counts);
        Ok(())
    }
    /// Whether the texts of a batch can run separately: no text's result depends on its position in the batch.
    fn is_separable(&self, operands: &[&Shape]) -> bool {
        let _ = operands;
        true
    }
    /// Floating-point operations at the given counts: by default those that the signature states, and for a fused op the
    /// sum over its steps.
    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        definition::flops(self, operands, counts)
    }
    /// Element type of the results that have no type of their own, given the operands' types: the type of the first
    /// non-index operand.
    fn result_type(&self, operands: &[DType]) -> DType {
        operands.iter().copied().find(|dtype| dtype.is_float()).unwrap_or(DType::F32)
    }
    /// The steps that a fused op consists of; empty for an op that is not fused.
    ///
    /// # Errors
    /// `InvalidArgument` for operands from which no step can be made.
    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let _ = operands;
        Ok(Vec::new())
    }
    /// The pattern by which a fused op is found in plans.
    fn sought() -> Option<Sought>
    where
        Self: Sized,
    {
        None
    }
    /// The gradients of the operands: by default those of the steps of a fused op, by the chain rule. `None` for an op
    /// without a derivative, and for operands of which kernels cannot compute them.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::of_steps(self.definition(operands).ok()?, operands)
    }
    /// As [`Operation::vjp`], where operand `i` is the same value as operand `same[i]`, the first that is: the gradients
    /// of such operands may be given as one, that of the first.
    fn vjp_of(&self, operands: &[&Shape], same: &[usize]) -> Option<Vjp> {
        let _ = same;
        self.vjp(operands)
    }
    /// Axes of the float32 scratch memory that kernels may use while the op runs, given the stored type of the result;
    /// smaller than any operand of rows.
    fn scratch(&self, operands: &[&Shape], stored: DType) -> Vec<Shape> {
        let _ = (operands, stored);
        Vec::new()
    }
    /// Equivalent ops run in sequence: the first takes the operands, each of the others the result before it.
    fn steps(&self, operands: &[&Shape]) -> Option<Vec<Op>> {
        let _ = operands;
        None
    }
}

/// Table of all ops by the name of their file, here and in the CPU's kernels. `each_op!(make)` passes the table to
/// `make!`.
macro_rules! each_op {
    ($make:ident) => {
        $make! {
            activation { Activation = activation, ActivationBackward = activation_backward }
            adam { Adam = adam }
            attention { Attention = attention }
            attention_backward { AttentionBackward = attention_backward }
            attention_bias { AttentionBias = attention_bias }
            attention_mask { AttentionMask = attention_mask }
            attention_output { AttentionOutput = attention_output }
            attention_scores { AttentionScores = attention_scores }
            bias_gelu { BiasGelu = bias_gelu }
            binary { Binary = binary }
            binary_cross_entropy { BinaryCrossEntropy = binary_cross_entropy }
            cast { Cast = cast }
            clip_norm { ClipNorm = clip_norm }
            cross_entropy { CrossEntropy = cross_entropy, CrossEntropyBackward = cross_entropy_backward }
            dequantize_rows { DequantizeRows = dequantize_rows }
            dropout { Dropout = dropout }
            embedding_backward { EmbeddingBackward = embedding_backward }
            embedding_sum { EmbeddingSum = embedding_sum }
            expert_linear { ExpertLinear = expert_linear }
            gated { Gated = gated, GatedBackward = gated_backward }
            gated_linear { GatedLinear = gated_linear }
            integer_linear { IntegerLinear = integer_linear }
            layer_norm {
                LayerNorm = layer_norm,
                LayerNormBackward = layer_norm_backward,
                LayerNormWeightBackward = layer_norm_weight_backward
            }
            layer_norm_linear { LayerNormLinear = layer_norm_linear }
            linear { Linear = linear }
            matmul { Matmul = matmul }
            norm_quantize_rows {
                LayerNormQuantizeRows = layer_norm_quantize_rows,
                RmsNormQuantizeRows = rms_norm_quantize_rows
            }
            normalize { Normalize = normalize }
            pool { Pool = pool, PoolBackward = pool_backward }
            quantize_rows { QuantizeRows = quantize_rows }
            quantized_linear { QuantizedLinear = quantized_linear }
            reduce { Reduce = reduce }
            residual_layer_norm { ResidualLayerNorm = residual_layer_norm }
            residual_rms_norm { ResidualRmsNorm = residual_rms_norm }
            rms_norm { RmsNorm = rms_norm, RmsNormBackward = rms_norm_backward }
            rms_norm_rope { RmsNormRope = rms_norm_rope }
            rope { Rope = rope }
            route { Route = route }
            set_rows { SetRows = set_rows }
            sgd { Sgd = sgd }
            softmax { Softmax = softmax, SoftmaxBackward = softmax_backward }
            softmax_dropout { SoftmaxDropout = softmax_dropout }
            sort_indices { SortIndices = sort_indices }
            weighted_sum { WeightedSum = weighted_sum }
        }
    };
}
pub(crate) use each_op;

macro_rules! ops {
    ($($file:ident { $($variant:ident = $name:ident),+ })*) => {
        $(
            pub mod $file;
            pub use $file::{$($variant),+};
        )*

        /// One operation with its attributes; its properties are those of [`Operation`].
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Op { $($(#[doc = concat!("[`", stringify!($variant), "`]")] $variant($variant),)+)* }

        impl Op {
            /// Every op's name, in the table's order.
            pub const NAMES: &'static [&'static str] = &[$($(stringify!($name)),+),*];

            /// The op's name, also used for its file, shader, test case and Python function.
            pub fn name(&self) -> &'static str { match self { $($(Op::$variant(_) => stringify!($name),)+)* } }

            /// The op called `name` with the given attributes; missing ones have their defaults.
            ///
            /// # Errors
            /// `InvalidArgument` for an unknown name or attribute, and for a value of the wrong type.
            ///
            /// ```
            /// use grilly::ops::{LayerNorm, Op};
            /// let op = Op::from_attributes("layer_norm", serde_json::json!({"eps": 0.5})).unwrap();
            /// assert_eq!(op, LayerNorm { eps: 0.5 }.into());
            /// assert!(Op::from_attributes("layer_norm", serde_json::json!({"epsilon": 0.5})).is_err());
            /// ```
            pub fn from_attributes(name: &str, attributes: serde_json::Value) -> Result<Op> {
                let wrong = |cause: serde_json::Error| Error::InvalidArgument(format!("{name}: {cause}"));
                match name {
                    $($(stringify!($name) => serde_json::from_value::<$variant>(attributes).map(Op::$variant).map_err(wrong),)+)*
                    _ => Err(Error::InvalidArgument(format!("there is no op called {name:?}"))),
                }
            }

            /// [`Operation::RECURS`] of the op called `name`.
            pub fn recurs(name: &str) -> bool {
                match name { $($(stringify!($name) => $variant::RECURS,)+)* _ => true }
            }

            /// The ops without a derivative, and why.
            pub fn without_derivative() -> Vec<(&'static str, &'static str)> {
                let all = [$($((stringify!($name), $variant::NO_DERIVATIVE)),+),*];
                all.into_iter().filter_map(|(name, reason)| Some((name, reason?))).collect()
            }

            /// The patterns of the fused ops, by name. Where two match a node of a plan, the first is used.
            pub(crate) fn sought() -> Vec<(&'static str, Sought)> {
                let all = [$($((stringify!($name), $variant::sought())),+),*];
                all.into_iter().filter_map(|(name, sought)| Some((name, sought?))).collect()
            }

            /// The [`Operation::EXAMPLES`] of all ops.
            #[cfg(test)]
            pub(crate) fn examples() -> Vec<(Op, &'static Example)> {
                let all = [$($((stringify!($name), $variant::EXAMPLES)),+),*];
                let each = all.into_iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)));
                let op = |name, row: &Example| Op::from_attributes(name, serde_json::from_str(row.0).unwrap()).unwrap();
                each.map(|(name, row)| (op(name, row), row)).collect()
            }

            /// The examples of fused ops, with the axes of their operands.
            #[cfg(test)]
            pub(crate) fn fused_examples() -> Vec<(Op, &'static [&'static [usize]])> {
                let fused = |(op, _): &(Op, _)| Op::sought().iter().any(|(name, _)| *name == op.name());
                Op::examples().into_iter().filter(fused).map(|(op, row)| (op, row.1)).collect()
            }
        }

        /// Calls a method of [`Operation`] on the op in an `Op`.
        macro_rules! forward {
            ($self:ident, $op:ident => $call:expr) => { match $self { $($(Op::$variant($op) => $call,)+)* } };
        }

        $($(
            impl From<$variant> for Op { fn from(op: $variant) -> Self { Op::$variant(op) } }

            impl $variant {
                /// This op, if `op` is one.
                pub fn of(op: &Op) -> Option<&Self> { if let Op::$variant(op) = op { Some(op) } else { None } }
            }
        )+)*
    };
}

each_op!(ops);

impl Op {
    /// Shapes of the results.
    ///
    /// # Errors
    /// As [`Operation::infer`], and `InvalidArgument` for a wrong number of operands.
    pub fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let of = Shapes::new(self, operands)?;
        of.check()?;
        let results = forward!(self, op => op.infer(&of))?;
        let counted = |dim: &Dim| !matches!(dim, Dim::Fixed(_)) && !dim.is_length();
        let later = |shape: &&Shape| shape.0.iter().skip(1).any(counted);
        match results.iter().find(later) {
            Some(shape) => Err(of.fault(format!("its result would be {shape}; a batch counts no axis but the first"))),
            None => Ok(results),
        }
    }

    /// As [`Operation::check_counts`].
    ///
    /// # Errors
    /// As [`Operation::check_counts`].
    pub fn check_counts(&self, operands: &[&Shape], counts: Counts) -> Result<()> {
        let of = Shapes::new(self, operands)?;
        forward!(self, op => op.check_counts(&of, counts))
    }

    /// As [`Operation::signature`].
    pub fn signature(&self) -> Signature {
        forward!(self, op => op.signature())
    }

    /// As [`Operation::is_separable`].
    pub fn is_separable(&self, operands: &[&Shape]) -> bool {
        forward!(self, op => op.is_separable(operands))
    }

    /// As [`Operation::flops`].
    pub fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        forward!(self, op => op.flops(operands, counts))
    }

    /// As [`Operation::result_type`].
    pub fn result_type(&self, operands: &[DType]) -> DType {
        forward!(self, op => op.result_type(operands))
    }

    /// As [`Operation::definition`].
    ///
    /// # Errors
    /// As [`Operation::definition`].
    pub fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        forward!(self, op => op.definition(operands))
    }

    /// As [`Operation::NO_DERIVATIVE`].
    pub fn no_derivative(&self) -> Option<&'static str> {
        Op::without_derivative().into_iter().find(|(name, _)| *name == self.name()).map(|(_, reason)| reason)
    }

    /// As [`Operation::vjp`].
    pub fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        forward!(self, op => op.vjp(operands))
    }

    /// As [`Operation::vjp_of`].
    pub fn vjp_of(&self, operands: &[&Shape], same: &[usize]) -> Option<Vjp> {
        forward!(self, op => op.vjp_of(operands, same))
    }

    /// As [`Operation::scratch`].
    pub fn scratch(&self, operands: &[&Shape], stored: DType) -> Vec<Shape> {
        forward!(self, op => op.scratch(operands, stored))
    }

    /// As [`Operation::steps`].
    pub fn steps(&self, operands: &[&Shape]) -> Option<Vec<Op>> {
        forward!(self, op => op.steps(operands))
    }

    /// Element types of the results.
    pub fn result_types(&self, operands: &[DType]) -> Vec<DType> {
        let other = self.result_type(operands);
        self.results().iter().map(|result| result.stored.unwrap_or(other)).collect()
    }

    /// The operands of the signature.
    pub fn operands(&self) -> &'static [Operand] {
        self.signature().operands
    }

    /// The results of the signature.
    pub fn results(&self) -> &'static [Operand] {
        self.signature().results
    }

    /// The signature of the operand at a place.
    pub fn operand(&self, place: usize) -> &'static Operand {
        let operands = self.operands();
        &operands[place % operands.len()]
    }

    /// The place of the operand called `name` in the group of the operand at `place`.
    pub fn place_of(&self, name: &str, place: usize) -> Option<usize> {
        let operands = self.operands();
        let own = operands.iter().position(|operand| operand.name == name)?;
        Some(place - place % operands.len() + own)
    }
}
