//! The environment variables, read once: they choose a device, log, or raise, and never change a number.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The settings of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `VK_GPU_INDEX`: position in the raw Vulkan enumeration, software rasterisers included.
    pub gpu_index: Option<usize>,
    /// `ALLOW_CPU_VULKAN=1`: a software rasteriser counts as a usable Vulkan device.
    pub allow_cpu_vulkan: bool,
    /// `GRILLY_DEBUG=1`: log choices and fallbacks, name Vulkan objects, turn the validation layer on.
    pub debug: bool,
    /// `GRILLY_DEBUG=printf`: the same, and what shaders write with `debugPrintfEXT` is shown whenever they were compiled.
    /// It makes every shader slower.
    pub prints: bool,
    /// `GRILLY_DEBUG=sync`: the same as 1, and the validation layer looks for accesses to memory that no barrier orders.
    pub sync: bool,
    /// `GRILLY_STRICT=1` (or upstream's `GRILLY_BRIDGE_STRICT`): raise in place of falling back to the CPU.
    pub strict: bool,
}

/// What [`configure_debug`] chose: 0 nothing, 1 release mode, 2 debug mode.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Chooses debug mode, or release mode, whatever `GRILLY_DEBUG` says. Devices that are in use keep the mode they have.
pub fn configure_debug(debug: bool) {
    CHOSEN.store(1 + u8::from(debug), Relaxed);
}

impl Settings {
    /// Reads the variables as they are now, and what [`configure_debug`] chose.
    ///
    /// # Errors
    /// `InvalidArgument` when `VK_GPU_INDEX` is not a number.
    pub fn from_env() -> crate::Result<Self> {
        let mut settings = Self::from_lookup(|name| std::env::var(name).ok())?;
        match CHOSEN.load(Relaxed) {
            0 => {}
            chosen => settings.debug = chosen == 2,
        }
        Ok(settings)
    }

    /// Reads the variables through `lookup`, so that tests need not touch the environment.
    ///
    /// # Errors
    /// `InvalidArgument` when `VK_GPU_INDEX` is not a number.
    ///
    /// ```
    /// let s = grilly::settings::Settings::from_lookup(|n| (n == "GRILLY_STRICT").then(|| "1".into())).unwrap();
    /// assert!(s.strict && !s.debug);
    /// let s = grilly::settings::Settings::from_lookup(|n| (n == "GRILLY_DEBUG").then(|| "printf".into())).unwrap();
    /// assert!(s.debug && s.prints && !s.sync);
    /// ```
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> crate::Result<Self> {
        let flag = |name: &str| {
            lookup(name).is_some_and(|v| matches!(v.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
        };
        let debug = |mode: &str| lookup("GRILLY_DEBUG").is_some_and(|v| v.trim().eq_ignore_ascii_case(mode));
        let (prints, sync) = (debug("printf"), debug("sync"));
        let gpu_index = match lookup("VK_GPU_INDEX").filter(|v| !v.trim().is_empty()) {
            None => None,
            Some(text) => Some(text.trim().parse().map_err(|_| {
                crate::Error::InvalidArgument(format!(
                    "VK_GPU_INDEX is {text:?}, expected a position in the list of Vulkan devices, such as 0"
                ))
            })?),
        };
        Ok(Self {
            gpu_index,
            allow_cpu_vulkan: flag("ALLOW_CPU_VULKAN"),
            debug: flag("GRILLY_DEBUG") || prints || sync,
            prints,
            sync,
            strict: flag("GRILLY_STRICT") || flag("GRILLY_BRIDGE_STRICT"),
        })
    }
}

/// Whether `GRILLY_REQUIRE`, a list of names separated by commas, holds `what`: a test that needs it and does not find
/// it then fails in place of skipping.
///
/// ```
/// assert!(!grilly::settings::test_requires("a thing nobody requires"));
/// ```
pub fn test_requires(what: &str) -> bool {
    std::env::var("GRILLY_REQUIRE").is_ok_and(|list| list.split(',').any(|name| name.trim() == what))
}
