//! The pipelines of a device, each compiled once, and the driver's pipeline cache on disk.
//!
//! File: `grilly/pipelines/VENDOR-DEVICE-DRIVER-UUID.bin` in the user's cache folder, in the format of `cache_file.rs`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::raw::{Device, Pipeline, lock};
use super::{Variant, cache_file};
use crate::Result;

/// A variant, by its address (two user shaders may share a name), and the values of its constants.
type Key = (usize, Vec<u32>);

/// The pipelines of one device.
pub(super) struct Pipelines {
    file: Option<PathBuf>,
    made: Mutex<HashMap<Key, Arc<Pipeline>>>,
    saved: Mutex<u64>,
    /// Whether a pipeline was created since the last [`Pipelines::save`].
    unsaved: AtomicBool,
}

impl Pipelines {
    /// Starts without pipelines, and loads the driver's cache data from an earlier run, by the device's identity.
    pub(super) fn load(identity: &str) -> (Self, Vec<u8>) {
        let file = cache_file::folder().map(|folder| folder.join("pipelines").join(format!("{identity}.bin")));
        let data = file.as_deref().and_then(cache_file::read).unwrap_or_default();
        let saved = Mutex::new(cache_file::checksum(&data));
        (Pipelines { file, made: Mutex::default(), saved, unsaved: AtomicBool::new(false) }, data)
    }

    /// The pipeline of a variant with these constants.
    ///
    /// # Errors
    /// `Unsupported`, or a driver error.
    pub(super) fn get(
        &self,
        device: &Arc<Device>,
        variant: &'static Variant,
        constants: &[u32],
    ) -> Result<Arc<Pipeline>> {
        device.check("a compilation")?;
        let key = (std::ptr::from_ref(variant) as usize, constants.to_vec());
        // Locked while compiling: a second thread needs the same pipelines.
        let mut made = lock(&self.made);
        if let Some(pipeline) = made.get(&key) {
            return Ok(pipeline.clone());
        }
        let pipeline = Pipeline::new(device, variant, constants)?;
        made.insert(key, pipeline.clone());
        self.unsaved.store(true, Relaxed);
        Ok(pipeline)
    }

    /// Writes the driver's cache to disk if it has changed. If the folder is not writable, later runs only start
    /// slower.
    pub(super) fn save(&self, device: &Device) {
        let Some(file) = self.file.as_ref().filter(|_| self.unsaved.swap(false, Relaxed)) else { return };
        let data = device.cached_pipelines();
        let sum = cache_file::checksum(&data);
        let mut saved = lock(&self.saved);
        if data.is_empty() || *saved == sum {
            return;
        }
        *saved = sum;
        if let Err(cause) = cache_file::write(file, &data) {
            log::debug!(target: "grilly", "pipeline cache {} not written: {cause}", file.display());
        }
    }
}
