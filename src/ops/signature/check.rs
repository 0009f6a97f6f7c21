//! Checks of arrays for an operand: their types, and the values of integers.

use super::{Axis, Operand, Role};
use crate::dtype::DType;
use crate::ops::{Counts, Shape};
use crate::{Error, Result};

impl Operand {
    /// Checks the type of an array for this operand.
    ///
    /// # Errors
    /// `InvalidType` naming op, operand, the type found and the types expected.
    pub fn check_type(&self, op: &str, found: DType) -> Result<()> {
        let (fits, expected) = match (self.stored, self.role) {
            (Some(dtype), _) => (found == dtype, dtype.name()),
            (None, Role::Any) => (true, "any type".into()),
            _ if self.is_integer() => (found.is_index(), "int32".into()),
            _ => (matches!(found, DType::F32 | DType::F16), "float32 or float16".into()),
        };
        if fits {
            return Ok(());
        }
        Err(Error::InvalidType(format!("{op}: {} is {}, expected {expected}", self.name, found.name())))
    }

    /// Checks integers by their least and largest values and whether any is less than its predecessor.
    ///
    /// # Errors
    /// `IndexOutOfRange` for values outside [`Operand::limits`], `InvalidArgument` for offsets that decrease.
    pub fn check_values(
        &self,
        op: &str,
        (least, most): (i64, i64),
        decreases: bool,
        shape_of: impl Fn(&str) -> Option<Shape>,
    ) -> Result<()> {
        let Some((first, end)) = self.limits(shape_of) else { return Ok(()) };
        if matches!(self.role, Role::Offsets { .. }) && decreases {
            return Err(self.does_not_rise(op, end));
        }
        if least < first || most >= end {
            let wrong = if least < first { least } else { most };
            return Err(Error::IndexOutOfRange(format!("{op}: index {wrong} is not in 0..{end}")));
        }
        Ok(())
    }

    /// Checks that offsets which must cover all rows do so. Other offsets may leave rows out: a cache may have rows not
    /// yet written.
    ///
    /// # Errors
    /// `InvalidArgument`
    pub fn check_whole(&self, op: &str, bounds: (i64, i64), shape_of: impl Fn(&str) -> Option<Shape>) -> Result<()> {
        match (self.role, self.limits(shape_of)) {
            (Role::Offsets { all: true, .. }, Some((_, end))) if bounds != (0, end - 1) => {
                Err(self.does_not_rise(op, end))
            }
            _ => Ok(()),
        }
    }

    fn does_not_rise(&self, op: &str, end: i64) -> Error {
        Error::InvalidArgument(format!("{op}: {} does not rise from 0 to {}", self.name, end - 1))
    }

    /// Half-open range of valid elements, as the least valid number and the first invalid one; `None` where there is no
    /// limit. `shape_of` returns the shape of another operand by name.
    pub fn limits(&self, shape_of: impl Fn(&str) -> Option<Shape>) -> Option<(i64, i64)> {
        let most = |name, axis| {
            let shape = shape_of(name)?;
            Some(match axis {
                Axis::Rows => shape.rows().size(Counts::default()),
                Axis::Columns => shape.columns(),
                Axis::Elements => shape.elements(Counts::default()),
            } as i64)
        };
        match self.role {
            Role::Rows
            | Role::Any
            | Role::Matrix
            | Role::Table
            | Role::Vector
            | Role::Scalar
            | Role::Mask
            | Role::Key => None,
            Role::Index { into, axis, least } => Some((least, most(into, axis)?)),
            Role::Offsets { of, axis, .. } => Some((0, most(of, axis)? + 1)),
            Role::Count { of } => Some((0, most(of, Axis::Rows)? + 1)),
        }
    }
}
