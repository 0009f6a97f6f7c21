//! The CPU backend: the same plans, rows in parallel, sums in an order no thread count changes.

use std::sync::Arc;

use super::{Backend, BackendKind, Program, ProgramOptions, WeightSource};
use crate::Result;
use crate::graph::Plan;

/// The host's processor as a backend.
pub fn backend() -> Arc<dyn Backend> {
    Arc::new(Cpu)
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
        _plan: Arc<Plan>,
        _weights: Arc<dyn WeightSource>,
        _options: ProgramOptions,
    ) -> Result<Arc<dyn Program>> {
        todo!()
    }
}
