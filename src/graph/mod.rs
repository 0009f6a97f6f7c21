//! What is to be computed (`Graph`), made cheaper (`fuse`) and put in order (`Plan`).

pub mod fuse;
mod gradients;
mod nodes;
mod plan;
pub mod shaders;

pub use nodes::{Graph, Node, Source, Value, ValueId, Weight};
pub use plan::{Buffer, Plan, Storage};
