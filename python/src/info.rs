//! Devices, settings, counters and faults; what models there are.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::embed::EmbeddingModel;
use crate::error::PyResult;
use crate::lock;
use crate::text::Name;
use grilly::Error;
use grilly::backend::cpu;
use grilly::backend::faster::{Known, Row};
use grilly::backend::faults::{self, Fault};
use grilly::backend::vulkan::generated::linear_split;
use grilly::backend::vulkan::{self, DeviceType, Listed};
use grilly::dtype::DType;
use grilly::error::named;
use grilly::graph::shaders::Float32Products;
use grilly::model::arguments::Arguments;
use grilly::model::heads::known_modules;
use grilly::model::registry::{ARCHITECTURES, HEADS};
use grilly::model::shaders;
use grilly::numerics::{Coverage, Numerics};
use grilly::ops::Op;
use grilly::process::{memory, processor};
use grilly::settings::Settings;
use grilly::stats::COUNTERS;

/// The device selected by `device="vulkan"`: its index in the list and the reason, or why there is none.
pub(crate) type Chosen = std::result::Result<(usize, String), String>;

/// Sets fields of a struct as entries of a dict, under their own names.
macro_rules! set_fields {
    ($dict:ident, $of:expr; $($field:ident),+) => { $($dict.set_item(stringify!($field), &$of.$field)?;)+ };
}
pub(crate) use set_fields;

/// Refuses so many bytes, for a purpose, if the machine, the limits of the process or its control groups do not leave them.
#[pyfunction]
pub(crate) fn need_memory(py: Python<'_>, bytes: u128, purpose: Name) -> PyResult<()> {
    lock::without(py, || memory::need(bytes, &purpose.0))
}

/// The version; every Vulkan device, usable or not, one dict per device, and the one selected by `device="vulkan"`; the
/// number of threads this process may use and the widest instruction set in use; the settings; whether `device="auto"` times models on
/// that device and the CPU, and the times so far.
#[pyfunction]
pub(crate) fn info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let settings = Settings::from_env()?;
    let (devices, chosen) = listed(py, &settings)?;
    let rows: Vec<_> = devices.iter().map(|device| describe(py, device)).collect::<PyResult<_>>()?;
    let choice = PyDict::new(py);
    let cpu = cpu::backend();
    let (backend, name, reason) = match &chosen {
        Ok((index, reason)) => ("vulkan", devices[*index].capabilities.name.as_str(), reason),
        Err(reason) => ("cpu", cpu.device_name(), reason),
    };
    choice.set_item("backend", backend)?;
    choice.set_item("name", name)?;
    choice.set_item("reason", reason)?;
    let host = PyDict::new(py);
    host.set_item("name", processor::name())?;
    host.set_item("threads", std::thread::available_parallelism().map_or(1, usize::from))?;
    host.set_item("simd", cpu::instructions())?;
    let auto = PyDict::new(py);
    let integrated = |index: usize| devices[index].capabilities.device_type == DeviceType::Integrated;
    let measures = settings.gpu_index.is_none() && chosen.as_ref().is_ok_and(|(index, _)| integrated(*index));
    auto.set_item("measures", measures)?;
    auto.set_item("measured", Known::of_user().rows().iter().map(|row| timed(py, row)).collect::<PyResult<Vec<_>>>()?)?;
    let answer = PyDict::new(py);
    answer.set_item("version", env!("CARGO_PKG_VERSION"))?;
    answer.set_item("devices", rows)?;
    answer.set_item("choice", choice)?;
    answer.set_item("auto", auto)?;
    answer.set_item("cpu", host)?;
    answer.set_item("float32_products", shaders::read().float32_products.name())?;
    answer.set_item("numerics", shaders::read().numerics.name())?;
    answer.set_item("environment", self::settings(py)?)?;
    Ok(answer)
}

/// The times of a size of model.
fn timed<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
    let (of, told) = (&row.subject, PyDict::new(py));
    set_fields!(told, of; device, driver, processor, threads, hidden, layers, intermediate, dtype, numerics);
    told.set_item("seconds_gpu", row.seconds.gpu)?;
    told.set_item("seconds_cpu", row.seconds.cpu)?;
    told.set_item("faster", if row.seconds.cpu_is_faster() { "cpu" } else { "vulkan" })?;
    Ok(told)
}

/// Every Vulkan device, none if there is no driver, and the selected one.
pub(crate) fn listed(py: Python<'_>, settings: &Settings) -> PyResult<(Vec<Listed>, Chosen)> {
    crate::lock::without(py, || match vulkan::devices(settings) {
        Ok(inventory) => Ok((inventory.devices, inventory.chosen)),
        Err(Error::DeviceUnavailable(reason)) => Ok((Vec::new(), Err(reason))),
        Err(error) => Err(error),
    })
}

fn describe<'py>(py: Python<'py>, device: &Listed) -> PyResult<Bound<'py, PyDict>> {
    let facts = &device.capabilities;
    let row = PyDict::new(py);
    set_fields!(row, device; index, position, unusable);
    set_fields!(row, facts; name);
    row.set_item("type", format!("{:?}", facts.device_type).to_lowercase())?;
    set_fields!(row, facts; vendor, driver);
    row.set_item("api", format!("{}.{}.{}", facts.api.0, facts.api.1, facts.api.2))?;
    set_fields!(row, facts; memory, missing);
    let splits = linear_split::KERNEL.own(DType::F32, facts).is_ok();
    let products = if splits { Float32Products::Split } else { Float32Products::Plain };
    row.set_item("float32_products", products.name())?;
    row.set_item("features", facts.features.iter().map(|feature| feature.name()).collect::<Vec<_>>())?;
    let limits = PyDict::new(py);
    set_fields!(limits, facts; storage_buffer_range, storage_buffer_alignment, allocation, shared_memory, invocations);
    set_fields!(limits, facts; workgroup_size, workgroup_count, push_constants, storage_buffers);
    set_fields!(limits, facts; subgroup_size, timestamp_period);
    row.set_item("limits", limits)?;
    Ok(row)
}

