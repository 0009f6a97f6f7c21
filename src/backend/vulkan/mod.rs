//! The Vulkan backend: plans become lists of dispatches (data), and those become recorded command buffers.
//!
//! ```text
//! device.rs (instance, devices, choice) ── probe.rs (what drivers decide) ── raw/ (Vulkan itself)
//! Plan ── kernels/ (over lowering.rs) ─▶ Vec<Dispatch> ── prepared.rs ─▶ their pipelines and weights; bound to the memory of a
//!         run, they are recorded (record.rs: barriers, and what fits one submission):
//!     batch ── program.rs, slot.rs ─▶ once, in memory of its own; grids and counts are read from there; one submit, one wait
//!     arrays ── arrays.rs ── work.rs ─▶ in a list, submitted when something is read ── replay.rs ─▶ kept for later runs
//! Weights ── upload.rs ─▶ arenas (memory.rs)
//! shaders/**/*.glsl ── build.rs ─▶ generated.rs (SPIR-V, bindings, typed push constants and constants)
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

mod arrays;
mod bindings;
mod budget;
pub(crate) mod cache_file;
mod capabilities;
mod command_pool;
#[cfg(test)]
mod compiled;
mod device;
mod devices;
mod dispatched;
pub mod flash;
mod float_controls;
mod free_list;
mod integers;
mod interface;
mod kernel;
mod kernels;
mod known_answers;
mod limits;
mod lowering;
mod memory;
mod module;
mod pipeline;
mod prepared;
mod probe;
mod profile;
mod program;
mod raw;
mod record;
pub(crate) mod reflect;
pub(crate) mod registry;
mod relative_ids;
mod replay;
mod side_by_side;
mod slot;
pub(crate) mod spirv;
mod staging;
mod upload;
mod words;
mod work;
mod work_memory;

pub use bindings::DescriptorBindingBuilder;
pub use capabilities::{Capabilities, DeviceType, Feature, MatrixRows};
pub use command_pool::CommandBufferPool;
pub use device::Opened as OpenDevice;
pub(crate) use device::expect_prints;
pub use device::{abandon, check_process, devices, in_use, shut_down, validated};
pub use devices::{Inventory, Listed};
pub use dispatched::{Built, built, dispatched};
pub use interface::{Element, Interface};
pub use kernel::Variant as ShaderModule;
pub use kernel::{
    Access, Binding, Constant, Dispatch, Extent, Kernel, PushMember, Range, Resource, Scalar, Specialization, Variant,
};
pub(crate) use kernels::lower;
pub use limits::split_submissions;
pub use module::Module;
pub(crate) use prepared::bound_weights;
pub use profile::{Entry, Times, profile, times};
pub(crate) use raw::spirv_tools;
pub use raw::{
    Buffer, ComputePipeline, Kind as BufferKind, Recording, Slice as BufferSlice, WriteOnly, validation_messages,
};
pub use record::Commands;
pub use registry::{builtin, select};
pub use work::guard_bands;

use super::{ArrayEngine, Backend, BackendKind, Choice, Executable, ProgramOptions};
use crate::Result;
use crate::graph::Plan;
use crate::settings::Settings;
use crate::tensor::WeightSource;
use arrays::VulkanArrays;
use device::Opened;

/// Opens the usable device at `position`, or the best one.
///
/// # Errors
/// `DeviceUnavailable` stating what was found and what it lacks; `IndexOutOfRange`; `Unusable` after a fork.
pub fn open(position: Option<usize>, settings: &Settings) -> Result<Choice> {
    let (opened, reason) = device::open_device(position, settings)?;
    Ok(Choice { backend: Arc::new(Vulkan(opened)), reason })
}

/// The number of usable devices.
///
/// # Errors
/// As [`devices`].
pub fn usable(settings: &Settings) -> Result<usize> {
    Ok(devices(settings)?.devices.iter().filter(|listed| listed.position.is_some()).count())
}

/// Files by which Linux shows a GPU, one under WSL too, also to a process whose Vulkan has no driver for it.
const GPU_FILES: [&str; 4] = ["/dev/dri/renderD128", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg"];

/// Whether this machine has a GPU, usable or not. Of systems other than Linux it is assumed.
pub fn has_gpu(settings: &Settings) -> bool {
    let is_gpu = |listed: &Listed| listed.capabilities.device_type != DeviceType::Software;
    !cfg!(target_os = "linux")
        || GPU_FILES.iter().any(|file| std::path::Path::new(file).exists())
        || devices(settings).is_ok_and(|found| found.devices.iter().any(is_gpu))
}

struct Vulkan(Arc<Opened>);

impl Backend for Vulkan {
    fn kind(&self) -> BackendKind {
        BackendKind::Vulkan
    }

    fn device_name(&self) -> &str {
        &self.0.device.capabilities.name
    }

    fn driver(&self) -> &str {
        &self.0.device.capabilities.driver
    }

    fn integrated(&self) -> bool {
        self.0.device.capabilities.device_type == DeviceType::Integrated
    }

    fn builds(&self, plan: &Plan) -> String {
        let of = |plan: &Plan| kernels::builds_of(plan, &self.0.device.capabilities);
        of(plan).or_else(|_| of(&plan.widened())).unwrap_or_default()
    }

    fn prepare(
        &self,
        plan: Arc<Plan>,
        weights: Arc<dyn WeightSource>,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Executable>> {
        program::prepare(&self.0, plan, &*weights, options)
    }

    fn arrays(&self, own: Option<ProgramOptions>) -> Result<Arc<dyn ArrayEngine>> {
        if let Some(options) = own {
            return Ok(VulkanArrays::new(&self.0, options.memory_limit));
        }
        let mut shared = lock(&self.0.arrays);
        Ok(shared.as_ref().and_then(Weak::upgrade).unwrap_or_else(|| {
            let made: Arc<dyn ArrayEngine> = VulkanArrays::new(&self.0, None);
            *shared = Some(Arc::downgrade(&made));
            made
        }))
    }
}

/// Locks a mutex and ignores poisoning: everything guarded here is valid between any two statements.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Invocations and shared-memory bytes of a build's workgroup, given the values of its specialization constants in
/// order.
pub(crate) fn sizes(variant: &Variant, values: &[u32]) -> ([u32; 3], u32) {
    let constants = variant.constants.iter().map(|constant| constant.id).zip(values.iter().copied());
    reflect::sizes(&variant.spirv, &constants.collect::<Vec<_>>()).unwrap_or((variant.local_size, variant.shared_bytes))
}

/// The shared-memory bytes of [`sizes`].
pub(crate) fn shared_bytes(variant: &Variant, values: &[u32]) -> u32 {
    sizes(variant, values).1
}

/// Code that build.rs generates from `shaders/`: one module per kernel, with structs whose fields are the shader's
/// names. A name that the shader does not have is a compile error:
///
/// ```
/// let push = grilly::backend::vulkan::generated::layer_norm::Push { eps: 1e-5, ..Default::default() };
/// ```
/// ```compile_fail,E0560
/// let push = grilly::backend::vulkan::generated::layer_norm::Push { epsilon: 1e-5, ..Default::default() };
/// ```
/// So is an omitted constant:
/// ```compile_fail,E0063
/// let constants = grilly::backend::vulkan::generated::rope::Constants {};
/// ```
#[allow(clippy::all)] // written by build.rs
pub mod generated {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// A doctest that compiles and runs the Rust code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/engine.md")]
mod guide {}
