//! Command buffers with all the resources they use.

mod descriptors;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ash::vk;

use super::{Command, Device, Grid, Launch, Slice, Ticket, Timing};
use crate::Result;
use crate::stats::COUNTERS;

/// A command buffer that can be submitted repeatedly, and recorded again when it is not in flight.
pub struct Recording {
    pub(super) device: Arc<Device>,
    pub(super) buffer: vk::CommandBuffer,
    /// The last submission.
    pub(super) ticket: Ticket,
    /// Whether the command buffer is complete.
    pub(super) recorded: bool,
    pool: vk::CommandPool,
    descriptors: vk::DescriptorPool,
    queries: vk::QueryPool,
    // Keeps alive what the command buffer uses.
    commands: Vec<Command>,
}

impl Recording {
    /// An empty recording.
    ///
    /// # Errors
    /// A driver error.
    pub(in crate::backend::vulkan) fn new(device: &Arc<Device>) -> Result<Self> {
        device.check("setting up a recording")?;
        device.has_memory("vkCreateCommandPool")?;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.queue_family);
        // SAFETY: the device is alive and the family is that of its queue.
        let pool = unsafe { device.handle.create_command_pool(&info, None) };
        let pool = pool.map_err(|cause| device.failure("vkCreateCommandPool", cause))?;
        let mut recording = Recording {
            device: device.clone(),
            buffer: vk::CommandBuffer::null(),
            ticket: Ticket::default(),
            recorded: false,
            pool,
            descriptors: vk::DescriptorPool::null(),
            queries: vk::QueryPool::null(),
            commands: Vec::new(),
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool was just created and is used by this thread only.
        let buffers = unsafe { device.handle.allocate_command_buffers(&info) };
        recording.buffer = buffers.map_err(|cause| device.failure("vkAllocateCommandBuffers", cause))?[0];
        Ok(recording)
    }

    /// Replaces the recorded commands by `commands`, which it takes. With `Timing::On`, [`Recording::times`] later returns
    /// the duration of each dispatch.
    ///
    /// # Errors
    /// `Device` when a command does not match its operands, or a driver error; the recording then cannot be submitted, and
    /// `commands` is as it was.
    pub(in crate::backend::vulkan) fn record(&mut self, commands: &mut Vec<Command>, timing: Timing) -> Result<()> {
        self.device.check("recording")?;
        self.device.wait_unless_reached(self.ticket)?;
        self.recorded = false;
        for command in commands.iter() {
            command.check(&self.device)?;
        }
        self.clear()?;
        self.commands = std::mem::take(commands);
        let done = self.record_now(timing);
        match done {
            Ok(()) => self.recorded = true,
            Err(_) => *commands = self.give_back(),
        }
        done
    }

    /// The commands of a recording that is not submitted, and then has none.
    pub(in crate::backend::vulkan) fn give_back(&mut self) -> Vec<Command> {
        self.recorded = false;
        std::mem::take(&mut self.commands)
    }

    fn record_now(&mut self, timing: Timing) -> Result<()> {
        let device = &self.device.clone();
        let failed = move |call: &'static str| move |cause| device.failure(call, cause);
        let sets = self.descriptor_sets()?;
        if timing == Timing::On && device.timestamp_bits > 0 && !sets.is_empty() {
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(sets.len() as u32 + 1);
            // SAFETY: the device is alive, and its queue has timestamps.
            self.queries =
                unsafe { device.handle.create_query_pool(&info, None) }.map_err(failed("vkCreateQueryPool"))?;
        }
        // SAFETY: the pool and the buffer belong to this recording alone, borrowed mutably, and are not in flight.
        // Handles used by the commands are alive, because the commands own them; sizes were checked in `check`.
        unsafe {
            let begin = vk::CommandBufferBeginInfo::default();
            device.handle.begin_command_buffer(self.buffer, &begin).map_err(failed("vkBeginCommandBuffer"))?;
            self.write_commands(&sets);
            device.handle.end_command_buffer(self.buffer).map_err(failed("vkEndCommandBuffer"))?;
        }
        Ok(())
    }

