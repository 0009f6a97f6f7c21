//! A logical device with its queue, its allocator and the single timeline that counts its submissions.

mod create;
mod end;
mod failure;
mod memory;
#[cfg(test)]
mod statistics;
mod wait;

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use ash::{ext, vk};
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationSizes, AllocatorDebugSettings};

pub use end::close_all;
use failure::failure;
pub use memory::Retains;

use super::{Instance, Physical, Recording, lock};
use crate::backend::faults::{Fault, strikes};
use crate::backend::vulkan::Capabilities;
use crate::stats::COUNTERS;
use crate::{Error, Result, exit};

/// The number of a submission on its device; it is finished when the device's timeline has reached the number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

struct Queue {
    handle: vk::Queue,
    last: Ticket,
}

/// A logical device.
pub struct Device {
    pub(super) handle: ash::Device,
    pub(super) debug: Option<ext::debug_utils::Device>,
    pub(super) allocator: Mutex<Option<Allocator>>,
    /// Who retains memory of it.
    retaining: Mutex<Vec<Weak<dyn Retains>>>,
    pub(super) pipeline_cache: vk::PipelineCache,
    /// What is kept of every pipeline beside its code.
    pub(super) kept: vk::PipelineCreateFlags,
    /// Invocations of a subgroup, where a device that only compiles is not left to choose.
    pub(super) lanes: Option<u32>,
    pub(super) queue_family: u32,
    pub(super) timestamp_bits: u32,
    /// Its capabilities.
    pub capabilities: Capabilities,
    queue: Mutex<Queue>,
    timeline: vk::Semaphore,
    /// The highest observed value of the timeline.
    seen: AtomicU64,
    lost: AtomicBool,
    process: AtomicU32,
    physical: vk::PhysicalDevice,
    /// Whether `VK_EXT_memory_budget` tells how much memory this process may use.
    tells_budgets: bool,
    // Keeps the loader in memory; dropped after the handle.
    instance: Arc<Instance>,
}

