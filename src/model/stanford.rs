//! Folders of Stanford's ColBERT: a checkpoint of its class HF_ColBERT, whose projection is one of the checkpoint's tensors, and the
//! settings in `artifact.metadata`.

use std::path::Path;

use serde_json::{Map, Value};

use super::fields::{Fields, unsupported};
use super::files::read_json;
use super::heads::{Feature, Head, MultiVectorMask, punctuation};
use super::spec::NameRules;
use super::weights::Weights;
use crate::ops::ActivationKind;
use crate::{Error, Result};

/// The checkpoint's class in config.json.
pub(super) const CLASS: &str = "HF_ColBERT";
const FILE: &str = "artifact.metadata";
/// The projection as the checkpoint stores it, and the module that it is.
const PROJECTION: &str = "linear.weight";
const MODULE: &str = "1_Dense";
/// Tokens of a query where the file does not say.
const QUERY: usize = 32;
const LONGEST_TEXT: usize = i32::MAX as usize;
const MOST_COLUMNS: usize = 1 << 20;
/// The keys of the tokens that begin queries and documents, and the tokens of folders without the keys.
const MARKERS: [(&str, &str); 2] = [("query_token_id", "[unused0]"), ("doc_token_id", "[unused1]")];

/// The settings that are read.
pub struct Artifact {
    /// The tokens that begin queries and documents.
    pub markers: [String; 2],
    columns: Option<usize>,
    /// The number of tokens of each query.
    pub query_length: usize,
    /// The maximum tokens of a document.
    pub document_length: Option<usize>,
    /// Whether the query's own tokens see the masks after them.
    pub seen: bool,
    /// Whether punctuation of documents is left out.
    skips: bool,
}

impl Artifact {
    /// Reads the file; without one the usual settings, as in the reference.
    ///
    /// # Errors
    /// `ModelFormat` for its faults, `Unsupported` for scores of another kind.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let values = match path.exists() {
            true => read_json(&path)?,
            false => {
                log::warn!(target: "grilly", "{}: no such file: its usual settings are taken, as in sentence-transformers", path.display());
                Map::new()
            }
        };
        let mut fields = Fields::new(&values, &path);
        for (key, known, why) in [
            ("similarity", "cosine", "scores are sums of dot products"),
            ("interaction", "colbert", "scores are sums over all tokens of a query"),
        ] {
            if let Some(other) = fields.text(key).filter(|value| *value != known) {
                let reason = format!("{why}: set it to {known:?} if the model may be scored so");
                return Err(unsupported(&path, format!("{key} {other:?}"), reason));
            }
        }
        let markers =
            MARKERS.map(|(key, usual)| fields.text(key).filter(|t| !t.is_empty()).unwrap_or(usual).to_owned());
        let artifact = Artifact {
            markers,
            columns: fields.optional_size("dim", 1..=MOST_COLUMNS),
            query_length: fields.optional_size("query_maxlen", 1..=LONGEST_TEXT).unwrap_or(QUERY),
            document_length: fields.optional_size("doc_maxlen", 1..=LONGEST_TEXT),
            seen: fields.flag_or("attend_to_mask_tokens", false),
            skips: fields.flag_or("mask_punctuation", true),
        };
        fields.done().map(|()| artifact)
    }
}

/// The modules after the encoder: the projection, the choice of tokens, the norm of their vectors.
///
/// # Errors
/// `ModelFormat` for faults of the settings, `Weights` for a checkpoint without its projection.
pub(super) fn modules(folder: &Path, config: &Map<String, Value>) -> Result<Vec<Head>> {
    let artifact = Artifact::read(folder)?;
    let weights = Weights::open(folder, "", &[], &NameRules::default())?;
    let hidden = config.get("hidden_size").and_then(Value::as_u64).map(|size| size as usize);
    let [output, input] = match weights.shape(PROJECTION) {
        Some(&[output, input]) if hidden.is_none_or(|hidden| hidden == input) => [output, input],
        found => {
            let found = found.map_or("is missing".to_owned(), |shape| format!("has shape {shape:?}"));
            let columns = hidden.map_or("hidden_size".to_owned(), |hidden| hidden.to_string());
            let problem = format!(
                "{PROJECTION} {found}, expected [dim, {columns}], the projection of an {CLASS}: fetch the folder anew, or save \
                 the model again with colbert-ai"
            );
            return Err(Error::Weights { path: weights.path().to_owned(), problems: vec![problem] });
        }
    };
    if let Some(stated) = artifact.columns.filter(|stated| *stated != output) {
        let file = weights.path().display();
        let problem = format!("dim is {stated}, but {PROJECTION} of {file} has {output} rows: set dim to that");
        return Err(Error::format(&folder.join(FILE), problem));
    }
    let skipped = if artifact.skips { punctuation() } else { Vec::new() };
    Ok(vec![
        Head::Dense {
            path: MODULE.to_owned(),
            of: Feature::Tokens,
            gives: Feature::Tokens,
            input,
            output,
            bias: false,
            activation: ActivationKind::Identity,
            residual: false,
        },
        Head::MultiVectorMask(MultiVectorMask { skipped, tasks: vec!["document".to_owned()], kept: Vec::new() }),
        Head::Normalize { of: Feature::Tokens },
    ])
}

/// Where a tensor of a module is in the checkpoint of a folder without modules.json: its name there, and the module's.
pub fn alias(heads: &[Head]) -> Option<(String, String)> {
    let projects = |head: &Head| matches!(head, Head::Dense { path, .. } if path == MODULE);
    heads.iter().any(projects).then(|| (PROJECTION.to_owned(), format!("{MODULE}/{PROJECTION}")))
}

/// Refuses markers that are no tokens: the tokenizer would take them apart.
///
/// # Errors
/// `ModelFormat` naming the key.
pub fn check_markers(folder: &Path, markers: &[String], known: impl Fn(&str) -> bool) -> Result<()> {
    for ((key, _), marker) in MARKERS.iter().zip(markers) {
        let token = marker.trim_end();
        if !known(token) {
            let problem = format!(
                "{key} is {token:?}, or is missing and then is that, which is no token of the tokenizer: name the one that the \
                 model was trained with"
            );
            return Err(Error::format(&folder.join(FILE), problem));
        }
    }
    Ok(())
}
