//! Plans lowered for a device, and their dispatches in the memory of a run: a batch's, or that of arrays.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::bindings::DescriptorBindingBuilder;
use super::budget::Budget;
use super::device::Opened;
use super::kernel::{Dispatch, Extent, Range, Resource, groups_of};
use super::kernels::lower_for;
use super::memory::Arena;
use super::raw::{ComputePipeline, Device, Grid, Launch, Recording, Slice, Timing};
use super::record::{BoundDispatch, Commands};
use super::side_by_side;
use super::upload::upload;
use crate::backend::Narrow;
use crate::graph::{Plan, ValueId};
use crate::ops::Counts;
use crate::tensor::{NoWeights, WeightSource};
use crate::{Error, Result};

/// Dispatches with their pipelines and constants, but without the memory of a run.
pub(super) struct Prepared {
    pub(super) dispatches: Vec<Dispatch>,
    /// One per dispatch.
    launches: Vec<Arc<Launch>>,
    pub(super) weights: Arena,
    /// Arena regions of the weights, in each of their forms.
    regions: HashMap<Resource, usize>,
    /// Which buffers contain the outputs.
    pub(super) outputs: Vec<usize>,
    /// The grids that depend on the batch, without duplicates.
    grids: Vec<[Extent; 3]>,
}

/// The memory of a run.
pub(super) struct Bound {
    /// The batch's counts.
    pub(super) counts: Slice,
    /// What [`Prepared::groups`] returns, written before each run; `None` if the counts are fixed.
    pub(super) groups: Option<Slice>,
    pub(super) inputs: Vec<Slice>,
    pub(super) states: Vec<Slice>,
    pub(super) buffers: Vec<Slice>,
}

/// Bytes of the workgroup counts of a dispatch.
pub(super) const GROUPS: u64 = 12;

impl Prepared {
    /// Compiles the pipelines while it uploads the constants.
    ///
    /// # Errors
    /// `PipelineCreationFailed`, `OutOfMemory`, a device fault, or the error that `weights` returns.
    pub(super) fn new(
        opened: &Opened,
        plan: &Plan,
        dispatches: Vec<Dispatch>,
        weights: &dyn WeightSource,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let device = &opened.device;
        let outputs = plan.output_buffers()?;
        let constants = bound_constants(&dispatches);
        let compile = || opened.pipelines.get(device, dispatches.iter().map(|d| (d.variant, &*d.constants)));
        let send = || upload(device, &plan.graph, &constants, weights, budget);
        let (pipelines, weights) =
            if constants.is_empty() { (compile()?, send()?) } else { side_by_side::both(compile, send)? };
        let launch = |(d, pipeline): (&Dispatch, Arc<ComputePipeline>)| {
            Arc::new(Launch { pipeline, push: d.push.clone(), label: d.label.clone() })
        };
        let launches = dispatches.iter().zip(pipelines).map(launch).collect();
        let regions = constants.into_iter().enumerate().map(|(region, constant)| (constant, region)).collect();
        let grids = counted(&dispatches);
        Ok(Prepared { dispatches, launches, weights, regions, outputs, grids })
    }

    /// Workgroups of the grids that depend on the batch, without duplicates.
    pub(super) fn groups(&self, counts: Counts) -> Vec<[u32; 3]> {
        self.grids.iter().map(|grid| groups_of(*grid, counts)).collect()
    }

    /// The dispatches of a run, which share its floating-point operations: layers are alike, so their dispatches cost about
    /// the same.
    ///
    /// # Errors
    /// As [`DescriptorBindingBuilder::push`], and `Unsupported` for memory that does not exist.
    pub(super) fn steps(&self, bound: &Bound, flops: u64) -> impl Iterator<Item = Result<BoundDispatch>> {
        let flops = flops.div_ceil(self.dispatches.len().max(1) as u64);
        self.dispatches.iter().zip(&self.launches).map(move |(dispatch, launch)| {
            let mut buffers = DescriptorBindingBuilder::labelled(&dispatch.label, dispatch.variant);
            dispatch.bindings.iter().try_for_each(|range| buffers.push(self.part(&dispatch.label, range, bound)?))?;
            let grid = self.grid(dispatch, bound)?;
            Ok(BoundDispatch { launch: launch.clone(), grid, buffers: buffers.build()?, flops })
        })
    }

