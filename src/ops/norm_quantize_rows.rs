//! Norms whose rows become 8-bit integers.

use super::definition::{self, Origin, Pattern, Sought, Step};
use super::{LayerNorm, Op, Operand, Operation, QuantizeKind, QuantizeRows, RmsNorm, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

const X: Operand = Operand::rows("x").narrow();
const WEIGHT: Operand = Operand::vector("weight").per_column("x");
const BIAS: Operand = Operand::vector("bias").per_column("x");
const FACTORS: Operand = Operand::vector("factors").per_column("x");
const RESULTS: &[Operand] =
    &[Operand::rows("q").stored(DType::I8), Operand::rows("scale").stored(DType::F32), Operand::rows("y").narrow()];

/// A norm whose rows become integers.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormQuantizeRows<N> {
    /// The norm.
    #[serde(flatten)]
    pub norm: N,
    /// As [`QuantizeRows::factors`].
    #[serde(default)]
    pub factors: bool,
    /// Whether `y` is a result, too.
    #[serde(default)]
    pub kept: bool,
}

/// `y = layer_norm(x)`, `q, scale = quantize_rows(y)`: the integers are those of `y` as kernels store it.
///
/// Operands: `x [..., N]`, `weight [N]`, `bias [N]`, then `factors [N]` if `factors`; N is a positive multiple of 4. Results:
/// `q [..., N]` (int8), `scale [...]`, then `y` of `x`'s shape if `kept`. The plans of gradients have both steps.
pub type LayerNormQuantizeRows = NormQuantizeRows<LayerNorm>;

/// `y = rms_norm(x)`, `q, scale = quantize_rows(y)`: the integers are those of `y` as kernels store it.
///
/// Operands: `x [..., N]`, `weight [N]`, then `factors [N]` if `factors`; N is a positive multiple of 4. Results:
/// `q [..., N]` (int8), `scale [...]`, then `y` of `x`'s shape if `kept`. The plans of gradients have both steps.
pub type RmsNormQuantizeRows = NormQuantizeRows<RmsNorm>;

/// Whether a norm that gives integers gives its own result, too.
pub(crate) fn kept(op: &mut Op) -> Option<&mut bool> {
    match op {
        Op::LayerNormQuantizeRows(op) => Some(&mut op.kept),
        Op::RmsNormQuantizeRows(op) => Some(&mut op.kept),
        _ => None,
    }
}

impl<N: Operation + Clone + Into<Op>> Operation for NormQuantizeRows<N> {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::STEPS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"factors": true, "kept": true}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const WITH_BIAS: &[Operand] = &[X, WEIGHT, BIAS, FACTORS];
        const WITHOUT: &[Operand] = &[X, WEIGHT, FACTORS];
        let all = if N::SIGNATURE.operands.len() == 3 { WITH_BIAS } else { WITHOUT };
        let results = if self.kept { RESULTS } else { &RESULTS[..2] };
        Signature::of(if self.factors { all } else { &all[..all.len() - 1] }).gives(results)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        if !x.0.last().is_some_and(|columns| matches!(columns, super::Dim::Fixed(n) if *n > 0 && n.is_multiple_of(4))) {
            return Err(of.wrong("x", "[..., N], N a positive multiple of 4"));
        }
        let mut results = definition::infer(&self.definition(of.all())?, of)?;
        results.extend(self.kept.then(|| x.clone()));
        Ok(results)
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let vectors = N::SIGNATURE.operands.len();
        let rows = std::iter::once(Origin::Step(0)).chain(definition::given(vectors..operands.len()));
        let rounding = QuantizeRows { factors: self.factors, ..QuantizeRows::default() };
        Ok(vec![
            Step::new(self.norm.clone(), &definition::given(0..vectors)),
            Step::new(rounding, &rows.collect::<Vec<_>>()),
        ])
    }

    /// Rows of either norm, rounded.
    fn sought() -> Option<Sought> {
        if N::SIGNATURE.operands.len() == 2 {
            return None;
        }
        const NORM: Pattern = Pattern::new("a norm", |op| matches!(op, Op::LayerNorm(_) | Op::RmsNorm(_))).kept(kept);
        Some(Sought {
            pass: "normed_integers",
            priority: 30,
            tree: Pattern::new("integers", |op| QuantizeRows::of(op).is_some_and(|op| op.kind == QuantizeKind::Absmax))
                .of(&[NORM]),
            op: |ops| {
                let (factors, kept) = (QuantizeRows::of(ops[1])?.factors, false);
                match ops[0] {
                    Op::LayerNorm(norm) => Some(NormQuantizeRows { norm: norm.clone(), factors, kept }.into()),
                    Op::RmsNorm(norm) => Some(NormQuantizeRows { norm: norm.clone(), factors, kept }.into()),
                    _ => None,
                }
            },
        })
    }
}
