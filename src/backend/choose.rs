//! Resolves a device string to a backend, and falls back to the CPU when no such device exists.

use std::sync::{Arc, Once};

use super::{Backend, cpu};
use crate::settings::Settings;
use crate::{Error, Result};

/// The device string of [`DeviceRequest::Auto`].
pub const AUTO: &str = "auto";

/// The kind of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// A Vulkan device.
    Vulkan,
    /// The host's processor.
    Cpu,
}

impl BackendKind {
    /// `"vulkan"` or `"cpu"`.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Vulkan => "vulkan",
            BackendKind::Cpu => "cpu",
        }
    }
}

/// A backend and the reason it was chosen.
pub struct Choice {
    /// The backend that plans run on.
    pub backend: Arc<dyn Backend>,
    /// One sentence for `info()` and the log.
    pub reason: String,
}

/// A parsed device string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceRequest {
    /// `"auto"`: the best usable device, in place of which a model may run on the CPU ([`super::faster`]).
    Auto,
    /// `"vulkan"`: the best usable device.
    Vulkan,
    /// `"vulkan:N"`: position `N` among the usable devices.
    VulkanAt(usize),
    /// `"cpu"`.
    Cpu,
}

impl std::fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Vulkan => f.write_str("vulkan"),
            Self::VulkanAt(position) => write!(f, "vulkan:{position}"),
            Self::Cpu => f.write_str("cpu"),
        }
    }
}

impl std::str::FromStr for DeviceRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = match text {
            AUTO => Some(Self::Auto),
            "vulkan" | "gpu" => Some(Self::Vulkan),
            "cpu" => Some(Self::Cpu),
            _ => text.strip_prefix("vulkan:").and_then(|n| n.parse().ok()).map(Self::VulkanAt),
        };
        known.ok_or_else(|| {
            Error::InvalidArgument(format!(
                "device is {text:?}, expected \"auto\", \"vulkan\", \"vulkan:N\" or \"cpu\""
            ))
        })
    }
}

/// Opens the backend that `request` names. Without a usable Vulkan device it is the CPU, with one warning; with a line at level
/// info where no device was asked for and the machine has none.
///
/// # Errors
/// `IndexOutOfRange` for a device number that does not exist: a request by number never falls back to the CPU.
/// `OutOfMemory` and `DeviceLost` while the device is opened. Under `GRILLY_STRICT`, `DeviceUnavailable` instead of the CPU.
pub fn open(request: DeviceRequest, settings: &Settings) -> Result<Choice> {
    let wanted = match request {
        DeviceRequest::Cpu => {
            return Ok(Choice { backend: cpu::backend(), reason: "device=\"cpu\" was asked for".into() });
        }
        DeviceRequest::Auto | DeviceRequest::Vulkan => None,
        DeviceRequest::VulkanAt(position) => Some(position),
    };
    match (open_vulkan(wanted, settings), wanted) {
        (Ok(choice), _) => {
            log::debug!(target: "grilly", "using {}: {}", choice.backend.device_name(), choice.reason);
            Ok(choice)
        }
        (Err(error @ (Error::IndexOutOfRange(_) | Error::InvalidArgument(_))), _) => Err(error),
        (Err(error @ Error::DeviceUnavailable(_)), Some(number)) => {
            Err(Error::IndexOutOfRange(format!("there is no device vulkan:{number}: {error}")))
        }
        // Of this moment: opened later, the device may work.
        (Err(error @ (Error::OutOfMemory { .. } | Error::DeviceLost { .. })), _) => Err(error),
        (Err(error), _) if settings.strict => {
            Err(Error::DeviceUnavailable(format!("{error} (GRILLY_STRICT forbids the CPU instead)")))
        }
        (Err(error), _) => {
            // Each once per process, not once per model.
            static SAID: [Once; 2] = [Once::new(), Once::new()];
            let expected = request == DeviceRequest::Auto && settings.gpu_index.is_none() && !has_gpu(settings);
            let level = if expected { log::Level::Info } else { log::Level::Warn };
            SAID[usize::from(expected)].call_once(|| log::log!(target: "grilly", level, "the CPU takes over: {error}"));
            crate::stats::COUNTERS.fallbacks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Choice { backend: cpu::backend(), reason: format!("the CPU takes over: {error}") })
        }
    }
}

