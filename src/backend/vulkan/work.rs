//! The work of an engine for arrays: what waits to be submitted, what is in flight, and the memory of both.
//!
//! A call appends its dispatches to a list; the list is recorded and submitted when something is read, or when it is
//! long or expensive enough. Arrays never change once made, except for unshared states, so only what a list itself
//! writes can be a hazard in it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::budget::Budget;
use super::command_pool::CommandBufferPool;
use super::device::Opened;
use super::free_list::FreeList;
use super::limits::flops_per_list;
use super::prepared::Ready;
use super::raw::{Recording, Slice};
use super::record::{BoundDispatch, Commands};
use super::replay::{Replay, Waiting};
use super::staging::Uploaded;
use crate::ops::Counts;
use crate::{Error, Result};

/// Number of dispatches at which a list is submitted, so that the device starts early. Fewer while the device is idle,
/// so that little remains when the host waits.
const LONG: usize = 256;
const SHORT: usize = 64;
/// Number of dispatches that wait where no memory is left to submit them.
const MOST_WAITING: usize = 4 * LONG;

/// At most this fraction (1/4) of the budget is retained for later results.
const KEPT: u64 = 4;
/// Bytes of staging memory at which a list is submitted; so many are retained at most.
pub(super) const MUCH_STAGING: u64 = 256 << 20;

/// Length in bytes of the guard band behind a result, which must stay unchanged while guard bands are on.
pub(super) const GUARD: u64 = 256;
pub(super) const MARK: u8 = 0xA7;

static GUARDED: AtomicBool = AtomicBool::new(false);

/// Turns guard bands on or off: marked bytes behind every result, checked when it is read. For tests.
pub fn guard_bands(on: bool) {
    GUARDED.store(on, Relaxed);
}

pub(super) fn guarded() -> bool {
    GUARDED.load(Relaxed)
}

/// Whether the bytes of a guard band are unchanged.
pub(super) fn unchanged(band: &[u8]) -> bool {
    band.iter().all(|byte| *byte == MARK)
}

pub(super) struct Work {
    pub(super) opened: Arc<Opened>,
    pub(super) budget: Arc<Budget>,
    pub(super) commands: Commands,
    /// Bytes of host memory that pending copies read.
    pub(super) staged: u64,
    /// The lists in flight.
    pub(super) pool: CommandBufferPool,
    /// A plan that updates states is being appended: a stop would leave some of them updated.
    undivided: bool,
    pub(super) counts: HashMap<Counts, Slice>,
    /// Bound in place of operands without elements.
    pub(super) nothing: Option<Slice>,
    /// What dropped arrays and intermediate results held.
    pub(super) free: FreeList,
    /// What the host wrote or read.
    pub(super) host: FreeList,
    /// The segments of large uploads, the earliest first.
    pub(super) uploaded: VecDeque<Uploaded>,
    /// The commands of the plans that ran last.
    pub(super) replays: Vec<Replay>,
    /// What comes before the commands.
    pub(super) waiting: Option<Waiting>,
}

impl Work {
    /// No work yet, on at most `memory_limit` bytes of device memory, if there is a limit.
    pub(super) fn new(opened: &Arc<Opened>, memory_limit: Option<u64>) -> Self {
        let memory = memory_limit.unwrap_or(u64::MAX).min(opened.device.memory_for_program());
        let (commands, staged, undivided, counts, nothing, uploaded) = Default::default();
        let (replays, waiting, pool) = (Vec::new(), None, CommandBufferPool::new(opened));
        let (opened, budget) = (opened.clone(), Budget::new(memory));
        let kept = budget.limit() / KEPT;
        let list = |most| FreeList::new(most, opened.device.capabilities.allocation);
        let (free, host) = (list(kept), list(kept.min(MUCH_STAGING)));
        Work {
            opened,
            budget,
            commands,
            staged,
            pool,
            undivided,
            counts,
            nothing,
            free,
            host,
            uploaded,
            replays,
            waiting,
        }
    }

    /// Frees what finished recordings kept alive, after reading their times, and what is retained and not needed.
    pub(super) fn release_finished(&mut self) -> Result<()> {
        if self.pool.release_finished()? {
            self.free_unneeded();
        }
        Ok(())
    }

