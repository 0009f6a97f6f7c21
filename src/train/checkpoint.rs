//! Checkpoints: parameters, moments, step and settings in a folder, complete or absent whatever interrupts a write.
//!
//! `step-00000200.safetensors` has the tensors; `step-00000200.json`, renamed into place after it, has everything else
//! and the SHA-256 of each tensor, of the metrics and of itself. Without the second file there is no checkpoint. Learned tokens are in `tokenizer.json`,
//! before both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::digests::{Covered, of_record, sha256};
use super::folder::{self, Folder, RECORD, TENSORS, TOKENIZER, fault, file, remove, steps};
use super::{LossScale, TrainOptions, TransformerConfig};
use crate::error::brief;
use crate::process::memory::need;
use crate::{Error, Result, exit};

/// Version of the two files.
const FORMAT: u32 = 2;
/// The version whose JSON file has no SHA-256 of itself and of the metrics.
const UNPROTECTED: u32 = 1;

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
    /// The metrics of its steps, of a run on a text.
    pub metrics: Option<Covered>,
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
    /// The metrics of its steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<Covered>,
    /// Of each tensor.
    sha256: BTreeMap<String, String>,
    /// Of all of the above, see [`of_record`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record_sha256: Option<String>,
}

impl Record {
    /// Reads a JSON file and checks its SHA-256.
    fn read(path: &Path) -> Result<Self> {
        let content = folder::read(path)?;
        let unread = |cause| fault(path, format!("is no checkpoint: {}{}", brief(cause), remedy(path)));
        let record: Record = serde_json::from_slice(&content).map_err(unread)?;
        if ![UNPROTECTED, FORMAT].contains(&record.format) {
            let found = record.format;
            return Err(fault(path, format!("has format {found}, this version reads {FORMAT}; use another version")));
        }
        let own = of_record(&serde_json::from_slice(&content).map_err(unread)?);
        let known = record.record_sha256.as_ref();
        if known.is_some_and(|known| *known != own) || known.is_none() && record.format != UNPROTECTED {
            return Err(fault(path, format!("is damaged: it does not have its SHA-256{}", remedy(path))));
        }
        Ok(record)
    }
}

/// What the newest checkpoint of a folder says of its metrics; `None` if it says nothing, or is damaged itself.
pub(super) fn covered(folder: &Path) -> Result<Option<Covered>> {
    let newest = steps(folder)?.pop().and_then(|step| Record::read(&file(folder, step, RECORD)).ok());
    Ok(newest.and_then(|record| record.metrics))
}

