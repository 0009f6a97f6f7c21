//! Plans prepared to run on arrays, with fixed counts: complete but for their buffers.

use std::sync::Arc;

use super::device::Opened;
use super::kernel::{Dispatch, Extent, Resource};
use super::kernels::lower_for;
use super::lowering::{Narrow, Target};
use super::memory::Budget;
use super::prepared::Prepared;
use super::raw::{Buffer, Grid, Launch, Slice};
use crate::Result;
use crate::graph::{Plan, ValueId};
use crate::ops::Counts;
use crate::tensor::NoWeights;

/// A prepared plan.
pub(super) struct Ready {
    prepared: Prepared,
    /// The batch's counts.
    counts: Arc<Buffer>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<u64>,
    /// Which buffers contain the outputs.
    pub(super) outputs: Vec<usize>,
    /// One per dispatch.
    pub(super) launches: Vec<Arc<Launch>>,
    pub(super) flops: u64,
}

/// The buffers of a run.
pub(super) struct Bound {
    pub(super) inputs: Vec<Arc<Buffer>>,
    pub(super) states: Vec<Arc<Buffer>>,
    /// One per entry of [`Ready::sizes`].
    pub(super) buffers: Vec<Arc<Buffer>>,
}

impl Ready {
    /// Lowers a plan and compiles its pipelines.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfMemory`, or a device fault.
    pub(super) fn new(
        plan: &Plan,
        counts: (Counts, Arc<Buffer>),
        opened: &Opened,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let (counts, buffer) = counts;
        let outputs = plan.output_buffers()?;
        let bytes = |id: &ValueId| plan.graph.value(*id).bytes(counts).next_multiple_of(4) as u64;
        let mut sizes: Vec<u64> = plan.buffers.iter().map(|buffer| buffer.bytes(counts) as u64).collect();
        for (output, id) in outputs.iter().zip(&plan.graph.outputs) {
            sizes[*output] = bytes(id);
        }
        let target = Target { capabilities: &opened.device.capabilities, narrow: Narrow::OnMatrixCores };
        let grid = |grid: [Extent; 3]| grid.map(|extent| extent.groups(counts));
        let mut dispatches = lower_for(plan, target)?;
        dispatches.retain(|dispatch| !grid(dispatch.grid).contains(&0));
        let prepared = Prepared::new(opened, &plan.graph, dispatches, &NoWeights, budget)?;
        let launch = |(step, d): (usize, &Dispatch)| prepared.launch(step, Grid::Direct(grid(d.grid)));
        let launches = prepared.dispatches.iter().enumerate().map(launch).collect();
        Ok(Ready { prepared, counts: buffer, sizes, outputs, launches, flops: plan.flops(counts) })
    }

    /// The dispatches of a run.
    ///
    /// # Errors
    /// `Unsupported` for a range that the device cannot bind.
    pub(super) fn bind<'a>(&'a self, bound: &'a Bound) -> impl Iterator<Item = Result<(&'a Arc<Launch>, Vec<Slice>)>> {
        let memory = move |resource| {
            let buffer = match resource {
                Resource::Counts => Some(&self.counts),
                Resource::Input(place) => bound.inputs.get(place),
                Resource::State(place) => bound.states.get(place),
                Resource::Buffer(place) => bound.buffers.get(place),
                Resource::Weight(_) => None,
            };
            buffer.map(|buffer| Slice::start(buffer, buffer.bytes))
        };
        self.launches.iter().enumerate().map(move |(step, launch)| Ok((launch, self.prepared.bind(step, memory)?)))
    }
}
