//! Writes `docs/reference/architectures.md`, which git ignores, from the table of architectures.

use std::fmt::Write;
use std::fs;

use super::ARCHITECTURES;

const PAGE: &str = "docs/reference/architectures.md";

const INTRODUCTION: &str = "\
# Architectures

What loads, by `model_type` in config.json; `python -m grilly models` prints the same. Each in any size, with the activation,
epsilon and segment embeddings of its configuration, with old (`gamma`, `beta`) and new tensor names, with or without the prefix
and the heads of a `...ForMaskedLM` or other class.

| `model_type` | models, for example | how it differs from BERT or another |
|---|---|---|
";

#[test]
fn every_architecture_is_on_the_page() {
    let mut text = INTRODUCTION.to_owned();
    for row in ARCHITECTURES {
        assert!(!row.models.is_empty() && !row.adds.is_empty(), "{}", row.model_type);
        writeln!(text, "| `{}` | {} | {} |", row.model_type, row.models, row.adds).unwrap();
    }
    fs::write(PAGE, text).unwrap();
}
