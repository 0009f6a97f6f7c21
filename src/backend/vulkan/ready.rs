//! Plans on arrays made ready: dispatches with their pipelines and grids, which lack nothing but buffers.

use std::collections::HashMap;
use std::sync::Arc;

use super::device::Opened;
use super::kernel::{Dispatch, Range, Resource};
use super::kernels::lower_for;
use super::lowering::{Narrow, Target};
use super::raw::{Buffer, Grid, Launch, Slice};
use crate::graph::{Plan, Storage, ValueId};
use crate::ops::Counts;
use crate::{Error, Result};

/// A plan made ready.
pub(super) struct Ready {
    /// The batch's counts.
    pub(super) counts: Arc<Buffer>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<u64>,
    /// Which of them hold the outputs.
    pub(super) outputs: Vec<usize>,
    /// Bytes of each state.
    pub(super) states: Vec<u64>,
    /// Constants of one number each.
    pub(super) filled: HashMap<ValueId, Arc<Buffer>>,
    pub(super) dispatches: Vec<(Arc<Launch>, Vec<Range>)>,
    pub(super) flops: u64,
}

/// The buffers of a run.
pub(super) struct Bound {
    pub(super) inputs: Vec<Arc<Buffer>>,
    pub(super) states: Vec<Arc<Buffer>>,
    /// Of [`Ready::sizes`].
    pub(super) buffers: Vec<Arc<Buffer>>,
}

impl Ready {
    /// Lowers a plan and compiles its pipelines.
    ///
    /// # Errors
    /// `Unsupported`, or a device fault.
    pub(super) fn new(plan: &Plan, counts: (Counts, Arc<Buffer>), opened: &Opened) -> Result<Self> {
        let (counts, buffer) = counts;
        let place = |id: &ValueId| match plan.storage[id.0] {
            Storage::Buffer(place) => Ok(place),
            _ => Err(Error::InvalidArgument("a plan on arrays computes its outputs".into())),
        };
        let outputs = plan.graph.outputs.iter().map(place).collect::<Result<Vec<_>>>()?;
        let bytes = |id: &ValueId| plan.graph.value(*id).bytes(counts).next_multiple_of(4) as u64;
        let mut sizes: Vec<u64> = plan.buffers.iter().map(|buffer| buffer.bytes(counts) as u64).collect();
        for (output, id) in outputs.iter().zip(&plan.graph.outputs) {
            sizes[*output] = bytes(id);
        }
        let states = plan.graph.states.iter().map(bytes).collect();
        let mut dispatches = Vec::new();
        let target = Target { capabilities: &opened.device.capabilities, narrow: Narrow::OnMatrixCores };
        for Dispatch { label, variant, constants, bindings, push, grid } in lower_for(plan, target)? {
            let grid = grid.map(|extent| extent.groups(counts));
            if !grid.contains(&0) {
                let pipeline = opened.pipelines.get(&opened.device, variant, &constants)?;
                dispatches.push((Arc::new(Launch { pipeline, push, grid: Grid::Direct(grid), label }), bindings));
            }
        }
        let filled = HashMap::new();
        Ok(Ready { counts: buffer, sizes, outputs, states, filled, dispatches, flops: plan.flops(counts) })
    }

    /// What is bound at a range.
    ///
    /// # Errors
    /// `Unsupported` for a range that does not exist or that the device cannot bind.
    pub(super) fn bind(&self, range: &Range, bound: &Bound, launch: &Launch) -> Result<Slice> {
        let missing = || Error::Unsupported {
            what: launch.label.clone(),
            reason: format!("it binds {:?} from byte {}, which does not exist", range.resource, range.offset),
        };
        let buffer = match range.resource {
            Resource::Counts => &self.counts,
            Resource::Input(place) => bound.inputs.get(place).ok_or_else(missing)?,
            Resource::State(place) => bound.states.get(place).ok_or_else(missing)?,
            Resource::Buffer(place) => bound.buffers.get(place).ok_or_else(missing)?,
            Resource::Weight(id) => self.filled.get(&id).ok_or_else(missing)?,
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
