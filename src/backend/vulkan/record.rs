//! Turns dispatches into commands: where barriers are needed, and which grids the host evaluates per batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::kernel::{Access, Dispatch, Extent};
use super::raw::{Command, Grid, Launch, Slice};
use crate::backend::faults::{self, Fault};
use crate::ops::Counts;

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

/// The commands of a submission, in order, with the barriers that they need.
#[derive(Default)]
pub(super) struct Commands {
    list: Vec<Command>,
    /// Number of dispatches.
    pub(super) dispatches: usize,
    /// Whether copies were added since the last barrier.
    copied: bool,
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

    /// Appends a copy of what earlier commands wrote.
    pub(super) fn copy_written(&mut self, from: Slice, to: Slice) {
        self.list.push(Command::BeforeCopies);
        self.copy(from, to);
    }

    /// Appends a dispatch.
    pub(super) fn dispatch(&mut self, launch: &Arc<Launch>, grid: Grid, buffers: Vec<Slice>) {
        if std::mem::take(&mut self.copied) {
            self.list.push(Command::AfterCopies);
        }
        let uses = buffers.iter().zip(launch.pipeline.variant.bindings).map(|(slice, binding)| {
            let part = (slice.offset, slice.offset + slice.bytes, binding.access != Access::Read);
            (Arc::as_ptr(&slice.buffer) as usize, part)
        });
        if self.hazards.add(uses) && !faults::strikes(Fault::Barrier) {
            self.list.push(Command::BetweenDispatches);
        }
        self.list.push(Command::Dispatch { launch: launch.clone(), grid, buffers });
        self.dispatches += 1;
    }

    /// Takes all of them, to be recorded.
    pub(super) fn take(&mut self) -> Vec<Command> {
        let mut commands = vec![Command::Start];
        commands.append(&mut self.list);
        commands.extend(self.copied.then_some(Command::AfterCopies));
        (self.dispatches, self.copied) = (0, false);
        self.hazards.0.clear();
        commands
    }
}

/// The source of a dispatch's workgroup count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// The same in every batch.
    Fixed([u32; 3]),
    /// An index into [`Grids::table`].
    Counted(usize),
}

/// The grids of a list of dispatches; those that depend on the batch are in a table, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Grids {
    /// One per dispatch.
    pub(super) groups: Vec<Groups>,
    /// Evaluated by the host for each batch.
    pub(super) table: Vec<[Extent; 3]>,
}

impl Grids {
    /// Separates the fixed grids from those that depend on the batch.
    pub(super) fn new(dispatches: &[Dispatch]) -> Self {
        let mut grids = Grids::default();
        for dispatch in dispatches {
            let groups = match dispatch.grid {
                [Extent::Fixed(x), Extent::Fixed(y), Extent::Fixed(z)] => Groups::Fixed([x, y, z]),
                grid => Groups::Counted(grids.table.iter().position(|g| *g == grid).unwrap_or_else(|| {
                    grids.table.push(grid);
                    grids.table.len() - 1
                })),
            };
            grids.groups.push(groups);
        }
        grids
    }

    /// The table's workgroup counts for a batch.
    pub(super) fn evaluate(&self, counts: Counts) -> Vec<[u32; 3]> {
        self.table.iter().map(|grid| grid.map(|extent| extent.groups(counts))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::{Module, Variant};
    use crate::ops::Dim;

    static UNARY: Variant = Variant {
        stored: crate::dtype::DType::F32,
        name: "unary",
        needs: &[],
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

    #[test]
    fn equal_grids_share_a_place_and_follow_the_counts() {
        let dispatch = |x| {
            let (label, grid) = (String::new(), [x, Extent::Fixed(1), Extent::Fixed(1)]);
            Dispatch { label, variant: &UNARY, constants: vec![], bindings: vec![], push: vec![], grid }
        };
        let tiles = Extent::Tiles { dim: Dim::Tokens, per: 4 };
        let list = [tiles, tiles, Extent::Fixed(7)].map(dispatch);
        let grids = Grids::new(&list);
        assert_eq!(grids.groups, [Groups::Counted(0), Groups::Counted(0), Groups::Fixed([7, 1, 1])]);
        assert_eq!(grids.evaluate(Counts::new(9, 2)), [[3, 1, 1]]);
        assert_eq!(grids.evaluate(Counts::default()), [[0, 1, 1]]);
    }
}
