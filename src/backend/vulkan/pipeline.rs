//! Pipelines of a device, each compiled once, and the driver's cache of them on disk.
//!
//! File: `grilly/pipelines/VENDOR-DEVICE-DRIVER-UUID.bin` in the user's cache folder, holding
//! `magic [8] | FNV-1a of the data [8] | data`. A file that cannot be read, or was torn, counts as absent.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::Variant;
use super::raw::{Device, Identity, Pipeline, lock};
use crate::Result;

const MAGIC: &[u8; 8] = b"grilly-1";

/// No driver's cache of a few dozen compute pipelines comes near this.
const LARGEST_FILE: u64 = 64 << 20;

/// A variant, by its place in memory (two users' shaders may share a name), and the values of its constants.
type Key = (usize, Vec<u32>);

/// The pipelines of one device.
pub(super) struct Pipelines {
    file: Option<PathBuf>,
    made: Mutex<HashMap<Key, Arc<Pipeline>>>,
    saved: Mutex<u64>,
    /// Whether a pipeline was made since the last [`Pipelines::save`].
    unsaved: AtomicBool,
}

impl Pipelines {
    /// None yet, and what the driver wrote on an earlier run.
    pub(super) fn load(identity: &Identity) -> (Self, Vec<u8>) {
        let file = cache_folder().map(|folder| folder.join("grilly").join("pipelines").join(file_name(identity)));
        let data = file.as_deref().and_then(read).unwrap_or_default();
        let saved = Mutex::new(checksum(&data));
        (Pipelines { file, made: Mutex::default(), saved, unsaved: AtomicBool::new(false) }, data)
    }

    /// The pipeline of a variant with these constants.
    ///
    /// # Errors
    /// `Unsupported`, or the driver's.
    pub(super) fn get(
        &self,
        device: &Arc<Device>,
        variant: &'static Variant,
        constants: &[u32],
    ) -> Result<Arc<Pipeline>> {
        device.check("a compilation")?;
        let key = (std::ptr::from_ref(variant) as usize, constants.to_vec());
        // Held while compiling: a second thread wants the very same pipelines.
        let mut made = lock(&self.made);
        if let Some(pipeline) = made.get(&key) {
            return Ok(pipeline.clone());
        }
        let pipeline = Pipeline::new(device, variant, constants)?;
        made.insert(key, pipeline.clone());
        self.unsaved.store(true, Relaxed);
        Ok(pipeline)
    }

    /// Writes the driver's cache to disk if it has changed. A folder that cannot be written costs time, not results.
    pub(super) fn save(&self, device: &Device) {
        let Some(file) = self.file.as_ref().filter(|_| self.unsaved.swap(false, Relaxed)) else { return };
        let data = device.cached_pipelines();
        let sum = checksum(&data);
        let mut saved = lock(&self.saved);
        if data.is_empty() || *saved == sum {
            return;
        }
        *saved = sum;
        if let Err(cause) = write(file, &data) {
            log::debug!(target: "grilly", "pipeline cache {} not written: {cause}", file.display());
        }
    }
}

fn file_name(identity: &Identity) -> String {
    let uuid: String = identity.cache.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{:04x}-{:04x}-{:08x}-{uuid}.bin", identity.vendor, identity.device, identity.driver)
}

/// `$XDG_CACHE_HOME`, or what the platform uses in its place.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = variable("XDG_CACHE_HOME") {
        return Some(folder);
    }
    if cfg!(windows) {
        return variable("LOCALAPPDATA");
    }
    let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    variable("HOME").map(|home| home.join(below))
}

fn read(file: &Path) -> Option<Vec<u8>> {
    if std::fs::metadata(file).ok()?.len() > LARGEST_FILE {
        return None;
    }
    let bytes = std::fs::read(file).ok()?;
    let (magic, rest) = bytes.split_at_checked(8)?;
    let (sum, data) = rest.split_at_checked(8)?;
    (magic == MAGIC && sum == checksum(data).to_le_bytes()).then(|| data.to_vec())
}

/// Through a file of its own name and a rename, so that a reader finds the old or the new, never a half.
fn write(file: &Path, data: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let unfinished = file.with_extension(format!("{}.tmp", std::process::id()));
    let bytes = [MAGIC.as_slice(), &checksum(data).to_le_bytes(), data].concat();
    let done = std::fs::write(&unfinished, bytes).and_then(|()| std::fs::rename(&unfinished, file));
    if done.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    done
}

fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join("cache.bin");
        assert_eq!(read(&file), None);
        write(&file, b"pipelines").unwrap();
        assert_eq!(read(&file).as_deref(), Some(b"pipelines".as_slice()));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no unfinished file stays");
        let good = std::fs::read(&file).unwrap();
        for damaged in [&good[..good.len() - 1], &good[..12], b"", b"grilly-0"] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(read(&file), None);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_not_a_panic() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write(&file.path().join("below").join("cache.bin"), b"x").is_err());
    }
}
