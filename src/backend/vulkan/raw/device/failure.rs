//! What failed calls of the driver become.

use std::sync::atomic::Ordering::SeqCst;

use ash::vk;

use super::Device;
use crate::backend::faults::{Fault, strikes};
use crate::{Error, Result};

impl Device {
    /// Fails where a test wants a call of the driver to find no memory.
    ///
    /// # Errors
    /// `OutOfMemory`, as of the call.
    pub fn has_memory(&self, call: &str) -> Result<()> {
        match strikes(Fault::Allocation) {
            true => Err(self.failure(call, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)),
            false => Ok(()),
        }
    }

    /// The error for a failed call; records the loss of the device.
    pub fn failure(&self, call: &str, cause: vk::Result) -> Error {
        if cause == vk::Result::ERROR_DEVICE_LOST {
            self.lost.store(true, SeqCst);
        }
        match failure(&self.capabilities.name, call, cause) {
            Error::OutOfMemory { device, bytes, purpose } => {
                Error::OutOfMemory { device, bytes, purpose: format!("{purpose}: {}", self.memory_told()) }
            }
            other => other,
        }
    }

    /// An error in grilly rather than in the driver: a command that does not match its operands.
    pub fn misuse(&self, call: &str, cause: String) -> Error {
        Error::Device { device: self.capabilities.name.clone(), call: call.into(), cause }
    }
}

/// The error for a failed call on a device of this name.
pub(super) fn failure(device: &str, call: &str, cause: vk::Result) -> Error {
    let (device, during) = (device.to_owned(), call.to_owned());
    match cause {
        vk::Result::ERROR_DEVICE_LOST => Error::DeviceLost { device, during },
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_POOL_MEMORY => Error::OutOfMemory { device, bytes: 0, purpose: during },
        cause => Error::Device { device, call: during, cause: format!("{cause:?}") },
    }
}
