//! The Vulkan runtime through its public door: numbers, counters, threads, limits, faults and the process' end.
//!
//! Run on a software driver with `ALLOW_CPU_VULKAN=1`; with `GRILLY_REQUIRE=vulkan`, a missing device fails the tests
//! rather than skipping them by name.
#![allow(clippy::disallowed_methods)]
#![cfg(feature = "vulkan")]

#[path = "../engines/mod.rs"]
mod engines;
mod faults;
mod model;
mod processes;
mod retained;
mod running;