    /// Appends a dispatch. The list is submitted first if together they would be too expensive.
    fn dispatch(&mut self, step: BoundDispatch) -> Result<()> {
        if self.commands.full(&step, flops_per_list(&self.opened.device.capabilities)) {
            self.submit_early()?;
        }
        self.commands.dispatch(step);
        Ok(())
    }

    /// Appends the dispatches of a plan and returns its buffers; with `guarded` its outputs have guard bands.
    fn append(&mut self, ready: &Ready, inputs: Vec<Slice>, states: Vec<Slice>, guarded: bool) -> Result<Vec<Slice>> {
        let mut buffers = Vec::with_capacity(ready.sizes.len());
        let fit = ready.fit();
        for (place, bytes) in ready.sizes.iter().enumerate() {
            let guarded = guarded && ready.prepared.outputs.contains(&place);
            buffers.push(if guarded { self.guarded_result(*bytes)? } else { self.result(*bytes, fit)? });
        }
        let bound = ready.bound(inputs, states, buffers);
        ready.prepared.steps(&bound, ready.flops).try_for_each(|step| self.dispatch(step?))?;
        Ok(bound.buffers)
    }

    /// Runs a plan: adds what was recorded for it in an earlier run, or its dispatches; returns its buffers. After an
    /// `OutOfMemory` nothing of it was added.
    pub(super) fn run(
        &mut self,
        ready: &Ready,
        inputs: Vec<Slice>,
        states: Vec<Slice>,
        guarded: bool,
    ) -> Result<Vec<Slice>> {
        self.make_room()?;
        self.undivided = !states.is_empty();
        let replayed = if guarded { Ok(None) } else { self.replayed(ready, &inputs, &states) };
        let buffers = replayed.and_then(|replayed| match replayed {
            Some(buffers) => Ok(buffers),
            None => self.append(ready, inputs, states, guarded),
        });
        let submitted = buffers.and_then(|buffers| self.submit_long().map(|()| buffers));
        self.undivided = false;
        submitted
    }

    /// Runs a single dispatch.
    pub(super) fn run_one(&mut self, step: BoundDispatch) -> Result<()> {
        self.make_room()?;
        self.dispatch(step)?;
        self.submit_long()
    }

    /// Submits the list if it is long, or long enough for an idle device.
    fn submit_long(&mut self) -> Result<()> {
        if self.commands.dispatches >= LONG || (self.commands.dispatches >= SHORT && self.idle()?) {
            return self.submit_early();
        }
        Ok(())
    }

    /// Submits what may also wait. Without memory for that it waits: who reads a result is told.
    pub(super) fn submit_early(&mut self) -> Result<()> {
        match self.submit() {
            Err(Error::OutOfMemory { .. }) => Ok(()),
            done => done,
        }
    }

    /// Submits a list that has waited long for memory.
    fn make_room(&mut self) -> Result<()> {
        if self.commands.dispatches >= MOST_WAITING { self.submit() } else { Ok(()) }
    }

    /// Whether all submitted work is done.
    fn idle(&mut self) -> Result<bool> {
        self.release_finished()?;
        Ok(self.pool.is_idle())
    }

    /// The pending work, recorded; after an error it is still pending.
    pub(super) fn recorded(&mut self) -> Result<Option<Recording>> {
        if self.commands.is_empty() {
            return Ok(None);
        }
        self.release_finished()?;
        if !self.undivided {
            // Before the commands are taken, which a stop would lose.
            self.pool.wait_for_room()?;
        }
        let recording = self.pool.record(&mut self.commands)?;
        self.staged = 0;
        Ok(Some(recording))
    }

    /// Makes commands pending again that were recorded and not submitted.
    pub(super) fn put_back(&mut self, recorded: Option<Recording>, load: (usize, u64)) {
        if let Some(mut recording) = recorded {
            self.commands.restore(recording.give_back(), load);
            self.pool.rest(recording);
        }
    }

    /// Submits all work and waits for it.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.submit()?;
        self.pool.wait()?;
        self.release_finished()?;
        self.opened.pipelines.save(&self.opened.device);
        Ok(())
    }
}