/// The devices that work together: one by its name, several by their names with commas between, or `"all"` usable ones.
///
/// # Errors
/// `InvalidArgument` for another name, for a device twice, and for the CPU or no number among several.
pub fn named(names: &str, settings: &Settings) -> Result<Vec<DeviceRequest>> {
    let requests = match names {
        "all" => match usable(settings)? {
            0 | 1 => vec![DeviceRequest::Vulkan],
            count => (0..count).map(DeviceRequest::VulkanAt).collect(),
        },
        _ => names.split(',').map(str::parse).collect::<Result<Vec<DeviceRequest>>>()?,
    };
    if requests.len() == 1 {
        return Ok(requests);
    }
    for (place, request) in requests.iter().enumerate() {
        if !matches!(request, DeviceRequest::VulkanAt(_)) {
            return Err(Error::InvalidArgument(format!("devices are {names:?}, expected each to be \"vulkan:N\"")));
        }
        if requests[..place].contains(request) {
            return Err(Error::InvalidArgument(format!("devices are {names:?}: one of them is there twice")));
        }
    }
    Ok(requests)
}

/// Checks that devices, each told by its name and driver, have the same bits; `otherwise` says what to do if they do not.
///
/// # Errors
/// `InvalidArgument` naming the first two that differ.
pub fn check_kinds(names: &str, kinds: &[(&str, &str)], otherwise: &str) -> Result<()> {
    match kinds.iter().find(|own| **own != kinds[0]) {
        Some((other, other_driver)) => {
            let (first, driver) = kinds[0];
            Err(Error::InvalidArgument(format!(
                "devices are {names:?}, of different kinds: {first} ({driver}) and {other} ({other_driver}); {otherwise}"
            )))
        }
        None => Ok(()),
    }
}

/// Opens the devices that share the batches of a model, by their [names](named).
///
/// # Errors
/// As [`named`] and [`open`]; `InvalidArgument`, unless `mixed`, for devices of different names or drivers, of which the bits of
/// a text's result would depend on the one that computes it.
pub fn open_each(names: &str, mixed: bool, settings: &Settings) -> Result<Vec<Choice>> {
    let choices = named(names, settings)?.iter().map(|request| open(*request, settings)).collect::<Result<Vec<_>>>()?;
    if !mixed {
        let kinds: Vec<_> =
            choices.iter().map(|choice| (choice.backend.device_name(), choice.backend.driver())).collect();
        check_kinds(
            names,
            &kinds,
            "which of them computes a text would decide its last bits: give mixed=True, or numerics=\"everywhere\", whose bits \
             are the same on both",
        )?;
    }
    Ok(choices)
}

#[cfg(feature = "vulkan")]
fn usable(settings: &Settings) -> Result<usize> {
    match super::vulkan::usable(settings) {
        Err(Error::DeviceUnavailable(_)) => Ok(0),
        found => found,
    }
}

#[cfg(not(feature = "vulkan"))]
fn usable(_settings: &Settings) -> Result<usize> {
    Ok(0)
}

#[cfg(feature = "vulkan")]
fn has_gpu(settings: &Settings) -> bool {
    super::vulkan::has_gpu(settings)
}

#[cfg(not(feature = "vulkan"))]
fn has_gpu(_settings: &Settings) -> bool {
    false
}

#[cfg(feature = "vulkan")]
fn open_vulkan(position: Option<usize>, settings: &Settings) -> Result<Choice> {
    super::vulkan::open(position, settings)
}

#[cfg(not(feature = "vulkan"))]
fn open_vulkan(_position: Option<usize>, _settings: &Settings) -> Result<Choice> {
    Err(Error::DeviceUnavailable("this build has no Vulkan backend".into()))
}