impl Device {
    /// Opens a usable device. `cached` is what [`Device::cached_pipelines`] returned on an earlier run, or empty.
    ///
    /// # Errors
    /// `Device` or `OutOfMemory`, as reported by the driver.
    pub fn open(instance: &Arc<Instance>, physical: &Physical, cached: &[u8]) -> Result<Arc<Self>> {
        let name = &physical.capabilities.name;
        let failed = |call: &str, cause: vk::Result| failure(name, call, cause);
        let handle = create::create(instance, physical).map_err(|cause| failed("vkCreateDevice", cause))?;
        // SAFETY: the family was enumerated from this device and one queue of it was created.
        let queue = unsafe { handle.get_device_queue(physical.queue_family, 0) };
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(0);
        let timeline = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the device is alive and has timeline semaphores.
        let timeline =
            unsafe { handle.create_semaphore(&timeline, None) }.map_err(|cause| failed("vkCreateSemaphore", cause))?;
        let mut debug_settings = AllocatorDebugSettings::default();
        debug_settings.log_leaks_on_shutdown = false;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: instance.handle.clone(),
            device: handle.clone(),
            physical_device: physical.handle,
            debug_settings,
            buffer_device_address: false,
            // A model's arenas are larger and get dedicated memory, which is freed with them. Arrays up to this size
            // share blocks, and those that are dropped are retained: an allocation takes drivers up to milliseconds.
            allocation_sizes: AllocationSizes::new(64 << 20, 4 << 20),
        });
        let allocator = allocator.map_err(|cause| Error::Device {
            device: name.clone(),
            call: "setting up the allocator".into(),
            cause: cause.to_string(),
        })?;
        let cache = vk::PipelineCacheCreateInfo::default().initial_data(cached);
        // SAFETY: the device is alive. The checksum shows that the data was written by this driver.
        let pipeline_cache = unsafe { handle.create_pipeline_cache(&cache, None) }
            .map_err(|cause| failed("vkCreatePipelineCache", cause))?;
        COUNTERS.devices.fetch_add(1, Relaxed);
        let device = Arc::new(Device {
            debug: instance.debug_utils.then(|| ext::debug_utils::Device::new(&instance.handle, &handle)),
            handle,
            allocator: Mutex::new(Some(allocator)),
            retaining: Mutex::default(),
            pipeline_cache,
            kept: vk::PipelineCreateFlags::empty(),
            lanes: None,
            queue_family: physical.queue_family,
            timestamp_bits: physical.timestamp_bits,
            capabilities: physical.capabilities.clone(),
            queue: Mutex::new(Queue { handle: queue, last: Ticket(0) }),
            timeline,
            seen: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            process: AtomicU32::new(crate::process::id()),
            physical: physical.handle,
            tells_budgets: physical.tells_budgets,
            instance: instance.clone(),
        });
        device.name(timeline, "submissions");
        Ok(device)
    }

    /// Whether this process was forked from the one that opened the device; then no part of it may be used.
    pub fn forked(&self) -> bool {
        self.process.load(Relaxed) != crate::process::id()
    }

    /// Whether the device was lost.
    pub fn lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// Fails when the device can no longer be used.
    ///
    /// # Errors
    /// `Unusable` after a fork, `DeviceLost`, `Interrupted` at the process' end.
    pub fn check(&self, during: &str) -> Result<()> {
        if self.forked() {
            return Err(Error::Unusable(format!(
                "{}: opened in process {}, from which this one was forked; load the model inside the function that workers run and not before, or start them with the \"spawn\" method",
                self.capabilities.name,
                self.process.load(Relaxed)
            )));
        }
        if self.lost() {
            return Err(Error::DeviceLost { device: self.capabilities.name.clone(), during: during.into() });
        }
        if exit::begun() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Gives an object its debug name.
    pub(super) fn name<T: vk::Handle>(&self, object: T, name: &str) {
        if let (Some(debug), Ok(name)) = (&self.debug, std::ffi::CString::new(name)) {
            let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&name);
            // SAFETY: the object is alive and used by this thread only: callers name objects they have just created.
            let _ = unsafe { debug.set_debug_utils_object_name(&info) };
        }
    }

    /// Submits recordings, which run in order, in one call.
    ///
    /// # Errors
    /// As [`Device::check`], or a driver error.
    pub fn submit(&self, recordings: &mut [&mut Recording]) -> Result<Ticket> {
        self.check("a submission")?;
        for recording in recordings.iter() {
            if !std::ptr::eq(&*recording.device, self) || !recording.recorded || !self.reached(recording.ticket)? {
                return Err(
                    self.misuse("vkQueueSubmit2", "the recording is empty, under way or another device's".into())
                );
            }
        }
        let mut queue = lock(&self.queue);
        // Checked again under the lock, because shutdown counts the submissions under it.
        self.check("a submission")?;
        if strikes(Fault::DeviceLost) {
            return Err(self.failure("a submission", vk::Result::ERROR_DEVICE_LOST));
        }
        self.has_memory("vkQueueSubmit2")?;
        let ticket = Ticket(queue.last.0 + 1);
        let buffers: Vec<_> =
            recordings.iter().map(|r| vk::CommandBufferSubmitInfo::default().command_buffer(r.buffer)).collect();
        let signal = [vk::SemaphoreSubmitInfo::default()
            .semaphore(self.timeline)
            .value(ticket.0)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)];
        let submit = [vk::SubmitInfo2::default().command_buffer_infos(&buffers).signal_semaphore_infos(&signal)];
        // SAFETY: the lock guards the queue; the command buffers are recorded and not in flight, as checked above while
        // borrowed exclusively; everything they use is kept alive by their recordings until the ticket is reached.
        let result = unsafe { self.handle.queue_submit2(queue.handle, &submit, vk::Fence::null()) };
        result.map_err(|cause| self.failure("vkQueueSubmit2", cause))?;
        queue.last = ticket;
        COUNTERS.submits.fetch_add(1, Relaxed);
        for recording in recordings {
            recording.ticket = ticket;
            recording.count();
        }
        Ok(ticket)
    }

    /// The driver's pipeline cache, for the next run.
    pub fn cached_pipelines(&self) -> Vec<u8> {
        // SAFETY: the cache lives as long as the device.
        unsafe { self.handle.get_pipeline_cache_data(self.pipeline_cache) }.unwrap_or_default()
    }

    /// Simulates a forked process (or ends the simulation).
    #[cfg(test)]
    pub fn pretend_forked(&self, forked: bool) {
        self.process.store(if forked { 0 } else { crate::process::id() }, SeqCst);
    }
}
