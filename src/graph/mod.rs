//! Computation graphs (`Graph`), their optimisation (`fuse`) and their execution order (`Plan`).

mod defined;
mod everywhere;
pub mod fuse;
mod gradients;
mod integers;
mod nodes;
mod other_products;
mod plan;
mod producers;
pub mod shaders;
mod slices;
pub mod split;
mod uses;
mod weights;
mod wide;

pub use integers::{Rounding, TokenProducts};
pub use nodes::{Graph, Node, Source, Value, ValueId, Weight};
pub use plan::{Buffer, Plan, Storage};
