//! The types of an encoder's values.

use crate::dtype::DType;
use crate::model::spec::{BeyondFloat16, EncoderSpec};

/// The types in which the values before pooling are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types {
    /// Of all but the hidden state.
    pub dtype: DType,
    /// Of the hidden state that the parts of layers are added to.
    pub stream: DType,
    /// Which of them are wider than asked for, and why; empty for none.
    pub wider: &'static str,
}

impl Types {
    /// Those of a model that is to be stored as `asked`.
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::model::encoder::Types;
    /// use grilly::model::spec::{BeyondFloat16, EncoderSpec};
    /// let spec = EncoderSpec { beyond_float16: BeyondFloat16::ResidualStream, ..EncoderSpec::default() };
    /// let Types { dtype, stream, .. } = Types::of(&spec, DType::F16);
    /// assert_eq!((dtype, stream), (DType::F16, DType::F32));
    /// ```
    pub fn of(spec: &EncoderSpec, asked: DType) -> Types {
        let all = |dtype, wider| Types { dtype, stream: dtype, wider };
        let spans = spec.layers.iter().any(|layer| layer.span_convolution.is_some());
        match (asked, spec.beyond_float16) {
            (DType::F32, _) => all(asked, ""),
            _ if spans => all(
                DType::F32,
                "all values, since the weights of span convolutions have rows of an odd number of columns",
            ),
            (DType::F16, BeyondFloat16::Anywhere) => all(DType::F32, "all values, since any may leave float16's range"),
            (DType::F16, BeyondFloat16::ResidualStream) => Types {
                stream: DType::F32,
                ..all(
                    asked,
                    "the hidden state, and what the second products of feed-forward parts read and give, since they may leave float16's range",
                )
            },
            _ => all(asked, ""),
        }
    }
}
