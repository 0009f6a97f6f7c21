//! Turns dispatches into commands, as pure data: where barriers are needed, and which grids the host evaluates per
//! batch.

use super::kernel::{Access, Dispatch, Extent, Range};
use crate::ops::Counts;

/// Whether each dispatch needs a barrier before it: since the last barrier an earlier one wrote what it reads or
/// writes, or read what it writes.
pub(super) fn barriers(dispatches: &[Dispatch]) -> Vec<bool> {
    let mut since: Vec<(Range, Access)> = Vec::new();
    let mut barriers = Vec::with_capacity(dispatches.len());
    for dispatch in dispatches {
        let uses = || dispatch.bindings.iter().copied().zip(dispatch.variant.bindings.iter().map(|b| b.access));
        let hazard = uses().any(|(range, access)| {
            let clash = |(other, earlier): &(Range, Access)| {
                (access != Access::Read || *earlier != Access::Read) && overlap(range, *other)
            };
            since.iter().any(clash)
        });
        if hazard {
            since.clear();
        }
        since.extend(uses());
        barriers.push(hazard);
    }
    barriers
}

fn overlap(a: Range, b: Range) -> bool {
    let end = |r: Range| r.bytes.map_or(u64::MAX, |bytes| r.offset.saturating_add(bytes));
    a.resource == b.resource && a.offset < end(b) && b.offset < end(a)
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
    use crate::backend::vulkan::{Binding, Resource, Variant};
    use crate::ops::Dim;

    const fn binding(index: u32, access: Access) -> Binding {
        Binding { name: "", index, access }
    }

    /// Reads binding 0, writes binding 1.
    static UNARY: Variant = Variant {
        stored: crate::dtype::DType::F32,
        name: "unary",
        needs: &[],
        spirv: &[],
        bindings: &[binding(0, Access::Read), binding(1, Access::Write)],
        push_bytes: 0,
        push: &[],
        constants: &[],
        local_size: [1; 3],
        source: "",
        defines: &[],
        shared_bytes: 0,
    };

    fn dispatch(from: Range, to: Range) -> Dispatch {
        let grid = [Extent::Tiles { dim: Dim::Tokens, per: 4 }, Extent::Fixed(1), Extent::Fixed(1)];
        let label = String::new();
        Dispatch { label, variant: &UNARY, constants: vec![], bindings: vec![from, to], push: vec![], grid }
    }

    fn buffer(n: usize) -> Range {
        Range::whole(Resource::Buffer(n))
    }

    #[test]
    fn barriers_stand_only_where_a_hazard_is() {
        let list = [
            dispatch(buffer(0), buffer(1)),
            dispatch(buffer(0), buffer(2)), // reads what was read, writes elsewhere
            dispatch(buffer(1), buffer(3)), // reads what was written
            dispatch(buffer(2), buffer(4)), // that write already precedes the barrier
            dispatch(buffer(5), buffer(1)), // writes what is being read
            dispatch(buffer(6), buffer(1)), // writes what is being written
        ];
        assert_eq!(barriers(&list), [false, false, true, false, true, true]);
    }

    #[test]
    fn ranges_that_do_not_meet_are_no_hazard() {
        let part = |offset, bytes| Range { resource: Resource::Buffer(1), offset, bytes };
        let list = [
            dispatch(buffer(0), part(0, Some(256))),
            dispatch(part(256, None), buffer(2)),
            dispatch(part(0, Some(4)), buffer(3)),
        ];
        assert_eq!(barriers(&list), [false, false, true]);
        let list = [dispatch(buffer(0), part(0, Some(257))), dispatch(part(256, None), buffer(2))];
        assert_eq!(barriers(&list), [false, true]);
    }

    #[test]
    fn equal_grids_share_a_place_and_follow_the_counts() {
        let mut list = vec![dispatch(buffer(0), buffer(1)), dispatch(buffer(1), buffer(2))];
        list.push(Dispatch { grid: [Extent::Fixed(7), Extent::Fixed(1), Extent::Fixed(1)], ..list[0].clone() });
        let grids = Grids::new(&list);
        assert_eq!(grids.groups, [Groups::Counted(0), Groups::Counted(0), Groups::Fixed([7, 1, 1])]);
        assert_eq!(grids.evaluate(Counts::new(9, 2)), [[3, 1, 1]]);
        assert_eq!(grids.evaluate(Counts::default()), [[0, 1, 1]]);
    }
}
