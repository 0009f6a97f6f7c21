//! Signatures of ops as data: names of operands, the meaning of their elements, and the types that kernels take.

use super::{Counts, Dim, Shape};
use crate::dtype::DType;
use crate::{Error, Result};

/// What an op takes, gives and computes.
#[derive(Debug, Clone, Copy)]
pub struct Signature {
    /// The operands in order; for an op with groups of operands, those of one group.
    pub operands: &'static [Operand],
    /// The results in order. A result with the name of an operand is that operand, written in place.
    pub results: &'static [Operand],
    /// Floating-point operations per element of the first operand.
    pub flops: u64,
    /// Whether operands come in groups, of which there may be any number.
    pub grouped: bool,
    /// Names of the scratch memory, as [`Operation::scratch`](super::Operation::scratch) gives its axes.
    pub scratch: &'static [&'static str],
    /// Whether kernels take known axes alone. Programs replace counted ones by their sizes.
    pub sized: bool,
}

impl Signature {
    /// An op with one result, `y`, which computes one operation per element.
    pub(super) const fn of(operands: &'static [Operand]) -> Self {
        const WIDE: &[Operand] = &[Operand::rows("y")];
        const NARROW: &[Operand] = &[Operand::rows("y").narrow()];
        let results = if operands[0].narrow { NARROW } else { WIDE };
        Signature { operands, results, flops: 1, grouped: false, scratch: &[], sized: false }
    }

    /// With other results.
    pub(super) const fn gives(self, results: &'static [Operand]) -> Self {
        Signature { results, ..self }
    }

    /// With other work.
    pub(super) const fn flops(self, flops: u64) -> Self {
        Signature { flops, ..self }
    }

    /// With operands in groups.
    pub(super) const fn in_groups(self) -> Self {
        Signature { grouped: true, ..self }
    }

    /// With scratch memory.
    pub(super) const fn scratch(self, names: &'static [&'static str]) -> Self {
        Signature { scratch: names, ..self }
    }

    /// With kernels for known axes alone.
    pub(super) const fn sized(self) -> Self {
        Signature { sized: true, ..self }
    }
}

/// One operand of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    /// Its name in the op's documentation and errors.
    pub name: &'static str,
    /// The meaning of its elements.
    pub role: Role,
    /// Whether kernels can read it in 16 bits; vectors of weights stay float32.
    pub narrow: bool,
    /// The only type it can have; `None` for any type that its role allows.
    pub stored: Option<DType>,
    /// When it is present.
    pub presence: Presence,
    /// Its shape, where it follows from that of another operand.
    pub shape: Option<Follows>,
    /// The batch's count along its first axis. In a call on arrays the first operand with such a count sets it; later
    /// operands use the count if they have the same number of rows.
    pub counted: Option<Dim>,
}

/// When an operand is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Always.
    Required,
    /// If the caller passes it; it is the last operand.
    Optional,
    /// If the attribute of its name is set; otherwise the op's signature does not contain it.
    Attribute,
}

/// How the shape of an operand follows from that of another, which it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// The shapes are equal.
    Whole(&'static str),
    /// One element per column of the other.
    Columns(&'static str),
}

/// The meaning of an operand's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Activations, row after row.
    Rows,
    /// Elements of any type.
    Any,
    /// The weight matrix of a product, `[N, K]`, or several of one size, `[E, N, K]`.
    Matrix,
    /// A matrix whose rows are looked up.
    Table,
    /// One number per column: a gain, a bias.
    Vector,
    /// Numbers that change between runs of a plan: a learning rate, a seed.
    Scalar,
    /// Integers; 0 leaves an element out.
    Mask,
    /// Any integers.
    Key,
    /// Integers, `least` or greater, that index rows or columns of another operand.
    Index {
        /// Name of the indexed operand.
        into: &'static str,
        /// The indexed axis.
        axis: Axis,
        /// Smallest value: 0, or -1 where that means none.
        least: i64,
    },
    /// Boundaries between the rows, or elements, of another operand: they never decrease, and the last is at most the
    /// number of these.
    Offsets {
        /// Name of that operand.
        of: &'static str,
        /// What they divide.
        axis: Axis,
        /// Whether the boundaries cover all: the first is 0, the last the number.
        all: bool,
    },
    /// Integers from 0 to the number of rows of another operand.
    Count {
        /// Name of that operand.
        of: &'static str,
    },
}

/// The axis that an index refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// The first axis.
    Rows,
    /// The last axis.
    Columns,
    /// All axes, as one.
    Elements,
}

