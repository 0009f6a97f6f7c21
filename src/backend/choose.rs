//! Which backend a device string means, and what happens when there is no such device.

use std::sync::Arc;

use super::{Backend, BackendKind, cpu};
use crate::settings::Settings;
use crate::{Error, Result};

/// A device string taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceRequest {
    /// `"vulkan"`: the best usable device.
    Vulkan,
    /// `"vulkan:N"`: position `N` among the usable devices.
    VulkanAt(usize),
    /// `"cpu"`.
    Cpu,
}

impl std::str::FromStr for DeviceRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "vulkan" | "gpu" => return Ok(Self::Vulkan),
            "cpu" => return Ok(Self::Cpu),
            _ => {}
        }
        text.strip_prefix("vulkan:").and_then(|n| n.parse().ok()).map(Self::VulkanAt).ok_or_else(|| {
            Error::InvalidArgument(format!("device is {text:?}, expected \"vulkan\", \"vulkan:N\" or \"cpu\""))
        })
    }
}

/// A backend and why it was chosen.
pub struct Choice {
    /// What plans will run on.
    pub backend: Arc<dyn Backend>,
    /// One sentence for `info()` and the log.
    pub reason: String,
}

/// Opens what `request` asks for; without a usable Vulkan device, the CPU with one warning.
///
/// # Errors
/// `IndexOutOfRange` for a device number that does not exist: whoever gives a number wants that device, not the CPU. Under
/// `GRILLY_STRICT`, `DeviceUnavailable` in place of the CPU.
pub fn open(request: DeviceRequest, settings: &Settings) -> Result<Choice> {
    let wanted = match request {
        DeviceRequest::Cpu => {
            return Ok(Choice { backend: cpu::backend(), reason: "device=\"cpu\" was asked for".into() });
        }
        DeviceRequest::Vulkan => None,
        DeviceRequest::VulkanAt(position) => Some(position),
    };
    match open_vulkan(wanted, settings) {
        Ok(choice) => {
            log::debug!(target: "grilly", "using {}: {}", choice.backend.device_name(), choice.reason);
            Ok(choice)
        }
        Err(error @ (Error::IndexOutOfRange(_) | Error::InvalidArgument(_))) => Err(error),
        Err(error @ Error::DeviceUnavailable(_)) if wanted.is_some() => {
            let number = wanted.unwrap_or_default();
            Err(Error::IndexOutOfRange(format!("there is no device vulkan:{number}: {error}")))
        }
        Err(error) if settings.strict => {
            Err(Error::DeviceUnavailable(format!("{error} (GRILLY_STRICT forbids the CPU instead)")))
        }
        Err(error) => {
            warn_once(&error);
            crate::stats::COUNTERS.fallbacks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Choice { backend: cpu::backend(), reason: format!("the CPU takes over: {error}") })
        }
    }
}

#[cfg(feature = "vulkan")]
fn open_vulkan(position: Option<usize>, settings: &Settings) -> Result<Choice> {
    super::vulkan::open(position, settings)
}

#[cfg(not(feature = "vulkan"))]
fn open_vulkan(_position: Option<usize>, _settings: &Settings) -> Result<Choice> {
    Err(Error::DeviceUnavailable("this build has no Vulkan backend".into()))
}

/// The absence of a device is news once a process, not once a model.
fn warn_once(error: &Error) {
    static WARNED: std::sync::Once = std::sync::Once::new();
    WARNED.call_once(|| log::warn!(target: "grilly", "no usable Vulkan device, the CPU takes over: {error}"));
}

impl Choice {
    /// Which kind was chosen.
    pub fn kind(&self) -> BackendKind {
        self.backend.kind()
    }
}
