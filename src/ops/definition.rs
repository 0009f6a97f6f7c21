//! Definitions of fused ops: steps of other ops, from which shapes, work and meaning follow.

use super::{Binary, BinaryKind, Counts, Op, Operation, Shape, Shapes};
use crate::{Error, Result};

/// Source of a step's operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The fused op's operand at this index.
    Operand(usize),
    /// A result of an earlier step, by its number among the results of all steps; most have one.
    Step(usize),
}

/// An operand of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Source of its elements.
    pub from: Origin,
    /// The shape it is viewed in, if another than its own.
    pub shape: Option<Shape>,
}

impl Term {
    /// The operand in its own shape.
    pub(super) fn whole(from: Origin) -> Self {
        Term { from, shape: None }
    }

    /// The same operand viewed as `shape`.
    pub(super) fn seen(self, shape: Shape) -> Self {
        Term { shape: Some(shape), ..self }
    }
}

/// One op of a definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The op.
    pub op: Op,
    /// Its operands.
    pub operands: Vec<Term>,
}

impl Step {
    /// A step whose operands keep their own shapes.
    pub(super) fn new(op: impl Into<Op>, operands: &[Origin]) -> Step {
        let operands = operands.iter().copied().map(Term::whole).collect();
        Step { op: op.into(), operands }
    }

    /// The shapes of its operands, given the fused op's operands and the results of the earlier steps.
    fn shapes<'a>(&'a self, operands: &[&'a Shape], results: &'a [Shape]) -> Vec<&'a Shape> {
        let shape = |term: &'a Term| match (&term.shape, term.from) {
            (Some(shape), _) => shape,
            (None, Origin::Operand(place)) => operands[place],
            (None, Origin::Step(place)) => &results[place],
        };
        self.operands.iter().map(shape).collect()
    }

    /// The same step with operand `place` viewed as `shape`.
    pub(super) fn viewing(mut self, place: usize, shape: Shape) -> Step {
        self.operands[place].shape = Some(shape);
        self
    }
}

/// Where a fused op says that it gives the result of a step of its own, too.
pub type Keep = fn(&mut Op) -> Option<&mut bool>;

/// An op of a pattern, and what computes its operands.
#[derive(Clone, Copy)]
pub struct Pattern {
    /// What records call it where another op stands in its place.
    pub label: &'static str,
    /// Whether an op can be it.
    pub fits: fn(&Op) -> bool,
    /// What computes its first operands; of a sum or a product, in either order.
    pub of: &'static [Pattern],
    /// If others may read its result: the fused op then gives it, after its own results, and runs in its place.
    pub kept: Option<Keep>,
}

impl Pattern {
    /// An op with any operands.
    pub(super) const fn new(label: &'static str, fits: fn(&Op) -> bool) -> Self {
        Pattern { label, fits, of: &[], kept: None }
    }

    /// The same op with what computes its first operands.
    pub(super) const fn of(self, of: &'static [Pattern]) -> Self {
        Pattern { of, ..self }
    }

    /// The same op, whose result others may read.
    pub(super) const fn kept(self, keep: Keep) -> Self {
        Pattern { kept: Some(keep), ..self }
    }
}

/// How a fused op is found in plans.
pub struct Sought {
    /// Its name in the records of plans.
    pub pass: &'static str,
    /// Patterns of a lower number are sought first, in the whole plan. Those of one number end with different ops, and where
    /// two would take the same node, the one that ends earlier in the plan does.
    pub priority: u32,
    /// Its steps, as the tree that ends with the last of the definition.
    pub tree: Pattern,
    /// The fused op with the attributes of its steps, in the definition's order; `None` if it has no form for them.
    pub op: fn(&[&Op]) -> Option<Op>,
}

/// A step common to several fused ops.
pub(super) const SUM: Pattern = Pattern::new("a sum", |op| matches!(op, Op::Binary(Binary { kind: BinaryKind::Add })));
pub(super) const LAYER_NORM: Pattern = Pattern::new("layer_norm", |op| matches!(op, Op::LayerNorm(_)));
pub(super) const LINEAR: Pattern = Pattern::new("linear", |op| matches!(op, Op::Linear(_)));
pub(super) const RMS_NORM: Pattern = Pattern::new("rms_norm", |op| matches!(op, Op::RmsNorm(_)));

/// The fused op's own operands `first .. last` as sources.
pub(super) fn given(places: std::ops::Range<usize>) -> Vec<Origin> {
    places.map(Origin::Operand).collect()
}

/// Calls `see` for each step in order and returns the shapes of the results, given the fused op's operands.
fn walk(steps: &[Step], operands: &[&Shape], see: &mut dyn FnMut(&Op, &[&Shape])) -> Result<Vec<Shape>> {
    let mut results: Vec<Shape> = Vec::new();
    for step in steps {
        let shapes = step.shapes(operands, &results);
        let own = step.op.infer(&shapes)?;
        see(&step.op, &shapes);
        results.extend(own);
    }
    Ok(results)
}

/// [`Operation::infer`] of a fused op, the results of its last step; of others, which have no steps, the shape of the first
/// operand.
///
/// # Errors
/// `InvalidArgument` naming the fused op and the error of the step that fails.
pub(super) fn infer(steps: &[Step], of: &Shapes<'_>) -> Result<Vec<Shape>> {
    let Some(last) = steps.last() else { return Ok(vec![of.all()[0].clone()]) };
    let mut results = walk(steps, of.all(), &mut |_, _| {}).map_err(|error| match error {
        Error::InvalidArgument(reason) => of.fault(reason),
        other => other,
    })?;
    Ok(results.split_off(results.len() - last.op.results().len()))
}

/// The unfused ops that `op` on `operands` consists of, with the shapes of their operands.
///
/// # Errors
/// As `infer`.
pub fn plain(op: &Op, operands: &[&Shape]) -> Result<Vec<(Op, Vec<Shape>)>> {
    let mut steps = op.definition(operands)?;
    let mut plain = Vec::new();
    // What a product ends with is not counted.
    if steps.first().is_some_and(|first| first.op.name() == op.name()) {
        steps.clear();
    }
    if steps.is_empty() {
        plain.push((op.clone(), operands.iter().copied().cloned().collect()));
    }
    let mut found = Vec::new();
    walk(&steps, operands, &mut |op, shapes| {
        found.push((op.clone(), shapes.iter().copied().cloned().collect::<Vec<Shape>>()));
    })?;
    for (op, shapes) in found {
        plain.extend(self::plain(&op, &shapes.iter().collect::<Vec<_>>())?);
    }
    Ok(plain)
}

/// [`Operation::flops`] of a fused op: the sum over its steps; of others, one per element of the first operand.
pub(super) fn flops(op: &(impl Operation + ?Sized), operands: &[&Shape], counts: Counts) -> u64 {
    // Operands that do not fit were rejected when the node was made.
    let steps = op.definition(operands).unwrap_or_default();
    let Some((last, earlier)) = steps.split_last() else {
        return op.signature().flops * operands[0].elements(counts) as u64;
    };
    let mut flops = 0;
    let results = walk(earlier, operands, &mut |op, shapes| flops += op.flops(shapes, counts));
    let Ok(results) = results else { return flops };
    flops + last.op.flops(&last.shapes(operands, &results), counts)
}
