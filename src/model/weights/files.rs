//! The files of a folder that contain its tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::model::config::read_json;
use crate::model::fields::{Fields, shown};
use crate::{Error, Result};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The files of one checkpoint.
pub(super) struct Checkpoint {
    /// Path for messages.
    pub shown: PathBuf,
    /// Each file, with the tensors that an index assigns to it.
    pub files: Vec<(PathBuf, Vec<String>)>,
    /// The path of the index and the type that it states, if it states one.
    pub stated: Option<(PathBuf, String)>,
}

/// The checkpoint in `folder`: `model.safetensors`, or the shards of its index.
pub(super) fn checkpoint(folder: &Path) -> Result<Checkpoint> {
    let single = folder.join(SINGLE);
    if single.exists() {
        return Ok(Checkpoint { shown: single.clone(), files: vec![(single, Vec::new())], stated: None });
    }
    let index = folder.join(INDEX);
    if index.exists() {
        let values = read_json(&index)?;
        let files = shards(folder, &index, &values)?;
        let dtype = values.get("metadata").and_then(|metadata| metadata.get("dtype")?.as_str());
        let stated = dtype.map(|dtype| (index.clone(), dtype.to_owned()));
        return Ok(Checkpoint { shown: folder.to_owned(), files, stated });
    }
    let problem = match other_format(folder) {
        Some(name) => format!("holds {name} but no {SINGLE}; {}", remedy(folder, &name)),
        None => format!("holds neither {SINGLE} nor {INDEX}"),
    };
    Err(Error::format(folder, problem))
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

/// The error for a checkpoint in an unsupported format.
fn other_format(folder: &Path) -> Option<String> {
    let exact = ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"];
    exact.iter().find(|name| folder.join(name).exists()).map(|name| (*name).to_owned())
}

fn remedy(folder: &Path, name: &str) -> String {
    if name != "pytorch_model.bin" {
        return "save the model anew with `save_pretrained(FOLDER, safe_serialization=True)` of transformers".into();
    }
    // Clones, because safetensors rejects tensors that share memory.
    format!(
        "convert it once, where PyTorch is installed:\n\
         import torch\n\
         from safetensors.torch import save_file\n\
         folder = {:?}\n\
         tensors = torch.load(folder + \"/pytorch_model.bin\", map_location=\"cpu\", weights_only=True)\n\
         save_file({{k: v.clone().contiguous() for k, v in tensors.items()}}, folder + \"/{SINGLE}\", {{\"format\": \"pt\"}})",
        folder.display().to_string()
    )
}
