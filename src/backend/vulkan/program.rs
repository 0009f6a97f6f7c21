//! A plan on a device: its weights, its pipelines, and the slots in which batches run.
//!
//! A batch takes a free slot, or makes one while there are fewer than `in_flight`, or finishes the oldest batch on its
//! owner's behalf and takes that one's: so nobody waits for a caller, only for the device, and callers that hold
//! several batches at once cannot lock each other out.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::device::Opened;
use super::kernel::{Dispatch, Resource};
use super::kernels::lower;
use super::limits::{capacity, limits, outputs_are_computed};
use super::memory::Budget;
use super::raw::lock;
use super::record::{Grids, barriers};
use super::slot::{Prepared, Slot};
use super::upload::upload;
use crate::backend::{BatchLimits, Feed, Pending, Program, ProgramOptions};
use crate::graph::{Plan, ValueId};
use crate::tensor::WeightSource;
use crate::{Error, Result};

/// Makes a plan ready; in float32 where the device or a user's shader does not take narrower elements.
///
/// # Errors
/// `Unsupported`, `OutOfMemory`, or a device fault.
pub(super) fn prepare(
    opened: &Opened,
    plan: Arc<Plan>,
    weights: &dyn WeightSource,
    options: ProgramOptions,
) -> Result<Arc<dyn Program>> {
    let capabilities = &opened.device.capabilities;
    match lower(&plan, capabilities) {
        Err(Error::Unsupported { what, reason }) if plan.narrow().is_some() => {
            log::info!(target: "grilly", "everything is held as float32: {what}: {reason}");
            let plan = Arc::new(plan.widened());
            let dispatches = lower(&plan, capabilities)?;
            prepare_dispatches(opened, plan, dispatches, weights, options)
        }
        dispatches => prepare_dispatches(opened, plan, dispatches?, weights, options),
    }
}

pub(super) fn prepare_dispatches(
    opened: &Opened,
    plan: Arc<Plan>,
    dispatches: Vec<Dispatch>,
    weights: &dyn WeightSource,
    options: ProgramOptions,
) -> Result<Arc<dyn Program>> {
    let device = &opened.device;
    device.check("preparing a model")?;
    plan.check_stateless()?;
    if !outputs_are_computed(&plan) {
        return Err(Error::Unsupported { what: "outputs".into(), reason: "an input or a weight is one".into() });
    }
    // The driver needs some of the device's memory for itself.
    let memory = options.memory_limit.unwrap_or(u64::MAX).min(device.capabilities.memory / 16 * 15);
    let budget = Budget::new(memory);
    let ids = bound_weights(&dispatches);
    let compile = |d: &Dispatch| opened.pipelines.get(device, d.variant, &d.constants);
    let pipelines = dispatches.iter().map(compile).collect::<Result<_>>()?;
    opened.pipelines.save(device);
    let weights = upload(device, &plan.graph, &ids, weights, &budget)?;
    let limits = limits(&plan, &dispatches, &device.capabilities, memory.saturating_sub(weights.bytes()));
    let prepared = Prepared {
        device: device.clone(),
        barriers: barriers(&dispatches),
        grids: Grids::new(&dispatches),
        regions: ids.into_iter().enumerate().map(|(region, id)| (id, region)).collect(),
        plan,
        dispatches,
        pipelines,
        weights,
        budget,
        limits,
    };
    let shared = Shared { prepared, pool: Mutex::default(), freed: Condvar::new() };
    Ok(Arc::new(VulkanProgram(Arc::new(shared))))
}

/// The weights the dispatches read, in the order of their first use.
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

struct VulkanProgram(Arc<Shared>);

struct Shared {
    prepared: Prepared,
    pool: Mutex<Pool>,
    freed: Condvar,
}

#[derive(Default)]
struct Pool {
    free: Vec<Slot>,
    /// Batches under way, oldest first.
    busy: VecDeque<Arc<Job>>,
    /// Slots there are, wherever they be.
    slots: usize,
}

struct Job {
    state: Mutex<State>,
}

enum State {
    Running(Box<Slot>),
    Done(Result<Vec<Vec<f32>>>),
    Taken,
}

