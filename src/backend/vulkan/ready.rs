//! Plans on arrays made ready: dispatches with their pipelines and grids, which lack nothing but buffers.

use std::sync::Arc;

use super::device::Opened;
use super::kernel::{Dispatch, Range, Resource};
use super::kernels::lower_for;
use super::lowering::{Narrow, Target};
use super::raw::{Buffer, Grid, Launch, Slice};
use crate::graph::{Plan, Storage};
use crate::ops::Counts;
use crate::{Error, Result};

/// A plan made ready.
pub(super) struct Ready {
    /// The batch's counts.
    pub(super) counts: Arc<Buffer>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<u64>,
    /// Which of them holds the output.
    pub(super) output: usize,
    pub(super) dispatches: Vec<(Arc<Launch>, Vec<Range>)>,
    pub(super) flops: u64,
}

impl Ready {
    /// Lowers a plan and compiles its pipelines.
    ///
    /// # Errors
    /// `Unsupported`, or a device fault.
    pub(super) fn new(plan: &Plan, counts: (Counts, Arc<Buffer>), opened: &Opened) -> Result<Self> {
        let (counts, buffer) = counts;
        let place = |id| match plan.storage[id] {
            Storage::Buffer(place) => Some(place),
            _ => None,
        };
        let output = plan.graph.outputs.first().and_then(|id| Some((place(id.0)?, plan.graph.value(*id))));
        let (output, value) =
            output.ok_or_else(|| Error::InvalidArgument("a plan on arrays computes its output".into()))?;
        let mut sizes: Vec<u64> = plan.buffers.iter().map(|buffer| buffer.bytes(counts) as u64).collect();
        sizes[output] = value.bytes(counts).next_multiple_of(4) as u64;
        let mut dispatches = Vec::new();
        let target = Target { capabilities: &opened.device.capabilities, narrow: Narrow::OnMatrixCores };
        for Dispatch { label, variant, constants, bindings, push, grid } in lower_for(plan, target)? {
            let grid = grid.map(|extent| extent.groups(counts));
            if !grid.contains(&0) {
                let pipeline = opened.pipelines.get(&opened.device, variant, &constants)?;
                dispatches.push((Arc::new(Launch { pipeline, push, grid: Grid::Direct(grid), label }), bindings));
            }
        }
        Ok(Ready { counts: buffer, sizes, output, dispatches, flops: plan.flops(counts) })
    }

    /// What is bound at a range, given the buffers of the inputs and those of [`Ready::sizes`].
    ///
    /// # Errors
    /// `Unsupported` for a range that does not exist or that the device cannot bind.
    pub(super) fn bind(
        &self,
        range: &Range,
        inputs: &[Arc<Buffer>],
        buffers: &[Arc<Buffer>],
        launch: &Launch,
    ) -> Result<Slice> {
        let missing = || Error::Unsupported {
            what: launch.label.clone(),
            reason: format!("it binds {:?} from byte {}, which does not exist", range.resource, range.offset),
        };
        let buffer = match range.resource {
            Resource::Counts => &self.counts,
            Resource::Input(place) => inputs.get(place).ok_or_else(missing)?,
            Resource::Buffer(place) => buffers.get(place).ok_or_else(missing)?,
            Resource::Weight(_) => return Err(missing()),
        };
        let rest = buffer.bytes.checked_sub(range.offset).filter(|rest| *rest > 0).ok_or_else(missing)?;
        let bytes = range.bytes.unwrap_or(rest);
        if bytes > rest {
            return Err(missing());
        }
        let limits = buffer.limits();
        if bytes > limits.storage_buffer_range {
            return Err(Error::Unsupported {
                what: launch.label.clone(),
                reason: format!(
                    "an array of {bytes} bytes is larger than the storage-buffer range of {} bytes of {}",
                    limits.storage_buffer_range, limits.name
                ),
            });
        }
        Ok(Slice { buffer: buffer.clone(), offset: range.offset, bytes })
    }
}
