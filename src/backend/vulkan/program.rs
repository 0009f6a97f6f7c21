//! A plan on a device: its weights, its pipelines, and a ring of slots in which batches run.
//!
//! A batch takes an idle place of the ring, or else that of the oldest batch, which it finishes on its owner's behalf.
//! So a caller waits only for the device, and callers with several batches in flight cannot deadlock each other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use super::budget::Budget;
use super::capabilities::DeviceType;
use super::device::Opened;
use super::kernel::Dispatch;
use super::kernels::{lower, with_scratch};
use super::limits::{capacity, limits};
use super::lock;
use super::prepared::{Prepared, bound_constants};
use super::slot::{Shared, Slot};
use super::upload::bytes_of;
use crate::backend::{BatchLimits, Executable, Feed, Pending, ProgramOptions, Reader, copies};
use crate::graph::Plan;
use crate::process::memory::need_many;
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
) -> Result<Arc<dyn Executable>> {
    plan.check_batches()?;
    let plan = with_scratch(plan, &opened.device.capabilities);
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
) -> Result<Arc<dyn Executable>> {
    let device = &opened.device;
    device.check("preparing a model")?;
    opened.check_numerics(plan.numerics)?;
    let memory = options.memory_limit.unwrap_or(u64::MAX).min(device.memory_for_program());
    let needed: u64 = bound_constants(&dispatches).iter().map(|constant| bytes_of(&plan.graph, *constant)).sum();
    if needed > memory {
        let purpose = format!("all weights; the model may take {memory} bytes");
        return Err(Error::OutOfMemory { device: device.capabilities.name.clone(), bytes: needed, purpose });
    }
    if device.capabilities.device_type == DeviceType::Software {
        need_many(needed.into(), "all weights")?;
    }
    let budget = Budget::new(memory);
    let prepared = Prepared::new(opened, &plan, dispatches, weights, &budget)?;
    opened.pipelines.save(device);
    let left = memory.saturating_sub(prepared.weights.bytes());
    let limits = limits(&plan, &prepared.dispatches, &device.capabilities, left);
    let places = (0..limits.in_flight.max(1)).map(|_| Place::default()).collect();
    let shared = Shared { device: device.clone(), plan, prepared, budget, limits };
    Ok(Arc::new(Arc::new(Ring { shared, places, started: AtomicU64::new(0) })))
}

struct Ring {
    shared: Shared,
    /// As many as there may be batches in flight.
    places: Vec<Place>,
    /// Number of batches.
    started: AtomicU64,
}

impl Drop for Ring {
    /// What arrays retain is freed with a model.
    fn drop(&mut self) {
        self.shared.device.release_retained();
    }
}

/// A place of the ring.
#[derive(Default)]
struct Place {
    /// The number of its last batch.
    batch: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Created by the first batch, and again after a failure.
    slot: Option<Slot>,
    /// Receives the results of the batch in flight, if there is one and another batch needs the slot.
    owner: Option<Arc<Results>>,
}

type Results = Mutex<Option<Result<Vec<Vec<f32>>>>>;

impl Place {
    /// What it holds, if no caller is at work on it and this is so.
    fn free(&self, so: impl Fn(&Held) -> bool) -> Option<MutexGuard<'_, Held>> {
        self.held.try_lock().ok().filter(|held| so(held))
    }
}

impl Held {
    /// Finishes the batch in flight; a slot that fails is dropped.
    fn finish(&mut self, shared: &Shared, reader: Reader<'_>) -> Result<()> {
        self.owner = None;
        let finished = self.slot.as_mut().map_or(Ok(()), |slot| slot.finish(shared, reader));
        finished.inspect_err(|_| self.slot = None)
    }

    /// Finishes the batch in flight, if there is one, on its owner's behalf.
    fn settle(&mut self, shared: &Shared) {
        if let Some(owner) = self.owner.take() {
            let results = copies(|reader| self.finish(shared, reader));
            *lock(&owner) = Some(results);
        }
    }

