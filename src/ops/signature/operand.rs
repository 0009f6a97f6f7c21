//! One operand of an op: its name, the meaning of its elements, and the types that kernels take.

use crate::dtype::DType;
use crate::ops::Dim;

/// One operand of an op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operand {
    /// Its name in the op's documentation and errors.
    pub name: &'static str,
    /// The meaning of its elements.
    pub role: Role,
    /// Whether kernels can read it in 16 bits; vectors of weights stay float32.
    pub narrow: bool,
    /// Of a result: whether a graph may hold it in float32 where operands have 16 bits.
    pub wide: bool,
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Presence {
    /// Always.
    Required,
    /// If the caller passes it; it is the last operand.
    Optional,
    /// Always: where the caller leaves out the last operands, graphs fill these with a number.
    Filled(f32),
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
    pub(in crate::ops) const fn new(name: &'static str, role: Role) -> Self {
        Operand {
            name,
            role,
            narrow: false,
            wide: false,
            stored: None,
            presence: Presence::Required,
            shape: None,
            counted: None,
        }
    }

    /// Activations.
    pub(in crate::ops) const fn rows(name: &'static str) -> Self {
        Operand::new(name, Role::Rows)
    }

    /// A matrix of weights.
    pub(in crate::ops) const fn matrix(name: &'static str) -> Self {
        Operand::new(name, Role::Matrix)
    }

    /// A vector of weights.
    pub(in crate::ops) const fn vector(name: &'static str) -> Self {
        Operand::new(name, Role::Vector)
    }

    /// Numbers that change between runs.
    pub(in crate::ops) const fn scalar(name: &'static str) -> Self {
        Operand::new(name, Role::Scalar)
    }

    /// Row indices of the operand `into`.
    pub(in crate::ops) const fn index(name: &'static str, into: &'static str) -> Self {
        Operand::new(name, Role::Index { into, axis: Axis::Rows, least: 0 })
    }

    /// Column indices of the operand `into`; -1 for none.
    pub(in crate::ops) const fn column_or_none(name: &'static str, into: &'static str) -> Self {
        Operand::new(name, Role::Index { into, axis: Axis::Columns, least: -1 })
    }

    /// Its own elements in another order.
    pub(in crate::ops) const fn permutation(name: &'static str) -> Self {
        Operand::new(name, Role::Index { into: name, axis: Axis::Elements, least: 0 })
    }

    /// Boundaries between the rows of the operand `of`.
    pub(in crate::ops) const fn offsets(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Rows, all: false })
    }

    /// Boundaries between the rows of the operand `of`, from 0 to the number of rows.
    pub(in crate::ops) const fn offsets_of_all(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Rows, all: true })
    }

    /// Boundaries between the columns of the operand `of`, from 0 to their number.
    pub(in crate::ops) const fn offsets_of_columns(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Columns, all: true })
    }

    /// Boundaries between the elements of the operand `of`, from 0 to their number.
    pub(in crate::ops) const fn offsets_of_elements(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Offsets { of, axis: Axis::Elements, all: true })
    }

    /// Counts of rows of the operand `of`.
    pub(in crate::ops) const fn count(name: &'static str, of: &'static str) -> Self {
        Operand::new(name, Role::Count { of })
    }

    /// The same operand, with kernels that read it in 16 bits.
    pub(in crate::ops) const fn narrow(self) -> Self {
        Operand { narrow: true, ..self }
    }

    /// The same result, with kernels that write it in float32, too, where operands have 16 bits.
    pub(in crate::ops) const fn wide(self) -> Self {
        Operand { wide: true, ..self }
    }

    /// The same operand, restricted to one type.
    pub(in crate::ops) const fn stored(self, dtype: DType) -> Self {
        Operand { stored: Some(dtype), ..self }
    }

    /// The same operand, with a first axis counted by the batch.
    pub(in crate::ops) const fn counted(self, dim: Dim) -> Self {
        Operand { counted: Some(dim), ..self }
    }

    /// The same operand, with the shape of the operand `other`.
    pub(in crate::ops) const fn like(self, other: &'static str) -> Self {
        Operand { shape: Some(Follows::Whole(other)), ..self }
    }

    /// The same operand, with one element per column of the operand `other`.
    pub(in crate::ops) const fn per_column(self, other: &'static str) -> Self {
        Operand { shape: Some(Follows::Columns(other)), ..self }
    }

    /// The same operand, which the caller may leave out.
    pub(in crate::ops) const fn optional(self) -> Self {
        Operand { presence: Presence::Optional, ..self }
    }

    /// The same operand, filled with a number where the caller leaves it out.
    pub(in crate::ops) const fn or_filled(self, number: f32) -> Self {
        Operand { presence: Presence::Filled(number), ..self }
    }

    /// The same operand, present if the attribute of its name is set.
    pub(in crate::ops) const fn by_attribute(self) -> Self {
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
}
