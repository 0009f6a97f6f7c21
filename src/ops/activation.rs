//! Elementwise nonlinearities.

use super::{Coverage, Operand, Operation, Shape, Signature, Vjp};

/// The nonlinearities; those that a model's configuration can name come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum ActivationKind {
    /// `x`
    #[default]
    Identity = 0,
    /// `x (1 + erf(x / sqrt 2)) / 2`
    GeluErf = 1,
    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`
    GeluTanh = 2,
    /// `max(x, 0)`
    Relu = 3,
    /// `x sigmoid(x)`
    Silu = 4,
    /// `tanh(x)`
    Tanh = 5,
    /// `1 / (1 + exp(-x))`
    Sigmoid = 6,
    /// `x sigmoid(1.702 x)`
    QuickGelu = 7,
    /// `log(1 + exp(x))`
    Softplus = 8,
    /// `x cos(x)`. Same bits everywhere: below 800 quarter turns are subtracted in three steps of float32; from there on
    /// `|x| 2 / pi` is a number of 62 binary places, so that no accuracy is lost however large `x` is.
    Gcu = 9,
    /// `x` where `x >= 0`, else `a x`
    LeakyRelu = 10,
    /// `(x + a) sigmoid(b x) - a / 2`
    Roswish = 11,
    /// `sqrt(x)`
    Sqrt = 12,
    /// `exp(x)`
    Exp = 13,
    /// `log(x)`
    Log = 14,
}

impl ActivationKind {
    /// Whether `linear` can apply it as an epilogue: the kinds used by model layers, none of which reads `a` or `b`.
    ///
    /// ```
    /// use grilly::ops::ActivationKind;
    /// assert!(ActivationKind::Silu.ends_linear() && !ActivationKind::Roswish.ends_linear());
    /// ```
    pub fn ends_linear(self) -> bool {
        self as u32 <= Self::QuickGelu as u32
    }

    /// The activation that a Hugging Face configuration calls `name`; `None` for an unknown name.
    ///
    /// ```
    /// use grilly::ops::ActivationKind;
    /// assert_eq!(ActivationKind::from_config_name("gelu"), Some(ActivationKind::GeluErf));
    /// assert_eq!(ActivationKind::from_config_name("gelu_new"), Some(ActivationKind::GeluTanh));
    /// ```
    pub fn from_config_name(name: &str) -> Option<Self> {
        Some(match name {
            "gelu" | "gelu_python" => Self::GeluErf,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_accurate" => Self::GeluTanh,
            "relu" => Self::Relu,
            "silu" | "swish" => Self::Silu,
            "tanh" => Self::Tanh,
            "sigmoid" => Self::Sigmoid,
            "quick_gelu" => Self::QuickGelu,
            "linear" | "identity" => Self::Identity,
            _ => return None,
        })
    }
}

/// `y = act(x)`, elementwise. Operands: `x`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activation {
    /// The nonlinearity.
    pub kind: ActivationKind,
    /// First parameter: slope of `leaky_relu`, shift of `roswish`; default 1.
    #[serde(default = "one")]
    pub a: f32,
    /// Second parameter: steepness of `roswish`; default 1.
    #[serde(default = "one")]
    pub b: f32,
}

fn one() -> f32 {
    1.0
}

impl From<ActivationKind> for Activation {
    /// Both parameters at their defaults.
    fn from(kind: ActivationKind) -> Self {
        Activation { kind, a: one(), b: one() }
    }
}

impl Operation for Activation {
    const EVERYWHERE: Coverage = Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"kind": "silu"}"#, &[&[2, 3, 4]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x").narrow()]);

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::single(operands.len(), ActivationBackward(self.clone()), 0..1)
    }
}

/// `y = g act'(x)`, elementwise, with `relu'(0) = 0`; attributes as [`Activation`]. Operands: `g`, `x`, of equal shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ActivationBackward(pub Activation);

impl Operation for ActivationBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"kind": "silu"}"#, &[], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("g").narrow(), Operand::rows("x").narrow().like("g")]).flops(2);
}
