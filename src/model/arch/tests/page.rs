//! Writes `docs/reference/architectures.md`, which git ignores, from the table of architectures.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use crate::model::arch::ARCHITECTURES;

const PAGE: &str = "docs/reference/architectures.md";

const INTRODUCTION: &str = "\
# Architectures

What loads, by `model_type` in config.json; `python -m grilly models` prints the same. Each in any size, with the activation,
epsilon and segment embeddings of its configuration, with old (`gamma`, `beta`) and new tensor names, with or without the prefix
and the heads of a `...ForMaskedLM` or other class.

| `model_type` | models, for example | how it differs from BERT or another |
|---|---|---|
";

/// The comments of the rows, by `model_type`.
fn comments() -> BTreeMap<String, String> {
    let (_, table) = include_str!("../table.rs").split_once("pub const ARCHITECTURES").unwrap();
    let (mut comments, mut lines, mut opened) = (BTreeMap::new(), Vec::new(), false);
    for line in table.lines().map(str::trim) {
        opened |= line.starts_with("row(");
        match (line.strip_prefix("// "), line.split('"').nth(1)) {
            (Some(comment), _) => lines.push(comment),
            (None, Some(model_type)) if opened => {
                comments.insert(model_type.to_owned(), std::mem::take(&mut lines).join(" "));
                opened = false;
            }
            _ => {}
        }
    }
    comments
}

#[test]
fn every_architecture_is_on_the_page() {
    let (mut text, comments) = (INTRODUCTION.to_owned(), comments());
    for row in ARCHITECTURES {
        let comment = &comments[row.model_type];
        assert!(!row.models.is_empty() && !comment.is_empty(), "{}", row.model_type);
        writeln!(text, "| `{}` | {} | {comment} |", row.model_type, row.models).unwrap();
    }
    fs::write(PAGE, text).unwrap();
}
