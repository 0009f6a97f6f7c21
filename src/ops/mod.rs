//! The ops that a plan consists of: one row per op in the table of `table.rs`, one file per op.
//!
//! An op's file contains its attributes, its `operands` as data (`signature.rs`), `infer` (checks the operands' shapes
//! and returns the result's) and `flops`; a fused op's file contains its `definition`, the steps of other ops that it
//! consists of. Execution belongs to the backends: `backend/{cpu,vulkan}/kernels/<op>.rs`, with the shader of the same
//! name (`_` is `-`).

pub mod definition;
mod infer;
mod levels;
mod operation;
pub mod rng;
mod shape;
pub mod signature;
mod table;
pub mod vjp;

pub use self::{
    activation::ActivationKind,
    attention::Sight,
    attention_output::{AttentionSizes, Family, Pattern},
    bias_gelu::Approximate,
    binary::BinaryKind,
    levels::{Levels, Places, Scope},
    linear::Residual,
    loss::{LossKind, Reduction},
    matmul::Strided,
    normalize::Floor,
    pool::PoolMode,
    quantize_rows::QuantizeKind,
    reduce::ReduceKind,
};
pub use definition::{Sought, Step};
pub use infer::Shapes;
#[cfg(test)]
pub(crate) use operation::Example;
pub use operation::{Operation, Work};
pub use shape::{Counts, Dim, Shape};
pub use signature::{Operand, Signature};
pub(crate) use table::each_op;
pub use vjp::Vjp;

use crate::dtype::DType;
use crate::numerics::Coverage;
use crate::{Error, Result};

macro_rules! ops {
    ($({ $($rows:tt)* })+) => { ops! { $($($rows)*)+ } };
    ($($file:ident { $($variant:ident = $name:ident),+ })*) => {
        $(
            pub mod $file;
            pub use $file::{$($variant),+};
        )*

        /// One operation with its attributes; its properties are those of [`Operation`].
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Op { $($(#[doc = concat!("[`", stringify!($variant), "`]")] $variant($variant),)+)* }

        impl Op {
            /// Every op's name, in the table's order.
            pub const NAMES: &'static [&'static str] = &[$($(stringify!($name)),+),*];

            /// The op's name, also used for its file, shader, test case and Python function.
            pub fn name(&self) -> &'static str { match self { $($(Op::$variant(_) => stringify!($name),)+)* } }

            /// The op called `name` with the given attributes; missing ones have their defaults.
            ///
            /// # Errors
            /// `InvalidArgument` for an unknown name or attribute, and for a value of the wrong type.
            ///
            /// ```
            /// use grilly::ops::{LayerNorm, Op};
            /// let op = Op::from_attributes("layer_norm", serde_json::json!({"eps": 0.5})).unwrap();
            /// assert_eq!(op, LayerNorm { eps: 0.5 }.into());
            /// assert!(Op::from_attributes("layer_norm", serde_json::json!({"epsilon": 0.5})).is_err());
            /// ```
            pub fn from_attributes(name: &str, attributes: serde_json::Value) -> Result<Op> {
                let wrong = |cause: serde_json::Error| Error::InvalidArgument(format!("{name}: {cause}"));
                match name {
                    $($(stringify!($name) => serde_json::from_value::<$variant>(attributes).map(Op::$variant).map_err(wrong),)+)*
                    _ => Err(Error::InvalidArgument(format!("there is no op called {name:?}"))),
                }
            }

            /// [`Operation::RECURS`] of the op called `name`.
            pub fn recurs(name: &str) -> bool {
                match name { $($(stringify!($name) => $variant::RECURS,)+)* _ => true }
            }

            /// The ops without a derivative, and why.
            pub fn without_derivative() -> Vec<(&'static str, &'static str)> {
                let all = [$($((stringify!($name), $variant::NO_DERIVATIVE)),+),*];
                all.into_iter().filter_map(|(name, reason)| Some((name, reason?))).collect()
            }

            /// The [`Operation::EVERYWHERE`] of all ops, in the table's order.
            pub fn everywhere_of_all() -> Vec<(&'static str, Coverage)> {
                vec![$($((stringify!($name), $variant::EVERYWHERE)),+),*]
            }

            /// The patterns of the fused ops.
            pub(crate) fn sought() -> Vec<Sought> { [$($($variant::sought()),+),*].into_iter().flatten().collect() }

            /// The [`Operation::EXAMPLES`] of all ops.
            #[cfg(test)]
            pub(crate) fn examples() -> Vec<(Op, &'static Example)> {
                let all = [$($((stringify!($name), $variant::EXAMPLES)),+),*];
                let each = all.into_iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, row)));
                let op = |name, row: &Example| Op::from_attributes(name, serde_json::from_str(row.0).unwrap()).unwrap();
                each.map(|(name, row)| (op(name, row), row)).collect()
            }

            /// The examples of fused ops, with the axes of their operands.
            #[cfg(test)]
            pub(crate) fn fused_examples() -> Vec<(Op, &'static [&'static [usize]])> {
                let fused = |(op, axes): &(Op, &[&[usize]])| {
                    let shapes: Vec<Shape> = axes.iter().map(|axes| Shape::fixed(axes)).collect();
                    let given = !axes.is_empty() && !op.is_composed();
                    given && !op.definition(&shapes.iter().collect::<Vec<_>>()).unwrap().is_empty()
                };
                Op::examples().into_iter().map(|(op, row)| (op, row.1)).filter(fused).collect()
            }
        }

        /// Calls a method of [`Operation`] on the op in an `Op`.
        macro_rules! forward {
            ($self:ident, $op:ident => $call:expr) => { match $self { $($(Op::$variant($op) => $call,)+)* } };
        }

        $($(
            impl From<$variant> for Op { fn from(op: $variant) -> Self { Op::$variant(op) } }

            impl $variant {
                /// This op, if `op` is one.
                pub fn of(op: &Op) -> Option<&Self> { if let Op::$variant(op) = op { Some(op) } else { None } }
            }
        )+)*
    };
}

