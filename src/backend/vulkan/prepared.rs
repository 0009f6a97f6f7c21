//! Plans lowered for a device: for batches, or ready to run on arrays.

use std::collections::HashMap;
use std::sync::Arc;

use super::budget::Budget;
use super::device::Opened;
use super::kernel::{Dispatch, Range, Resource};
use super::kernels::lower_for;
use super::memory::Arena;
use super::raw::{Buffer, Grid, Launch, Pipeline, Slice};
use super::upload::upload;
use crate::backend::Narrow;
use crate::graph::{Graph, Plan, ValueId};
use crate::ops::Counts;
use crate::tensor::{NoWeights, WeightSource};
use crate::{Error, Result};

/// Dispatches with their pipelines and constants, but without the memory of a run.
pub(super) struct Prepared {
    pub(super) dispatches: Vec<Dispatch>,
    /// One per dispatch.
    pub(super) launches: Vec<Arc<Launch>>,
    pub(super) weights: Arena,
    /// Arena regions of the weights.
    regions: HashMap<ValueId, usize>,
}

impl Prepared {
    /// Compiles the pipelines and uploads the constants.
    ///
    /// # Errors
    /// `PipelineCreationFailed`, `OutOfMemory`, a device fault, or the error that `weights` returns.
    pub(super) fn new(
        opened: &Opened,
        graph: &Graph,
        dispatches: Vec<Dispatch>,
        weights: &dyn WeightSource,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let device = &opened.device;
        let pipelines = opened.pipelines.get(device, dispatches.iter().map(|d| (d.variant, &*d.constants)))?;
        let launch = |(d, pipeline): (&Dispatch, Arc<Pipeline>)| {
            Arc::new(Launch { pipeline, push: d.push.clone(), label: d.label.clone() })
        };
        let launches = dispatches.iter().zip(pipelines).map(launch).collect();
        let ids = bound_weights(&dispatches);
        let weights = upload(device, graph, &ids, weights, budget)?;
        let regions = ids.into_iter().enumerate().map(|(region, id)| (id, region)).collect();
        Ok(Prepared { dispatches, launches, weights, regions })
    }

    /// The buffers bound to a dispatch; `memory` returns the run's memory of each resource but the constants.
    ///
    /// # Errors
    /// `Unsupported` for a range that does not exist or exceeds what the device can bind.
    pub(super) fn bind(&self, step: usize, memory: impl Fn(Resource) -> Option<Slice>) -> Result<Vec<Slice>> {
        let dispatch = &self.dispatches[step];
        let slice = |range: &Range| {
            let missing = || {
                let Range { resource, offset, .. } = range;
                let reason = format!("it binds {resource:?} from byte {offset}, which does not exist");
                Error::unsupported(&dispatch.label, reason)
            };
            let region = match range.resource {
                Resource::Weight(id) => self.regions.get(&id).map(|region| self.weights.slice(*region)),
                resource => memory(resource),
            };
            let region = region.ok_or_else(missing)?;
            let rest = region.bytes.checked_sub(range.offset).filter(|rest| *rest > 0).ok_or_else(missing)?;
            let bytes = range.bytes.unwrap_or(rest);
            if bytes > rest {
                return Err(missing());
            }
            bindable(&dispatch.label, Slice { offset: region.offset + range.offset, bytes, ..region })
        };
        dispatch.bindings.iter().map(slice).collect()
    }
}

/// A plan prepared to run on arrays, with fixed counts: complete but for its inputs, states and buffers.
pub(super) struct Ready {
    pub(super) prepared: Prepared,
    /// The batch's counts.
    pub(super) counts: Arc<Buffer>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<u64>,
    /// Which buffers contain the outputs.
    pub(super) outputs: Vec<usize>,
    /// Workgroups of each dispatch.
    pub(super) grids: Vec<[u32; 3]>,
    pub(super) flops: u64,
    /// What its recorded commands refer to.
    pub(super) own: Arc<()>,
}

/// The memory of a run.
pub(super) struct Bound<'a> {
    pub(super) inputs: &'a [Arc<Buffer>],
    pub(super) states: &'a [Arc<Buffer>],
    pub(super) buffers: &'a [Arc<Buffer>],
}

impl Ready {
    /// Lowers a plan and compiles its pipelines.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfMemory`, or a device fault.
    pub(super) fn new(
        plan: &Plan,
        (counts, buffer): (Counts, Arc<Buffer>),
        narrow: Narrow,
        opened: &Opened,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let outputs = plan.output_buffers()?;
        let mut sizes: Vec<u64> = plan.buffers.iter().map(|buffer| buffer.bytes(counts) as u64).collect();
        for (output, id) in outputs.iter().zip(&plan.graph.outputs) {
            sizes[*output] = plan.graph.value(*id).bytes(counts).next_multiple_of(4) as u64;
        }
        let grid = |dispatch: &Dispatch| dispatch.grid.map(|extent| extent.groups(counts));
        let mut dispatches = lower_for(plan, &opened.device.capabilities, narrow)?;
        dispatches.retain(|dispatch| !grid(dispatch).contains(&0));
        let grids = dispatches.iter().map(grid).collect();
        let prepared = Prepared::new(opened, &plan.graph, dispatches, &NoWeights, budget)?;
        Ok(Ready {
            prepared,
            counts: buffer,
            sizes,
            outputs,
            grids,
            flops: plan.graph.flops(counts),
            own: Arc::default(),
        })
    }

    /// Passes each dispatch in the memory of a run, with its floating-point operations, to `each`.
    ///
    /// # Errors
    /// As [`Prepared::bind`], or the error that `each` returns.
    pub(super) fn dispatches(
        &self,
        bound: &Bound<'_>,
        mut each: impl FnMut(&Arc<Launch>, Grid, Vec<Slice>, u64) -> Result<()>,
    ) -> Result<()> {
        let memory = |resource| {
            let buffer = match resource {
                Resource::Counts => Some(&self.counts),
                Resource::Input(place) => bound.inputs.get(place),
                Resource::State(place) => bound.states.get(place),
                Resource::Buffer(place) => bound.buffers.get(place),
                Resource::Weight(_) => None,
            };
            buffer.map(|buffer| Slice::start(buffer, buffer.bytes))
        };
        // Layers are alike, so their dispatches cost about the same.
        let flops = self.flops.div_ceil(self.grids.len().max(1) as u64);
        for (step, (launch, groups)) in self.prepared.launches.iter().zip(&self.grids).enumerate() {
            each(launch, Grid::Direct(*groups), self.prepared.bind(step, memory)?, flops)?;
        }
        Ok(())
    }
}

/// Returns the slice if the device can bind its size.
///
/// # Errors
/// `Unsupported` naming the limit.
pub(super) fn bindable(label: &str, slice: Slice) -> Result<Slice> {
    let limits = slice.buffer.limits();
    if slice.bytes <= limits.storage_buffer_range {
        return Ok(slice);
    }
    let (bytes, most, name) = (slice.bytes, limits.storage_buffer_range, &limits.name);
    let reason = format!("an array of {bytes} bytes is larger than the storage-buffer range of {most} bytes of {name}");
    Err(Error::unsupported(label, reason))
}

/// The constants the dispatches read, in the order of their first use.
pub(crate) fn bound_weights(dispatches: &[Dispatch]) -> Vec<ValueId> {
    let mut ids = Vec::new();
    for range in dispatches.iter().flat_map(|d| &d.bindings) {
        if let Resource::Weight(id) = range.resource
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    ids
}
