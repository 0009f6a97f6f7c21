//! Elementwise arithmetic of two tensors.

use super::definition::{Origin, Term};
use super::{Counts, Dim, Operand, Operation, Reduce, ReduceKind, Shape, Shapes, Signature, Vjp};
use crate::{Error, Result};

/// The four operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum BinaryKind {
    /// `a + b`
    Add = 0,
    /// `a - b`
    Subtract = 1,
    /// `a b`
    Multiply = 2,
    /// `a / b`
    Divide = 3,
}

/// `y = a + b`, or `-`, `*`, `/`, elementwise. Operands: `a`, and `b`, which broadcasts to `a`'s shape by NumPy's
/// rules.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binary {
    /// The operation.
    pub kind: BinaryKind,
}

impl From<BinaryKind> for Binary {
    fn from(kind: BinaryKind) -> Self {
        Binary { kind }
    }
}

/// How `b` is indexed along an axis of `a`, or along several adjacent axes merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BroadcastAxis {
    /// Elements along it; 0 for the slowest axis where the batch counts it.
    pub size: usize,
    /// Elements of `b` between consecutive indices; 0 where `b` is broadcast.
    pub stride: usize,
}

/// How `b` is indexed along each axis of `a`, fastest first; `None` when `b` does not broadcast to `a`.
pub(super) fn axes(a: &Shape, b: &Shape) -> Option<Vec<BroadcastAxis>> {
    let missing = a.0.len().checked_sub(b.0.len())?;
    let mut axes = Vec::with_capacity(a.0.len());
    let mut next = 1;
    for (place, dim) in a.0.iter().enumerate().rev() {
        let own = place.checked_sub(missing).map_or(Dim::Fixed(1), |place| b.0[place]);
        if own != *dim && own != Dim::Fixed(1) {
            return None;
        }
        let stride = if own == Dim::Fixed(1) { 0 } else { next };
        axes.push(BroadcastAxis { size: dim.size(Counts::default()), stride });
        next *= own.size(Counts::default());
    }
    Some(axes)
}

/// Drops axes of one element and merges adjacent axes of the same kind.
pub(super) fn merged(axes: impl IntoIterator<Item = BroadcastAxis>) -> Vec<BroadcastAxis> {
    let mut merged: Vec<BroadcastAxis> = Vec::new();
    for axis in axes.into_iter().filter(|axis| axis.size != 1) {
        match merged.last_mut() {
            Some(last) if (last.stride == 0) == (axis.stride == 0) => last.size *= axis.size,
            _ => merged.push(axis),
        }
    }
    merged
}

/// How `b` is indexed along the axes of `a`, fastest first, adjacent axes of the same kind merged; empty when the
/// shapes are equal.
///
/// # Errors
/// `InvalidArgument` when `b` does not broadcast to `a`.
pub fn broadcast(a: &Shape, b: &Shape) -> Result<Vec<BroadcastAxis>> {
    if a == b {
        return Ok(Vec::new());
    }
    let counted_first = a.0.iter().skip(1).all(|dim| matches!(dim, Dim::Fixed(_)));
    let axes = axes(a, b).filter(|_| counted_first).map(merged);
    let wrong = || Error::InvalidArgument(format!("binary: b has shape {b}, expected one that broadcasts to {a} (a)"));
    let axes = axes.ok_or_else(wrong)?;
    Ok(if axes.is_empty() { vec![BroadcastAxis { size: 1, stride: 0 }] } else { axes })
}