/// The settings that grilly reads from the environment now.
#[pyfunction]
pub(crate) fn settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
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
pub(crate) fn stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    Ok(COUNTERS.snapshot().entries().into_py_dict(py)?)
}

/// Sets the counters to zero.
#[pyfunction]
pub(crate) fn reset_stats() {
    COUNTERS.reset();
}

/// Injects a fault into a device: `kind` is `"allocation"`, `"device_lost"` or `"barrier"`.
#[pyfunction]
#[pyo3(signature = (kind, after=0, times=None))]
pub(crate) fn inject_fault(kind: Name, after: u64, times: Option<u64>) -> PyResult<()> {
    let known = [("allocation", Fault::Allocation), ("device_lost", Fault::DeviceLost), ("barrier", Fault::Barrier)];
    faults::inject_some(named("fault", &kind.0, known)?, after, times.unwrap_or(u64::MAX));
    Ok(())
}

/// Disarms all injected faults; returns how many calls failed.
#[pyfunction]
pub(crate) fn clear_faults() -> u64 {
    faults::clear()
}

/// The messages of the validation layer so far; empty unless `GRILLY_DEBUG=1` enabled it.
#[pyfunction]
pub(crate) fn validation_messages() -> Vec<String> {
    vulkan::validation_messages()
}

/// Starts timing every dispatch, discarding earlier times, or stops.
#[pyfunction]
pub(crate) fn profile(on: bool) {
    vulkan::profile(on);
}

/// Number of dispatches per label and kernel, and their nanoseconds on the device.
#[pyfunction]
pub(crate) fn dispatch_times() -> Vec<(String, &'static str, u64, f64)> {
    let times = vulkan::times();
    times.into_iter().map(|((label, kernel), e)| (label, kernel, e.count, e.nanoseconds)).collect()
}

/// Each dispatched variant with its constants, and the number of dispatches; pending calls are submitted first.
#[pyfunction]
pub(crate) fn dispatched(py: Python<'_>) -> Vec<(&'static str, Vec<u32>, u64)> {
    // A lost device has no pending work.
    let _ = crate::lock::without(py, || {
        grilly::array::Engine::opened().iter().for_each(|engine| drop(engine.synchronize()));
        Ok(())
    });
    vulkan::dispatched()
}

/// Every variant of the build: its name, the features it requires, and whether it reads the subgroup size.
#[pyfunction]
pub(crate) fn built_variants() -> Vec<(&'static str, Vec<&'static str>, bool)> {
    let row = |built: &vulkan::Built| {
        (built.name, built.needs.iter().map(|feature| feature.name()).collect(), built.subgroups)
    };
    vulkan::built().iter().map(row).collect()
}

/// `model_type`, start of the names of its classes and examples of every architecture.
#[pyfunction]
pub(crate) fn model_rows() -> Vec<(&'static str, &'static str, &'static str)> {
    ARCHITECTURES.iter().map(|row| (row.model_type, row.class, row.models)).collect()
}

/// Checks keyword arguments for the readers of a model's files, JSON; returns a line for each that changes nothing.
#[pyfunction]
pub(crate) fn check_arguments(arguments: Name) -> PyResult<Vec<String>> {
    Ok(Arguments::of_caller(&arguments.0)?.1)
}

/// `"run"`, or `"everywhere"` with its version, for a name of either; by default the process' choice.
#[pyfunction]
#[pyo3(signature = (name=None))]
pub(crate) fn numerics_name(name: Option<Name>) -> PyResult<&'static str> {
    Ok(name.map_or(Ok(shaders::read().numerics), |name| name.0.parse::<Numerics>())?.name())
}

/// Refuses training, of which `what` is a part, where numbers are to be the same everywhere.
#[pyfunction]
pub(crate) fn check_trains(what: Name) -> PyResult<()> {
    Ok(shaders::read().numerics.check_trains(&what.0)?)
}

/// Every op, and what `numerics="everywhere"` makes of it: `"promised"`, `"steps"`, or the reason why it is refused.
#[pyfunction]
pub(crate) fn everywhere_rows() -> Vec<(&'static str, &'static str)> {
    let told = |coverage| match coverage {
        Coverage::Promised => "promised",
        Coverage::Steps => "steps",
        Coverage::Refused(reason) => reason,
    };
    Op::everywhere_of_all().into_iter().map(|(name, coverage)| (name, told(coverage))).collect()
}

/// Every module that is read, with its modes or activations.
#[pyfunction]
pub(crate) fn module_rows() -> Vec<(&'static str, Vec<&'static str>)> {
    known_modules()
}

/// `model_type` of every architecture with a head for scores of pairs, and whether it has one for logits of words.
#[pyfunction]
pub(crate) fn head_rows() -> Vec<(&'static str, bool)> {
    HEADS.iter().map(|row| (row.model_type, row.words.is_some())).collect()
}

/// A tensor's type, as safetensors names it, its axes and its bytes.
type StoredTensor = (String, Vec<usize>, Cow<'static, [u8]>);

/// A tensor of a model as it is stored; None if there is none.
#[pyfunction]
pub(crate) fn stored_tensor(model: &EmbeddingModel, name: &str) -> PyResult<Option<StoredTensor>> {
    let found = model.0.get()?.stored_tensor(name);
    Ok(found.map(|(dtype, axes, bytes)| (dtype, axes, bytes.into())))
}
