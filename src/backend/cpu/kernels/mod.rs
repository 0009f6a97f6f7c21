//! One file per op of the first group of `ops/table.rs`, named after it and including its gradient: how a step runs on the
//! CPU.

mod everywhere;
mod functions;

use super::floats::Floats;
use super::step::Step;
use crate::numerics::Numerics;
use crate::ops::{Op, each_op};
use crate::{Error, Result};

/// The memory a kernel writes: the results, or the first of them, with or without the scratch memory.
pub struct Memory<'a, 'b> {
    /// Exactly as long as the results; a result computed in place initially contains that operand.
    pub results: &'a mut [&'b mut [f32]],
    /// Owned by the caller's arena.
    pub scratch: &'a mut Floats,
}

impl<'a, 'b> From<Memory<'a, 'b>> for &'a mut [&'b mut [f32]] {
    fn from(memory: Memory<'a, 'b>) -> Self {
        memory.results
    }
}

/// The first result, and the scratch memory.
type Scratched<'a> = (&'a mut [f32], &'a mut Floats);

impl<'a, 'b> From<Memory<'a, 'b>> for Scratched<'a> {
    fn from(memory: Memory<'a, 'b>) -> Self {
        (&mut *memory.results[0], memory.scratch)
    }
}

impl<'a, 'b> From<Memory<'a, 'b>> for &'a mut [f32] {
    fn from(memory: Memory<'a, 'b>) -> Self {
        &mut *memory.results[0]
    }
}

macro_rules! kernels {
    ({ $($file:ident { $($variant:ident = $name:ident),+ })* } $({ $($defined:tt)* })*) => {
        $(mod $file;)*

        /// Whether the op has a kernel; plans run the definitions of others.
        pub fn has(op: &Op) -> bool {
            matches!(op, $($(Op::$variant(_))|+)|*)
        }

        /// Runs one step, by the function named after the op; in a plan whose numbers are the same everywhere, by
        /// [`everywhere::run`].
        ///
        /// # Errors
        /// `InvalidArgument` or `IndexOutOfRange` for operands that contradict the plan, `OutOfMemory` for scratch memory,
        /// `Unsupported` for an op without a kernel.
        pub fn run(step: &Step<'_>, op: &Op, memory: Memory<'_, '_>) -> Result<()> {
            if step.plan.numerics == Numerics::Everywhere {
                return everywhere::run(step, op, memory);
            }
            match op {
                $($(Op::$variant(op) => $file::$name(step, op, memory.into()),)+)*
                other => Err(Error::unsupported(other.name(), "the CPU has no kernel for it")),
            }
        }
    };
}

each_op!(kernels);
