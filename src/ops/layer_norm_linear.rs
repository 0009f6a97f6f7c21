//! Layer normalisation, then a product.

use super::definition::{self, LAYER_NORM, LINEAR, Origin, Sought, Step};
use super::{ActivationKind, Counts, LayerNorm, Linear, Op, Operand, Operation, Residual, Shape, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y = act(layer_norm(x) weight^T + bias)`.
///
/// Operands: `x [..., K]`, `norm_weight [K]`, `norm_bias [K]`, `weight [N, K]`, then `bias [N]` if `bias`. Result:
/// `[..., N]`. Kernels may store the mean `m` of each row and its scale factor `r` in scratch memory, `[..., 2]`, but
/// nothing as large as an operand. Sums run as in [`LayerNorm`] and [`Linear`].
///
/// In 16 bits kernels may fold the norm into the product: `y = act(r (x (g weight)^T - m s) + c)`, where `g` is the
/// norm's weight, and `s` and `c` are sums over each row of `weight` times `g` and times the norm's bias. `s`, `c` and
/// `g`, padded with zeros, are scratch memory, 8 bytes for each column of the result and 2 for each of `x`. Then `g` and `g weight` may be rounded to the 16-bit type instead of the
/// normalised rows, so both must be in its range.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerNormLinear {
    /// As [`LayerNorm::eps`].
    pub eps: f32,
    /// As [`Linear::bias`].
    pub bias: bool,
    /// As [`Linear::activation`].
    pub activation: Option<ActivationKind>,
}

impl Default for LayerNormLinear {
    fn default() -> Self {
        LayerNormLinear { eps: 1e-5, bias: false, activation: None }
    }
}

impl LayerNormLinear {
    /// The first step.
    pub fn norm(&self) -> LayerNorm {
        LayerNorm { eps: self.eps }
    }

    /// The second step.
    pub fn linear(&self) -> Linear {
        Linear { bias: self.bias, activation: self.activation, residual: Residual::None }
    }

    /// Elements of `g` in scratch memory, for `K` columns: whole steps of any kernel.
    pub(crate) fn gains(columns: usize) -> usize {
        columns.next_multiple_of(64)
    }
}

impl Operation for LayerNormLinear {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        ("{}", &[&[40, 64], &[64], &[64], &[96, 64]], &[0, 1, 2, 3]),
        (
            r#"{"eps": 0.5, "bias": true, "activation": "gelu_erf"}"#,
            &[&[40, 64], &[64], &[64], &[64, 64], &[64]],
            &[0, 1, 2, 3, 4],
        ),
    ];
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[
            Operand::rows("x").narrow(),
            Operand::vector("norm_weight"),
            Operand::vector("norm_bias"),
            Operand::matrix("weight").narrow(),
            Operand::vector("bias").by_attribute(),
        ];
        Signature::of(if self.bias { ALL } else { &ALL[..4] }).scratch(&["moments", "columns"])
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let product: Vec<Origin> =
            std::iter::once(Origin::Step(0)).chain(definition::given(3..operands.len())).collect();
        Ok(vec![Step::new(self.norm(), &definition::given(0..3)), Step::new(self.linear(), &product)])
    }

    fn scratch(&self, operands: &[&Shape], stored: DType) -> Vec<Shape> {
        let [x, _, _, weight, ..] = operands else { return Vec::new() };
        let moments = x.with_columns(2);
        let columns = weight.rows().size(Counts::default()).next_multiple_of(2) + Self::gains(weight.columns()) / 4;
        if stored.is_narrow() { vec![moments, Shape::fixed(&[columns, 2])] } else { vec![moments] }
    }

    fn sought() -> Option<Sought> {
        Some(Sought {
            pass: "layer_norm_linear",
            priority: 20,
            tree: LINEAR.of(&[LAYER_NORM]),
            op: |ops| match ops {
                [Op::LayerNorm(norm), Op::Linear(Linear { bias, activation, residual: Residual::None })] => {
                    Some(LayerNormLinear { eps: norm.eps, bias: *bias, activation: *activation }.into())
                }
                _ => None,
            },
        })
    }
}
