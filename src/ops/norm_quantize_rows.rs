//! Norms whose rows become 8-bit integers.

use super::definition::{self, Origin, Pattern, Sought, Step};
use super::{LayerNorm, Op, Operand, Operation, QuantizeKind, QuantizeRows, RmsNorm, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

const X: Operand = Operand::rows("x").narrow();
const WEIGHT: Operand = Operand::vector("weight").per_column("x");
const BIAS: Operand = Operand::vector("bias").per_column("x");
const FACTORS: Operand = Operand::vector("factors").per_column("x");
const RESULTS: &[Operand] =
    &[Operand::rows("q").stored(DType::I8), Operand::rows("scale").stored(DType::F32), Operand::rows("y").narrow()];

/// `y = layer_norm(x)`, `q, scale = quantize_rows(y)`: the integers are those of `y` as kernels store it.
///
/// Operands: `x [..., N]`, `weight [N]`, `bias [N]`, then `factors [N]` if `factors`; N is a positive multiple of 4. Results:
/// `q [..., N]` (int8), `scale [...]`, then `y` of `x`'s shape if `kept`. The plans of gradients have both steps.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerNormQuantizeRows {
    /// As [`LayerNorm::eps`].
    pub eps: f32,
    /// As [`QuantizeRows::factors`].
    pub factors: bool,
    /// Whether `y` is a result, too.
    pub kept: bool,
}

/// `y = rms_norm(x)`, `q, scale = quantize_rows(y)`: the integers are those of `y` as kernels store it.
///
/// Operands: `x [..., N]`, `weight [N]`, then `factors [N]` if `factors`; N is a positive multiple of 4. Results:
/// `q [..., N]` (int8), `scale [...]`, then `y` of `x`'s shape if `kept`. The plans of gradients have both steps.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RmsNormQuantizeRows {
    /// As [`RmsNorm::eps`].
    pub eps: f32,
    /// As [`QuantizeRows::factors`].
    pub factors: bool,
    /// Whether `y` is a result, too.
    pub kept: bool,
}

impl Default for LayerNormQuantizeRows {
    fn default() -> Self {
        LayerNormQuantizeRows { eps: 1e-5, factors: false, kept: false }
    }
}

impl Default for RmsNormQuantizeRows {
    fn default() -> Self {
        RmsNormQuantizeRows { eps: 1e-6, factors: false, kept: false }
    }
}

impl LayerNormQuantizeRows {
    /// The first step.
    pub fn norm(&self) -> LayerNorm {
        LayerNorm { eps: self.eps }
    }

    /// The second step.
    pub fn rounding(&self) -> QuantizeRows {
        QuantizeRows { factors: self.factors, ..QuantizeRows::default() }
    }
}

impl RmsNormQuantizeRows {
    /// The first step.
    pub fn norm(&self) -> RmsNorm {
        RmsNorm { eps: self.eps }
    }

    /// The second step.
    pub fn rounding(&self) -> QuantizeRows {
        QuantizeRows { factors: self.factors, ..QuantizeRows::default() }
    }
}

/// Whether a norm that gives integers gives its own result, too.
pub(crate) fn kept(op: &mut Op) -> Option<&mut bool> {
    match op {
        Op::LayerNormQuantizeRows(op) => Some(&mut op.kept),
        Op::RmsNormQuantizeRows(op) => Some(&mut op.kept),
        _ => None,
    }
}

/// The signature of an op with these operands and those results.
fn signature(operands: &'static [Operand], kept: bool) -> Signature {
    Signature::of(operands).gives(if kept { RESULTS } else { &RESULTS[..2] })
}

/// A norm of so many operands, then its rows' integers.
fn steps(norm: Step, of_norm: usize, rounding: QuantizeRows, operands: usize) -> Vec<Step> {
    let rows = std::iter::once(Origin::Step(0)).chain(definition::given(of_norm..operands));
    vec![norm, Step::new(rounding, &rows.collect::<Vec<_>>())]
}

/// The shapes of the results.
fn infer(steps: &[Step], of: &Shapes<'_>, kept: bool) -> Result<Vec<Shape>> {
    let x = &of["x"];
    if !x.0.last().is_some_and(|columns| matches!(columns, super::Dim::Fixed(n) if *n > 0 && n.is_multiple_of(4))) {
        return Err(of.wrong("x", "[..., N], N a positive multiple of 4"));
    }
    let mut results = definition::infer(steps, of)?;
    results.extend(kept.then(|| x.clone()));
    Ok(results)
}

impl Operation for LayerNormQuantizeRows {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::STEPS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"factors": true, "kept": true}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[X, WEIGHT, BIAS, FACTORS];
        signature(if self.factors { ALL } else { &ALL[..3] }, self.kept)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        infer(&self.definition(of.all())?, of, self.kept)
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let norm = Step::new(self.norm(), &definition::given(0..3));
        Ok(steps(norm, 3, self.rounding(), operands.len()))
    }

    /// Rows of either norm, rounded.
    fn sought() -> Option<Sought> {
        const NORM: Pattern = Pattern::new("a norm", |op| matches!(op, Op::LayerNorm(_) | Op::RmsNorm(_))).kept(kept);
        Some(Sought {
            pass: "normed_integers",
            priority: 30,
            tree: Pattern::new("integers", |op| QuantizeRows::of(op).is_some_and(|op| op.kind == QuantizeKind::Absmax))
                .of(&[NORM]),
            op: |ops| {
                let (factors, kept) = (QuantizeRows::of(ops[1])?.factors, false);
                match ops[0] {
                    Op::LayerNorm(norm) => Some(LayerNormQuantizeRows { eps: norm.eps, factors, kept }.into()),
                    Op::RmsNorm(norm) => Some(RmsNormQuantizeRows { eps: norm.eps, factors, kept }.into()),
                    _ => None,
                }
            },
        })
    }

    fn vjp(&self, _: &[&Shape]) -> Option<Vjp> {
        None
    }
}

impl Operation for RmsNormQuantizeRows {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::STEPS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"factors": true, "kept": true}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[X, WEIGHT, FACTORS];
        signature(if self.factors { ALL } else { &ALL[..2] }, self.kept)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        infer(&self.definition(of.all())?, of, self.kept)
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let norm = Step::new(self.norm(), &definition::given(0..2));
        Ok(steps(norm, 2, self.rounding(), operands.len()))
    }

    fn vjp(&self, _: &[&Shape]) -> Option<Vjp> {
        None
    }
}
