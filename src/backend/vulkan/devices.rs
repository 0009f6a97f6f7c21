//! Which devices are usable, their order, and the choice.

use super::{Capabilities, DeviceType};
use crate::settings::Settings;
use crate::{Error, Result};

/// One physical device as `info()` lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Position in Vulkan's own list: what `VK_GPU_INDEX` counts.
    pub index: usize,
    /// Position among the usable devices, best first: what `"vulkan:N"` counts.
    pub position: Option<usize>,
    /// Why it is not usable.
    pub unusable: Option<String>,
    /// Its capabilities, with what it lacks.
    pub capabilities: Capabilities,
}

/// All devices, and the chosen one.
#[derive(Debug, Clone, PartialEq)]
pub struct Inventory {
    /// In the order of Vulkan's list.
    pub devices: Vec<Listed>,
    /// Index in that list of the device that `"vulkan"` selects and why, or why there is none.
    pub chosen: std::result::Result<(usize, String), String>,
}

impl Inventory {
    /// Classifies the devices under the settings.
    pub(super) fn new(capabilities: Vec<Capabilities>, settings: &Settings) -> Self {
        let mut devices: Vec<Listed> = capabilities
            .into_iter()
            .enumerate()
            .map(|(index, capabilities)| Listed {
                index,
                position: None,
                unusable: why_unusable(&capabilities, settings),
                capabilities,
            })
            .collect();
        let mut usable: Vec<usize> = devices.iter().filter(|d| d.unusable.is_none()).map(|d| d.index).collect();
        // Stable sort: devices of one type keep the driver's order.
        usable.sort_by_key(|&index| devices[index].capabilities.device_type);
        for (position, &index) in usable.iter().enumerate() {
            devices[index].position = Some(position);
        }
        let mut inventory = Inventory { devices, chosen: Err(String::new()) };
        let chosen = inventory.choose(None, settings);
        inventory.chosen = chosen.map_err(|error| error.to_string());
        inventory
    }

    /// The index in Vulkan's list of the usable device at `position`, or of the best one, and the reason.
    ///
    /// # Errors
    /// `IndexOutOfRange` when there is no such position or `VK_GPU_INDEX`; `DeviceUnavailable` when nothing is usable.
    pub(super) fn choose(&self, position: Option<usize>, settings: &Settings) -> Result<(usize, String)> {
        let usable = self.devices.iter().filter(|d| d.position.is_some()).count();
        if let Some(position) = position {
            let found = self.devices.iter().find(|d| d.position == Some(position));
            return match found {
                Some(device) => Ok((device.index, format!("device=\"vulkan:{position}\" was asked for"))),
                None if usable == 0 => Err(self.nothing_usable()),
                None => Err(Error::IndexOutOfRange(format!(
                    "device is \"vulkan:{position}\", but there {}",
                    count(usable, "usable Vulkan device")
                ))),
            };
        }
        if let Some(index) = settings.gpu_index {
            let Some(device) = self.devices.get(index) else {
                return Err(Error::IndexOutOfRange(format!(
                    "VK_GPU_INDEX is {index}, but there {}",
                    count(self.devices.len(), "Vulkan device")
                )));
            };
            return match &device.unusable {
                None => Ok((index, format!("VK_GPU_INDEX is {index}"))),
                Some(why) => Err(Error::DeviceUnavailable(format!(
                    "VK_GPU_INDEX is {index}, which is {}: {why}",
                    device.capabilities.name
                ))),
            };
        }
        let best = self.devices.iter().find(|d| d.position == Some(0)).ok_or_else(|| self.nothing_usable())?;
        let kind = match best.capabilities.device_type {
            DeviceType::Discrete => "a discrete GPU",
            DeviceType::Integrated => "an integrated GPU",
            DeviceType::Virtual => "a virtual GPU",
            DeviceType::Other => "a device of no named type",
            DeviceType::Software => "a software rasteriser, allowed by ALLOW_CPU_VULKAN",
        };
        let rank =
            if usable == 1 { "the only usable device".into() } else { format!("the first of {usable} usable devices") };
        Ok((best.index, format!("{kind}, {rank}")))
    }

