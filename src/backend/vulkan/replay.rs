//! The commands of plans that run repeatedly, such as a training step: recorded once, then submitted again.
//!
//! They are bound to buffers of the free list, to which a run copies its inputs and from which it copies its outputs, and
//! which return there, so that others use them in between. Where they are not free or the states have moved, the commands
//! are recorded again.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use super::free_list::Fit;
use super::limits::flops_per_list;
use super::prepared::{Bound, Ready};
use super::profile;
use super::raw::{Recording, Slice, Timing};
use super::work::Work;
use crate::{Error, Result};

/// The least number of dispatches of such a plan: what a call on arrays has is recorded with its neighbours.
const LEAST: usize = 64;

impl Ready {
    /// Which buffers serve it: a plan whose commands are kept asks for the same sizes again.
    pub(super) fn fit(&self) -> Fit {
        if self.prepared.dispatches.len() < LEAST { Fit::Near } else { Fit::Exact }
    }
}

/// Most plans whose commands are kept.
const MOST: usize = 8;

/// The commands of one plan; none before its second run.
pub(super) struct Replay {
    plan: Weak<()>,
    bound: Option<Bound>,
    /// Several where one submission would be too long.
    parts: Vec<Recording>,
}

/// Recorded commands, not yet submitted.
pub(super) struct Waiting {
    /// What comes before those of the plan.
    before: Option<Recording>,
    replay: Replay,
    /// How many of them are submitted, where memory was left for a part of them alone.
    sent: usize,
}

fn equal(a: &[Slice], b: &[Slice]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(&a.buffer, &b.buffer))
}

impl Work {
    /// Keeps commands in place of those of dropped plans, or of the one that ran first.
    fn keep_replay(&mut self, replay: Replay) {
        self.replays.retain(|other| other.plan.strong_count() > 0);
        if self.replays.len() >= MOST {
            self.replays.remove(0);
        }
        self.replays.push(replay);
    }

    /// Adds a plan's commands, kept from an earlier run or from now on, to the pending work; returns its buffers. `None` in
    /// the first run, and for a plan whose commands are not kept.
    pub(super) fn replayed(&mut self, ready: &Ready, inputs: &[Slice], states: &[Slice]) -> Result<Option<Vec<Slice>>> {
        if ready.fit() == Fit::Near || profile::timing() == Timing::On {
            return Ok(None);
        }
        if self.waiting.is_some() {
            self.submit()?;
        }
        let kept = self.replays.iter().position(|replay| replay.plan.as_ptr() == Arc::as_ptr(&ready.own));
        let Some(kept) = kept else {
            let (bound, parts) = Default::default();
            self.keep_replay(Replay { plan: Arc::downgrade(&ready.own), bound, parts });
            return Ok(None);
        };
        let Replay { plan, bound, mut parts } = self.replays.remove(kept);
        let known = bound.filter(|bound| {
            equal(&bound.states, states) && self.free.take_these(bound.inputs.iter().chain(&bound.buffers))
        });
        let bound = match known {
            Some(bound) => bound,
            None => {
                parts.into_iter().for_each(|part| self.pool.give_back(part));
                let copies = inputs.iter().map(|input| self.result(input.bytes, Fit::Exact)).collect::<Result<_>>()?;
                let buffers = ready.sizes.iter().map(|bytes| self.result(*bytes, Fit::Exact)).collect::<Result<_>>()?;
                let bound = ready.bound(copies, states.to_vec(), buffers);
                let device = &self.opened.device;
                let most = flops_per_list(&device.capabilities);
                parts = ready.prepared.record(device, &bound, (ready.flops, most), Timing::Off)?;
                bound
            }
        };
        let (mut buffers, outputs) = (bound.buffers.clone(), BTreeSet::from_iter(&ready.prepared.outputs));
        // Allocating may submit what is pending, so it comes first.
        for place in &outputs {
            buffers[**place] = self.result(ready.sizes[**place], Fit::Exact)?;
        }
        self.commands.copy_written(inputs.iter().cloned().zip(bound.inputs.iter().cloned()));
        let before = self.recorded()?;
        let copied = outputs.iter().map(|place| (bound.buffers[**place].clone(), buffers[**place].clone()));
        self.commands.copy_written(copied);
        // What is between the caller returns.
        for own in bound.inputs.iter().chain(outputs.iter().map(|place| &bound.buffers[**place])) {
            self.keep(own.clone(), Fit::Exact);
        }
        self.waiting = Some(Waiting { before, replay: Replay { plan, bound: Some(bound), parts }, sent: 0 });
        Ok(Some(buffers))
    }

    /// Submits the pending work: together, or in turns if kept commands in it are too long for one submission.
    ///
    /// # Errors
    /// After `OutOfMemory` what is not submitted is still pending, for another try; else a device fault.
    pub(super) fn submit(&mut self) -> Result<()> {
        let load = self.commands.load();
        let mut after = self.recorded()?;
        let mut waiting = self.waiting.take();
        if let Err(error) = self.send(waiting.as_mut(), after.as_mut()) {
            if matches!(error, Error::OutOfMemory { .. }) {
                self.waiting = waiting;
                self.put_back(after, load);
            }
            return Err(error);
        }
        let (before, replay) = waiting.map_or((None, None), |waiting| (waiting.before, Some(waiting.replay)));
        before.into_iter().chain(after).for_each(|recording| self.pool.give_back(recording));
        replay.into_iter().for_each(|replay| self.keep_replay(replay));
        Ok(())
    }

    /// Submits recordings, those that wait first.
    fn send(&mut self, waiting: Option<&mut Waiting>, after: Option<&mut Recording>) -> Result<()> {
        let (mut none, mut nothing) = (None, 0);
        let (before, parts, sent) = match waiting {
            Some(Waiting { before, replay, sent }) => (before, &mut replay.parts[..], sent),
            None => (&mut none, &mut [][..], &mut nothing),
        };
        let turns = parts.len() > 1;
        let all = before.iter_mut().chain(parts).chain(after).skip(*sent);
        let mut all: Vec<&mut Recording> = all.collect();
        let most = if turns { 1 } else { all.len().max(1) };
        for together in all.chunks_mut(most) {
            self.pool.submit(together)?;
            *sent += together.len();
        }
        Ok(())
    }
}
