//! The CPU backend: the same plans, rows in parallel, sums in an order no thread count changes.
//!
//! ```text
//! Plan, weights ── constants.rs ─▶ packed matrices (matmul.rs), vectors; embedding tables stay in the mapped file
//! batch ── chunks.rs ─▶ chunks of whole texts ── program.rs ─▶ step after step, kernels/<op>.rs ── simd/ ─▶ rows
//! ```

/// A closure that becomes part of the function that calls it, compiled for that function's instruction set.
macro_rules! inlined {
    ($($closure:tt)+) => {{
        #[inline(always)]
        $($closure)+
    }};
}

mod arrays;
mod chunks;
mod constants;
mod exact;
mod floats;
mod integers;
mod kernels;
mod matmul;
mod panels;
mod program;
mod run;
mod simd;
mod step;
#[cfg(test)]
mod testing;
mod threads;
mod written;

use std::sync::Arc;

pub use simd::Standard;

use super::{ArrayEngine, Backend, BackendKind, Executable, ProgramOptions, WeightSource};
use crate::Result;
use crate::graph::Plan;

/// The host's processor as a backend.
pub fn backend() -> Arc<dyn Backend> {
    Arc::new(Cpu)
}

/// The widest instruction set in use: `"amx"`, `"avx512"`, `"avx2"`, `"neon"` or `"scalar"`.
pub fn instructions() -> &'static str {
    simd::Arch::new().name()
}

struct Cpu;

impl Backend for Cpu {
    fn kind(&self) -> BackendKind {
        BackendKind::Cpu
    }

    fn device_name(&self) -> &str {
        "cpu"
    }

    fn prepare(
        &self,
        plan: Arc<Plan>,
        weights: Arc<dyn WeightSource>,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(program::CpuProgram::new(plan, weights, options, simd::Arch::new())?))
    }

    fn arrays(&self, own: Option<ProgramOptions>) -> Result<Arc<dyn ArrayEngine>> {
        arrays::CpuArrays::open(own)
    }
}