each_op!(ops);

macro_rules! composed {
    ($kernels:tt $fused:tt { $($file:ident { $($variant:ident = $name:ident),+ })* }) => {
        impl Op {
            /// Whether no device has kernels for it: plans have the steps of its definition.
            pub fn is_composed(&self) -> bool { matches!(self, $($(Op::$variant(_))|+)|*) }
        }
    };
}

each_op!(composed);

impl Op {
    /// Shapes of the results.
    ///
    /// # Errors
    /// As [`Operation::infer`], and `InvalidArgument` for a wrong number of operands.
    pub fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let missing = self.filled(operands);
        let all: Vec<&Shape> = operands.iter().copied().chain(missing.iter().map(|(_, shape)| shape)).collect();
        let of = Shapes::new(self, &all)?;
        of.check()?;
        let results = forward!(self, op => op.infer(&of))?;
        let counted = |dim: &Dim| !matches!(dim, Dim::Fixed(_)) && !dim.is_length();
        let later = |shape: &&Shape| shape.0.iter().skip(1).any(counted);
        match results.iter().find(later) {
            Some(shape) => Err(of.fault(format!("its result would be {shape}; a batch counts no axis but the first"))),
            None => Ok(results),
        }
    }

    /// As [`Operation::check_counts`].
    ///
    /// # Errors
    /// As [`Operation::check_counts`].
    pub fn check_counts(&self, operands: &[&Shape], counts: Counts) -> Result<()> {
        let of = Shapes::new(self, operands)?;
        forward!(self, op => op.check_counts(&of, counts))
    }

    /// As [`Operation::signature`].
    pub fn signature(&self) -> Signature {
        forward!(self, op => op.signature())
    }

    /// As [`Operation::is_separable`].
    pub fn is_separable(&self, operands: &[&Shape]) -> bool {
        forward!(self, op => op.is_separable(operands))
    }

    /// As [`Operation::flops`].
    pub fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        forward!(self, op => op.flops(operands, counts))
    }

    /// As [`Operation::result_type`].
    pub fn result_type(&self, operands: &[DType]) -> DType {
        forward!(self, op => op.result_type(operands))
    }

    /// As [`Operation::definition`].
    ///
    /// # Errors
    /// As [`Operation::definition`].
    pub fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        forward!(self, op => op.definition(operands))
    }

    /// As [`Operation::NO_DERIVATIVE`].
    pub fn no_derivative(&self) -> Option<&'static str> {
        Op::without_derivative().into_iter().find(|(name, _)| *name == self.name()).map(|(_, reason)| reason)
    }

    /// As [`Operation::everywhere`].
    pub fn everywhere(&self) -> Coverage {
        forward!(self, op => op.everywhere())
    }

    /// As [`Operation::vjp`].
    pub fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        forward!(self, op => op.vjp(operands))
    }

    /// As [`Operation::vjp_of`].
    pub fn vjp_of(&self, operands: &[&Shape], same: &[usize]) -> Option<Vjp> {
        forward!(self, op => op.vjp_of(operands, same))
    }

    /// As [`Operation::scratch`].
    pub fn scratch(&self, operands: &[&Shape], stored: DType) -> Vec<Shape> {
        forward!(self, op => op.scratch(operands, stored))
    }

    /// As [`Operation::steps`].
    pub fn steps(&self, operands: &[&Shape]) -> Option<Vec<Op>> {
        forward!(self, op => op.steps(operands))
    }

    /// Element types of the results.
    pub fn result_types(&self, operands: &[DType]) -> Vec<DType> {
        let other = self.result_type(operands);
        self.results().iter().map(|result| result.stored.unwrap_or(other)).collect()
    }

    /// The operands of the signature.
    pub fn operands(&self) -> &'static [Operand] {
        self.signature().operands
    }

    /// The results of the signature.
    pub fn results(&self) -> &'static [Operand] {
        self.signature().results
    }

    /// The signature of the operand at a place.
    pub fn operand(&self, place: usize) -> &'static Operand {
        let operands = self.operands();
        &operands[place % operands.len()]
    }

    /// The place of the operand called `name` in the group of the operand at `place`.
    pub fn place_of(&self, name: &str, place: usize) -> Option<usize> {
        let operands = self.operands();
        let own = operands.iter().position(|operand| operand.name == name)?;
        Some(place - place % operands.len() + own)
    }
}