    /// # Safety
    /// The command buffer is being recorded, and `sets` contains one set per dispatch, in order.
    unsafe fn write_commands(&self, sets: &[vk::DescriptorSet]) {
        let (vulkan, buffer) = (&self.device.handle, self.buffer);
        let timed = self.queries != vk::QueryPool::null();
        let stage = vk::PipelineStageFlags2::COMPUTE_SHADER;
        let mut bound = vk::Pipeline::null();
        let mut place = 0;
        // SAFETY: by this function's contract; all handles are alive, because `self.commands` owns them.
        unsafe {
            if timed {
                vulkan.cmd_reset_query_pool(buffer, self.queries, 0, sets.len() as u32 + 1);
                vulkan.cmd_write_timestamp2(buffer, stage, self.queries, 0);
            }
            for command in &self.commands {
                match command {
                    Command::Copy { from, to } => {
                        let region =
                            vk::BufferCopy::default().src_offset(from.offset).dst_offset(to.offset).size(from.bytes);
                        vulkan.cmd_copy_buffer(buffer, from.buffer.handle, to.buffer.handle, &[region]);
                    }
                    Command::Dispatch { launch, grid, .. } => {
                        let Launch { pipeline, push, label } = &**launch;
                        self.begin_label(label);
                        if pipeline.handle != bound {
                            bound = pipeline.handle;
                            vulkan.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, bound);
                        }
                        let compute = vk::PipelineBindPoint::COMPUTE;
                        vulkan.cmd_bind_descriptor_sets(buffer, compute, pipeline.layout, 0, &[sets[place]], &[]);
                        if !push.is_empty() {
                            vulkan.cmd_push_constants(buffer, pipeline.layout, vk::ShaderStageFlags::COMPUTE, 0, push);
                        }
                        match grid {
                            Grid::Direct([x, y, z]) => vulkan.cmd_dispatch(buffer, *x, *y, *z),
                            Grid::Indirect(at) => vulkan.cmd_dispatch_indirect(buffer, at.buffer.handle, at.offset),
                        }
                        place += 1;
                        if timed {
                            vulkan.cmd_write_timestamp2(buffer, stage, self.queries, place as u32);
                        }
                        self.end_label();
                    }
                    barrier => {
                        let memory = [barrier.barrier()];
                        let dependency = vk::DependencyInfo::default().memory_barriers(&memory);
                        vulkan.cmd_pipeline_barrier2(buffer, &dependency);
                    }
                }
            }
        }
    }

    fn begin_label(&self, label: &str) {
        if let Some(debug) = &self.device.debug
            && let Ok(label) = std::ffi::CString::new(label)
        {
            let label = vk::DebugUtilsLabelEXT::default().label_name(&label);
            // SAFETY: the command buffer is being recorded by this thread.
            unsafe { debug.cmd_begin_debug_utils_label(self.buffer, &label) };
        }
    }

    fn end_label(&self) {
        if let Some(debug) = &self.device.debug {
            // SAFETY: as above, and a label has been begun.
            unsafe { debug.cmd_end_debug_utils_label(self.buffer) };
        }
    }

    /// Nanoseconds of each dispatch in the last submission, which must be finished; empty unless timing was on.
    ///
    /// # Errors
    /// A driver error.
    pub(in crate::backend::vulkan) fn times(&self) -> Result<Vec<(&Launch, f64)>> {
        if self.queries == vk::QueryPool::null() || self.ticket == Ticket::default() {
            return Ok(Vec::new());
        }
        let mut ticks = vec![0u64; self.dispatches().count() + 1];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: the pool has as many queries as `ticks` has elements, all written by the last submission.
        let result = unsafe { self.device.handle.get_query_pool_results(self.queries, 0, &mut ticks, flags) };
        result.map_err(|cause| self.device.failure("vkGetQueryPoolResults", cause))?;
        let mask = u64::MAX >> (64 - self.device.timestamp_bits.clamp(1, 64));
        let period = f64::from(self.device.capabilities.timestamp_period);
        let time = |pair: &[u64]| (pair[1].wrapping_sub(pair[0]) & mask) as f64 * period;
        Ok(self.dispatches().map(|(launch, _)| launch).zip(ticks.windows(2).map(time)).collect())
    }

    /// Counts the dispatches of a submission.
    pub(super) fn count(&self) {
        let counted = self.dispatches().map(|(launch, _)| launch.pipeline.dispatches.fetch_add(1, Relaxed));
        COUNTERS.dispatches.fetch_add(counted.count() as u64, Relaxed);
    }

    fn dispatches(&self) -> impl Iterator<Item = (&Launch, &[Slice])> {
        self.commands.iter().filter_map(|command| match command {
            Command::Dispatch { launch, buffers, .. } => Some((&**launch, &**buffers)),
            _ => None,
        })
    }

    /// Its last submission.
    pub(in crate::backend::vulkan) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether something was recorded and submitted, and is finished.
    ///
    /// # Errors
    /// A driver error.
    pub(in crate::backend::vulkan) fn finished(&self) -> Result<bool> {
        Ok(!self.commands.is_empty() && self.ticket != Ticket::default() && self.device.reached(self.ticket)?)
    }

    /// Clears the recording, which frees its resources, if it was submitted and is finished.
    ///
    /// # Errors
    /// A driver error.
    pub(in crate::backend::vulkan) fn release(&mut self) -> Result<()> {
        if self.finished()? {
            self.recorded = false;
            self.clear()?;
        }
        Ok(())
    }

    /// Clears the recording, which must not be in flight.
    fn clear(&mut self) -> Result<()> {
        // SAFETY: the last submission is finished, so neither pool is in use; null handles are allowed.
        let reset = unsafe {
            let vulkan = &self.device.handle;
            let reset = vulkan.reset_command_pool(self.pool, vk::CommandPoolResetFlags::empty());
            vulkan.destroy_descriptor_pool(self.descriptors, None);
            vulkan.destroy_query_pool(self.queries, None);
            reset
        };
        self.descriptors = vk::DescriptorPool::null();
        self.queries = vk::QueryPool::null();
        self.commands.clear();
        reset.map_err(|cause| self.device.failure("vkResetCommandPool", cause))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.device.settle(self.ticket) {
            // Leaks what the device may still use.
            std::mem::forget(std::mem::take(&mut self.commands));
            return;
        }
        let vulkan = &self.device.handle;
        // SAFETY: the last submission is finished or the device is lost, so nothing is in use; null handles are
        // allowed.
        unsafe {
            vulkan.destroy_command_pool(self.pool, None);
            vulkan.destroy_descriptor_pool(self.descriptors, None);
            vulkan.destroy_query_pool(self.queries, None);
        }
    }
}
