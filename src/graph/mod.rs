//! What is to be computed (`Graph`), made cheaper (`fuse`) and put in order (`Plan`).

mod dtype;
pub mod fuse;
mod nodes;
mod plan;

pub use dtype::DType;
pub use nodes::{Graph, Node, Source, Value, ValueId, Weight};
pub use plan::{Buffer, Plan, Storage};
