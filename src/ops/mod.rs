//! What a step of a plan means: one row an op in the `ops!` table, one file an op.
//!
//! An op's file holds its attributes, its `operands` as data (`signature.rs`), `infer` (checks the shapes of its operands,
//! gives that of its result) and `flops`; a fused op's has its `definition`, the steps of other ops that it stands for. How
//! it runs is the backends' matter: `backend/{cpu,vulkan}/kernels/<op>.rs`, with the shader of the same name (`_` is `-`).

pub mod activation;
pub mod activation_backward;
pub mod adam;
pub mod attention;
pub mod attention_mask;
pub mod attention_output;
pub mod attention_scores;
pub mod bias_gelu;
pub mod binary;
pub mod binary_cross_entropy;
pub mod cast;
pub mod cross_entropy;
pub mod definition;
pub mod dequantize_rows;
pub mod dropout;
pub mod embedding_backward;
pub mod embedding_sum;
pub mod gated;
pub mod gated_backward;
pub mod gated_linear;
mod infer;
pub mod integer_linear;
pub mod layer_norm;
pub mod layer_norm_linear;
pub mod linear;
pub mod matmul;
pub mod normalize;
pub mod pool;
pub mod quantize_rows;
pub mod reduce;
pub mod residual_layer_norm;
pub mod residual_rms_norm;
pub mod rms_norm;
pub mod rms_norm_rope;
pub mod rng;
pub mod rope;
pub mod set_rows;
mod shape;
pub mod signature;
pub mod softmax;
pub mod softmax_dropout;
pub mod vjp;

pub use activation::{Activation, ActivationKind};
pub use activation_backward::ActivationBackward;
pub use adam::Adam;
pub use attention::{Attention, Sight};
pub use attention_mask::AttentionMask;
pub use attention_output::{AttentionOutput, AttentionSizes, Family, Pattern};
pub use attention_scores::AttentionScores;
pub use bias_gelu::{Approximate, BiasGelu};
pub use binary::{Binary, BinaryKind};
pub use binary_cross_entropy::BinaryCrossEntropy;
pub use cast::Cast;
pub use cross_entropy::{CrossEntropy, CrossEntropyBackward};
pub use definition::Step;
pub use dequantize_rows::DequantizeRows;
pub use dropout::Dropout;
pub use embedding_backward::EmbeddingBackward;
pub use embedding_sum::EmbeddingSum;
pub use gated::Gated;
pub use gated_backward::GatedBackward;
pub use gated_linear::GatedLinear;
pub use infer::Shapes;
pub use integer_linear::IntegerLinear;
pub use layer_norm::{LayerNorm, LayerNormBackward};
pub use layer_norm_linear::LayerNormLinear;
pub use linear::{Linear, Residual};
pub use matmul::{Matmul, Strided};
pub use normalize::{Floor, Normalize};
pub use pool::{Pool, PoolMode};
pub use quantize_rows::QuantizeRows;
pub use reduce::{Reduce, ReduceKind};
pub use residual_layer_norm::ResidualLayerNorm;
pub use residual_rms_norm::ResidualRmsNorm;
pub use rms_norm::{RmsNorm, RmsNormBackward};
pub use rms_norm_rope::RmsNormRope;
pub use rope::Rope;
pub use set_rows::SetRows;
pub use shape::{Counts, Dim, Shape};
pub use signature::Operand;
pub use softmax::{Softmax, SoftmaxBackward};
pub use softmax_dropout::SoftmaxDropout;
pub use vjp::Vjp;

use crate::dtype::DType;
use crate::{Error, Result};