    /// Records a run, in parts of at most `most` floating-point operations each.
    ///
    /// # Errors
    /// As [`Prepared::steps`], or a driver error.
    pub(super) fn record(
        &self,
        device: &Arc<Device>,
        bound: &Bound,
        (flops, most): (u64, u64),
        timing: Timing,
    ) -> Result<Vec<Recording>> {
        let (mut parts, mut commands) = (Vec::new(), Commands::default());
        let mut end = |commands: &mut Commands| {
            let mut part = Recording::new(device)?;
            part.record(&mut commands.take(), timing)?;
            parts.push(part);
            Ok::<_, Error>(())
        };
        for step in self.steps(bound, flops) {
            let step = step?;
            if commands.full(&step, most) {
                end(&mut commands)?;
            }
            commands.dispatch(step);
        }
        if !commands.is_empty() {
            end(&mut commands)?;
        }
        Ok(parts)
    }

    fn grid(&self, dispatch: &Dispatch, bound: &Bound) -> Result<Grid> {
        if let Some(groups) = fixed(dispatch.grid) {
            return Ok(Grid::Direct(groups));
        }
        let place = self.grids.iter().position(|grid| *grid == dispatch.grid);
        let at = place.zip(bound.groups.as_ref()).map(|(place, all)| {
            Grid::Indirect(Slice { offset: all.offset + GROUPS * place as u64, bytes: GROUPS, ..all.clone() })
        });
        at.ok_or_else(|| Error::unsupported(&dispatch.label, "its grid depends on a batch"))
    }

    /// The memory bound to a dispatch's range in a run.
    ///
    /// # Errors
    /// `Unsupported` for a range that does not exist.
    fn part(&self, label: &str, range: &Range, bound: &Bound) -> Result<Slice> {
        let missing = || {
            let reason = format!("it binds {:?} from byte {}, which does not exist", range.resource, range.offset);
            Error::unsupported(label, reason)
        };
        let region = match range.resource {
            Resource::Counts => Some(bound.counts.clone()),
            Resource::Input(place) => bound.inputs.get(place).cloned(),
            Resource::State(place) => bound.states.get(place).cloned(),
            Resource::Buffer(place) => bound.buffers.get(place).cloned(),
            constant @ (Resource::Weight(_) | Resource::Integers(..)) => {
                self.regions.get(&constant).map(|region| self.weights.slice(*region))
            }
        };
        let region = region.ok_or_else(missing)?;
        let rest = region.bytes.checked_sub(range.offset).filter(|rest| *rest > 0).ok_or_else(missing)?;
        let bytes = range.bytes.unwrap_or(rest);
        if bytes > rest {
            return Err(missing());
        }
        Ok(Slice { offset: region.offset + range.offset, bytes, ..region })
    }
}

/// A grid that is the same in every batch.
fn fixed(grid: [Extent; 3]) -> Option<[u32; 3]> {
    match grid {
        [Extent::Fixed(x), Extent::Fixed(y), Extent::Fixed(z)] => Some([x, y, z]),
        _ => None,
    }
}

/// The grids that depend on the batch, without duplicates.
fn counted(dispatches: &[Dispatch]) -> Vec<[Extent; 3]> {
    let mut grids = Vec::new();
    for Dispatch { grid, .. } in dispatches {
        if fixed(*grid).is_none() && !grids.contains(grid) {
            grids.push(*grid);
        }
    }
    grids
}

