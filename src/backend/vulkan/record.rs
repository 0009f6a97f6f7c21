//! The commands of a submission: where barriers are needed, and how much work fits.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytemuck::NoUninit;

use super::kernel::Access;
use super::raw::{Command, ComputePipeline, Grid, Launch, Recording, Slice, Timing};
use crate::Result;
use crate::backend::faults::{self, Fault};

/// A part of some memory: its first byte, its end, and whether it is written.
type Part = (u64, u64, bool);

/// The parts of memory that dispatches used since the last barrier, by memory and first byte: the end, and whether it was
/// written.
#[derive(Default)]
struct Hazards<K>(BTreeMap<(K, u64), (u64, bool)>);

impl<K: Ord + Copy> Hazards<K> {
    /// Adds what a dispatch uses. Returns whether it needs a barrier before it: since the last barrier an earlier one
    /// wrote what it reads or writes, or read what it writes.
    fn add(&mut self, uses: impl Iterator<Item = (K, Part)> + Clone) -> bool {
        let hazard = uses.clone().any(|(memory, (start, end, writes))| {
            let mut before_end = self.0.range(..(memory, end)).rev().take_while(|((other, _), _)| *other == memory);
            before_end.any(|(_, (last, written))| start < *last && (writes || *written))
        });
        if hazard {
            self.0.clear();
        }
        for (memory, (start, end, writes)) in uses {
            let (last, written) = self.0.entry((memory, start)).or_insert((end, writes));
            (*last, *written) = (end.max(*last), writes || *written);
        }
        hazard
    }
}

/// A dispatch in the memory of a run.
pub(super) struct BoundDispatch {
    pub(super) launch: Arc<Launch>,
    pub(super) grid: Grid,
    /// In the order of the variant's bindings.
    pub(super) buffers: Vec<Slice>,
    /// Its floating-point operations.
    pub(super) flops: u64,
}

/// The commands of a submission, in order, with the barriers that they need.
#[derive(Default)]
pub struct Commands {
    list: Vec<Command>,
    /// Number of dispatches.
    pub(super) dispatches: usize,
    /// Their floating-point operations.
    flops: u64,
    /// Whether copies were added since the last barrier.
    copied: bool,
    /// Whether the next dispatch must wait for those before, of which `hazards` knows nothing.
    unordered: bool,
    /// By the buffer's address.
    hazards: Hazards<usize>,
}

impl Commands {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Appends a copy of what the host or an earlier submission wrote.
    pub(super) fn copy(&mut self, from: Slice, to: Slice) {
        self.list.push(Command::Copy { from, to });
        self.copied = true;
    }

    /// Appends a dispatch of so many workgroups with the bytes of the shader's push block; it waits for the dispatches
    /// before it that write what it reads or writes, and for those that read what it writes.
    pub fn add(
        &mut self,
        pipeline: &Arc<ComputePipeline>,
        push: &impl NoUninit,
        groups: [u32; 3],
        buffers: Vec<Slice>,
    ) {
        let (push, label) = (bytemuck::bytes_of(push).to_vec(), pipeline.variant.name.into());
        let launch = Arc::new(Launch { pipeline: pipeline.clone(), push, label });
        self.dispatch(BoundDispatch { launch, grid: Grid::Direct(groups), buffers, flops: 0 });
    }

    /// Appends copies, each from the first slice to the second, of what earlier commands wrote.
    pub fn copy_written(&mut self, copies: impl IntoIterator<Item = (Slice, Slice)>) {
        for (number, (from, to)) in copies.into_iter().enumerate() {
            self.list.extend((number == 0).then_some(Command::BeforeCopies));
            self.copy(from, to);
        }
    }

    /// Whether there are dispatches, which together with this one would have more than `most` floating-point operations.
    pub(super) fn full(&self, step: &BoundDispatch, most: u64) -> bool {
        self.flops > 0 && self.flops.saturating_add(step.flops) > most
    }

