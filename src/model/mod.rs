//! From a model's folder to a graph and its weights.
//!
//! `registry` maps a configuration's `model_type` to an architecture; `arch/*` turns configurations into data
//! (`EncoderSpec`), and `encoder` alone builds graphs from it. `shaders` is the process' registry of shaders,
//! initialised with those of `arch`.

pub mod arch;
pub mod arguments;
pub mod class;
pub mod config;
pub mod convolution;
pub mod decoder;
pub mod distances;
pub mod dtype;
pub mod encoder;
pub mod fields;
mod files;
pub mod foreign;
pub mod heads;
pub mod mixture;
pub mod narrow;
mod nearest;
mod parts;
pub mod products;
pub mod registry;
pub mod relative_biases;
pub mod rotary;
pub mod routes;
pub mod shaders;
pub mod spec;
pub mod stanford;
pub mod task_head;
pub mod weights;
