//! The environment variables, read once: they select a device, logging, or raising, and never affect numerical results.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The settings of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `VK_GPU_INDEX`: index in the raw Vulkan enumeration, software rasterisers included.
    pub gpu_index: Option<usize>,
    /// `ALLOW_CPU_VULKAN=1`: a software rasteriser counts as a usable Vulkan device.
    pub allow_cpu_vulkan: bool,
    /// `GRILLY_DEBUG=1`: log choices and fallbacks, name Vulkan objects, enable the validation layer.
    pub debug: bool,
    /// `GRILLY_DEBUG=printf`: as 1, and print the output of `debugPrintfEXT` in shaders, whenever they were compiled.
    /// Slows every shader down.
    pub prints: bool,
    /// `GRILLY_DEBUG=sync`: as 1, and the validation layer checks for memory accesses without a barrier between them.
    pub sync: bool,
    /// `GRILLY_STRICT=1` (or upstream's `GRILLY_BRIDGE_STRICT`): raise instead of falling back to the CPU.
    pub strict: bool,
}

/// The choice made by [`configure_debug`]: 0 none, 1 release mode, 2 debug mode.
static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// Selects debug mode or release mode, overriding `GRILLY_DEBUG`. Devices already in use keep their mode.
pub fn configure_debug(debug: bool) {
    CHOSEN.store(1 + u8::from(debug), Relaxed);
}

impl Settings {
    /// Reads the current variables and the choice made by [`configure_debug`].
    ///
    /// # Errors
    /// `InvalidArgument` when `VK_GPU_INDEX` is not a number.
    pub fn from_env() -> crate::Result<Self> {
        let mut settings = Self::from_lookup(|name| variable(name)?.into_string().ok())?;
        match CHOSEN.load(Relaxed) {
            0 => {}
            chosen => settings.debug = chosen == 2,
        }
        Ok(settings)
    }

    /// Reads the variables through `lookup`, so that tests do not modify the environment.
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

/// Whether `GRILLY_REQUIRE`, a comma-separated list of names, contains `what`: a test that needs it then fails instead
/// of skipping when it is missing.
///
/// ```
/// assert!(!grilly::settings::test_requires("a thing nobody requires"));
/// ```
pub fn test_requires(what: &str) -> bool {
    let listed = |list: OsString| list.to_string_lossy().split(',').any(|name| name.trim() == what);
    variable("GRILLY_REQUIRE").is_some_and(listed)
}

/// An environment variable; nothing else in the library reads one.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The folder `grilly` in `$XDG_CACHE_HOME`, or in the platform's equivalent.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let platform = || match std::env::consts::OS {
        "windows" => folder("LOCALAPPDATA"),
        "macos" => Some(folder("HOME")?.join("Library/Caches")),
        _ => Some(folder("HOME")?.join(".cache")),
    };
    Some(folder("XDG_CACHE_HOME").or_else(platform)?.join("grilly"))
}
