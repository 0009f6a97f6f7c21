//! Training of transformers, whose every bit repeats: the same settings, text and device give the same parameters.
//!
//! ```text
//! TransformerConfig ── model::encoder ─▶ graph of the logits ── loss, gradients, optimiser ─▶ one program per step
//! text ── data ─▶ windows in an order drawn from the seed ─▶ Trainer ─▶ parameters and moments on the device
//!                                                              └── checkpoint: files that are complete or absent
//! ```

use std::fmt::Display;

use crate::error::brief;
use crate::{Error, Result};

mod arena;
mod checkpoint;
mod config;
mod data;
mod digests;
mod folder;
mod generate;
mod graph;
mod initial;
mod loss_scale;
mod metrics;
mod optimizer;
mod options;
mod run;
mod schedule;
mod trainer;
mod update;
mod vocabulary;

pub use checkpoint::{Checkpoint, Tensor, keep_newest};
pub use config::{PositionKind, TransformerConfig};
pub use data::{Batch, Dataset, Windows};
pub use digests::{Covered, sha256};
pub use generate::Sampling;
pub use loss_scale::LossScale;
pub use metrics::{Record, read_metrics};
pub use optimizer::Optimizer;
pub use options::TrainOptions;
pub use run::{Files, Run};
pub use schedule::Schedule;
pub use trainer::{Step, Trainer};
pub use vocabulary::{TokenKind, Vocabulary};

/// Refuses a setting that is not `right`.
fn need(name: &str, found: &dyn Display, right: bool, expected: &str) -> Result<()> {
    match right {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("{name} is {found}, expected {expected}"))),
    }
}

/// Settings in JSON, called `what` in the message.
fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    let wrong = |cause| Error::InvalidArgument(format!("{what}: {}", brief(cause)));
    // In two steps, since only the first knows lines and columns, which mean nothing to who gave a setting.
    serde_json::from_str(text).and_then(serde_json::from_value::<T>).map_err(wrong)
}

/// A tensor that training changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, such as `layers.0.feed_forward.in.weight`.
    pub name: String,
    /// Axes.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// The number of its elements.
    fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}