impl Operation for Binary {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (r#"{"kind": "add"}"#, &[&[2, 3, 4], &[2, 3, 4]], &[0, 1]),
        (r#"{"kind": "subtract"}"#, &[&[2, 3, 4], &[3, 1]], &[0, 1]),
        (r#"{"kind": "multiply"}"#, &[&[2, 3, 1, 4, 5], &[2, 1, 1, 4, 1]], &[0, 1]),
        (r#"{"kind": "divide"}"#, &[&[2, 3], &[]], &[0, 1]),
    ];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("a").narrow(), Operand::rows("b").narrow()]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        broadcast(&of["a"], &of["b"])?;
        Ok(vec![of["a"].clone()])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = Vjp::new(2);
        let [a, b, y, g] = [0, 1, 2, 3].map(|place| Term::whole(Origin::Operand(place)));
        // The gradient of b before the sum over the elements that read it, and its factor.
        let (by_a, by_b, factor) = match self.kind {
            BinaryKind::Add => (g.clone(), g, 1.0),
            BinaryKind::Subtract => (g.clone(), g, -1.0),
            BinaryKind::Multiply => {
                (vjp.binary(BinaryKind::Multiply, g.clone(), b), vjp.binary(BinaryKind::Multiply, g, a), 1.0)
            }
            BinaryKind::Divide => {
                let by_a = vjp.binary(BinaryKind::Divide, g, b);
                (by_a.clone(), vjp.binary(BinaryKind::Multiply, by_a, y), -1.0)
            }
        };
        vjp.give(0, by_a);
        let mut by_b = summed(&mut vjp, by_b, operands[0], operands[1]);
        if factor != 1.0 {
            by_b = vjp.by_number(BinaryKind::Multiply, by_b, factor);
        }
        vjp.give(1, by_b);
        Some(vjp)
    }
}

/// The sum of a term of `a`'s shape over the elements that read one element of `b`: adjacent axes as one, the last first.
fn summed(vjp: &mut Vjp, term: Term, a: &Shape, b: &Shape) -> Term {
    let missing = a.0.len() - b.0.len();
    let mut groups: Vec<(Dim, bool)> = Vec::new();
    for (place, dim) in a.0.iter().enumerate().filter(|(_, dim)| **dim != Dim::Fixed(1)) {
        let repeated = place < missing || b.0[place - missing] != *dim;
        match (groups.last_mut(), *dim) {
            (Some((Dim::Fixed(size), kind)), Dim::Fixed(own)) if *kind == repeated => *size *= own,
            (_, dim) => groups.push((dim, repeated)),
        }
    }
    let mut term = term.seen(Shape(groups.iter().map(|(dim, _)| *dim).collect()));
    for axis in (0..groups.len()).rev().filter(|axis| groups[*axis].1) {
        term = vjp.step(Reduce::along(axis, ReduceKind::Sum), [term]);
    }
    term.seen(b.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(a: &[usize], b: &[usize]) -> Vec<(usize, usize)> {
        let axes = broadcast(&Shape::fixed(a), &Shape::fixed(b)).unwrap();
        axes.iter().map(|axis| (axis.size, axis.stride)).collect()
    }

    #[test]
    fn neighbouring_axes_of_one_kind_are_merged() {
        assert_eq!(walk(&[2, 3], &[2, 3]), []);
        assert_eq!(walk(&[5], &[]), [(5, 0)]);
        assert_eq!(walk(&[1, 1], &[]), [(1, 0)]);
        assert_eq!(walk(&[2, 3, 4], &[4]), [(4, 1), (6, 0)]);
        assert_eq!(walk(&[2, 3, 4], &[3, 4]), [(12, 1), (2, 0)]);
        assert_eq!(walk(&[2, 3, 4], &[2, 3, 1]), [(4, 0), (6, 1)]);
        assert_eq!(walk(&[2, 3, 4, 5], &[2, 1, 4, 1]), [(5, 0), (4, 1), (3, 0), (2, 4)]);
        assert_eq!(walk(&[2, 1, 4], &[1, 1, 4]), [(4, 1), (2, 0)]);
        let rows = broadcast(&Shape::matrix(Dim::Tokens, 7), &Shape::fixed(&[7])).unwrap();
        assert_eq!(rows, [BroadcastAxis { size: 7, stride: 1 }, BroadcastAxis { size: 0, stride: 0 }]);
    }

    #[test]
    fn what_does_not_broadcast_is_refused() {
        for (a, b) in [(&[3][..], &[4][..]), (&[1], &[3]), (&[3], &[1, 3]), (&[2, 3], &[2]), (&[1], &[0])] {
            let error = broadcast(&Shape::fixed(a), &Shape::fixed(b)).unwrap_err().to_string();
            assert!(error.contains(&format!("b has shape {}", Shape::fixed(b))), "{error}");
        }
    }
}
