//! The largest numbers of a row, with equal ones chosen and ordered as `torch.topk` does on the CPU.
//!
//! torch calls the C++ library's `partial_sort` and `nth_element`; which of several equal numbers these keep, and in what
//! order, follows from each step. So the steps of GCC's library are taken one by one: heaps for few of many, else
//! partitions around medians of three, then insertion. A comparison is never true of equal numbers.

/// A number and its place in the row.
type Item<T> = (T, usize);

/// What can be compared: floating-point numbers.
pub trait Number: PartialOrd + Copy + Send + Sync {}
impl Number for f32 {}
impl Number for f64 {}

/// Rows below this length are ordered by insertion.
const SHORT: usize = 16;
/// With more elements than this for each wanted one, a heap is used.
const MANY: usize = 64;

/// The `count` largest of `row` with their places: the largest first if `sorted`, else in the order of the selection.
/// NaN is larger than every number. `count` is at most the row's length.
pub fn largest<T: Number>(row: &[T], count: usize, sorted: bool) -> Vec<(T, usize)> {
    let mut items: Vec<Item<T>> = row.iter().enumerate().map(|(place, number)| (*number, place)).collect();
    let count = count.min(items.len());
    if count == 0 {
        return Vec::new();
    }
    if count * MANY <= items.len() {
        heap_select(&mut items, count);
        sort_heap(&mut items[..count]);
    } else {
        nth_element(&mut items, count - 1);
        if sorted {
            sort(&mut items[..count - 1]);
        }
    }
    items.truncate(count);
    items
}

/// Whether `a` stands before `b`.
#[allow(clippy::eq_op)]
fn before<T: Number>(a: &Item<T>, b: &Item<T>) -> bool {
    (a.0 != a.0 && b.0 == b.0) || a.0 > b.0
}

/// Twice the whole part of the logarithm: how many partitions are tried before a heap is used.
fn depth(length: usize) -> u32 {
    2 * length.ilog2()
}

/// Puts `value` into the heap at `hole` or above it, not above `top`.
fn push_heap<T: Number>(heap: &mut [Item<T>], mut hole: usize, top: usize, value: Item<T>) {
    while hole > top && before(&heap[(hole - 1) / 2], &value) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = value;
}

/// Puts `value` into the heap below `top`, where a place has become free.
fn adjust_heap<T: Number>(heap: &mut [Item<T>], top: usize, value: Item<T>) {
    let (mut hole, mut child, length) = (top, top, heap.len());
    while child < (length - 1) / 2 {
        child = 2 * (child + 1);
        if before(&heap[child], &heap[child - 1]) {
            child -= 1;
        }
        heap[hole] = heap[child];
        hole = child;
    }
    if length.is_multiple_of(2) && child == (length - 2) / 2 {
        child = 2 * child + 1;
        heap[hole] = heap[child];
        hole = child;
    }
    push_heap(heap, hole, top, value);
}

/// Makes a heap of the first `count` items, whose top is the last in order, and exchanges it for what comes before it.
fn heap_select<T: Number>(items: &mut [Item<T>], count: usize) {
    let (heap, rest) = items.split_at_mut(count);
    if count >= 2 {
        for parent in (0..=(count - 2) / 2).rev() {
            adjust_heap(heap, parent, heap[parent]);
        }
    }
    for item in rest {
        if before(item, &heap[0]) {
            let value = std::mem::replace(item, heap[0]);
            adjust_heap(heap, 0, value);
        }
    }
}

fn sort_heap<T: Number>(heap: &mut [Item<T>]) {
    for last in (1..heap.len()).rev() {
        let value = heap[last];
        heap[last] = heap[0];
        adjust_heap(&mut heap[..last], 0, value);
    }
}

/// Moves item `place` forward to where it belongs among those before it.
fn insert<T: Number>(items: &mut [Item<T>], place: usize) {
    let value = items[place];
    let mut hole = place;
    while hole > 0 && before(&value, &items[hole - 1]) {
        items[hole] = items[hole - 1];
        hole -= 1;
    }
    items[hole] = value;
}

/// Divides the items around the median of three of them; where the second part begins.
fn partition<T: Number>(items: &mut [Item<T>]) -> usize {
    let (a, b, c) = (1, items.len() / 2, items.len() - 1);
    let less = |x: usize, y: usize| before(&items[x], &items[y]);
    let median = match (less(a, b), less(b, c), less(a, c)) {
        (true, true, _) | (false, false, false) => b,
        (true, false, true) | (false, true, false) => c,
        (true, false, false) | (false, _, true) => a,
    };
    items.swap(0, median);
    let (mut first, mut last) = (1, items.len());
    loop {
        while before(&items[first], &items[0]) {
            first += 1;
        }
        last -= 1;
        while before(&items[0], &items[last]) {
            last -= 1;
        }
        if first >= last {
            return first;
        }
        items.swap(first, last);
        first += 1;
    }
}

