//! Sum, mean, maximum or deviation over one axis.

mod derivative;

use super::{Counts, Coverage, Dim, Op, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// The reduction of the elements `x` along the axis of a [`Reduce`]; `w` are weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum ReduceKind {
    /// `sum x`, or `sum w x`.
    Sum = 0,
    /// `sum x / n`, or `sum w x / max(sum w, 1e-9)`.
    Mean = 1,
    /// The largest `x`, or the largest with `w > 0`; 0 if there is none, NaN if one of them is NaN.
    Max = 2,
    /// `sqrt(sum (x - mean)^2 / n)`; not with weights.
    Deviation = 3,
}

/// The part of the work that one step does. A long axis is split into chunks, whose partial results are then combined
/// in order; the split depends only on the length of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Stage {
    /// All of the work.
    #[default]
    Whole,
    /// Reduces each chunk: axis `n` becomes two, chunks and [`Reduce::planes`].
    Chunks,
    /// Combines the partial results of the chunks.
    Join {
        /// Length of the axis that was split.
        n: usize,
        /// Whether there were weights.
        weighted: bool,
    },
}

/// A reduction over `axis`. Same bits everywhere: a sum of at most 1024 numbers is one of 64 lanes, and one of more is that of
/// the sums of its chunks of `2^ceil(log2 floor(sqrt n))` numbers, at least 1024; `n_c` of them with the deviations' squares `s_c`
/// about their mean `m_c` add `s_c + n_c (m_c - m)^2`, where `m = sum n_c m_c / n`.
///
/// Operands: `x`, then, if elements have weights, `weights` of shape `x.shape[..=axis]`. Result: `x`'s shape without
/// `axis`. A program may count an axis, such as the rows summed in the gradient of a bias.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reduce {
    /// The axis, counted from the first.
    pub axis: usize,
    /// The reduction.
    pub kind: ReduceKind,
    /// Set by [`Operation::steps`].
    #[serde(skip)]
    pub(crate) stage: Stage,
    /// Whether `x` may have 16 bits where the result is float32, as the gradient of a bias; set by
    /// [`Graph::gradients`](crate::graph::Graph::gradients).
    #[serde(skip)]
    pub(crate) wide: bool,
}

impl Reduce {
    /// A reduction over the first axis.
    pub fn rows(kind: ReduceKind) -> Self {
        Reduce::along(0, kind)
    }

    /// A reduction over an axis.
    pub fn along(axis: usize, kind: ReduceKind) -> Self {
        Reduce { axis, kind, stage: Stage::Whole, wide: false }
    }

    /// Elements per chunk of an axis of length `n`: about its square root, and at least 1024.
    pub fn chunk(n: usize) -> usize {
        n.isqrt().next_power_of_two().max(1024)
    }

    /// Number of values stored per chunk: the sum, the largest, or the squared deviations; then the sum of weights,
    /// whether any weight is positive, or the mean.
    pub fn planes(&self, weighted: bool) -> usize {
        match self.kind {
            ReduceKind::Deviation => 2,
            ReduceKind::Mean | ReduceKind::Max if weighted => 2,
            _ => 1,
        }
    }

    /// The axes of `x` as `[outer, n, inner]`.
    pub fn axes(&self, x: &Shape) -> [usize; 3] {
        let product = |dims: &[Dim]| dims.iter().map(|d| d.size(Counts::default())).product();
        [product(&x.0[..self.axis]), product(&x.0[self.axis..=self.axis]), product(&x.0[self.axis + 1..])]
    }
}

