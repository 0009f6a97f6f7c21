//! The end of a device, and of all devices of the process.

use std::sync::Arc;
use std::time::Instant;

use super::Device;
use crate::backend::vulkan::raw::lock;
use crate::{Error, exit};

impl Drop for Device {
    fn drop(&mut self) {
        let last = lock(&self.queue).last;
        if !self.settle(last) {
            // Dropping the allocator would free memory, so it is leaked, too.
            std::mem::forget(lock(&self.allocator).take());
            return;
        }
        *lock(&self.allocator) = None;
        // SAFETY: every object created from the device holds an `Arc` of it, so none is left, and nothing is running.
        unsafe {
            self.handle.destroy_pipeline_cache(self.pipeline_cache, None);
            self.handle.destroy_semaphore(self.timeline, None);
            self.handle.destroy_device(None);
        }
    }
}

/// Ends every wait of the process with `Interrupted`, then waits until the devices are idle or `deadline` has passed.
/// Returns whether they are idle.
pub fn close_all(devices: &[Arc<Device>], deadline: Instant) -> bool {
    exit::begin();
    let mut idle = true;
    for device in devices.iter().filter(|d| !d.forked()) {
        let last = lock(&device.queue).last;
        let done = device.wait_for(last, deadline.saturating_duration_since(Instant::now()));
        idle &= matches!(done, Ok(true) | Err(Error::DeviceLost { .. }));
    }
    idle
}
