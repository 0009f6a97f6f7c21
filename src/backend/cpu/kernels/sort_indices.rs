//! Places sorted stably by their index, and where those of each index begin.

use super::Memory;
use crate::backend::cpu::step::Step;
use crate::ops::SortIndices;
use crate::{Error, Result};

pub(super) fn sort_indices(step: &Step<'_>, _: &SortIndices, memory: Memory<'_, '_>) -> Result<()> {
    let [order, starts] = memory.results else {
        return Err(Error::InvalidArgument("sort_indices: expected two results".into()));
    };
    sort(step.indices(0)?, bytemuck::cast_slice_mut(order), bytemuck::cast_slice_mut(starts));
    Ok(())
}

/// Sorts by counting.
pub(super) fn sort(index: &[u32], order: &mut [u32], starts: &mut [u32]) {
    let rows = starts.len() - 1;
    starts.fill(0);
    for row in index.iter().filter(|row| (**row as usize) < rows) {
        starts[*row as usize + 1] += 1;
    }
    for row in 1..starts.len() {
        starts[row] += starts[row - 1];
    }
    // Each start is moved to its bucket's end, which is the start of the next.
    let mut outside = starts[rows];
    for (place, row) in (0..).zip(index) {
        let next = if (*row as usize) < rows { &mut starts[*row as usize] } else { &mut outside };
        order[*next as usize] = place;
        *next += 1;
    }
    starts.copy_within(..rows, 1);
    starts[0] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_sorted_stably_and_a_bucket_may_be_empty() {
        let (mut order, mut starts) = ([9; 6], [9; 5]);
        sort(&[3, 0, 3, 1, 0, 3], &mut order, &mut starts);
        assert_eq!((order, starts), ([1, 4, 3, 0, 2, 5], [0, 2, 3, 3, 6]));
        let (mut order, mut starts) = ([9; 5], [9; 3]);
        sort(&[u32::MAX, 1, 2, 0, 1], &mut order, &mut starts);
        assert_eq!((order, starts), ([3, 1, 4, 0, 2], [0, 1, 3]));
        let mut starts = [9];
        sort(&[5, 0], &mut order[..2], &mut starts);
        assert_eq!((&order[..2], starts), (&[0, 1][..], [0]));
    }
}
