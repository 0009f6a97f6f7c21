//! The modules of sentence-transformers: those that are read, and what to do in place of the others.

use std::path::Path;

use super::read::{ACTIVATIONS, MODES, MODULES, SPLADE_MODES};
use crate::Error;
use crate::model::fields::unsupported;

/// The modules of sentence-transformers that are read, each with its modes or activations.
pub fn known_modules() -> Vec<(&'static str, Vec<&'static str>)> {
    let choices = |module: &str| match module {
        "Pooling" => MODES.iter().map(|(name, ..)| *name).collect(),
        "SpladePooling" => SPLADE_MODES.iter().map(|(name, _)| *name).collect(),
        "Dense" => ACTIVATIONS.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    };
    let first = ["Transformer", "MLMTransformer", "StaticEmbedding"];
    let names = first.into_iter().chain(MODULES.iter().map(|(name, _)| *name)).chain(["Router"]);
    names.map(|name| (name, choices(name))).collect()
}

/// Modules of sentence-transformers that are not read, and what to do in their place.
pub(super) const LEFT_OUT: [(&str, &str); 9] = [
    ("BoW", COUNTS),
    ("CLIPModel", "only text is read; encode images and CLIP's texts with sentence-transformers"),
    ("CNN", WORDS),
    ("LSTM", WORDS),
    ("LambdaTokenPooling", POOLED_TOKENS),
    ("SparseAutoEncoder", SPARSE),
    ("SparseStaticEmbedding", SPARSE),
    ("WordEmbeddings", WORDS),
    ("WordWeights", WORDS),
];
const COUNTS: &str = "counts of words are made by scikit-learn's CountVectorizer or TfidfVectorizer";
const WORDS: &str = "models over tables of words are encoded with sentence-transformers; a table of tokens is a \
                     StaticEmbedding, as StaticEmbedding.from_distillation of sentence-transformers makes it";
const SPARSE: &str = "of sparse encoders those with a head for words and SpladePooling are read; encode others with \
                      sentence-transformers";
const POOLED_TOKENS: &str = "it has no files: take the module out of modules.json, and pass the function to encode_document as \
                             token_pooling";

/// What to do in place of a module that sentence-transformers has and that is not read.
pub(in crate::model) fn left_out(kind: &str) -> Option<&'static str> {
    LEFT_OUT.iter().find(|(name, _)| *name == kind).map(|(_, remedy)| *remedy)
}

/// The error for a module that is not read.
pub fn unknown_module(path: &Path, kind: &str) -> Error {
    let known = || {
        format!(
            "known are {} of sentence_transformers",
            known_modules().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        )
    };
    unsupported(path, format!("module {kind}"), left_out(kind).map_or_else(known, str::to_owned))
}
