//! Weights of few bits on the host: how files and kernels store them, and the quantisers that kernels are compared with.

pub mod balance;
pub mod everywhere;
pub mod format;
pub mod outliers;
pub mod reference;

pub use format::Format;
