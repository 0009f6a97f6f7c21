//! The Vulkan loader and the single instance.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use ash::{ext, khr, vk};

use super::{Physical, messages, query};
use crate::stats::COUNTERS;
use crate::{Error, Result};

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// A Vulkan instance; it lives until the process ends.
pub struct Instance {
    pub(super) handle: ash::Instance,
    /// Whether debug names can be set.
    pub(super) debug_utils: bool,
    /// Whether the validation layer is enabled.
    pub validated: bool,
    /// Whether the output of shader prints is shown.
    pub prints: bool,
    // Unloads the loader when dropped, so it comes after the handle.
    pub(super) entry: ash::Entry,
}

impl Instance {
    /// Loads Vulkan and creates an instance. `debug` enables the validation layer; with it, `prints` shows the output
    /// of shader prints, and `sync` reports accesses that no barrier orders.
    ///
    /// # Errors
    /// `DeviceUnavailable` naming what is missing: the loader, a driver, or a recent enough version.
    pub fn create(debug: bool, prints: bool, sync: bool) -> Result<Self> {
        // SAFETY: loading the system's Vulkan loader runs its initialisers, which the platform is trusted for.
        let entry = unsafe { ash::Entry::load() }.map_err(|cause| {
            Error::DeviceUnavailable(format!("no Vulkan loader: {cause} (Debian and Ubuntu: apt install libvulkan1)"))
        })?;
        // SAFETY: the entry is loaded; this also applies to the enumerations below.
        let version = unsafe { entry.try_enumerate_instance_version() };
        let version = version.map_err(|cause| unavailable("vkEnumerateInstanceVersion", cause))?;
        // An instance of 1.0 rejects newer applications; any later one accepts them.
        if version.unwrap_or(vk::API_VERSION_1_0) < vk::API_VERSION_1_1 {
            return Err(Error::DeviceUnavailable(
                "the Vulkan loader is of version 1.0; 1.3 devices need a newer one".into(),
            ));
        }
        // SAFETY: as above.
        let extensions = unsafe { entry.enumerate_instance_extension_properties(None) };
        let extensions = extensions.map_err(|cause| unavailable("vkEnumerateInstanceExtensionProperties", cause))?;
        let offered = |name: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
        // SAFETY: as above.
        let layers = unsafe { entry.enumerate_instance_layer_properties() };
        let layers = layers.map_err(|cause| unavailable("vkEnumerateInstanceLayerProperties", cause))?;
        let validated = debug && layers.iter().any(|l| l.layer_name_as_c_str() == Ok(VALIDATION));
        if debug && !validated {
            log::warn!(target: "grilly", "no Vulkan validation: the layer VK_LAYER_KHRONOS_validation is not installed");
        }
        let offers = validated && layer_offers(&entry, ext::validation_features::NAME);
        let prints = prints && offers;
        // The output of debugPrintfEXT arrives as messages.
        let wanted = [
            (prints, vk::ValidationFeatureEnableEXT::DEBUG_PRINTF),
            (sync && offers, vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION),
        ];
        let wanted: Vec<_> = wanted.into_iter().filter_map(|(asked, feature)| asked.then_some(feature)).collect();
        let debug_utils = debug && (offered(ext::debug_utils::NAME) || validated);

        let mut names = Vec::new();
        let mut flags = vk::InstanceCreateFlags::empty();
        if debug_utils {
            names.push(ext::debug_utils::NAME.as_ptr());
        }
        if !wanted.is_empty() {
            names.push(ext::validation_features::NAME.as_ptr());
        }
        // MoltenVK is listed only for applications that request portability devices.
        if offered(khr::portability_enumeration::NAME) {
            names.push(khr::portability_enumeration::NAME.as_ptr());
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }
        let layer_names: Vec<_> = validated.then_some(VALIDATION.as_ptr()).into_iter().collect();
        let application = vk::ApplicationInfo::default()
            .application_name(c"grilly")
            .engine_name(c"grilly")
            .api_version(vk::API_VERSION_1_3);
        let mut messenger = messages::create_info();
        let mut info = vk::InstanceCreateInfo::default()
            .flags(flags)
            .application_info(&application)
            .enabled_extension_names(&names)
            .enabled_layer_names(&layer_names);
        if debug_utils {
            info = info.push_next(&mut messenger);
        }
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&wanted);
        if !wanted.is_empty() {
            info = info.push_next(&mut features);
        }
        // SAFETY: every pointer of `info` outlives the call; extensions and layers are supported.
        let handle = unsafe { entry.create_instance(&info, None) }.map_err(|cause| match cause {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::DeviceUnavailable(
                "the Vulkan loader found no driver (Debian and Ubuntu: mesa-vulkan-drivers, or the maker's driver)"
                    .into(),
            ),
            cause => unavailable("vkCreateInstance", cause),
        })?;
        COUNTERS.instances.fetch_add(1, Relaxed);
        if debug_utils {
            let utils = ext::debug_utils::Instance::new(&entry, &handle);
            // SAFETY: the extension is enabled and the callback is a static function. The messenger lives as long as
            // the instance, which is never destroyed.
            if let Err(cause) = unsafe { utils.create_debug_utils_messenger(&messages::create_info(), None) } {
                log::warn!(target: "grilly", "no Vulkan validation messages: {cause}");
            }
        }
        Ok(Instance { handle, debug_utils, validated, prints, entry })
    }

    /// Every physical device, in the driver's order, usable or not.
    ///
    /// # Errors
    /// `DeviceUnavailable` when the devices cannot be enumerated.
    pub fn physical_devices(&self) -> Result<Vec<Physical>> {
        // SAFETY: the instance is alive.
        let handles = unsafe { self.handle.enumerate_physical_devices() };
        let handles = match handles {
            Err(vk::Result::ERROR_INITIALIZATION_FAILED) => Vec::new(),
            handles => handles.map_err(|cause| unavailable("vkEnumeratePhysicalDevices", cause))?,
        };
        Ok(handles.into_iter().map(|handle| query::physical(self, handle)).collect())
    }
}

/// Whether the validation layer provides an instance extension.
fn layer_offers(entry: &ash::Entry, name: &CStr) -> bool {
    // SAFETY: the entry is loaded, and the layer is installed.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(Some(VALIDATION)) };
    extensions.is_ok_and(|all| all.iter().any(|e| e.extension_name_as_c_str() == Ok(name)))
}

fn unavailable(call: &str, cause: vk::Result) -> Error {
    Error::DeviceUnavailable(format!("{call} failed: {cause:?}"))
}
