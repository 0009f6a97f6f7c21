//! The kernels of [`Numerics::Everywhere`](crate::numerics::Numerics::Everywhere): their numbers depend on no processor.

use super::Memory;
use crate::backend::cpu::step::Step;
use crate::ops::Op;
use crate::{Error, Result};

/// Runs one step of a plan whose numbers are the same everywhere.
///
/// # Errors
/// As [`super::run`]; `Unsupported` for an op without a kernel of these numbers.
pub(super) fn run(_step: &Step<'_>, op: &Op, _memory: Memory<'_, '_>) -> Result<()> {
    Err(Error::unsupported(op.name(), "the CPU has no kernel of numerics=\"everywhere\" for it"))
}
