//! From files and strings to packed batches of token ids. Independent of models and devices.

pub mod chat;
pub mod files;
pub mod packing;
pub mod passages;
pub mod tokenizer;
