//! A plan lowered for a device, shared by its batches or its runs on arrays.

use std::collections::HashMap;
use std::sync::Arc;

use super::device::Opened;
use super::kernel::{Dispatch, Range, Resource};
use super::memory::{Arena, Budget};
use super::raw::{Grid, Launch, Pipeline, Slice};
use super::upload::upload;
use crate::graph::{Graph, ValueId};
use crate::tensor::WeightSource;
use crate::{Error, Result};

/// Dispatches with their pipelines and constants, but without the memory of a run.
pub(super) struct Prepared {
    pub(super) dispatches: Vec<Dispatch>,
    /// One per dispatch.
    pipelines: Vec<Arc<Pipeline>>,
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
        let compile = |d: &Dispatch| opened.pipelines.get(device, d.variant, &d.constants);
        let pipelines = dispatches.iter().map(compile).collect::<Result<_>>()?;
        let ids = bound_weights(&dispatches);
        let weights = upload(device, graph, &ids, weights, budget)?;
        let regions = ids.into_iter().enumerate().map(|(region, id)| (id, region)).collect();
        Ok(Prepared { dispatches, pipelines, weights, regions })
    }

    /// A dispatch with the given grid.
    pub(super) fn launch(&self, step: usize, grid: Grid) -> Arc<Launch> {
        let Dispatch { push, label, .. } = &self.dispatches[step];
        let pipeline = self.pipelines[step].clone();
        Arc::new(Launch { pipeline, push: push.clone(), grid, label: label.clone() })
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
fn bound_weights(dispatches: &[Dispatch]) -> Vec<ValueId> {
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
