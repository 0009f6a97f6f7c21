//! The only module with `unsafe` Vulkan calls: its interface is safe to call in any order and from any thread.
//!
//! Invariants: every object holds an `Arc` of its parent, a [`Recording`] holds everything its commands use, and
//! nothing is destroyed before the device has finished with it ([`Device::settle`]). In a forked child process, objects
//! return `Unusable` and their destruction does nothing.
#![allow(unsafe_code)]

mod bfloat16;
mod buffer;
mod command;
mod device;
mod instance;
mod leave;
mod messages;
mod pipeline;
mod query;
mod recording;
pub mod spirv_tools;
mod write_only;

pub use buffer::{Buffer, Kind, Slice};
pub(super) use command::{Command, Grid, Launch, Timing};
pub(super) use device::{Device, Retains, Ticket, close_all};
pub(super) use instance::Instance;
pub(super) use leave::skip_exit_handlers;
#[cfg(test)]
pub(super) use messages::STOPS;
pub use messages::validation_messages;
pub use pipeline::ComputePipeline;
pub(super) use query::Physical;
pub use recording::Recording;
pub use write_only::WriteOnly;

use super::lock;
