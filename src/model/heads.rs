//! What follows the encoder: the modules of `modules.json`, read into data and added to the graph.

use std::path::Path;

use crate::Result;
use crate::ops::{ActivationKind, PoolMode};

/// One module after the Transformer.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Token vectors to one vector a text.
    Pooling {
        /// Concatenated in this order.
        modes: Vec<PoolMode>,
        /// Whether a prompt's tokens are pooled too.
        include_prompt: bool,
    },
    /// `act(W x + b)`; tensors `PATH/linear.weight` and `PATH/linear.bias`, where PATH is the module's folder.
    Dense {
        /// Folder of the module, relative to the model: prefix of the tensors' names.
        path: String,
        /// Columns in.
        input: usize,
        /// Columns out.
        output: usize,
        /// Whether there is a bias.
        bias: bool,
        /// Nonlinearity.
        activation: ActivationKind,
    },
    /// Layer normalisation, eps 1e-5; tensors `PATH/norm.weight` and `PATH/norm.bias`.
    LayerNorm {
        /// Folder of the module, relative to the model.
        path: String,
        /// Columns.
        dimension: usize,
    },
    /// `x / max(||x||, 1e-12)`.
    Normalize,
}

/// The modules of a model's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Modules {
    /// Folder of the Transformer module, relative to the model (often empty).
    pub transformer: String,
    /// What follows it; Dropout modules are left out.
    pub heads: Vec<Head>,
}

/// Reads `modules.json` and each module's configuration; without one, mean pooling.
///
/// # Errors
/// `ModelFormat` for unreadable or absurd files and paths that leave the folder; `Unsupported` for a module or
/// activation that is not known.
pub fn read_modules(_folder: &Path) -> Result<Modules> {
    todo!()
}
