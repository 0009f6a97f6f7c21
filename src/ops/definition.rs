//! What a fused op stands for: steps of other ops, from which its shapes, its work and its meaning follow.

use super::{Binary, BinaryKind, Counts, Op, Operation, Shape, Shapes};
use crate::{Error, Result};

/// Where an operand of a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The fused op's operand of this place.
    Operand(usize),
    /// The result of an earlier step.
    Step(usize),
}

/// An operand of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Its elements.
    pub from: Origin,
    /// Its shape, where that is another one.
    pub shape: Option<Shape>,
}

impl Term {
    /// In the shape it comes with.
    pub(super) fn whole(from: Origin) -> Self {
        Term { from, shape: None }
    }

    /// Seen as `shape`.
    pub(super) fn seen(self, shape: Shape) -> Self {
        Term { shape: Some(shape), ..self }
    }
}

/// One op of a definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// With what.
    pub operands: Vec<Term>,
}

impl Step {
    /// A step whose operands have the shapes they come with.
    pub(super) fn new(op: impl Into<Op>, operands: &[Origin]) -> Step {
        let operands = operands.iter().copied().map(Term::whole).collect();
        Step { op: op.into(), operands }
    }

    /// The same with operand `place` seen as `shape`.
    pub(super) fn viewing(mut self, place: usize, shape: Shape) -> Step {
        self.operands[place].shape = Some(shape);
        self
    }
}

/// What a step is called, and which ops can be it.
pub type Kind = (&'static str, fn(&Op) -> bool);

/// How a fused op is found in plans: the last step is the candidate, and every other one feeds it.
pub struct Sought {
    /// Its steps.
    pub steps: &'static [Kind],
    /// The op with the attributes of its steps, if it has a form for them.
    pub op: fn(&[&Op]) -> Option<Op>,
}

/// Steps of several fused ops.
pub const SUM: Kind = ("a sum", |op| matches!(op, Op::Binary(Binary { kind: BinaryKind::Add })));
pub(super) const PRODUCT: Kind = ("a product", |op| matches!(op, Op::Binary(Binary { kind: BinaryKind::Multiply })));
pub(super) const LINEAR: Kind = ("linear", |op| matches!(op, Op::Linear(_)));
pub(super) const LAYER_NORM: Kind = ("layer_norm", |op| matches!(op, Op::LayerNorm(_)));
pub(super) const RMS_NORM: Kind = ("rms_norm", |op| matches!(op, Op::RmsNorm(_)));

/// The fused op's own operands `first .. last`.
pub(super) fn given(places: std::ops::Range<usize>) -> Vec<Origin> {
    places.map(Origin::Operand).collect()
}

/// Results of the steps, given the fused op's operands.
fn walk(steps: &[Step], operands: &[&Shape], mut see: impl FnMut(&Op, &[&Shape])) -> Result<Vec<Shape>> {
    let mut results: Vec<Shape> = Vec::new();
    for step in steps {
        let shapes: Vec<&Shape> = (step.operands.iter())
            .map(|term| match (&term.shape, term.from) {
                (Some(shape), _) => shape,
                (None, Origin::Operand(place)) => operands[place],
                (None, Origin::Step(place)) => &results[place],
            })
            .collect();
        let result = step.op.infer(&shapes)?.remove(0);
        see(&step.op, &shapes);
        results.push(result);
    }
    Ok(results)
}

/// [`Operation::infer`] of a fused op.
///
/// # Errors
/// `InvalidArgument` naming the fused op and what a step of its definition refuses.
pub(super) fn infer(op: &(impl Operation + ?Sized), of: &Shapes<'_>) -> Result<Vec<Shape>> {
    let steps = op.definition(of.all())?;
    let mut results = walk(&steps, of.all(), |_, _| {}).map_err(|error| match error {
        Error::InvalidArgument(reason) => of.fault(reason),
        other => other,
    })?;
    Ok(results.pop().into_iter().collect())
}

/// The ops that are not fused themselves, with the shapes of their operands, that `op` on `operands` stands for.
///
/// # Errors
/// As [`infer`].
pub fn plain(op: &Op, operands: &[&Shape]) -> Result<Vec<(Op, Vec<Shape>)>> {
    let steps = op.definition(operands)?;
    let mut plain = Vec::new();
    if steps.is_empty() {
        plain.push((op.clone(), operands.iter().copied().cloned().collect()));
    }
    let mut found = Vec::new();
    walk(&steps, operands, |op, shapes| {
        found.push((op.clone(), shapes.iter().copied().cloned().collect::<Vec<Shape>>()));
    })?;
    for (op, shapes) in found {
        plain.extend(self::plain(&op, &shapes.iter().collect::<Vec<_>>())?);
    }
    Ok(plain)
}

/// [`Operation::flops`] of a fused op: those of its steps.
pub(super) fn flops(op: &(impl Operation + ?Sized), operands: &[&Shape], counts: Counts) -> u64 {
    let mut flops = 0;
    // Operands that do not fit were refused when the node was made.
    if let Ok(steps) = op.definition(operands) {
        let _ = walk(&steps, operands, |op, shapes| flops += op.flops(shapes, counts));
    }
    flops
}
