//! Buffers by the times in which they are occupied.

use std::collections::BTreeMap;

use crate::ops::Dim;

/// The buffers with rows of one kind, in the order in which they were made.
#[derive(Default)]
struct Shelf {
    /// Their numbers.
    buffers: Vec<usize>,
    /// The first step of each time in which they are occupied, and the last one.
    lives: Vec<BTreeMap<usize, usize>>,
    /// A tree whose leaves are the buffers: of each node a time in which all buffers below it are occupied. Node `i` has the
    /// nodes `2 i` and `2 i + 1` below it.
    busy: Vec<(usize, usize)>,
}

/// A time in which no time lies.
const NEVER: (usize, usize) = (usize::MAX, 0);
/// A time in which all others lie.
const ALWAYS: (usize, usize) = (0, usize::MAX);

fn meet((start, end): (usize, usize), (first, last): (usize, usize)) -> bool {
    start <= last && first <= end
}

impl Shelf {
    /// Adds a buffer that is occupied for a time.
    fn add(&mut self, buffer: usize, life: (usize, usize)) {
        self.buffers.push(buffer);
        self.lives.push(BTreeMap::new());
        if self.busy.len() < 2 * self.buffers.len() {
            // Places without a buffer are never free.
            let leaves = self.buffers.len().next_power_of_two();
            let mut busy = vec![ALWAYS; 2 * leaves];
            let old = self.busy.len() / 2;
            busy[leaves..leaves + old].copy_from_slice(&self.busy[old..]);
            (1..leaves).rev().for_each(|node| busy[node] = both(busy[2 * node], busy[2 * node + 1]));
            self.busy = busy;
        }
        let leaf = self.busy.len() / 2 + self.buffers.len() - 1;
        self.busy[leaf] = NEVER;
        self.occupy(self.buffers.len() - 1, life);
    }

    /// Notes that a buffer is occupied for a time in which it was free.
    fn occupy(&mut self, place: usize, (first, last): (usize, usize)) {
        self.lives[place].insert(first, last);
        let mut node = self.busy.len() / 2 + place;
        let (start, end) = self.busy[node];
        // The longest time of each stands for all.
        if (start, end) == NEVER || last - first > end - start {
            self.busy[node] = (first, last);
        }
        while node > 1 {
            node /= 2;
            self.busy[node] = both(self.busy[2 * node], self.busy[2 * node + 1]);
        }
    }

    /// The last buffer below a node of the tree that is free for a time.
    fn free(&self, node: usize, life: (usize, usize)) -> Option<usize> {
        if self.busy.len() <= node || meet(self.busy[node], life) {
            return None;
        }
        let leaves = self.busy.len() / 2;
        if node < leaves {
            return self.free(2 * node + 1, life).or_else(|| self.free(2 * node, life));
        }
        let place = node - leaves;
        // Of times that do not meet, the last to start by then is the last to end.
        let before = self.lives[place].range(..=life.1).next_back();
        before.is_none_or(|(_, end)| *end < life.0).then_some(place)
    }
}

/// The time in which both are.
fn both((start, end): (usize, usize), (first, last): (usize, usize)) -> (usize, usize) {
    let (start, end) = (start.max(first), end.min(last));
    if start <= end { (start, end) } else { NEVER }
}

/// Which buffers are free when.
#[derive(Default)]
pub(super) struct Shelves(Vec<(Dim, Shelf)>);

impl Shelves {
    fn shelf(&mut self, rows: Dim) -> &mut Shelf {
        let place = self.0.iter().position(|(known, _)| *known == rows).unwrap_or_else(|| {
            self.0.push((rows, Shelf::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    /// Adds a buffer, which is occupied from its first step to its last.
    pub(super) fn add(&mut self, buffer: usize, rows: Dim, life: (usize, usize)) {
        self.shelf(rows).add(buffer, life);
    }

    /// The number of the last buffer with these rows that is free from a step to another, from then on occupied.
    pub(super) fn take(&mut self, rows: Dim, life: (usize, usize)) -> Option<usize> {
        let shelf = self.shelf(rows);
        let place = shelf.free(1, life)?;
        shelf.occupy(place, life);
        Some(shelf.buffers[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::rng::philox;

    #[test]
    fn the_last_free_buffer_is_that_of_a_search_through_all() {
        let mut number = 0;
        let mut drawn = |below: usize| {
            number += 1;
            philox([number, 0, 0, 0], [7, 7])[0] as usize % below
        };
        for steps in [5, 40, 400] {
            let (mut shelves, mut all) = (Shelves::default(), Vec::<(Dim, Vec<(usize, usize)>)>::new());
            for _ in 0..600 {
                let rows = [Dim::Tokens, Dim::Fixed(1)][drawn(2)];
                let first = drawn(steps);
                let life = (first, first + drawn(steps));
                let free = |(known, lives): &(Dim, Vec<(usize, usize)>)| {
                    *known == rows && lives.iter().all(|own| own.1 < life.0 || life.1 < own.0)
                };
                let expected = all.iter().rposition(free);
                assert_eq!(shelves.take(rows, life), expected);
                match expected {
                    Some(place) => all[place].1.push(life),
                    None => {
                        // As an output's, for which no buffer is sought.
                        let life = if drawn(20) == 0 { ALWAYS } else { life };
                        shelves.add(all.len(), rows, life);
                        all.push((rows, vec![life]));
                    }
                }
            }
        }
    }
}
