//! Devices, settings, counters and faults.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::lock;
use crate::backend::faults::{self, Fault};
use crate::settings::Settings;
use crate::{Error, stats::COUNTERS};

/// One Vulkan device, usable or not.
struct Device {
    /// Place in the raw enumeration, which `VK_GPU_INDEX` counts.
    raw_index: usize,
    /// Place among the usable devices, which `"vulkan:N"` counts.
    position: Option<usize>,
    facts: Facts,
}

#[cfg(feature = "vulkan")]
type Facts = crate::backend::vulkan::Capabilities;
#[cfg(not(feature = "vulkan"))]
type Facts = std::convert::Infallible;

/// Every Vulkan device there is, in the order of the raw enumeration.
fn devices(_settings: &Settings) -> crate::Result<Vec<Device>> {
    Ok(Vec::new())
}

impl Device {
    #[cfg(feature = "vulkan")]
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = &self.facts;
        let row = PyDict::new(py);
        row.set_item("raw_index", self.raw_index)?;
        row.set_item("position", self.position)?;
        row.set_item("name", &facts.name)?;
        row.set_item("type", format!("{:?}", facts.device_type).to_lowercase())?;
        row.set_item("vendor", facts.vendor)?;
        row.set_item("driver", &facts.driver)?;
        row.set_item("api", format!("{}.{}.{}", facts.api.0, facts.api.1, facts.api.2))?;
        row.set_item("memory", facts.memory)?;
        row.set_item("missing", &facts.missing)?;
        row.set_item("features", facts.features.iter().map(|feature| feature.name()).collect::<Vec<_>>())?;
        let limits = PyDict::new(py);
        limits.set_item("storage_buffer_range", facts.storage_buffer_range)?;
        limits.set_item("storage_buffer_alignment", facts.storage_buffer_alignment)?;
        limits.set_item("allocation", facts.allocation)?;
        limits.set_item("shared_memory", facts.shared_memory)?;
        limits.set_item("invocations", facts.invocations)?;
        limits.set_item("workgroup_size", facts.workgroup_size)?;
        limits.set_item("workgroup_count", facts.workgroup_count)?;
        limits.set_item("push_constants", facts.push_constants)?;
        limits.set_item("storage_buffers", facts.storage_buffers)?;
        limits.set_item("subgroup_size", facts.subgroup_size)?;
        limits.set_item("timestamp_period", facts.timestamp_period)?;
        row.set_item("limits", limits)?;
        Ok(row)
    }

    #[cfg(not(feature = "vulkan"))]
    fn describe<'py>(&self, _py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _ = (self.raw_index, self.position);
        match self.facts {}
    }
}

/// Every Vulkan device, usable or not: one dict each.
#[pyfunction]
pub(super) fn inventory(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let settings = Settings::from_env()?;
    let rows = lock::without(py, || devices(&settings))?;
    rows.iter().map(|row| row.describe(py)).collect()
}

/// The host: threads this process may use and the widest SIMD instructions.
#[pyfunction]
pub(super) fn host(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("threads", std::thread::available_parallelism().map_or(1, usize::from))?;
    row.set_item("simd", simd())?;
    Ok(row)
}

#[cfg(target_arch = "x86_64")]
fn simd() -> &'static str {
    if is_x86_feature_detected!("avx512f") {
        "avx512"
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        "avx2"
    } else {
        "sse2"
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn simd() -> &'static str {
    if cfg!(target_arch = "aarch64") { "neon" } else { "none" }
}

/// The environment variables as grilly reads them now.
#[pyfunction]
pub(super) fn settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let settings = Settings::from_env()?;
    let row = PyDict::new(py);
    row.set_item("VK_GPU_INDEX", settings.gpu_index)?;
    row.set_item("ALLOW_CPU_VULKAN", settings.allow_cpu_vulkan)?;
    row.set_item("GRILLY_DEBUG", settings.debug)?;
    row.set_item("GRILLY_STRICT", settings.strict)?;
    Ok(row)
}

/// Name and value of each counter.
#[pyfunction]
pub(super) fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let row = PyDict::new(py);
    for (name, value) in COUNTERS.snapshot().entries() {
        row.set_item(name, value)?;
    }
    Ok(row)
}

/// Sets the counters to zero.
#[pyfunction]
pub(super) fn reset_stats() {
    COUNTERS.reset();
}

/// Makes a device fail: `kind` is `"allocation"` or `"device_lost"`.
#[pyfunction]
#[pyo3(signature = (kind, after=0))]
pub(super) fn inject_fault(kind: &str, after: u64) -> PyResult<()> {
    let fault = match kind {
        "allocation" => Fault::Allocation,
        "device_lost" => Fault::DeviceLost,
        _ => {
            let problem = format!("fault is {kind:?}, expected \"allocation\" or \"device_lost\"");
            return Err(Error::InvalidArgument(problem).into());
        }
    };
    faults::inject(fault, after);
    Ok(())
}

/// Disarms every fault.
#[pyfunction]
pub(super) fn clear_faults() {
    faults::clear();
}

/// What the validation layer has said so far; empty unless `GRILLY_DEBUG=1` turned it on.
#[pyfunction]
pub(super) fn validation_messages() -> Vec<String> {
    Vec::new()
}
