//! The commands of plans that run repeatedly, such as a training step: recorded once, then submitted again.
//!
//! They are bound to buffers of the free list, to which a run copies its inputs and from which it copies its outputs, and
//! which return there, so that others use them in between. Where they are not free or the states have moved, the commands
//! are recorded again.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use super::arrays::{KEPT, List, VulkanArrays};
use super::free_list::Held;
use super::limits::flops_per_list;
use super::prepared::{Bound, Ready};
use super::profile;
use super::raw::{Buffer, Recording, Slice, Timing};
use super::record::Commands;
use crate::Result;

/// The least number of dispatches of such a plan: what a call on arrays has is recorded with its neighbours.
const LEAST: usize = 64;
/// Most plans whose commands are kept.
const MOST: usize = 8;

/// The commands of one plan; none before its second run.
struct Replay {
    plan: Weak<()>,
    /// The copies of the inputs, then the plan's buffers.
    memory: Vec<Arc<Buffer>>,
    states: Vec<Arc<Buffer>>,
    /// Several where one submission would be too long.
    parts: Vec<Recording>,
}

/// The commands of the plans that ran last.
#[derive(Default)]
pub(super) struct Replays(Vec<Replay>);

impl Replays {
    fn take(&mut self, plan: &Arc<()>) -> Option<Replay> {
        let place = self.0.iter().position(|replay| replay.plan.as_ptr() == Arc::as_ptr(plan))?;
        Some(self.0.remove(place))
    }

    /// Keeps it in place of those of dropped plans, or of the one that ran first.
    fn keep(&mut self, replay: Replay) {
        self.0.retain(|other| other.plan.strong_count() > 0);
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(replay);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Commands to be submitted again, after others.
pub(super) struct Waiting {
    before: Option<Recording>,
    replay: Replay,
}

fn equal(a: &[Arc<Buffer>], b: &[Arc<Buffer>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

impl VulkanArrays {
    /// Adds a plan's commands, kept from an earlier run or from now on, to the pending work; returns its buffers. `None` in
    /// the first run, and for a plan whose commands are not kept.
    pub(super) fn replayed(
        &self,
        list: &mut List,
        ready: &Ready,
        inputs: &[Arc<Buffer>],
        states: &[Arc<Buffer>],
    ) -> Result<Option<Vec<Arc<Buffer>>>> {
        let device = &self.opened.device;
        if ready.prepared.launches.len() < LEAST || profile::timing() == Timing::On {
            return Ok(None);
        }
        if list.waiting.is_some() {
            self.submit(list)?;
        }
        let Some(mut replay) = list.replays.take(&ready.own) else {
            let (memory, states, parts) = Default::default();
            list.replays.keep(Replay { plan: Arc::downgrade(&ready.own), memory, states, parts });
            return Ok(None);
        };
        let known = !replay.parts.is_empty() && equal(&replay.states, states);
        if !(known && list.free.take_these(&replay.memory)) {
            list.running.extend(replay.parts.drain(..));
            replay.memory.clear();
            for bytes in inputs.iter().map(|input| input.bytes).chain(ready.sizes.iter().copied()) {
                replay.memory.push(self.result(list, bytes)?);
            }
            replay.states = states.to_vec();
            let (inputs, buffers) = replay.memory.split_at(inputs.len());
            replay.parts = self.parts(ready, &Bound { inputs, states, buffers })?;
        }
        let (copied, own) = replay.memory.split_at(inputs.len());
        let (mut buffers, outputs) = (own.to_vec(), BTreeSet::from_iter(ready.outputs.iter().copied()));
        // Allocating may submit what is pending, so it comes first.
        for place in &outputs {
            buffers[*place] = self.result(list, ready.sizes[*place])?;
        }
        for (place, (from, to)) in inputs.iter().zip(copied).enumerate() {
            let [from, to] = [from, to].map(|buffer| Slice::start(buffer, from.bytes.min(to.bytes)));
            // After this command everything that was written before can be copied.
            let copy = if place == 0 { Commands::copy_written } else { Commands::copy };
            copy(&mut list.commands, from, to);
        }
        let before = self.recorded(list)?;
        for place in &outputs {
            let [from, to] = [&own[*place], &buffers[*place]].map(|buffer| Slice::start(buffer, own[*place].bytes));
            list.commands.copy_written(from, to);
        }
        // What is between the caller returns.
        for buffer in copied.iter().chain(outputs.iter().map(|place| &own[*place])) {
            list.free.keep(buffer.clone(), Held::Between, device.capabilities.memory / KEPT);
        }
        list.waiting = Some(Waiting { before, replay });
        Ok(Some(buffers))
    }

    /// Submits what waits and what comes after it: together, or in turns if it is too long for one submission.
    pub(super) fn submit_waiting(
        &self,
        list: &mut List,
        waiting: Option<Waiting>,
        mut after: Option<Recording>,
    ) -> Result<()> {
        let device = &self.opened.device;
        let (mut before, mut replay) = waiting.map_or((None, None), |all| (all.before, Some(all.replay)));
        let parts = replay.as_mut().map_or(&mut [][..], |replay| &mut replay.parts);
        let turns = parts.len() > 1;
        let mut all: Vec<&mut Recording> = before.iter_mut().chain(parts).chain(after.iter_mut()).collect();
        let most = if turns { 1 } else { all.len().max(1) };
        for together in all.chunks_mut(most) {
            for recording in together.iter() {
                device.wait_unless_reached(recording.ticket())?;
            }
            list.last = device.submit(together)?;
        }
        list.running.extend(before.into_iter().chain(after));
        replay.into_iter().for_each(|replay| list.replays.keep(replay));
        Ok(())
    }

    /// Records a plan's dispatches.
    fn parts(&self, ready: &Ready, bound: &Bound<'_>) -> Result<Vec<Recording>> {
        let device = &self.opened.device;
        let heavy = flops_per_list(&device.capabilities);
        let (mut parts, mut commands, mut all) = (Vec::new(), Commands::default(), 0);
        let mut record = |commands: &mut Commands| {
            let mut recording = Recording::new(device)?;
            recording.record(commands.take(), Timing::Off)?;
            parts.push(recording);
            Ok(())
        };
        ready.dispatches(bound, |launch, grid, slices, flops| {
            commands.dispatch(launch, grid, slices);
            all += flops;
            if all <= heavy {
                return Ok(());
            }
            all = 0;
            record(&mut commands)
        })?;
        if !commands.is_empty() {
            record(&mut commands)?;
        }
        Ok(parts)
    }
}
