//! Checkpoints: parameters, moments, step and settings in a folder, complete or absent whatever interrupts a write.
//!
//! `step-00000200.safetensors` has the tensors; `step-00000200.json`, renamed into place after it, has everything else
//! and the SHA-256 of each tensor. Without the second file there is no checkpoint. Learned tokens are in `tokenizer.json`,
//! before both.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{LossScale, TrainOptions, TransformerConfig};
use crate::error::brief;
use crate::{Error, Result};

/// Version of the two files.
const FORMAT: u32 = 1;
const TENSORS: &str = "safetensors";
const RECORD: &str = "json";
/// Name of the file of learned tokens.
const TOKENIZER: &str = "tokenizer.json";

/// A float32 tensor of a model or its optimiser.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Name of the parameter, with `m.` or `v.` before it for its moments.
    pub name: String,
    /// Axes.
    pub shape: Vec<usize>,
    /// Elements, little endian.
    pub bytes: Vec<u8>,
}

/// The state of a run after a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Steps done.
    pub step: u64,
    /// The model.
    pub config: TransformerConfig,
    /// The settings.
    pub options: TrainOptions,
    /// SHA-256 of the tokens on which it was trained, if known.
    pub data: Option<String>,
    /// The tokens, if they are learned: the content of `tokenizer.json`.
    pub tokenizer: Option<String>,
    /// The factor on the loss, in float16.
    pub loss_scale: Option<LossScale>,
    /// Parameters, then their moments.
    pub tensors: Vec<Tensor>,
}

/// The JSON file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    step: u64,
    config: TransformerConfig,
    options: TrainOptions,
    data: Option<String>,
    /// SHA-256 of the learned tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss_scale: Option<LossScale>,
    sha256: BTreeMap<String, String>,
}

fn fault(path: &Path, problem: impl Into<String>) -> Error {
    Error::Checkpoint { path: path.to_owned(), problem: problem.into() }
}

impl Checkpoint {
    /// Writes it to a folder, which is made if it is missing, and returns the path of the JSON file. Each file is
    /// written under another name, flushed to the disk, renamed, and so is the folder.
    ///
    /// # Errors
    /// `Checkpoint` naming file and cause, such as a full disk; earlier checkpoints are then as they were.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).map_err(|cause| fault(folder, format!("cannot be made: {cause}")))?;
        if let Some(tokenizer) = &self.tokenizer {
            let path = folder.join(TOKENIZER);
            match fs::read(&path) {
                Ok(found) if found == tokenizer.as_bytes() => {}
                Ok(_) => return Err(fault(&path, "belongs to another run; name another folder")),
                Err(_) => replace(&path, tokenizer.as_bytes())?,
            }
        }
        let views = self.tensors.iter().map(|tensor| {
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), &tensor.bytes);
            view.map(|view| (tensor.name.as_str(), view))
        });
        let path = file(folder, self.step, TENSORS);
        let views = views.collect::<Result<Vec<_>, _>>().map_err(|cause| fault(&path, cause.to_string()))?;
        let bytes = safetensors::serialize(views, None).map_err(|cause| fault(&path, cause.to_string()))?;
        replace(&path, &bytes)?;
        let record = Record {
            format: FORMAT,
            step: self.step,
            config: self.config.clone(),
            options: self.options.clone(),
            data: self.data.clone(),
            tokenizer: self.tokenizer.as_ref().map(|tokenizer| sha256(tokenizer.as_bytes())),
            loss_scale: self.loss_scale,
            sha256: self.hashes(),
        };
        let path = file(folder, self.step, RECORD);
        let text = serde_json::to_vec_pretty(&record).map_err(|cause| fault(&path, cause.to_string()))?;
        replace(&path, &text)?;
        Ok(path)
    }

    /// Reads the checkpoint of a JSON file and checks every tensor's SHA-256.
    ///
    /// # Errors
    /// `Checkpoint` naming the file and what is wrong with it, such as a truncated one.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = |path: &Path| fs::read(path).map_err(|cause| fault(path, format!("cannot be read: {cause}")));
        let record: Record = serde_json::from_slice(&bytes(path)?)
            .map_err(|cause| fault(path, format!("is no checkpoint: {}{}", brief(cause), remedy(path))))?;
        if record.format != FORMAT {
            let found = record.format;
            return Err(fault(path, format!("has format {found}, this version reads {FORMAT}; use another version")));
        }
        let stored = path.with_extension(TENSORS);
        let content = bytes(&stored)?;
        let file = SafeTensors::deserialize(&content)
            .map_err(|cause| fault(&stored, format!("is damaged: {cause}{}", remedy(path))))?;
        let mut tensors = Vec::with_capacity(file.len());
        for (name, view) in file.iter() {
            let (shape, bytes) = (view.shape().to_vec(), view.data().to_vec());
            tensors.push(Tensor { name: name.to_owned(), shape, bytes });
        }
        let Record { step, config, options, data, tokenizer, loss_scale, sha256, .. } = record;
        let tokenizer = tokenizer.map(|known| tokenizer_of(path, &known)).transpose()?;
        let read = Checkpoint { step, config, options, data, tokenizer, loss_scale, tensors };
        let hashes = read.hashes();
        let known = sha256.iter().chain(&hashes).map(|(name, _)| name);
        match known.into_iter().find(|name| sha256.get(*name) != hashes.get(*name)) {
            Some(name) => Err(fault(&stored, format!("is damaged: {name} does not have its SHA-256{}", remedy(path)))),
            None => Ok(read),
        }
    }

    /// The newest checkpoint in a folder; `None` if there is none.
    ///
    /// # Errors
    /// As [`Checkpoint::read`].
    pub fn newest(folder: &Path) -> Result<Option<Self>> {
        steps(folder)?.last().map(|step| Checkpoint::read(&file(folder, *step, RECORD))).transpose()
    }

    /// The SHA-256 of every tensor by name.
    pub fn hashes(&self) -> BTreeMap<String, String> {
        self.tensors.iter().map(|tensor| (tensor.name.clone(), sha256(&tensor.bytes))).collect()
    }
}