impl Checkpoint {
    /// Writes it to a folder, which is made if it is missing, and returns the path of the JSON file. Each file is
    /// written under another name, flushed to the disk, renamed, and so is the folder.
    ///
    /// # Errors
    /// `Checkpoint` naming file and cause, such as a full disk or a folder that a run uses; earlier checkpoints are then
    /// as they were.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        self.write_to(&Folder::take(folder)?)
    }

    /// As [`Checkpoint::write`], to a folder that was taken.
    pub(super) fn write_to(&self, to: &Folder) -> Result<PathBuf> {
        let folder = to.path();
        write_tokenizer(to, self.tokenizer.as_deref())?;
        let all: usize = self.tensors.iter().map(|tensor| tensor.bytes.len()).sum();
        need(all as u128, "a checkpoint")?;
        let hashes = self.checked_hashes()?;
        let views = self.tensors.iter().map(|tensor| {
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), &tensor.bytes);
            view.map(|view| (tensor.name.as_str(), view))
        });
        let path = file(folder, self.step, TENSORS);
        let views = views.collect::<Result<Vec<_>, _>>().map_err(|cause| fault(&path, cause.to_string()))?;
        let bytes = safetensors::serialize(views, None).map_err(|cause| fault(&path, cause.to_string()))?;
        to.replace(&path, &bytes)?;
        let record = Record {
            format: FORMAT,
            step: self.step,
            config: self.config.clone(),
            options: self.options.clone(),
            data: self.data.clone(),
            tokenizer: self.tokenizer.as_ref().map(|tokenizer| sha256(tokenizer.as_bytes())),
            loss_scale: self.loss_scale,
            metrics: self.metrics.clone(),
            sha256: hashes,
            record_sha256: None,
        };
        let path = file(folder, self.step, RECORD);
        let text = serde_json::to_vec(&record).and_then(|text| {
            // Of the numbers as a reader finds them.
            let record_sha256 = Some(of_record(&serde_json::from_slice(&text)?));
            serde_json::to_vec_pretty(&Record { record_sha256, ..record })
        });
        let text = text.map_err(|cause| fault(&path, cause.to_string()))?;
        to.replace(&path, &text)?;
        Ok(path)
    }

    /// Reads the checkpoint of a JSON file and checks its SHA-256 and every tensor's.
    ///
    /// # Errors
    /// `Checkpoint` naming the file and what is wrong with it, such as a truncated one.
    pub fn read(path: &Path) -> Result<Self> {
        let record = Record::read(path)?;
        let stored = path.with_extension(TENSORS);
        let content = folder::read(&stored)?;
        let file = SafeTensors::deserialize(&content)
            .map_err(|cause| fault(&stored, format!("is damaged: {cause}{}", remedy(path))))?;
        let mut tensors = Vec::with_capacity(file.len());
        for (name, view) in file.iter() {
            if view.dtype() != Dtype::F32 {
                let dtype = view.dtype();
                return Err(fault(&stored, format!("is damaged: {name} is {dtype:?}, expected F32{}", remedy(path))));
            }
            let (shape, bytes) = (view.shape().to_vec(), view.data().to_vec());
            tensors.push(Tensor { name: name.to_owned(), shape, bytes });
        }
        let Record { step, config, options, data, tokenizer, loss_scale, metrics, sha256, .. } = record;
        config.check().and_then(|()| options.check()).map_err(|cause| unfit(path, cause))?;
        let tokenizer = tokenizer.map(|known| tokenizer_of(path, &known)).transpose()?;
        let read = Checkpoint { step, config, options, data, tokenizer, loss_scale, metrics, tensors };
        let hashes = read.checked_hashes()?;
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
        let mut newest = steps(folder)?.pop();
        while let Some(step) = newest {
            match Checkpoint::read(&file(folder, step, RECORD)) {
                Ok(found) => return Ok(Some(found)),
                // Its run may have removed it after a newer one.
                Err(error) => {
                    newest = steps(folder)?.pop();
                    if newest == Some(step) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(None)
    }

    /// As [`Checkpoint::hashes`], but it can be stopped.
    pub(super) fn checked_hashes(&self) -> Result<BTreeMap<String, String>> {
        let hash = |tensor: &Tensor| {
            exit::check()?;
            Ok((tensor.name.clone(), sha256(&tensor.bytes)))
        };
        self.tensors.iter().map(hash).collect()
    }

    /// The SHA-256 of every tensor by name.
    pub fn hashes(&self) -> BTreeMap<String, String> {
        self.tensors.iter().map(|tensor| (tensor.name.clone(), sha256(&tensor.bytes))).collect()
    }
}

/// The learned tokens beside a JSON file, which have this SHA-256.
fn tokenizer_of(record: &Path, known: &str) -> Result<String> {
    let path = record.with_file_name(TOKENIZER);
    let text = String::from_utf8(folder::read(&path)?).ok().filter(|text| sha256(text.as_bytes()) == known);
    text.ok_or_else(|| fault(&path, "is damaged, or of another run: it does not have its SHA-256"))
}

/// Writes learned tokens to a folder that was taken, unless it has them.
///
/// # Errors
/// `Checkpoint` if it has others.
pub(super) fn write_tokenizer(to: &Folder, tokenizer: Option<&str>) -> Result<()> {
    let Some(tokenizer) = tokenizer else { return Ok(()) };
    let path = to.path().join(TOKENIZER);
    match fs::read(&path) {
        Ok(found) if found == tokenizer.as_bytes() => Ok(()),
        Ok(_) => Err(fault(&path, "belongs to another run; remove it, or name another folder")),
        Err(_) => to.replace(&path, tokenizer.as_bytes()),
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
        for end in [RECORD, TENSORS] {
            remove(&file(folder, *step, end))?;
        }
    }
    Ok(())
}

/// The error of sizes, settings or tensors that a JSON file and the one beside it have: `Checkpoint` in place of
/// `InvalidArgument`.
fn unfit(path: &Path, cause: Error) -> Error {
    match cause {
        Error::InvalidArgument(problem) => fault(path, format!("is no checkpoint: {problem}{}", remedy(path))),
        other => other,
    }
}

/// The same of the checkpoint of a step in a folder.
pub(super) fn unfit_of(folder: &Path, step: u64) -> impl Fn(Error) -> Error {
    let path = file(folder, step, RECORD);
    move |cause| unfit(&path, cause)
}

fn remedy(record: &Path) -> String {
    format!("; remove {} to resume from the checkpoint before it", record.display())
}

#[cfg(test)]
mod tests;
