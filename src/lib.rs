//! grilly: text embeddings and transformer kernels on any Vulkan GPU, with automatic fallback to the CPU.
//!
//! The data flow, from top to bottom. `embed` runs it from end to end; dependencies point down,
//! `embed -> model -> graph -> ops`, and the backends run plans of `graph`:
//!
//! ```text
//! texts ── text::tokenizer ─▶ ids ── text::packing ─▶ PackedBatch {ids, positions, offsets, order}
//!                                                          │
//! config.json ── model::arch ─▶ EncoderSpec ─┐             │
//! safetensors ── model::weights ─▶ Weights ──┴ model::encoder ─▶ Graph
//!                                                          │
//!                              graph::fuse ── graph::plan ─▶ Plan (steps, buffers and their lifetimes)
//!                                                          │
//!                        ops say what a step means; backend says how it runs
//!                          ┌───────────────────────────────┴──────────────┐
//!               backend::cpu::kernels                   backend::vulkan::kernels + shaders/
//! ```
//!
//! What an engine of one's own can take from it, without Python and without the models:
//!
//! | part | here |
//! |---|---|
//! | what runs dispatches | [`backend::vulkan`]: `ShaderModule`, `ComputePipeline`, `Buffer`, `DescriptorBindingBuilder` and `CommandBufferPool`, by which all else here runs, too (docs/guides/engine.md) |
//! | shaders of one's own | [`compiler::ShaderCompiler`] compiles GLSL at run time, caches it and checks its interface; a [`compiler::ComputeFunction`] is one entry point; [`array::Dispatch`] has buffers and numbers by their names in it |
//! | arrays | [`array::Array`] on the device of an [`array::Engine`], which records what it is given, submits it and waits where something is read |
//! | kernels | [`kernels`] describes them by name; [`array::Engine::call`] runs any op of [`ops`] on arrays |
//! | their code in other languages | [`export`] |
//! | pipelines by name, command encoders | the crate `grilly-bitnet`, over the kernels of `grilly.quant` |
//! | a recorded step | [`array::Program`], a [`graph::Graph`] with states and [gradients](graph::Graph::gradients) |
//! | model, schedule, checkpoints | [`train::TransformerConfig`], [`train::Schedule`], [`train::Checkpoint`], [`train::Trainer`] |
#![deny(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
// Tests compare with functions of the standard library.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod dtype;
pub mod error;
pub mod exit;
pub mod numerics;
pub mod process;
pub mod settings;
pub mod stats;
pub mod tensor;

pub mod text;

pub mod ops;

pub mod graph;

pub mod quant;

pub mod backend;

pub mod model;

pub mod array;

#[cfg(feature = "vulkan")]
pub mod compiler;

#[cfg(feature = "vulkan")]
pub mod kernels;

#[cfg(feature = "vulkan")]
pub mod export;

pub mod embed;

pub mod train;

pub use embed::{DecodeOptions, EncodeOptions, Model};
pub use error::{Error, Result};