    /// Appends a dispatch.
    pub(super) fn dispatch(&mut self, BoundDispatch { launch, grid, buffers, flops }: BoundDispatch) {
        if std::mem::take(&mut self.copied) {
            self.list.push(Command::AfterCopies);
        }
        let uses = buffers.iter().zip(launch.pipeline.variant.bindings).map(|(slice, binding)| {
            let part = (slice.offset, slice.offset + slice.bytes, binding.access != Access::Read);
            (Arc::as_ptr(&slice.buffer) as usize, part)
        });
        if std::mem::take(&mut self.unordered) | self.hazards.add(uses) && !faults::strikes(Fault::Barrier) {
            self.list.push(Command::BetweenDispatches);
        }
        self.list.push(Command::Dispatch { launch, grid, buffers });
        self.dispatches += 1;
        self.flops += flops;
    }

    /// Records all of them, and has none then.
    ///
    /// # Errors
    /// As [`Recording::record`]; they are then still there.
    pub(super) fn record(&mut self, recording: &mut Recording, timing: Timing) -> Result<()> {
        let load = self.load();
        let mut commands = self.take();
        let done = recording.record(&mut commands, timing);
        if done.is_err() {
            self.restore(commands, load);
        }
        done
    }

    /// What `restore` sets again: the number of dispatches and their floating-point operations.
    pub(super) fn load(&self) -> (usize, u64) {
        (self.dispatches, self.flops)
    }

    /// Makes commands that were taken, and not submitted, the only ones again.
    pub(super) fn restore(&mut self, mut commands: Vec<Command>, (dispatches, flops): (usize, u64)) {
        // `take` adds the first again.
        commands.drain(..commands.len().min(1));
        (self.list, self.dispatches, self.flops, self.unordered) = (commands, dispatches, flops, true);
    }

    /// The number of commands, with those that order them.
    pub(super) fn length(&self) -> usize {
        self.list.len()
    }

    /// Drops all but the first `length`, if what comes after them are copies.
    pub(super) fn cut(&mut self, length: usize) {
        if self.list.iter().skip(length).all(|command| !matches!(command, Command::Dispatch { .. })) {
            self.list.truncate(length);
        }
    }

    /// Takes all of them, to be recorded.
    pub(super) fn take(&mut self) -> Vec<Command> {
        let mut commands = vec![Command::Start];
        commands.append(&mut self.list);
        commands.extend(self.copied.then_some(Command::AfterCopies));
        (self.dispatches, self.flops, self.copied, self.unordered) = (0, 0, false, false);
        self.hazards.0.clear();
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(memory: usize, writes: bool) -> (usize, Part) {
        (memory, (0, u64::MAX, writes))
    }

    /// Whether each dispatch needs a barrier, given what it uses.
    fn barriers(dispatches: &[[(usize, Part); 2]]) -> Vec<bool> {
        let mut hazards = Hazards::default();
        dispatches.iter().map(|uses| hazards.add(uses.iter().copied())).collect()
    }

    #[test]
    fn barriers_stand_only_where_a_hazard_is() {
        let list = [(0, 1), (0, 2), (1, 3), (2, 4), (5, 1), (6, 1)].map(|(x, y)| [whole(x, false), whole(y, true)]);
        // The first reads what was read and writes elsewhere, the next reads what was written, but the write that the
        // one after it reads already precedes that barrier; the last two write what is being read, and written.
        assert_eq!(barriers(&list), [false, false, true, false, true, true]);
    }

    #[test]
    fn ranges_that_do_not_meet_are_no_hazard() {
        let part = |start, end, writes| (1, (start, end, writes));
        let rest = [part(256, u64::MAX, false), whole(2, true)];
        let list = [[whole(0, false), part(0, 256, true)], rest, [part(0, 4, false), whole(3, true)]];
        assert_eq!(barriers(&list), [false, false, true]);
        assert_eq!(barriers(&[[whole(0, false), part(0, 257, true)], rest]), [false, true]);
    }
}