/// Puts at `nth` the item that belongs there, those before it in front.
fn nth_element<T: Number>(items: &mut [Item<T>], nth: usize) {
    let (mut first, mut last, mut left) = (0, items.len(), depth(items.len()));
    while last - first > 3 {
        if left == 0 {
            heap_select(&mut items[first..last], nth + 1 - first);
            items.swap(first, nth);
            return;
        }
        left -= 1;
        let cut = first + partition(&mut items[first..last]);
        match cut <= nth {
            true => first = cut,
            false => last = cut,
        }
    }
    for place in 1..last - first {
        insert(&mut items[first..last], place);
    }
}

fn sort<T: Number>(items: &mut [Item<T>]) {
    if !items.is_empty() {
        sort_roughly(items, depth(items.len()));
        // The rough sort has left every item near its place.
        for place in 1..items.len() {
            insert(items, place);
        }
    }
}

fn sort_roughly<T: Number>(mut items: &mut [Item<T>], mut left: u32) {
    while items.len() > SHORT {
        if left == 0 {
            heap_select(items, items.len());
            sort_heap(items);
            return;
        }
        left -= 1;
        let cut = partition(items);
        let (front, back) = items.split_at_mut(cut);
        sort_roughly(back, left);
        items = front;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(row: &[f32], count: usize, sorted: bool) -> Vec<usize> {
        largest(row, count, sorted).into_iter().map(|(_, place)| place).collect()
    }

    /// Numbers with many equal ones: a sequence that is the same everywhere.
    fn row(length: usize, levels: u32) -> Vec<f32> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 16) % levels) as f32
        };
        (0..length).map(|_| next()).collect()
    }

    /// `torch.topk(row, count, sorted=sorted).indices` of torch 2.15.
    #[test]
    fn equal_numbers_are_taken_in_torchs_order() {
        assert_eq!(places(&row(12, 3), 5, true), [6, 11, 1, 0, 3]);
        assert_eq!(places(&row(12, 3), 5, false), [6, 11, 1, 0, 3]);
        assert_eq!(places(&row(40, 2), 8, true), [16, 22, 12, 13, 14, 31, 18, 20]);
        assert_eq!(
            places(&row(40, 2), 20, false),
            [10, 20, 19, 18, 29, 16, 31, 14, 13, 12, 22, 9, 38, 3, 37, 36, 39, 24, 33, 27]
        );
        assert_eq!(places(&row(700, 3), 9, true), [11, 1, 19, 12, 15, 18, 24, 17, 6]);
        assert_eq!(
            places(&row(100, 5), 30, true),
            [
                83, 74, 62, 59, 77, 19, 78, 58, 16, 30, 13, 84, 52, 85, 87, 6, 48, 95, 96, 97, 79, 9, 64, 44, 32, 57,
                53, 50, 45, 80
            ]
        );
    }

    #[test]
    fn the_largest_are_found() {
        for length in [1, 2, 3, 4, 17, 100, 1000, 5000] {
            for levels in [1, 2, 7, 60_000] {
                for count in [1, 2, 10, 100] {
                    let numbers = row(length, levels);
                    let mut expected = numbers.clone();
                    expected.sort_by(|a, b| b.total_cmp(a));
                    expected.truncate(count);
                    let found: Vec<f32> =
                        largest(&numbers, count, true).into_iter().map(|(number, _)| number).collect();
                    assert_eq!(found, expected, "{length} {levels} {count}");
                }
            }
        }
    }

    #[test]
    fn a_row_that_defeats_the_median_is_selected_with_a_heap() {
        // Each partition of such a row takes off two items only.
        let half = 2000;
        let mut numbers = vec![0.0f32; 2 * half];
        for i in 0..half {
            numbers[i] = if i % 2 == 0 { (i + 1) as f32 } else { (half + i) as f32 };
            numbers[half + i] = (2 * (i + 1)) as f32;
        }
        let negated: Vec<f32> = numbers.iter().map(|number| -number).collect();
        let mut expected = negated.clone();
        expected.sort_by(|a, b| b.total_cmp(a));
        let found: Vec<f32> = largest(&negated, half, true).into_iter().map(|(number, _)| number).collect();
        assert_eq!(found, expected[..half]);
    }

    #[test]
    fn nan_is_largest_and_nothing_gives_nothing() {
        assert_eq!(places(&[1.0, f32::NAN, 3.0], 2, true), [1, 2]);
        assert!(places(&[1.0], 0, true).is_empty());
        assert!(places(&[], 3, true).is_empty());
    }
}