    fn is_of(&self, results: &Arc<Results>) -> bool {
        self.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, results))
    }
}

impl Executable for Arc<Ring> {
    fn limits(&self) -> BatchLimits {
        self.shared.limits
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Pending> {
        self.shared.device.check("a batch")?;
        self.check(feed)?;
        let (place, mut held) = self.acquire();
        held.settle(&self.shared);
        let results = Arc::<Results>::default();
        let started = self.make_room(&mut held, feed).and_then(|slot| slot.start(&self.shared, feed));
        started.inspect_err(|_| held.slot = None)?;
        held.owner = Some(results.clone());
        self.places[place].batch.store(self.started.fetch_add(1, Relaxed), Relaxed);
        let batch = Batch { ring: self.clone(), place, results };
        Ok(Pending::new(|reader| batch.read(reader)))
    }
}

impl Ring {
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

    /// An idle place, or that of the oldest batch.
    fn acquire<'a>(&'a self) -> (usize, MutexGuard<'a, Held>) {
        let idle = |(number, place): (_, &'a Place)| Some((number, place.free(|held| held.owner.is_none())?));
        let idle = self.places.iter().enumerate().find_map(idle);
        idle.unwrap_or_else(|| {
            let oldest = (0..self.places.len()).min_by_key(|number| self.places[*number].batch.load(Relaxed));
            let number = oldest.unwrap_or(0);
            (number, lock(&self.places[number].held))
        })
    }

    /// Returns the place's slot if the batch fits, or a larger one instead.
    fn make_room<'a>(&self, held: &'a mut Held, feed: &Feed<'_>) -> Result<&'a mut Slot> {
        // Freed before the larger one is allocated.
        let slot = match held.slot.take().filter(|slot| slot.holds(feed.counts)) {
            Some(slot) => slot,
            None => loop {
                match Slot::new(&self.shared, capacity(feed.counts, self.shared.limits)) {
                    Err(Error::OutOfMemory { .. }) if self.give_up_a_slot() => {}
                    made => break made?,
                }
            },
        };
        Ok(held.slot.insert(slot))
    }

    /// Frees the memory of an idle slot, or else of a batch that no caller is reading. Returns `false` when there is none.
    fn give_up_a_slot(&self) -> bool {
        let others = self.places.iter().filter_map(|place| Some((place.free(|held| held.slot.is_some())?, place)));
        let mut others: Vec<_> = others.collect();
        others.sort_by_key(|(held, place)| (held.owner.is_some(), place.batch.load(Relaxed)));
        others.first_mut().is_some_and(|(held, _)| {
            held.settle(&self.shared);
            held.slot = None;
            true
        })
    }
}

struct Batch {
    ring: Arc<Ring>,
    place: usize,
    results: Arc<Results>,
}

impl Batch {
    fn read(self, reader: Reader<'_>) -> Result<()> {
        let Ring { shared, places, .. } = &*self.ring;
        if shared.device.forked() {
            shared.device.check("a batch")?;
        }
        let settled = || lock(&self.results).take();
        let outputs = match settled() {
            None => {
                let held = &mut *lock(&places[self.place].held);
                if held.is_of(&self.results) {
                    return held.finish(shared, reader);
                }
                settled()
            }
            outputs => outputs,
        };
        let missing = || Err(Error::Unusable("the batch was waited for already".into()));
        outputs.unwrap_or_else(missing)?.iter().enumerate().try_for_each(|(place, elements)| reader(place, elements))
    }
}

impl Drop for Batch {
    /// A dropped batch returns its slot without waiting; the next user of the slot waits.
    fn drop(&mut self) {
        // After a fork, the locks may be held by a thread that does not exist in this process.
        if !self.ring.shared.device.forked()
            && let Ok(mut held) = self.ring.places[self.place].held.try_lock()
            && held.is_of(&self.results)
        {
            held.owner = None;
        }
    }
}