/// Operations and bytes a step costs: each input read once, each output written once, scratch memory both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations (a multiply-add counts two).
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// What every op's attributes answer.
pub trait Operation {
    /// What the operands are, in their order; of an op that takes groups of operands, those of one group.
    fn operands(&self) -> &'static [Operand];
    /// Whether operands come in groups, as many as the caller likes.
    fn grouped(&self) -> bool {
        false
    }
    /// What the results are, in their order. One that bears an operand's name is that operand, written in its place.
    fn results(&self) -> &'static [Operand] {
        const WIDE: &[Operand] = &[Operand::rows("y")];
        const NARROW: &[Operand] = &[Operand::rows("y").narrow()];
        if self.operands()[0].narrow { NARROW } else { WIDE }
    }
    /// Checks the operands' shapes and returns the results' shapes.
    ///
    /// # Errors
    /// `InvalidArgument` naming op, operand, the shape found and the shape expected.
    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>>;
    /// Checks what only a batch's counts can tell of operands whose shapes fit.
    ///
    /// # Errors
    /// As [`Operation::infer`].
    fn check_counts(&self, of: &Shapes<'_>, counts: Counts) -> Result<()> {
        let _ = (of, counts);
        Ok(())
    }
    /// Whether texts of a batch can be taken apart: no text's result depends on its place among them.
    fn is_separable(&self, operands: &[&Shape]) -> bool {
        let _ = operands;
        true
    }
    /// Floating-point operations at the given counts.
    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64;
    /// Element type of the results that have none of their own, given those of the operands: that of the first which is no
    /// index.
    fn result_type(&self, operands: &[DType]) -> DType {
        operands.iter().copied().find(|dtype| dtype.is_float()).unwrap_or(DType::F32)
    }
    /// What a fused op stands for, step by step; nothing for an op that stands for itself.
    ///
    /// # Errors
    /// `InvalidArgument` for operands of which no step can be made.
    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let _ = operands;
        Ok(Vec::new())
    }
    /// The gradients of the operands; `None` for an op without a derivative of its own.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let _ = operands;
        None
    }
    /// Float32 memory that kernels may keep something in while the op runs, by its axes, given how the result is stored;
    /// less than any operand of rows.
    fn scratch(&self, operands: &[&Shape], stored: DType) -> Vec<Shape> {
        let _ = (operands, stored);
        Vec::new()
    }
    /// Ops that do the same one after the other: the first takes the operands, each next one the result before it.
    fn steps(&self, operands: &[&Shape]) -> Option<Vec<Op>> {
        let _ = operands;
        None
    }
}

macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One operation with its attributes.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Op { $($(#[$doc])* $variant($variant),)* }

        impl Op {
            /// Every op's name, in the table's order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The op's one name: file, shader, test case and Python use it too.
            pub fn name(&self) -> &'static str { match self { $(Op::$variant(_) => $name,)* } }

            /// The op called `name` with the given attributes, those left out at their defaults.
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
                    $($name => serde_json::from_value::<$variant>(attributes).map(Op::$variant).map_err(wrong),)*
                    _ => Err(Error::InvalidArgument(format!("there is no op called {name:?}"))),
                }
            }

            fn operation(&self) -> &dyn Operation { match self { $(Op::$variant(op) => op,)* } }
        }

        $(impl From<$variant> for Op { fn from(op: $variant) -> Self { Op::$variant(op) } })*
    };
}

