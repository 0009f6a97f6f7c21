//! The pipelines of a device, each compiled once, and the driver's pipeline cache on disk.
//!
//! File: `grilly/pipelines/VENDOR-DEVICE-DRIVER-UUID.bin` in the user's cache folder, in the format of `cache_file.rs`.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::lock;
use super::raw::{ComputePipeline, Device};
use super::{Variant, cache_file, side_by_side};
use crate::{Result, settings};

/// A variant, by its address (two user shaders may share a name), and the values of its constants.
type Key = (usize, Vec<u32>);

/// The pipelines of one device.
pub(super) struct Pipelines {
    file: Option<PathBuf>,
    made: Mutex<HashMap<Key, Arc<ComputePipeline>>>,
    saved: Mutex<u64>,
    /// Whether a pipeline was created since the last [`Pipelines::save`].
    unsaved: AtomicBool,
}

impl Pipelines {
    /// Starts without pipelines, and loads the driver's cache data from an earlier run, by the device's identity.
    pub(super) fn load(identity: &str) -> (Self, Vec<u8>) {
        let file = settings::cache_folder().map(|folder| folder.join("pipelines").join(format!("{identity}.bin")));
        let data = file.as_deref().and_then(cache_file::read).unwrap_or_default();
        let saved = Mutex::new(cache_file::checksum(&data));
        (Pipelines { file, made: Mutex::default(), saved, unsaved: AtomicBool::new(false) }, data)
    }

    /// The pipelines of variants with their constants; those that do not exist are compiled side by side.
    ///
    /// # Errors
    /// `Unsupported`, or a driver error: that of the first in order.
    pub(super) fn get<'a>(
        &self,
        device: &Arc<Device>,
        wanted: impl IntoIterator<Item = (&'static Variant, &'a [u32])>,
    ) -> Result<Vec<Arc<ComputePipeline>>> {
        device.check("a compilation")?;
        // Locked while compiling: a second thread needs the same pipelines.
        let mut made = lock(&self.made);
        let key = |(variant, constants): (&'static Variant, &[u32])| {
            ((std::ptr::from_ref(variant) as usize, constants.to_vec()), variant)
        };
        let wanted: Vec<(Key, &'static Variant)> = wanted.into_iter().map(key).collect();
        let mut seen = HashSet::new();
        let missing: Vec<_> = wanted.iter().filter(|(key, _)| !made.contains_key(key) && seen.insert(key)).collect();
        let mut compiled: Vec<_> = missing.iter().map(|_| None).collect();
        let all =
            side_by_side::for_each(missing.iter().zip(&mut compiled), missing.len(), |((key, variant), place)| {
                let start = Instant::now();
                *place = Some((ComputePipeline::new(device, variant, &key.1), start.elapsed()));
            });
        for ((key, variant), place) in missing.iter().zip(compiled) {
            let Some((pipeline, time)) = place else { continue };
            log::debug!(target: "grilly", "compiled {} {:?} in {time:.2?}", variant.name, key.1);
            made.insert(key.clone(), pipeline?);
            self.unsaved.store(true, Relaxed);
        }
        all?;
        Ok(wanted.iter().map(|(key, _)| made[key].clone()).collect())
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
