//! Engines of several devices that work together.

use std::sync::Arc;

use super::Engine;
use crate::Result;
use crate::backend::choose;
use crate::settings::Settings;

impl Engine {
    /// The engines of devices of one kind and driver, whose results have the same bits: names with commas between, or `"all"`
    /// usable ones.
    ///
    /// # Errors
    /// As [`Engine::of`] and [`choose::named`]; `InvalidArgument` for devices of different kinds.
    ///
    /// ```
    /// assert_eq!(grilly::array::Engine::each("cpu").unwrap().len(), 1);
    /// let error = grilly::array::Engine::each("cpu,vulkan:0").err().unwrap().to_string();
    /// assert_eq!(error, "devices are \"cpu,vulkan:0\", expected each to be \"vulkan:N\"");
    /// ```
    pub fn each(names: &str) -> Result<Vec<Arc<Engine>>> {
        let requests = choose::named(names, &Settings::from_env()?)?;
        let engines = requests.iter().map(|request| Engine::of(&request.to_string())).collect::<Result<Vec<_>>>()?;
        let kinds: Vec<_> = engines.iter().map(|engine| (engine.device(), engine.driver())).collect();
        choose::check_kinds(names, &kinds, "their bits would differ, and with them the parameters of each")?;
        Ok(engines)
    }

    /// Name and version of the device's driver; empty for the host's processor.
    #[cfg(feature = "vulkan")]
    fn driver(&self) -> &str {
        self.capabilities().map_or("", |capabilities| &capabilities.driver)
    }

    /// Name and version of the device's driver; empty for the host's processor.
    #[cfg(not(feature = "vulkan"))]
    fn driver(&self) -> &str {
        ""
    }
}
