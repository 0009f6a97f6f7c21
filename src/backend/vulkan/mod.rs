//! The Vulkan backend: plans become lists of dispatches (data), and those become recorded command buffers.
//!
//! ```text
//! Plan ── lower.rs + kernels/<op>.rs ─▶ Vec<Dispatch> ── program.rs ─▶ recorded command buffers, one submit a batch
//! shaders/**/*.glsl ── build.rs ─▶ generated.rs (SPIR-V, typed bindings, push constants, constants)
//! ```

mod capabilities;
mod kernel;
mod kernels;
mod lower;

pub use capabilities::{Capabilities, DeviceType, Feature};
pub use kernel::{Binding, Constant, Dispatch, Extent, Kernel, Range, Resource, Variant};

/// What build.rs made of `shaders/`: one module a kernel.
pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

use super::choose::Choice;
use crate::Result;
use crate::settings::Settings;

/// Opens the usable device at `position`, or the best one.
///
/// # Errors
/// `DeviceUnavailable` saying what was found and what it lacks; `IndexOutOfRange`.
pub fn open(_position: Option<usize>, _settings: &Settings) -> Result<Choice> {
    todo!()
}