/// The SHA-256 (FIPS 180-4) of `bytes`, as 64 hexadecimal digits.
///
/// ```
/// assert!(grilly::train::sha256(b"abc").starts_with("ba7816bf8f01cfea"));
/// ```
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The learned tokens beside a JSON file, which have this SHA-256.
fn tokenizer_of(record: &Path, known: &str) -> Result<String> {
    let path = record.with_file_name(TOKENIZER);
    let text = fs::read_to_string(&path).map_err(|cause| fault(&path, format!("cannot be read: {cause}")))?;
    match sha256(text.as_bytes()) == known {
        true => Ok(text),
        false => Err(fault(&path, "is damaged, or of another run: it does not have its SHA-256")),
    }
}

/// Removes all but the newest `keep` checkpoints of a folder.
///
/// # Errors
/// `Checkpoint` naming a file that cannot be removed.
pub fn keep_newest(folder: &Path, keep: usize) -> Result<()> {
    let steps = steps(folder)?;
    for step in &steps[..steps.len().saturating_sub(keep)] {
        // In this order, so that an interrupted removal leaves no checkpoint without tensors.
        for path in [RECORD, TENSORS].map(|end| file(folder, *step, end)) {
            fs::remove_file(&path).map_err(|cause| fault(&path, format!("cannot be removed: {cause}")))?;
        }
    }
    Ok(())
}

/// The steps that a folder has checkpoints of, in order; none if the folder is missing.
fn steps(folder: &Path) -> Result<Vec<u64>> {
    let unreadable = |cause: std::io::Error| fault(folder, format!("cannot be read: {cause}"));
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut steps = Vec::new();
    for entry in entries {
        let name = entry.map_err(unreadable)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("step-")?.strip_suffix(".json"));
        steps.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    steps.sort_unstable();
    Ok(steps)
}

fn file(folder: &Path, step: u64, end: &str) -> PathBuf {
    folder.join(format!("step-{step:08}.{end}"))
}

fn remedy(record: &Path) -> String {
    format!("; remove {} to resume from the checkpoint before it", record.display())
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

/// Makes `bytes` the content of a file: after a crash at any time it has its old content or the new.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let unfinished = unfinished(path);
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        // The new name is on the disk once the folder is; Windows flushes no folders.
        #[cfg(unix)]
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        Ok::<(), std::io::Error>(())
    };
    write().map_err(|cause| {
        // The error names the cause; the next checkpoint overwrites what is left of the file.
        let _ = fs::remove_file(&unfinished);
        fault(path, format!("cannot be written: {cause}; the checkpoints before it are intact"))
    })
}

#[cfg(test)]
mod tests;
