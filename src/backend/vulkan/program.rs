//! A plan on a device: its weights, its pipelines, and the slots in which batches run.
//!
//! A batch takes a free slot, or creates one while there are fewer than `in_flight`, or finishes the oldest batch on
//! its owner's behalf and reuses its slot. So a caller waits only for the device, never for another caller, and callers
//! with several batches in flight cannot deadlock each other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::budget::Budget;
use super::device::Opened;
use super::kernel::Dispatch;
use super::kernels::lower;
use super::limits::{capacity, limits};
use super::lock;
use super::prepared::{Prepared, bound_weights};
use super::slot::{Shared, Slot};
use crate::backend::{BatchLimits, Feed, Pending, Program, ProgramOptions, Reader, copies};
use crate::graph::{Plan, ValueId};
use crate::ops::Counts;
use crate::tensor::WeightSource;
use crate::{Error, Result};

/// Prepares a plan; in float32 where the device or a user's shader does not support 16-bit elements.
///
/// # Errors
/// `Unsupported`, `OutOfMemory`, or a device fault.
pub(super) fn prepare(
    opened: &Opened,
    plan: Arc<Plan>,
    weights: &dyn WeightSource,
    options: ProgramOptions,
) -> Result<Arc<dyn Program>> {
    plan.check_batches()?;
    match lower(&plan, &opened.device.capabilities) {
        Err(Error::Unsupported { what, reason }) if plan.narrow().is_some() => {
            log::info!(target: "grilly", "everything is stored as float32: {what}: {reason}");
            prepare(opened, Arc::new(plan.widened()), weights, options)
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
    // The driver needs part of the device's memory for itself.
    let memory = options.memory_limit.unwrap_or(u64::MAX).min(device.capabilities.memory / 16 * 15);
    let weighs = |id: &ValueId| plan.graph.value(*id).bytes(Counts::default()) as u64;
    let needed: u64 = bound_weights(&dispatches).iter().map(weighs).sum();
    if needed > memory {
        let purpose = format!("all weights; the model may take {memory} bytes");
        return Err(Error::OutOfMemory { device: device.capabilities.name.clone(), bytes: needed, purpose });
    }
    let budget = Budget::new(memory);
    let prepared = Prepared::new(opened, &plan, dispatches, weights, &budget)?;
    opened.pipelines.save(device);
    let left = memory.saturating_sub(prepared.weights.bytes());
    let limits = limits(&plan, &prepared.dispatches, &device.capabilities, left);
    let shared = Shared { device: device.clone(), plan, prepared, budget, limits };
    Ok(Arc::new(Arc::new(Slots { shared, pool: Mutex::default(), freed: Condvar::new() })))
}

struct Slots {
    shared: Shared,
    pool: Mutex<Pool>,
    freed: Condvar,
}

#[derive(Default)]
struct Pool {
    free: Vec<Slot>,
    /// Batches in flight, oldest first.
    busy: VecDeque<Arc<Job>>,
    /// Existing slots, free or in use.
    slots: usize,
}

type Job = Mutex<State>;

enum State {
    Running(Box<Slot>),
    Done(Result<Vec<Vec<f32>>>),
    Taken,
}

impl Program for Arc<Slots> {
    fn limits(&self) -> BatchLimits {
        self.shared.limits
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Box<dyn Pending>> {
        self.shared.device.check("a batch")?;
        self.check(feed)?;
        let slot = self.acquire()?;
        let started = self.make_room(slot, feed).and_then(|mut slot| {
            slot.start(&self.shared, feed)?;
            Ok(slot)
        });
        let slot = started.inspect_err(|_| self.retire())?;
        let job = Arc::new(Job::new(State::Running(Box::new(slot))));
        lock(&self.pool).busy.push_back(job.clone());
        self.freed.notify_one();
        Ok(Box::new(Batch { slots: self.clone(), job }))
    }
}

impl Slots {
    /// Checks that the feed fits the plan and the device.
    fn check(&self, feed: &Feed<'_>) -> Result<()> {
        let graph = &self.shared.plan.graph;
        feed.check(graph.inputs.iter().map(|id| graph.value(*id)), graph.outputs.len())?;
        let capabilities = &self.shared.device.capabilities;
        let groups = self.shared.prepared.groups(feed.counts);
        let too_many = groups.iter().any(|g| g.iter().zip(capabilities.workgroup_count).any(|(n, most)| *n > most));
        if feed.counts.tokens > self.shared.limits.longest_text || too_many {
            let what = format!("a batch of {} tokens and {} texts", feed.counts.tokens, feed.counts.texts);
            let reason = format!("{} takes {} tokens", capabilities.name, self.shared.limits.longest_text);
            return Err(Error::unsupported(what, reason));
        }
        Ok(())
    }

    /// Returns a slot, or `None` when a new one may be created.
    fn acquire(&self) -> Result<Option<Slot>> {
        loop {
            self.shared.device.check("a batch")?;
            let oldest = {
                let mut pool = lock(&self.pool);
                if let Some(slot) = pool.free.pop() {
                    return Ok(Some(slot));
                }
                if pool.slots < self.shared.limits.in_flight {
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

    /// Finishes a batch on its owner's behalf and returns its slot; `None` when the owner was faster, or the batch
    /// failed.
    fn finish(&self, job: &Job) -> Option<Slot> {
        let mut state = lock(job);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Running(mut slot) => {
                let result = copies(|reader| slot.finish(&self.shared, reader));
                let failed = result.is_err();
                *state = State::Done(result);
                if !failed {
                    return Some(*slot);
                }
                self.retire();
            }
            other => *state = other,
        }
        None
    }

    /// Returns the slot if the batch fits, or a larger one instead.
    fn make_room(&self, slot: Option<Slot>, feed: &Feed<'_>) -> Result<Slot> {
        if let Some(slot) = slot {
            if slot.holds(feed.counts) {
                return Ok(slot);
            }
            // Freed before the larger one is allocated.
            drop(slot);
        }
        let capacity = capacity(feed.counts, self.shared.limits);
        loop {
            match Slot::new(&self.shared, capacity) {
                Err(Error::OutOfMemory { .. }) if self.give_up_a_slot() => {}
                made => return made,
            }
        }
    }

    /// Frees the memory of an idle slot, or else of the oldest batch's. Returns `false` when there is none.
    fn give_up_a_slot(&self) -> bool {
        let idle = lock(&self.pool).free.pop();
        let oldest = idle.is_none().then(|| lock(&self.pool).busy.pop_front()).flatten();
        let found = idle.is_some() || oldest.is_some();
        if let Some(slot) = idle.or_else(|| self.finish(&*oldest?)) {
            drop(slot);
            self.retire();
        }
        found
    }

    /// Subtracts a released slot from the count.
    fn retire(&self) {
        lock(&self.pool).slots -= 1;
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
    slots: Arc<Slots>,
    job: Arc<Job>,
}

impl Pending for Batch {
    fn read(self: Box<Self>, reader: Reader<'_>) -> Result<()> {
        let shared = &self.slots.shared;
        if shared.device.forked() {
            shared.device.check("a batch")?;
        }
        let mut state = lock(&self.job);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Running(mut slot) => {
                let result = slot.finish(shared, reader);
                drop(state);
                self.slots.forget(&self.job);
                match result {
                    Ok(()) => self.slots.release(*slot),
                    Err(_) => self.slots.retire(),
                }
                result
            }
            State::Done(outputs) => {
                outputs?.iter().enumerate().try_for_each(|(place, elements)| reader(place, elements))
            }
            State::Taken => Err(Error::Unusable("the batch was waited for already".into())),
        }
    }
}

impl Drop for Batch {
    /// A dropped batch returns its slot without waiting; the next user of the slot waits.
    fn drop(&mut self) {
        if self.slots.shared.device.forked() {
            // The locks may be held by a thread that does not exist in this process.
            return;
        }
        let state = std::mem::replace(&mut *lock(&self.job), State::Taken);
        if let State::Running(slot) = state {
            self.slots.forget(&self.job);
            self.slots.release(*slot);
        }
    }
}
