//! The folder of a run: who may write to it, the names in it, and files that are replaced whole.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::process::lock::{FolderLock, Taken};
use crate::process::memory::{need, reserved};
use crate::{Error, Result, exit};

/// Ending of a checkpoint's file of tensors.
pub(super) const TENSORS: &str = "safetensors";
/// Ending of a checkpoint's JSON file.
pub(super) const RECORD: &str = "json";
/// Name of the file of learned tokens.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// Name of the file of metrics.
pub(super) const METRICS: &str = "metrics.jsonl";
/// Ending of the name of a file while it is written.
const UNFINISHED: &str = ".unfinished";

pub(super) fn fault(path: &Path, problem: impl Into<String>) -> Error {
    Error::Checkpoint { path: path.to_owned(), problem: problem.into() }
}

/// The right to write to a folder, until it is dropped.
pub(super) struct Folder {
    path: PathBuf,
    /// `None` where the file system has no locks.
    _lock: Option<FolderLock>,
}

impl Folder {
    /// Takes a folder, which is made if it is missing, and removes the unfinished files of writers that have ended.
    ///
    /// # Errors
    /// `Checkpoint` naming the folder, and the process if it is known, if another run uses it, in this process or another;
    /// or a folder that cannot be made.
    pub(super) fn take(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|cause| fault(path, format!("cannot be made: {cause}")))?;
        let taken = FolderLock::take(path).map_err(|cause| fault(path, format!("cannot be written: {cause}")))?;
        let lock = match taken {
            Taken::Held(lock) => Some(lock),
            Taken::Busy(holder) => return Err(fault(path, busy(holder))),
            Taken::Impossible(cause) => {
                let path = path.display();
                log::warn!(
                    target: "grilly",
                    "{path}: its file system has no locks ({cause}): nothing keeps two runs from the same folder"
                );
                None
            }
        };
        if lock.is_some() {
            // All writers have the lock first, so none of these has one that lives.
            remove_unfinished(path);
        }
        Ok(Folder { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `bytes` the content of a file of the folder: after a crash at any time it has its old content or the new.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut unfinished = path.as_os_str().to_owned();
        let (process, number) = (crate::process::id(), NEXT.fetch_add(1, Relaxed));
        unfinished.push(format!(".{process}-{number}{UNFINISHED}"));
        let unfinished = PathBuf::from(unfinished);
        let write = || {
            let unwritten =
                |cause| fault(path, format!("cannot be written: {cause}; the checkpoints before it are intact"));
            let mut file = File::create_new(&unfinished).map_err(unwritten)?;
            for piece in bytes.chunks(PIECE) {
                exit::check()?;
                file.write_all(piece).map_err(unwritten)?;
            }
            file.sync_all().map_err(unwritten)?;
            fs::rename(&unfinished, path).map_err(unwritten)?;
            // The new name is on the disk once the folder is; Windows flushes no folders.
            #[cfg(unix)]
            File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(unwritten)?;
            Ok(())
        };
        write().inspect_err(|_| {
            // The error names the cause; who takes the folder next removes what is left.
            let _ = fs::remove_file(&unfinished);
        })
    }
}

/// Bytes that are read or written between two moments at which that can be stopped.
const PIECE: usize = 1 << 24;

/// The content of a file.
///
/// # Errors
/// `Checkpoint` for one that cannot be read, `OutOfMemory` for one that memory does not hold.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |cause: std::io::Error| fault(path, format!("cannot be read: {cause}"));
    let mut file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(fault(path, "cannot be read: it is no file"));
    }
    let size = found.len();
    // Its tensors are then apart from it.
    need(2 * u128::from(size), &format!("the content of {}", path.display()))?;
    let mut content = reserved(usize::try_from(size).unwrap_or(usize::MAX), "the content of a file")?;
    while Read::by_ref(&mut file).take(PIECE as u64).read_to_end(&mut content).map_err(unreadable)? > 0 {
        exit::check()?;
    }
    Ok(content)
}

/// What a folder says that another run uses.
fn busy(holder: Option<u32>) -> String {
    match holder {
        Some(holder) if holder == crate::process::id() => format!(
            "is used by another Trainer of this process, {holder}: end its run() (or close the iterator) first, or name \
             another folder"
        ),
        Some(holder) => format!("is used by process {holder}: wait for its end, or name another folder"),
        None => "is used by another run: wait for its end, or name another folder".into(),
    }
}

/// Removes what writers that have ended left unfinished; what cannot be removed is in nobody's way.
fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(UNFINISHED)) else { continue };
        // Without process and number, as builds named them that had the same name for all writers.
        let digit = |c: char| c.is_ascii_digit() || c == '-';
        let target = name.rsplit_once('.').filter(|(_, end)| end.chars().all(digit)).map_or(name, |(target, _)| target);
        if [TOKENIZER, METRICS].contains(&target) || number(target).is_some() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The steps that a folder has checkpoints of, in order; none if the folder is missing.
pub(super) fn steps(folder: &Path) -> Result<Vec<u64>> {
    let unreadable = |cause: std::io::Error| fault(folder, format!("cannot be read: {cause}"));
    let entries = match fs::read_dir(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut steps = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let step = entry.file_name().to_str().and_then(number).filter(|(_, end)| *end == RECORD);
        // Folders and files of other names are nobody's checkpoints.
        steps.extend(step.filter(|_| entry.path().is_file()).map(|(step, _)| step));
    }
    steps.sort_unstable();
    Ok(steps)
}

/// The step and the ending of a file's name, if it is as [`file`] makes it.
fn number(name: &str) -> Option<(u64, &'static str)> {
    let (digits, found) = name.strip_prefix("step-")?.split_once('.')?;
    let (step, end) = (digits.parse().ok()?, [RECORD, TENSORS].into_iter().find(|end| *end == found)?);
    (name == file_name(step, end)).then_some((step, end))
}

fn file_name(step: u64, end: &str) -> String {
    format!("step-{step:08}.{end}")
}

pub(super) fn file(folder: &Path, step: u64, end: &str) -> PathBuf {
    folder.join(file_name(step, end))
}

/// Removes a file if it is there.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(fault(path, format!("cannot be removed: {cause}")))
        }
        _ => Ok(()),
    }
}