impl Program for VulkanProgram {
    fn limits(&self) -> BatchLimits {
        self.0.prepared.limits
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Box<dyn Pending>> {
        let shared = &self.0;
        shared.prepared.device.check("a batch")?;
        shared.check(feed)?;
        let slot = shared.acquire()?;
        let started = shared.make_room(slot, feed).and_then(|mut slot| {
            slot.start(&shared.prepared, feed)?;
            Ok(slot)
        });
        let slot = started.inspect_err(|_| shared.retire(1))?;
        let job = Arc::new(Job { state: Mutex::new(State::Running(Box::new(slot))) });
        lock(&shared.pool).busy.push_back(job.clone());
        shared.freed.notify_one();
        Ok(Box::new(Batch { shared: shared.clone(), job }))
    }
}

impl Shared {
    /// Whether the feed fits the plan and the device.
    fn check(&self, feed: &Feed<'_>) -> Result<()> {
        let graph = &self.prepared.plan.graph;
        if feed.inputs.len() != graph.inputs.len() {
            let (given, expected) = (feed.inputs.len(), graph.inputs.len());
            return Err(Error::InvalidArgument(format!("batch: {given} inputs, expected {expected}")));
        }
        for (id, bytes) in graph.inputs.iter().zip(&feed.inputs) {
            let value = graph.value(*id);
            let expected = value.bytes(feed.counts);
            if bytes.len() != expected {
                return Err(Error::InvalidArgument(format!(
                    "batch: {} has {} bytes, expected {expected} for shape {}",
                    value.name,
                    bytes.len(),
                    value.shape
                )));
            }
        }
        if let Some(place) = feed.outputs.iter().find(|place| **place >= graph.outputs.len()) {
            return Err(Error::InvalidArgument(format!("batch: there is no output {place}")));
        }
        let capabilities = &self.prepared.device.capabilities;
        let groups = self.prepared.grids.evaluate(feed.counts);
        let too_many = groups.iter().any(|g| g.iter().zip(capabilities.workgroup_count).any(|(n, most)| *n > most));
        if feed.counts.tokens > self.prepared.limits.longest_text || too_many {
            return Err(Error::Unsupported {
                what: format!("a batch of {} tokens and {} texts", feed.counts.tokens, feed.counts.texts),
                reason: format!("{} takes {} tokens", capabilities.name, self.prepared.limits.longest_text),
            });
        }
        Ok(())
    }

    /// A slot, or `None` when one may be made.
    fn acquire(&self) -> Result<Option<Slot>> {
        loop {
            self.prepared.device.check("a batch")?;
            let oldest = {
                let mut pool = lock(&self.pool);
                if let Some(slot) = pool.free.pop() {
                    return Ok(Some(slot));
                }
                if pool.slots < self.prepared.limits.in_flight {
                    pool.slots += 1;
                    return Ok(None);
                }
                match pool.busy.pop_front() {
                    Some(job) => job,
                    None => {
                        // Every slot is being filled or read by another thread.
                        let time = Duration::from_millis(20);
                        drop(self.freed.wait_timeout(pool, time).unwrap_or_else(PoisonError::into_inner));
                        continue;
                    }
                }
            };
            if let Some(slot) = self.finish(&oldest) {
                return Ok(Some(slot));
            }
        }
    }

    /// Finishes a batch on its owner's behalf and takes its slot; `None` when the owner was faster, or it failed.
    fn finish(&self, job: &Job) -> Option<Slot> {
        let mut state = lock(&job.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Running(mut slot) => {
                let result = slot.finish(&self.prepared);
                let failed = result.is_err();
                *state = State::Done(result);
                if !failed {
                    return Some(*slot);
                }
                self.retire(1);
            }
            other => *state = other,
        }
        None
    }

    /// The slot itself when the batch fits, or one that is large enough in its place.
    fn make_room(&self, slot: Option<Slot>, feed: &Feed<'_>) -> Result<Slot> {
        if let Some(slot) = slot {
            if slot.holds(feed.counts) {
                return Ok(slot);
            }
            // Given back before the larger one is asked for.
            drop(slot);
        }
        let capacity = capacity(feed.counts, self.prepared.limits);
        loop {
            match Slot::new(&self.prepared, capacity) {
                Err(Error::OutOfMemory { .. }) if self.give_up_a_slot() => {}
                made => return made,
            }
        }
    }

    /// Frees the memory of an idle slot, or else of the oldest batch's. `false` when there is none.
    fn give_up_a_slot(&self) -> bool {
        let idle = lock(&self.pool).free.pop();
        if let Some(slot) = idle {
            drop(slot);
            self.retire(1);
            return true;
        }
        let oldest = lock(&self.pool).busy.pop_front();
        let Some(job) = oldest else { return false };
        if let Some(slot) = self.finish(&job) {
            drop(slot);
            self.retire(1);
        }
        true
    }

    /// Counts slots that are gone.
    fn retire(&self, slots: usize) {
        lock(&self.pool).slots -= slots;
        self.freed.notify_all();
    }

    fn release(&self, slot: Slot) {
        lock(&self.pool).free.push(slot);
        self.freed.notify_one();
    }

    fn forget(&self, job: &Arc<Job>) {
        lock(&self.pool).busy.retain(|other| !Arc::ptr_eq(other, job));
    }
}

struct Batch {
    shared: Arc<Shared>,
    job: Arc<Job>,
}

impl Pending for Batch {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<f32>>> {
        let prepared = &self.shared.prepared;
        if prepared.device.forked() {
            prepared.device.check("a batch")?;
        }
        let mut state = lock(&self.job.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Running(mut slot) => {
                let result = slot.finish(prepared);
                drop(state);
                self.shared.forget(&self.job);
                match result {
                    Ok(_) => self.shared.release(*slot),
                    Err(_) => self.shared.retire(1),
                }
                result
            }
            State::Done(result) => result,
            State::Taken => Err(Error::Unusable("the batch was waited for already".into())),
        }
    }
}

impl Drop for Batch {
    /// A batch that nobody waits for gives its slot back as it is; whoever takes the slot waits.
    fn drop(&mut self) {
        if self.shared.prepared.device.forked() {
            // A thread that this process does not have may hold the locks.
            return;
        }
        let state = std::mem::replace(&mut *lock(&self.job.state), State::Taken);
        if let State::Running(slot) = state {
            self.shared.forget(&self.job);
            self.shared.release(*slot);
        }
    }
}