    fn nothing_usable(&self) -> Error {
        let found: Vec<String> = self
            .devices
            .iter()
            .filter_map(|d| Some(format!("{} ({})", d.capabilities.name, d.unusable.as_ref()?)))
            .collect();
        Error::DeviceUnavailable(match found.is_empty() {
            true => "Vulkan lists no device".into(),
            false => format!("no usable Vulkan device; found {}", found.join(", ")),
        })
    }
}

fn why_unusable(capabilities: &Capabilities, settings: &Settings) -> Option<String> {
    if !capabilities.missing.is_empty() {
        return Some(format!("lacks {}", capabilities.missing.join(", ")));
    }
    let software = capabilities.device_type == DeviceType::Software && !settings.allow_cpu_vulkan;
    software.then(|| "a software rasteriser, slower than the CPU backend; ALLOW_CPU_VULKAN=1 allows it".into())
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("is only 1 {what}") } else { format!("are only {number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, device_type: DeviceType) -> Capabilities {
        Capabilities { name: name.into(), device_type, ..Capabilities::floor() }
    }

    fn old() -> Capabilities {
        Capabilities { missing: vec!["Vulkan 1.3 (has 1.1.0)".into()], ..device("old", DeviceType::Discrete) }
    }

    fn all() -> Vec<Capabilities> {
        vec![
            device("software", DeviceType::Software),
            device("small", DeviceType::Integrated),
            old(),
            device("large", DeviceType::Discrete),
        ]
    }

    #[test]
    fn discrete_comes_before_integrated_and_software_is_left_out() {
        let inventory = Inventory::new(all(), &Settings::default());
        let positions: Vec<_> = inventory.devices.iter().map(|d| d.position).collect();
        assert_eq!(positions, [None, Some(1), None, Some(0)]);
        let (index, reason) = inventory.chosen.clone().unwrap();
        assert_eq!((index, reason.as_str()), (3, "a discrete GPU, the first of 2 usable devices"));
        assert_eq!(inventory.devices[2].unusable.as_deref(), Some("lacks Vulkan 1.3 (has 1.1.0)"));
    }

    #[test]
    fn positions_count_usable_devices_and_the_variable_counts_all() {
        let settings = Settings { allow_cpu_vulkan: true, ..Settings::default() };
        let inventory = Inventory::new(all(), &settings);
        assert_eq!(inventory.choose(Some(1), &settings).unwrap().0, 1);
        assert_eq!(inventory.choose(Some(2), &settings).unwrap().0, 0);
        let error = inventory.choose(Some(3), &settings).unwrap_err();
        assert!(
            matches!(&error, Error::IndexOutOfRange(text) if text.ends_with("there are only 3 usable Vulkan devices"))
        );
        let settings = Settings { gpu_index: Some(1), ..Settings::default() };
        assert_eq!(inventory.choose(None, &settings).unwrap(), (1, "VK_GPU_INDEX is 1".into()));
        let settings = Settings { gpu_index: Some(2), ..Settings::default() };
        let error = inventory.choose(None, &settings).unwrap_err();
        assert!(matches!(&error, Error::DeviceUnavailable(text) if text.contains("old: lacks Vulkan 1.3")));
        let settings = Settings { gpu_index: Some(9), ..Settings::default() };
        assert!(matches!(inventory.choose(None, &settings), Err(Error::IndexOutOfRange(_))));
    }

    #[test]
    fn a_lone_rasteriser_is_refused_by_name() {
        let inventory = Inventory::new(vec![device("llvmpipe", DeviceType::Software)], &Settings::default());
        let why = inventory.chosen.unwrap_err();
        assert!(why.contains("llvmpipe") && why.contains("ALLOW_CPU_VULKAN=1"), "{why}");
        let none = Inventory::new(vec![], &Settings::default());
        assert!(matches!(none.choose(Some(0), &Settings::default()), Err(Error::DeviceUnavailable(_))));
    }
}
