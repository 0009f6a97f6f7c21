//! A product of quantised rows with a quantised weight, as floats.

use super::definition::{Origin, Step, Term};
use super::integer_linear::{TOO_LONG, rows_of_weight};
use super::levels::{Levels, Scope};
use super::linear::unfused;
use super::vjp::Vjp;
use super::{ActivationKind, Counts, DequantizeRows, Dim, Operand, Operation, Residual, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y[m, n] = act(sum_g sum_{k in g} ((q[m, k] - zero[m]) weight[n, k]) (1 / weight_scale[n, g]) (1 / scale[m]) + bias[n]) +
/// residual[m, n]`
///
/// The sum of integers within a group `g` is exact, as that of `integer_linear`; groups are added as floats, from the
/// first to the last. Scales are those that `quantize_rows` gives: numbers were multiplied by them. Their reciprocals are
/// correctly rounded.
///
/// Operands: `q [..., K]` (int8), `scale [...]`, one per row, or with `pairs` `[..., 2]`, a scale and a zero, `weight [N, K]`
/// (int8), or packed `[N, ceil(K / 4)]` and `[N, ceil(K / 8)]` (uint8), `weight_scale`: `[N]`, `[1]` of scope `tensor`,
/// `[N, G]` of groups; then `bias [N]` if `bias`, then `residual [..., N]` if `residual` is `added`. Result: `[..., N]`,
/// float32, or in 16 bits as the residual is, or where a graph holds it so; it is rounded once.
///
/// Gradients of `q` and of a weight of int8 are those of `linear` of the numbers that they stand for, `q / scale` and
/// `weight / weight_scale`; without pairs, activation and residual.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuantizedLinear {
    /// The values of the weight.
    pub levels: Levels,
    /// What of the weight shares a scale.
    pub scope: Scope,
    /// Whether `scale` holds zeros, too, as `quantize_rows` gives them, else 0; `K` is below 2^16 then.
    pub pairs: bool,
    /// Whether there is a bias operand.
    pub bias: bool,
    /// Applied to the biased product; `None` for the identity.
    pub activation: Option<ActivationKind>,
    /// Whether there is a residual operand.
    pub residual: Residual,
}

impl Operation for QuantizedLinear {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (r#"{"bias": true}"#, &[&[2, 3, 4], &[2, 3], &[5, 4], &[5], &[5]], &[0, 2, 4]),
        (r#"{"bias": true, "residual": "added"}"#, &[], &[]),
    ];
    fn signature(&self) -> Signature {
        const Q: Operand = Operand::rows("q").stored(DType::I8);
        const SCALE: Operand = Operand::rows("scale");
        const BYTES: Operand = Operand::matrix("weight").stored(DType::I8);
        const PACKED: Operand = Operand::matrix("weight").stored(DType::U8);
        const WEIGHT_SCALE: Operand = Operand::rows("weight_scale");
        const BIAS: Operand = Operand::vector("bias").by_attribute();
        const RESIDUAL: Operand = Operand::rows("residual").narrow().by_attribute();
        const Y: Operand = Operand::rows("y").narrow().wide();
        let operands: &'static [Operand] = match (self.levels, self.bias, self.residual) {
            (Levels::Int8, false, Residual::None) => &[Q, SCALE, BYTES, WEIGHT_SCALE],
            (Levels::Int8, true, Residual::None) => &[Q, SCALE, BYTES, WEIGHT_SCALE, BIAS],
            (Levels::Int8, false, Residual::Added) => &[Q, SCALE, BYTES, WEIGHT_SCALE, RESIDUAL],
            (Levels::Int8, true, Residual::Added) => &[Q, SCALE, BYTES, WEIGHT_SCALE, BIAS, RESIDUAL],
            (_, false, Residual::None) => &[Q, SCALE, PACKED, WEIGHT_SCALE],
            (_, true, Residual::None) => &[Q, SCALE, PACKED, WEIGHT_SCALE, BIAS],
            (_, false, Residual::Added) => &[Q, SCALE, PACKED, WEIGHT_SCALE, RESIDUAL],
            (_, true, Residual::Added) => &[Q, SCALE, PACKED, WEIGHT_SCALE, BIAS, RESIDUAL],
        };
        Signature::of(operands).gives(&[Y])
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.check_end(self.activation)?;
        let n = rows_of_weight(self.levels, of)?;
        let q = &of["q"];
        let result = q.with_columns(n);
        let rows = Scope::Row.scales(q, q.columns());
        if self.pairs {
            let pairs = Shape([&rows.0[..], &[Dim::Fixed(2)]].concat());
            of.expect("scale", &pairs, "a pair for each row of q")?;
            if q.columns() >= TOO_LONG / 2 {
                let most = TOO_LONG / 2 - 1;
                return Err(of.fault(format!("K is {}, with pairs at most {most}", q.columns())));
            }
        } else {
            of.expect("scale", &rows, "q without its last axis")?;
        }
        let scales = self.scope.scales(&Shape::fixed(&[n, q.columns()]), q.columns());
        of.expect("weight_scale", &scales, format_args!("the scales of {:?} of {} columns", self.scope, q.columns()))?;
        of.expect("bias", &Shape::fixed(&[n]), "rows of weight")?;
        of.expect("residual", &result, "that of the result")?;
        Ok(vec![result])
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        Ok(unfused(self.clone().into(), operands.len()))
    }

    /// The type of the residual, without one float32.
    fn result_type(&self, operands: &[DType]) -> DType {
        let residual = operands.last().filter(|_| self.residual == Residual::Added);
        residual.copied().filter(|dtype| dtype.is_float()).unwrap_or_default()
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64 * operands[2].rows().size(counts) as u64
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let plain = self.activation.is_none() && self.residual == Residual::None && !self.pairs;
        if self.levels != Levels::Int8 || !plain {
            return None;
        }
        let (q, weight) = (operands[0], operands[2]);
        let rows = q.flat()?;
        let mut vjp = Vjp::new(operands.len());
        let [integers, scale, stored, weight_scale] = [0, 1, 2, 3].map(|place| Term::whole(Origin::Operand(place)));
        let scale = scale.seen(Scope::Row.scales(&rows, rows.columns()));
        let x = vjp.step(DequantizeRows::default(), [integers.seen(rows), scale]);
        let w = vjp.step(DequantizeRows { scope: self.scope, ..Default::default() }, [stored, weight_scale]);
        vjp.give_product([q, weight], [x, w], [0, 2], self.bias.then_some(4))?;
        Some(vjp)
    }
}