/// A plan prepared to run on arrays, with fixed counts: complete but for its inputs, states and buffers.
pub(super) struct Ready {
    pub(super) prepared: Prepared,
    /// The batch's counts.
    pub(super) counts: Slice,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<u64>,
    pub(super) flops: u64,
    /// What its recorded commands refer to.
    pub(super) own: Arc<()>,
}

impl Ready {
    /// Lowers a plan and compiles its pipelines.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfMemory`, or a device fault.
    pub(super) fn new(
        plan: &Plan,
        (counts, buffer): (Counts, Slice),
        narrow: Narrow,
        opened: &Opened,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        opened.check_numerics(plan.numerics)?;
        let mut dispatches = lower_for(plan, &opened.device.capabilities, narrow)?;
        for dispatch in &mut dispatches {
            dispatch.grid = dispatch.groups(counts, &opened.device.capabilities)?.map(Extent::Fixed);
        }
        dispatches.retain(|dispatch| !dispatch.grid.contains(&Extent::Fixed(0)));
        let prepared = Prepared::new(opened, plan, dispatches, &NoWeights, budget)?;
        let mut sizes: Vec<u64> = plan.buffers.iter().map(|buffer| buffer.bytes(counts) as u64).collect();
        for (output, id) in prepared.outputs.iter().zip(&plan.graph.outputs) {
            sizes[*output] = plan.graph.value(*id).bytes(counts).next_multiple_of(4) as u64;
        }
        Ok(Ready { prepared, counts: buffer, sizes, flops: plan.graph.flops(counts), own: Arc::default() })
    }

    /// A run in this memory.
    pub(super) fn bound(&self, inputs: Vec<Slice>, states: Vec<Slice>, buffers: Vec<Slice>) -> Bound {
        Bound { counts: self.counts.clone(), groups: None, inputs, states, buffers }
    }
}

/// The constants the dispatches read, in the order of their first use.
pub(super) fn bound_constants(dispatches: &[Dispatch]) -> Vec<Resource> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for Range { resource, .. } in dispatches.iter().flat_map(|d| &d.bindings) {
        if matches!(resource, Resource::Weight(_) | Resource::Integers(..)) && seen.insert(*resource) {
            found.push(*resource);
        }
    }
    found
}

/// Those that are bound as they are stored.
pub(crate) fn bound_weights(dispatches: &[Dispatch]) -> Vec<ValueId> {
    let stored = |constant| if let Resource::Weight(id) = constant { Some(id) } else { None };
    bound_constants(dispatches).into_iter().filter_map(stored).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::{Module, Variant};
    use crate::ops::Dim;

    static UNARY: Variant = Variant {
        stored: crate::dtype::DType::F32,
        numerics: crate::numerics::Numerics::Run,
        name: "unary",
        needs: &[],
        when: &[],
        spirv: Module::Words(&[]),
        bindings: &[],
        push_bytes: 0,
        push: &[],
        constants: &[],
        local_size: [1; 3],
        source: "",
        defines: &[],
        shared_bytes: 0,
    };

    #[test]
    fn equal_grids_share_a_place_and_follow_the_counts() {
        let dispatch = |x| {
            let (label, grid) = (String::new(), [x, Extent::ONE, Extent::ONE]);
            Dispatch { label, variant: &UNARY, constants: vec![], bindings: vec![], push: vec![], grid }
        };
        let tiles = Extent::Tiles { dim: Dim::Tokens, per: 4 };
        let list = [tiles, tiles, Extent::Fixed(7)].map(dispatch);
        let grids = counted(&list);
        assert_eq!(grids, [[tiles, Extent::ONE, Extent::ONE]]);
        let groups = |counts| grids[0].map(|extent| extent.groups(counts));
        assert_eq!([groups(Counts::new(9, 2)), groups(Counts::default())], [[3, 1, 1], [0, 1, 1]]);
        assert_eq!(list.map(|dispatch| fixed(dispatch.grid)), [None, None, Some([7, 1, 1])]);
    }
}
