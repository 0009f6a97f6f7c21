//! The Vulkan backend: plans become lists of dispatches (data), and those become recorded command buffers.
//!
//! ```text
//! device.rs (instance, devices, choice) ── raw/ (Vulkan itself)
//! Plan ── lower.rs + kernels/<op>.rs ─▶ Vec<Dispatch> ── record.rs ─▶ barriers and grids ── program.rs, slot.rs ─▶
//!         recorded command buffers, one submit and one wait a batch
//! Weights ── upload.rs ─▶ arenas (memory.rs)
//! shaders/**/*.glsl ── build.rs ─▶ generated.rs (SPIR-V, typed bindings, push constants, constants)
//! ```

mod capabilities;
mod device;
mod devices;
mod kernel;
mod kernels;
mod limits;
mod lower;
mod memory;
mod pipeline;
mod profile;
mod program;
mod raw;
mod record;
mod slot;
mod upload;

pub use capabilities::{Capabilities, DeviceType, Feature};
pub use device::{devices, open, shut_down, validated};
pub use devices::{Inventory, Listed};
pub use kernel::{Access, Binding, Constant, Dispatch, Extent, Kernel, Range, Resource, Variant};
pub use profile::{Entry, profile, times};
pub use raw::validation_messages;

/// What build.rs made of `shaders/`: one module a kernel.
pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}
