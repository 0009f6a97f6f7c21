//! Memory-mapped safetensors, single or sharded, under uniform names.

use std::path::Path;

use super::spec::NameRules;
use crate::Result;
use crate::backend::{TensorView, WeightSource};

/// A tensor a graph needs: name and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// Uniform name (`NameRules` applied); tensors of a module's own folder carry it as prefix: `2_Dense/linear.weight`.
    pub name: String,
    /// Expected axes.
    pub shape: Vec<usize>,
}

/// All tensors of a model, mapped into memory.
pub struct Weights {}

impl Weights {
    /// Maps the checkpoint in `transformer` under `rules`, and each folder of `modules` (relative to `folder`) as it is.
    ///
    /// # Errors
    /// `ModelFormat` for a container that is truncated, corrupt or lies; for `pytorch_model.bin` alone, saying how to convert.
    pub fn open(_folder: &Path, _transformer: &str, _modules: &[String], _rules: &NameRules) -> Result<Self> {
        todo!()
    }

    /// Compares what is there with what is needed.
    ///
    /// # Errors
    /// `Weights` naming every missing, misshapen and unexpected tensor at once.
    pub fn check(&self, _needed: &[Needed]) -> Result<()> {
        todo!()
    }
}

impl WeightSource for Weights {
    fn tensor(&self, _name: &str) -> Result<TensorView<'_>> {
        todo!()
    }
}
