//! Rows rounded to integers of 8, 2 or 1 bits.

use super::levels::{Levels, Scope};
use super::rng::Sequence;
use super::vjp::Vjp;
use super::{Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// How an integer and its scale follow from the elements that share the scale, `n` of them; ties are rounded to even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantizeKind {
    /// int8, `scale = 127 / max(max |x|, 1e-5)`, `q = clamp(round(x scale), -128, 127)`.
    #[default]
    Absmax,
    /// int8 of a range that includes 0, `scale = 255 / max(max(x, 0) - min(x, 0), 1e-5)`,
    /// `zero = clamp(-128 - round(min(x, 0) scale), -128, 127)`, `q = clamp(round(x scale) + zero, -128, 127)`.
    Affine,
    /// Ternary, `scale = n / max(sum |x|, 1e-5 n)`, `q = clamp(round(x scale), -1, 1)`.
    Ternary,
    /// Signs, `scale` as of `Ternary`, `q = 1` where `x > 0`, else -1.
    Binary,
}

impl QuantizeKind {
    /// The integers' values.
    pub fn levels(self) -> Levels {
        match self {
            QuantizeKind::Absmax | QuantizeKind::Affine => Levels::Int8,
            QuantizeKind::Ternary => Levels::Ternary,
            QuantizeKind::Binary => Levels::Binary,
        }
    }
}

/// `q = round(x scale)` and the scales, by which `x` is nearly `q / scale`: symmetric or affine quantisation to 8 bits (Wang
/// et al. 2023, BitNet), ternary (Ma et al. 2024, W1.58) or to signs. A scale is the correctly rounded quotient of its
/// formula, and `x scale` is rounded once, so integers by the largest element have the same bits on every device; a sum's
/// order is the device's, but with `numerics="everywhere"`.
///
/// With a seed, int8 is rounded at random, `floor(x scale) + 1` where `u < x scale - floor(x scale)`, else
/// `floor(x scale)`: `u` of an element is that of `dropout`.
///
/// Where an element is infinite or NaN, or `sum |x|` is not below 2^126, the scale that it shares is NaN, `q` is 0 (of
/// signs, as always), and `zero` is 0.
///
/// With `factors`, `x[m, k] factors[k]`, rounded once, is what is quantised: smoothing, of which the weight has the inverse.
///
/// Operands: `x [..., K]`, then `factors [K]` if `factors`. Results: `q [..., K]` (int8), or packed `[..., ceil(K / 4)]` and
/// `[..., ceil(K / 8)]` (uint8); `scale`, of the shape that `scope` gives it; of `affine`, `zero` (int32), of the same
/// shape, or, with `pairs`, in `scale`, whose last axis is then 2: a scale and a zero.
///
/// The gradient of `q`, as of the numbers `q / scale` that it stands for, is that of `x`, straight through the rounding
/// (Bengio et al. 2013); scales are constants to it. Packed integers, and those of `factors`, have none.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuantizeRows {
    /// Formula of the integers and the scales.
    pub kind: QuantizeKind,
    /// What shares a scale.
    pub scope: Scope,
    /// Whether there is an operand `factors`; not with scope `tensor`.
    pub factors: bool,
    /// Whether `scale` holds the zeros, too; of `affine` alone.
    pub pairs: bool,
    /// Key of the random numbers; `None` rounds to the nearest.
    pub seed: Option<u64>,
    /// Counter of the first four elements.
    pub offset: u64,
    /// Whether ternary values and signs are stored as int8, too, not packed.
    pub unpacked: bool,
}

impl QuantizeRows {
    /// Whether a row's integers depend on that row alone: the scale of a whole tensor, and random numbers, depend on what
    /// else is in it.
    pub(crate) fn is_by_row(&self) -> bool {
        self.scope != Scope::Tensor && self.seed.is_none()
    }

    /// The random numbers that decide how to round.
    pub(crate) fn numbers(&self) -> Option<Sequence> {
        self.seed.map(|seed| Sequence { seed, offset: self.offset, upper: [0; 2] })
    }

    /// How the integers are stored.
    pub(crate) fn stored(&self) -> Levels {
        if self.unpacked { Levels::Int8 } else { self.kind.levels() }
    }
}

impl Operation for QuantizeRows {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (r#"{"kind": "ternary", "unpacked": true}"#, &[&[2, 3, 4]], &[0]),
        (r#"{"kind": "affine", "factors": true}"#, &[], &[]),
    ];
    fn signature(&self) -> Signature {
        const X: Operand = Operand::rows("x").narrow();
        const FACTORS: Operand = Operand::vector("factors").by_attribute();
        const ZERO: Operand = Operand::rows("zero").stored(DType::I32);
        const SCALE: Operand = Operand::rows("scale").stored(DType::F32);
        const BYTES: Operand = Operand::rows("q").stored(DType::I8);
        const PACKED: Operand = Operand::rows("q").stored(DType::U8);
        let signature = Signature::of(if self.factors { &[X, FACTORS] } else { &[X] })
            .gives(match (self.kind, self.pairs) {
                (QuantizeKind::Absmax, _) | (QuantizeKind::Affine, true) => &[BYTES, SCALE],
                (QuantizeKind::Affine, false) => &[BYTES, SCALE, ZERO],
                (QuantizeKind::Ternary | QuantizeKind::Binary, _) if self.unpacked => &[BYTES, SCALE],
                (QuantizeKind::Ternary | QuantizeKind::Binary, _) => &[PACKED, SCALE],
            })
            .flops(3);
        if self.is_by_row() { signature } else { signature.sized() }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        let Some((Dim::Fixed(columns), _)) = x.0.split_last() else { return Err(of.wrong("x", "[..., K]")) };
        if self.seed.is_some() && self.kind.levels() != Levels::Int8 {
            return Err(of.fault(format!("seed is given, but {:?} rounds to the nearest", self.kind)));
        }
        if self.factors && self.scope == Scope::Tensor {
            return Err(of.fault("factors are given, but scope is \"tensor\", expected \"row\" or the size of a group"));
        }
        if self.pairs && self.kind != QuantizeKind::Affine {
            return Err(of.fault(format!("pairs is set, but {:?} has no zero", self.kind)));
        }
        of.expect("factors", &Shape::fixed(&[*columns]), "columns of x")?;
        let q = x.with_columns(self.stored().bytes(*columns));
        let scale = self.scope.scales(x, *columns);
        Ok(match (self.kind, self.pairs) {
            (QuantizeKind::Affine, true) => vec![q, Shape([&scale.0[..], &[Dim::Fixed(2)]].concat())],
            (QuantizeKind::Affine, false) => vec![q, scale.clone(), scale],
            _ => vec![q, scale],
        })
    }

    fn is_separable(&self, _: &[&Shape]) -> bool {
        self.is_by_row()
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        (self.stored() == Levels::Int8 && !self.factors).then(|| Vjp::passed(operands.len()))
    }
}