ops! {
    /// Elementwise nonlinearity.
    Activation = "activation",
    /// Gradient of an elementwise nonlinearity.
    ActivationBackward = "activation_backward",
    /// One step of Adam.
    Adam = "adam",
    /// Scaled dot-product attention over packed sequences.
    Attention = "attention",
    /// Scores of attention with those of hidden keys pushed down.
    AttentionMask = "attention_mask",
    /// Weighted sums of values, by the shader of an architecture.
    AttentionOutput = "attention_output",
    /// Products of queries and keys, head by head.
    AttentionScores = "attention_scores",
    /// GELU of rows with a bias.
    BiasGelu = "bias_gelu",
    /// Cross entropy of probabilities, elementwise.
    BinaryCrossEntropy = "binary_cross_entropy",
    /// Elementwise arithmetic of two tensors.
    Binary = "binary",
    /// Conversion between element types.
    Cast = "cast",
    /// Its gradient.
    CrossEntropyBackward = "cross_entropy_backward",
    /// Cross entropy of logits with class numbers.
    CrossEntropy = "cross_entropy",
    /// Integer sums as floats.
    DequantizeRows = "dequantize_rows",
    /// Elements set to zero by chance.
    Dropout = "dropout",
    /// The gradient of a lookup in its table.
    EmbeddingBackward = "embedding_backward",
    /// Sum of rows looked up in several embedding tables.
    EmbeddingSum = "embedding_sum",
    /// One half of each row times a nonlinearity of the other.
    Gated = "gated",
    /// Gradient of `gated`.
    GatedBackward = "gated_backward",
    /// Two products of which one gates the other.
    GatedLinear = "gated_linear",
    /// Product of 8-bit integers.
    IntegerLinear = "integer_linear",
    /// Layer normalisation over the last axis.
    LayerNorm = "layer_norm",
    /// Its gradient.
    LayerNormBackward = "layer_norm_backward",
    /// Layer normalisation, then a product.
    LayerNormLinear = "layer_norm_linear",
    /// `act(x W^T + b) + residual`.
    Linear = "linear",
    /// Product of matrices, one for each index of the axes before them.
    Matmul = "matmul",
    /// Division of each row by its Euclidean norm.
    Normalize = "normalize",
    /// One vector a text from its tokens' vectors.
    Pool = "pool",
    /// Rows rounded to 8-bit integers.
    QuantizeRows = "quantize_rows",
    /// Sum, mean, maximum or deviation over one axis.
    Reduce = "reduce",
    /// Layer normalisation of a sum.
    ResidualLayerNorm = "residual_layer_norm",
    /// Normalisation of a sum by its root mean square.
    ResidualRmsNorm = "residual_rms_norm",
    /// Its gradient.
    RmsNormBackward = "rms_norm_backward",
    /// Normalisation by the root mean square of the last axis.
    RmsNorm = "rms_norm",
    /// The same, then rotary positions.
    RmsNormRope = "rms_norm_rope",
    /// Rotary positions: pairs of columns turned by an angle of the row.
    Rope = "rope",
    /// Rows written into a table.
    SetRows = "set_rows",
    /// Its gradient.
    SoftmaxBackward = "softmax_backward",
    /// Softmax with some of its results set to zero by chance.
    SoftmaxDropout = "softmax_dropout",
    /// Softmax over the last axis, with a mask.
    Softmax = "softmax",
}

impl Op {
    /// Shapes of the results.
    ///
    /// # Errors
    /// As [`Operation::infer`], and `InvalidArgument` for another number of operands than the op takes.
    pub fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        self.operation().infer(&Shapes::new(self, operands)?)
    }

    /// As [`Operation::check_counts`].
    ///
    /// # Errors
    /// As [`Operation::check_counts`].
    pub fn check_counts(&self, operands: &[&Shape], counts: Counts) -> Result<()> {
        self.operation().check_counts(&Shapes::new(self, operands)?, counts)
    }

    /// As [`Operation::is_separable`].
    pub fn is_separable(&self, operands: &[&Shape]) -> bool {
        self.operation().is_separable(operands)
    }

    /// Element type of the result.
    pub fn result_type(&self, operands: &[DType]) -> DType {
        self.operation().result_type(operands)
    }

    /// Element types of the results.
    pub fn result_types(&self, operands: &[DType]) -> Vec<DType> {
        let other = self.result_type(operands);
        self.results().iter().map(|result| result.stored.unwrap_or(other)).collect()
    }

    /// As [`Operation::operands`].
    pub fn operands(&self) -> &'static [Operand] {
        self.operation().operands()
    }

    /// As [`Operation::grouped`].
    pub fn grouped(&self) -> bool {
        self.operation().grouped()
    }

    /// As [`Operation::results`].
    pub fn results(&self) -> &'static [Operand] {
        self.operation().results()
    }

    /// What the operand at a place is.
    pub fn operand(&self, place: usize) -> &'static Operand {
        let operands = self.operands();
        &operands[place % operands.len()]
    }

    /// The place of the operand called `name` that belongs to the one at `place`.
    pub fn place_of(&self, name: &str, place: usize) -> Option<usize> {
        let operands = self.operands();
        let own = operands.iter().position(|operand| operand.name == name)?;
        Some(place - place % operands.len() + own)
    }

    /// As [`Operation::steps`].
    pub fn steps(&self, operands: &[&Shape]) -> Option<Vec<Op>> {
        self.operation().steps(operands)
    }

    /// As [`Operation::definition`].
    ///
    /// # Errors
    /// As [`Operation::definition`].
    pub fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        self.operation().definition(operands)
    }

    /// As [`Operation::vjp`].
    pub fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        self.operation().vjp(operands)
    }

    /// As [`Operation::scratch`].
    pub fn scratch(&self, operands: &[&Shape], stored: DType) -> Vec<Shape> {
        self.operation().scratch(operands, stored)
    }

    /// As [`Operation::flops`].
    pub fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        self.operation().flops(operands, counts)
    }
}
