//! The argument of `Operation::infer`: the operands' shapes under their names in the signature.

use std::fmt::Display;
use std::ops::Index;

use super::signature::{Follows, Presence, Role};
use super::{ActivationKind, Op, Operand, Shape, Signature};
use crate::dtype::DType;
use crate::{Error, Result};

/// The shapes of an op's operands, by name. For an op with groups of operands, the names are those of the first group.
#[derive(Debug, Clone, Copy)]
pub struct Shapes<'a> {
    op: &'static str,
    operands: &'static [Operand],
    shapes: &'a [&'a Shape],
}

impl<'a> Shapes<'a> {
    /// The shapes of the operands of `op`, not checked yet.
    ///
    /// # Errors
    /// As [`Op::check_number`].
    pub(super) fn new(op: &Op, shapes: &'a [&'a Shape]) -> Result<Self> {
        op.check_number(shapes.len())?;
        Ok(Shapes { op: op.name(), operands: op.operands(), shapes })
    }

    /// Checks the operands whose shape follows from that of another.
    ///
    /// # Errors
    /// As [`Shapes::expect`].
    pub(super) fn check(&self) -> Result<()> {
        self.operands.iter().try_for_each(|operand| match operand.shape {
            Some(Follows::Whole(other)) => self.same(operand.name, other),
            Some(Follows::Columns(other)) => self.columns(operand.name, other),
            None => Ok(()),
        })
    }

    /// All shapes, in order.
    pub fn all(&self) -> &'a [&'a Shape] {
        self.shapes
    }

    /// The shape of an operand; `None` if it is left out.
    pub fn get(&self, name: &str) -> Option<&'a Shape> {
        let place = self.operands.iter().position(|operand| operand.name == name)?;
        self.shapes.get(place).copied()
    }

    /// The axes of an operand, none of which may be counted by the batch.
    ///
    /// # Errors
    /// `InvalidArgument` where the batch counts an axis.
    pub fn axes(&self, name: &str) -> Result<Vec<usize>> {
        self[name].fixed_axes(self.op, name)
    }

    /// Checks that an operand, if present, has the shape `expected`.
    ///
    /// # Errors
    /// `InvalidArgument` with the shape found, the shape expected, and `why`.
    pub fn expect(&self, name: &str, expected: &Shape, why: impl Display) -> Result<()> {
        match self.get(name) {
            Some(found) if found != expected => Err(self.wrong(name, format!("{expected} ({why})"))),
            _ => Ok(()),
        }
    }

    /// Checks that an operand has the shape of another.
    ///
    /// # Errors
    /// As [`Shapes::expect`].
    pub fn same(&self, name: &str, other: &str) -> Result<()> {
        self.expect(name, &self[other], format_args!("that of {other}"))
    }

    /// Checks that a vector has one element per column of another operand.
    ///
    /// # Errors
    /// As [`Shapes::expect`].
    pub fn columns(&self, name: &str, other: &str) -> Result<()> {
        self.expect(name, &Shape::fixed(&[self[other].columns()]), format_args!("last axis of {other}"))
    }

    /// Refuses an activation that products do not apply to their results.
    pub(super) fn check_end(&self, activation: Option<ActivationKind>) -> Result<()> {
        match activation.filter(|kind| !kind.ends_linear()) {
            Some(kind) => {
                Err(self.fault(format!("activation is {kind:?}, expected a kind without parameters up to QuickGelu")))
            }
            None => Ok(()),
        }
    }

    /// The error for an operand of unexpected shape.
    pub fn wrong(&self, name: &str, expected: impl Display) -> Error {
        self.fault(format!("{name} has shape {}, expected {expected}", self[name]))
    }

    /// An error prefixed by the op's name.
    pub fn fault(&self, what: impl Display) -> Error {
        Error::InvalidArgument(format!("{}: {what}", self.op))
    }
}

impl Op {
    /// Checks that operands have the types the op takes together, where activations and matrices are stored as
    /// `stored`.
    ///
    /// # Errors
    /// `InvalidType` naming op, operand, the type found and the type expected.
    pub fn check_types(&self, types: &[DType], stored: DType) -> Result<()> {
        for (place, found) in types.iter().enumerate() {
            let (operand, op) = (self.operand(place), self.name());
            let expected = operand.dtype(stored);
            if operand.role != Role::Any && *found != expected && !(found.is_index() && expected.is_index()) {
                let (name, found, expected) = (operand.name, found.name(), expected.name());
                return Err(Error::InvalidType(format!("{op}: {name} is {found}, expected {expected}")));
            }
        }
        Ok(())
    }

    /// The operands after those of these shapes that are filled with a number where they are left out: this number, and the
    /// shape.
    pub(crate) fn filled(&self, given: &[&Shape]) -> Vec<(f32, Shape)> {
        let missing = self.operands().iter().skip(given.len().max(1));
        let filled = missing.map_while(|operand| match (operand.presence, given) {
            (Presence::Filled(number), [first, ..]) => {
                let per_column = matches!(operand.shape, Some(Follows::Columns(_)));
                Some((number, if per_column { Shape::fixed(&[first.columns()]) } else { Shape::fixed(&[]) }))
            }
            _ => None,
        });
        filled.collect()
    }

    /// Checks the number of operands.
    ///
    /// # Errors
    /// `InvalidArgument` with the names of the operands that the op takes.
    pub fn check_number(&self, found: usize) -> Result<()> {
        let Signature { operands, grouped, .. } = self.signature();
        let most = operands.len();
        let left_out = |operand: &&Operand| matches!(operand.presence, Presence::Optional | Presence::Filled(_));
        let least = most - operands.iter().filter(left_out).count();
        let fits = match grouped {
            true => found > 0 && found.is_multiple_of(most),
            false => (least..=most).contains(&found),
        };
        if fits {
            return Ok(());
        }
        let expected = match grouped {
            true => format!("groups of {most}"),
            false if least + 1 < most => format!("{least} to {most}"),
            false if least < most => format!("{least} or {most}"),
            false => format!("{most}"),
        };
        let (plural, names) = (if found == 1 { "" } else { "s" }, operands.iter().map(|operand| operand.name));
        let names: Vec<&str> = names.collect();
        Err(Error::InvalidArgument(format!(
            "{}: {found} operand{plural}, expected {expected}: {}",
            self.name(),
            names.join(", ")
        )))
    }
}

impl Index<&str> for Shapes<'_> {
    type Output = Shape;

    /// # Panics
    /// For a name that is not in the signature, and for an operand that is left out.
    fn index(&self, name: &str) -> &Shape {
        self.get(name).unwrap_or_else(|| panic!("{} has no operand {name}", self.op))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_number_of_operands_is_checked_and_they_are_named() {
        let x = Shape::fixed(&[2, 4]);
        for (op, attributes, count, expected) in [
            ("layer_norm", json!({}), 4, "layer_norm: 4 operands, expected 1 to 3: x, weight, bias"),
            ("softmax", json!({}), 3, "softmax: 3 operands, expected 1 or 2: x, keep"),
            ("linear", json!({"bias": true}), 2, "linear: 2 operands, expected 3: x, weight, bias"),
            ("embedding_sum", json!({}), 3, "embedding_sum: 3 operands, expected groups of 2: index, table"),
            ("embedding_sum", json!({}), 0, "embedding_sum: 0 operands, expected groups of 2: index, table"),
        ] {
            let op = Op::from_attributes(op, attributes).unwrap();
            assert_eq!(op.infer(&vec![&x; count]).unwrap_err().to_string(), expected);
        }
        assert!(Op::from_attributes("softmax", json!({})).unwrap().infer(&[&x]).is_ok());
    }
}
