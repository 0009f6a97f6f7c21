//! From strings to packed batches of token ids. A leaf: knows nothing of models or devices.

pub mod packing;
pub mod tokenizer;
