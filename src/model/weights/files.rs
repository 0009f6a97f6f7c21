//! The files of a folder that contain its tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{header, torch};
use crate::model::fields::{Fields, shown};
use crate::model::files::{holds_gguf, read_json};
use crate::{Error, Result};

/// Reads the descriptions of a file's tensors.
pub(super) type Read = fn(&[u8]) -> Result<Vec<header::Stored>, String>;

/// Names of a single file, and of the index of several, with the reader of such files; the first that exists counts, as
/// in transformers.
const FORMATS: [(&str, &str, Read); 2] = [
    ("model.safetensors", "model.safetensors.index.json", header::read),
    ("pytorch_model.bin", "pytorch_model.bin.index.json", torch::read),
];

/// A file of a checkpoint.
pub(super) struct Part {
    /// Where it is.
    pub path: PathBuf,
    /// Its reader.
    pub read: Read,
    /// The tensors that an index assigns to it.
    pub promised: Vec<String>,
}

/// The files of one checkpoint.
pub(super) struct Checkpoint {
    /// Path for messages.
    pub shown: PathBuf,
    /// Its files.
    pub files: Vec<Part>,
    /// The path of the index and the type that it states, if it states one.
    pub stated: Option<(PathBuf, String)>,
}

/// The checkpoint that `folder` is, or holds: a single file, or the shards of an index; torch's before safetensors if `torch_first`.
pub(super) fn checkpoint(folder: &Path, torch_first: bool) -> Result<Checkpoint> {
    if folder.is_file() {
        let path = folder.to_owned();
        let safe = path.extension().is_some_and(|end| end == "safetensors");
        let read = if safe { header::read } else { torch::read };
        let files = vec![Part { path, read, promised: Vec::new() }];
        return Ok(Checkpoint { shown: folder.to_owned(), files, stated: None });
    }
    let mut formats = FORMATS;
    if torch_first {
        formats.reverse();
    }
    for (single, index, read) in formats {
        let (single, index) = (folder.join(single), folder.join(index));
        if single.exists() {
            let part = Part { path: single.clone(), read, promised: Vec::new() };
            return Ok(Checkpoint { shown: single, files: vec![part], stated: None });
        }
        if index.exists() {
            let values = read_json(&index)?;
            let shards = shards(folder, &index, &values)?.into_iter();
            let files = shards.map(|(path, promised)| Part { path, read, promised }).collect();
            let dtype = values.get("metadata").and_then(|metadata| metadata.get("dtype")?.as_str());
            let stated = dtype.map(|dtype| (index.clone(), dtype.to_owned()));
            return Ok(Checkpoint { shown: folder.to_owned(), files, stated });
        }
    }
    let [(safe, ..), (torch, ..)] = FORMATS;
    let other = ["tf_model.h5", "flax_model.msgpack"].into_iter().find(|name| folder.join(name).exists());
    if other.is_none() && holds_gguf(folder) {
        let problem = format!(
            "holds a GGUF file but no {safe}; fetch the safetensors of the model from which it was converted, whose \
             matrices, ternary ones too, are packed when they are read"
        );
        return Err(Error::format(folder, problem));
    }
    Err(Error::format(
        folder,
        match other {
            Some(other) => format!(
                "holds {other} but no {safe}; save the model anew with `save_pretrained(FOLDER, safe_serialization=True)` \
                 of transformers"
            ),
            None => format!("holds neither {safe} nor {torch}, nor an index of either"),
        },
    ))
}

/// The shards by name, each with its tensors.
fn shards(folder: &Path, index: &Path, values: &Map<String, Value>) -> Result<Vec<(PathBuf, Vec<String>)>> {
    let mut fields = Fields::new(values, index);
    let mut shards: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    match fields.object("weight_map") {
        None => fields.fault("weight_map is missing".into()),
        Some(map) if map.is_empty() => fields.fault("weight_map is empty".into()),
        Some(map) => {
            for (tensor, file) in map {
                match file.as_str() {
                    Some(name) if is_plain(name) => shards.entry(name).or_default().push(tensor.clone()),
                    _ => {
                        fields.fault(format!("weight_map puts {tensor} into {}, not a file of the folder", shown(file)))
                    }
                }
            }
        }
    }
    for name in shards.keys().filter(|name| !folder.join(name).exists()) {
        fields.fault(format!("the shard {name} is missing"));
    }
    fields.done()?;
    Ok(shards.into_iter().map(|(name, tensors)| (folder.join(name), tensors)).collect())
}

/// Whether the name is a plain file name, directly in the folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', ':', '\0'])
}
