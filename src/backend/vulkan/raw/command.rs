//! Commands as data, and what Vulkan itself does not check of them.

use std::sync::Arc;

use ash::vk;

use super::{ComputePipeline, Device, Slice};
use crate::Result;

/// Workgroup counts of a dispatch.
#[derive(Clone)]
pub enum Grid {
    /// Fixed at recording.
    Direct([u32; 3]),
    /// Three u32 that the host writes before each submission.
    Indirect(Slice),
}

/// A dispatch without its grid and buffers.
pub struct Launch {
    /// The pipeline.
    pub pipeline: Arc<ComputePipeline>,
    /// The push block.
    pub push: Vec<u8>,
    /// For debug labels and profiles.
    pub label: String,
}

/// One command. Memory barriers are global and are placed where a hazard is.
#[derive(Clone)]
pub enum Command {
    /// All earlier work, of this submission or another, is done and visible to the dispatches that follow.
    Start,
    /// Earlier dispatches are done and visible to later ones.
    BetweenDispatches,
    /// Earlier dispatches and copies are done and visible to the copies that follow.
    BeforeCopies,
    /// Earlier copies are visible to the host, after its wait, and to later dispatches, which may overwrite the copied
    /// buffers.
    AfterCopies,
    /// A dispatch.
    Dispatch {
        /// What runs.
        launch: Arc<Launch>,
        /// Workgroups.
        grid: Grid,
        /// In the order of the variant's bindings.
        buffers: Vec<Slice>,
    },
    /// A copy between buffers, of equal lengths.
    Copy {
        /// Read.
        from: Slice,
        /// Written.
        to: Slice,
    },
}

/// Whether a recording is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// No timestamps.
    Off,
    /// A timestamp after each dispatch.
    On,
}

impl Command {
    /// Checks that a command matches its operands; Vulkan itself does not check this.
    pub fn check(&self, device: &Device) -> Result<()> {
        let limits = &device.capabilities;
        let (what, cause) = match self {
            Command::Dispatch { launch, grid, buffers } => {
                let Launch { pipeline, push, label } = &**launch;
                let alignment = limits.storage_buffer_alignment.max(1);
                let over = |groups: &[u32; 3]| groups.iter().zip(&limits.workgroup_count).any(|(n, most)| n > most);
                let cause = if buffers.len() != pipeline.variant.bindings.len() {
                    "the number of buffers is not that of the shader's bindings"
                } else if push.len() != pipeline.variant.push_bytes as usize || push.len() % 4 != 0 {
                    "the push constants are not of the shader's size"
                } else if buffers.iter().any(|slice| !slice.fits() || slice.offset % alignment != 0) {
                    "a binding is misaligned or lies outside its buffer"
                } else if buffers.iter().any(|slice| slice.bytes > limits.storage_buffer_range) {
                    "a binding is larger than the device's storage-buffer range"
                } else if matches!(grid, Grid::Direct(groups) if over(groups)) {
                    "more workgroups than the device takes"
                } else if matches!(grid, Grid::Indirect(at) if !at.fits() || at.offset % 4 != 0 || at.bytes < 12) {
                    "the place of the workgroups is outside its buffer"
                } else {
                    return Ok(());
                };
                (&**label, cause)
            }
            Command::Copy { from, to }
                if !from.fits() || !to.fits() || from.bytes != to.bytes || Arc::ptr_eq(&from.buffer, &to.buffer) =>
            {
                ("vkCmdCopyBuffer", "the ranges do not fit")
            }
            _ => return Ok(()),
        };
        Err(device.misuse(what, cause.to_owned()))
    }

    /// The barrier of a command that is one.
    pub fn barrier(&self) -> vk::MemoryBarrier2<'static> {
        use vk::{AccessFlags2 as Access, PipelineStageFlags2 as Stage};
        let shader = Access::SHADER_STORAGE_READ | Access::SHADER_STORAGE_WRITE;
        let dispatched = (Stage::COMPUTE_SHADER, Access::SHADER_STORAGE_WRITE);
        let copied = (Stage::COPY, Access::TRANSFER_WRITE);
        let both = (dispatched.0 | copied.0, dispatched.1 | copied.1);
        let ((from, wrote), (to, uses)) = match self {
            Command::Start => (both, (Stage::COMPUTE_SHADER, shader)),
            Command::BeforeCopies => (both, (Stage::COPY, Access::TRANSFER_READ | Access::TRANSFER_WRITE)),
            Command::AfterCopies => (copied, (Stage::HOST | Stage::COMPUTE_SHADER, Access::HOST_READ | shader)),
            _ => (dispatched, (Stage::COMPUTE_SHADER, shader)),
        };
        vk::MemoryBarrier2::default()
            .src_stage_mask(from)
            .src_access_mask(wrote)
            .dst_stage_mask(to)
            .dst_access_mask(uses)
    }
}