impl Role {
    /// `rows`, `matrix`, `mask` and so on.
    pub fn name(&self) -> &'static str {
        match self {
            Role::Rows => "rows",
            Role::Any => "any",
            Role::Matrix => "matrix",
            Role::Table => "table",
            Role::Vector => "vector",
            Role::Scalar => "scalar",
            Role::Mask => "mask",
            Role::Key => "key",
            Role::Index { .. } => "index",
            Role::Offsets { .. } => "offsets",
            Role::Count { .. } => "count",
        }
    }
}

impl Operand {
    const fn new(name: &'static str, role: Role) -> Self {
        Operand { name, role, narrow: false, stored: None, presence: Presence::Required, shape: None, counted: None }
    }

    /// Activations.
    pub(super) const fn rows(name: &'static str) -> Self {
        Operand::new(name, Role::Rows)
    }

    /// Elements of any type.
    pub(super) const fn any(name: &'static str) -> Self {
        Operand::new(name, Role::Any)
    }

    /// A matrix whose rows are looked up.
    pub(super) const fn table(name: &'static str) -> Self {
        Operand::new(name, Role::Table)
    }

    /// A matrix of weights.
    pub(super) const fn matrix(name: &'static str) -> Self {
        Operand::new(name, Role::Matrix)
    }

    /// A vector of weights.
    pub(super) const fn vector(name: &'static str) -> Self {
        Operand::new(name, Role::Vector)
    }

    /// Numbers that change between runs.
    pub(super) const fn scalar(name: &'static str) -> Self {
        Operand::new(name, Role::Scalar)
    }

    /// Integers; 0 leaves an element out.
    pub(super) const fn mask(name: &'static str) -> Self {
        Operand::new(name, Role::Mask)
    }

    /// Any integers, by which something is sorted.
    pub(super) const fn key(name: &'static str) -> Self {
        Operand::new(name, Role::Key)
    }

    /// Row indices of the operand `into`.
    pub(super) const fn index(name: &'static str, into: &'static str) -> Self {
        Operand::new(name, Role::Index { into, axis: Axis::Rows, least: 0 })
    }

    /// Column indices of the operand `into`; -1 for none.
    pub(super) const fn column_or_none(name: &'static str, into: &'static str) -> Self {
        Operand::new(name, Role::Index { into, axis: Axis::Columns, least: -1 })
    }

    /// Its own elements in another order.
    pub(super) const fn permutation(name: &'static str) -> Self {
        Operand::new(name, Role::Index { into: name, axis: Axis::Elements, least: 0 })
    }

    /// Boundaries between the rows of the operand `of`.
    pub(super) const fn offsets(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Rows, all: false })
    }

    /// Boundaries between the rows of the operand `of`, from 0 to the number of rows.
    pub(super) const fn offsets_of_all(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Rows, all: true })
    }

    /// Boundaries between the elements of the operand `of`, from 0 to their number.
    pub(super) const fn offsets_of_elements(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Elements, all: true })
    }

    /// Counts of rows of the operand `of`.
    pub(super) const fn count(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Count { of })
    }

    /// The same operand, with kernels that read it in 16 bits.
    pub(super) const fn narrow(self) -> Self {
        Operand { narrow: true, ..self }
    }

    /// The same operand, restricted to one type.
    pub(super) const fn stored(self, dtype: DType) -> Self {
        Operand { stored: Some(dtype), ..self }
    }

    /// The same operand, with a first axis counted by the batch.
    pub(super) const fn counted(self, dim: Dim) -> Self {
        Operand { counted: Some(dim), ..self }
    }

    /// The same operand, with the shape of the operand `other`.
    pub(super) const fn like(self, other: &'static str) -> Self {
        Operand { shape: Some(Follows::Whole(other)), ..self }
    }

    /// The same operand, with one element per column of the operand `other`.
    pub(super) const fn per_column(self, other: &'static str) -> Self {
        Operand { shape: Some(Follows::Columns(other)), ..self }
    }

    /// The same operand, which the caller may leave out.
    pub(super) const fn optional(self) -> Self {
        Operand { presence: Presence::Optional, ..self }
    }

    /// The same operand, present if the attribute of its name is set.
    pub(super) const fn by_attribute(self) -> Self {
        Operand { presence: Presence::Attribute, ..self }
    }

    /// Whether it holds integers.
    pub fn is_integer(&self) -> bool {
        matches!(self.role, Role::Mask | Role::Key | Role::Index { .. } | Role::Offsets { .. } | Role::Count { .. })
    }

    /// The type it is stored as when operands with a 16-bit form are stored as `stored`.
    pub fn dtype(&self, stored: DType) -> DType {
        match self.stored {
            Some(dtype) => dtype,
            None if self.is_integer() => DType::I32,
            None if self.narrow => stored,
            None => DType::F32,
        }
    }

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

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
