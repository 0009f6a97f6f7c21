//! The metrics of a run: a file with one JSON object per step, whose lines are all of this run. JSON has no infinities:
//! they and NaN are the strings `"Infinity"`, `"-Infinity"` and `"NaN"`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::checkpoint::{Checkpoint, covered};
use super::digests::{Covered, hex};
use super::folder::{self, Folder, METRICS, fault, remove};
use crate::{Error, Result};

/// One line of the metrics.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Number of the step, counted from 1.
    pub step: u64,
    /// Mean cross entropy of the step's tokens in nats, before the update.
    #[serde(serialize_with = "number")]
    pub loss: f64,
    /// Norm of all gradients together.
    #[serde(serialize_with = "number")]
    pub norm: f64,
    /// Learning rate.
    #[serde(serialize_with = "number")]
    pub rate: f64,
    /// Seconds of the step, without evaluation and checkpoint.
    #[serde(serialize_with = "number")]
    pub seconds: f64,
    /// Mean cross entropy of the part held out in nats, after the update, where it was evaluated.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_number")]
    pub held_out_loss: Option<f64>,
    /// The two per byte of the text, where a token has several: what models with other tokens compare with.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_number")]
    pub loss_per_byte: Option<f64>,
    /// As `loss_per_byte`.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_number")]
    pub held_out_loss_per_byte: Option<f64>,
    /// Whether a checkpoint was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
}

fn number<S: Serializer>(number: &f64, to: S) -> Result<S::Ok, S::Error> {
    match number {
        number if number.is_finite() => to.serialize_f64(*number),
        number if number.is_nan() => to.serialize_str("NaN"),
        number if *number > 0.0 => to.serialize_str("Infinity"),
        _ => to.serialize_str("-Infinity"),
    }
}

fn some_number<S: Serializer>(found: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match found {
        Some(found) => number(found, to),
        None => to.serialize_none(),
    }
}

/// The metrics in a folder, a line of JSON for each step; those that the newest checkpoint covers are checked.
///
/// # Errors
/// `Checkpoint` for a folder without, or for metrics that are damaged.
pub fn read_metrics(folder: &Path) -> Result<String> {
    let path = folder.join(METRICS);
    let content = folder::read(&path)?;
    if let Some(covered) = covered(folder)? {
        covered.check(&path, &content)?;
    }
    String::from_utf8(content).map_err(|cause| fault(&path, format!("cannot be read: {cause}")))
}

/// The lines of a run in the file of its folder.
pub(super) struct Metrics {
    path: PathBuf,
    /// Of all lines.
    digest: Sha256,
    bytes: u64,
}

impl Metrics {
    /// Those of a run that begins; what an earlier one left is removed.
    pub(super) fn begun(folder: &Folder) -> Result<Self> {
        let path = folder.path().join(METRICS);
        remove(&path)?;
        Ok(Metrics { path, digest: Sha256::new(), bytes: 0 })
    }

    /// Those of a run that goes on after the step of a checkpoint, which covers the lines until then; others, of steps that
    /// are done again, are removed.
    ///
    /// # Errors
    /// `Checkpoint` for lines that are not those that it covers.
    pub(super) fn resumed(folder: &Folder, found: &Checkpoint) -> Result<Self> {
        let path = folder.path().join(METRICS);
        let mut metrics = Metrics { path, digest: Sha256::new(), bytes: 0 };
        let Some(content) = read(&metrics.path)? else {
            metrics.bytes = found.metrics.as_ref().map_or(0, |covered| covered.bytes);
            metrics.forget();
            return Ok(metrics);
        };
        let kept = match &found.metrics {
            Some(covered) => {
                covered.check(&metrics.path, &content)?;
                content[..covered.bytes as usize].to_vec()
            }
            None => lines_until(found.step, &content),
        };
        keep(folder, &metrics.path, &kept, &content)?;
        metrics.digest.update(&kept);
        metrics.bytes = kept.len() as u64;
        Ok(metrics)
    }

    /// Those of a run that takes its folder again: lines that another run appended since are removed.
    ///
    /// # Errors
    /// `Checkpoint` if the own lines are no longer there.
    pub(super) fn again(&mut self, folder: &Folder) -> Result<()> {
        let Some(content) = read(&self.path)? else {
            if is_link(&self.path) {
                remove(&self.path)?;
            }
            self.forget();
            return Ok(());
        };
        let own = usize::try_from(self.bytes).ok().and_then(|bytes| content.get(..bytes));
        match own.filter(|own| Sha256::digest(own) == self.digest.clone().finalize()) {
            Some(own) => keep(folder, &self.path, own, &content),
            None => {
                let problem = "has no longer the lines of this run: another run wrote to the folder since; resume the \
                               folder, or name another";
                Err(fault(&self.path, problem))
            }
        }
    }

    /// What a checkpoint after the last line covers.
    pub(super) fn covered(&self) -> Covered {
        Covered { bytes: self.bytes, sha256: hex(&self.digest.clone().finalize()) }
    }

    /// Appends a line.
    pub(super) fn append(&mut self, folder: &Folder, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record).map_err(|cause| unwritten(&self.path, &cause.into()))? + "\n";
        if is_link(&self.path) {
            self.again(folder)?;
        } else if !self.path.is_file() {
            self.forget();
        }
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        let mut file = file.map_err(|cause| unwritten(&self.path, &cause))?;
        if let Err(cause) = file.write_all(line.as_bytes()) {
            // Half a line would stay before the next one.
            let _ = file.set_len(self.bytes);
            return Err(unwritten(&self.path, &cause));
        }
        self.digest.update(&line);
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Begins anew where somebody has removed the file.
    fn forget(&mut self) {
        if self.bytes > 0 {
            log::warn!(target: "grilly", "{}: the metrics so far are gone; those of later steps follow", self.path.display());
        }
        (self.digest, self.bytes) = (Sha256::new(), 0);
    }
}

/// The lines of steps until `step`.
fn lines_until(step: u64, content: &[u8]) -> Vec<u8> {
    let kept = content.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        let found: Option<serde_json::Value> = serde_json::from_slice(line).ok().filter(|_| line.ends_with(b"\n"));
        found.and_then(|line| line["step"].as_u64()).is_some_and(|found| found <= step)
    });
    kept.flatten().copied().collect()
}

fn unwritten(path: &Path, cause: &io::Error) -> Error {
    fault(path, format!("cannot be written: {cause}"))
}

/// The content of a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        _ => return Ok(None),
    }
    folder::read(path).map(Some)
}

/// Makes `kept` the content of a file that has more, or that is a link: as any file of a run, a file takes its place.
fn keep(folder: &Folder, path: &Path, kept: &[u8], content: &[u8]) -> Result<()> {
    if kept == content && !is_link(path) {
        return Ok(());
    }
    folder.replace(path, kept)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}