impl Operation for Reduce {
    const EVERYWHERE: Coverage = Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (r#"{"axis": 1, "kind": "sum"}"#, &[&[2, 3, 4, 5]], &[0]),
        (r#"{"axis": 1, "kind": "sum"}"#, &[&[2, 3, 4, 5], &[2, 3]], &[0, 1]),
        (r#"{"axis": 2, "kind": "mean"}"#, &[&[2, 3, 4]], &[0]),
        (r#"{"axis": 1, "kind": "mean"}"#, &[&[2, 3, 4], &[2, 3]], &[0, 1]),
        (r#"{"axis": 0, "kind": "max"}"#, &[&[3, 4]], &[0]),
        (r#"{"axis": 0, "kind": "max"}"#, &[&[3, 4], &[3]], &[0]),
        (r#"{"axis": 1, "kind": "deviation"}"#, &[&[2, 3, 4]], &[0]),
    ];
    fn signature(&self) -> Signature {
        const WEIGHTS: Operand = Operand::rows("weights").optional();
        const PLAIN: Signature = Signature::of(&[Operand::rows("x"), WEIGHTS]).flops(4).sized();
        const WIDE: Signature = Signature::of(&[Operand::rows("x").narrow(), WEIGHTS])
            .gives(&[Operand::rows("y").stored(DType::F32)])
            .flops(4)
            .sized();
        if self.wide { WIDE } else { PLAIN }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (x, weights) = (&of["x"], of.get("weights"));
        if self.axis >= x.0.len() {
            return Err(of.wrong("x", format!("an axis {}", self.axis)));
        }
        of.expect("weights", &Shape(x.0[..=self.axis].to_vec()), "x's up to the axis")?;
        if weights.is_some() && self.kind == ReduceKind::Deviation {
            return Err(of.fault("deviation takes no weights"));
        }
        let mut result = x.clone();
        match self.stage {
            Stage::Whole => {
                if result.0.remove(self.axis) == Dim::Fixed(0) && self.kind == ReduceKind::Max && weights.is_none() {
                    return Err(of.wrong("x", format!("elements along axis {} for max", self.axis)));
                }
            }
            Stage::Chunks => {
                let [_, n, _] = self.axes(x);
                result.0[self.axis] = Dim::Fixed(n.div_ceil(Reduce::chunk(n)));
                result.0.insert(self.axis + 1, Dim::Fixed(self.planes(weights.is_some())));
            }
            Stage::Join { .. } => drop(result.0.drain(self.axis..self.axis + 2)),
        }
        Ok(vec![result])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        derivative::of(self, operands)
    }

    fn steps(&self, operands: &[&Shape]) -> Option<Vec<Op>> {
        let n = self.axes(operands[0])[1];
        let stage = |stage| Reduce { stage, ..self.clone() }.into();
        (self.stage == Stage::Whole && n > Reduce::chunk(n))
            .then(|| vec![stage(Stage::Chunks), stage(Stage::Join { n, weighted: operands.len() > 1 })])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_axis_is_two_steps_with_the_shapes_between() {
        let op = Op::from(Reduce::along(1, ReduceKind::Deviation));
        let x = Shape::fixed(&[3, 5000, 7]);
        let steps = op.steps(&[&x]).unwrap();
        let parts = steps[0].infer(&[&x]).unwrap().remove(0);
        assert_eq!(parts, Shape::fixed(&[3, 5, 2, 7]));
        assert_eq!(steps[1].infer(&[&parts]).unwrap(), op.infer(&[&x]).unwrap());
        assert_eq!(op.steps(&[&Shape::fixed(&[3, 1024, 7])]), None);
        assert_eq!([1, 1025, 1 << 20, 1 << 24].map(Reduce::chunk), [1024, 1024, 1024, 4096]);
    }

    #[test]
    fn operands_that_do_not_fit_are_refused() {
        let op = |axis, kind| Op::from(Reduce::along(axis, kind));
        let x = Shape::fixed(&[2, 3]);
        assert!(op(2, ReduceKind::Sum).infer(&[&x]).is_err());
        assert!(op(0, ReduceKind::Sum).infer(&[&x, &x]).is_err());
        assert!(op(1, ReduceKind::Deviation).infer(&[&x, &x]).is_err());
        let empty = Shape::fixed(&[2, 0]);
        assert!(op(1, ReduceKind::Max).infer(&[&empty]).is_err());
        assert!(op(1, ReduceKind::Max).infer(&[&empty, &empty]).is_ok());
    }
}
