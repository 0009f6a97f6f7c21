//! Batches without padding: the tokens of several texts concatenated, longest texts first.

use std::ops::Range;

/// The texts of one batch, by index in the caller's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Indices of the texts, in the batch's order.
    pub texts: Vec<usize>,
    /// Total number of tokens.
    pub tokens: usize,
    /// How many tokens all of them begin with that are computed for the first one alone.
    pub shared: usize,
}

/// Splits texts of the given lengths into batches.
///
/// Texts are taken from the longest to the shortest (ties in the caller's order). A batch ends before it would exceed
/// `most_tokens` or `most_texts`; a single text longer than `most_tokens` is a batch of its own.
///
/// ```
/// let batches = grilly::text::packing::pack(&[3, 9, 4], 10, 32);
/// assert_eq!(batches.iter().map(|b| b.texts.clone()).collect::<Vec<_>>(), [vec![1], vec![2, 0]]);
/// ```
pub fn pack(lengths: &[usize], most_tokens: usize, most_texts: usize) -> Vec<Batch> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(lengths[i]));
    let mut batches: Vec<Batch> = Vec::new();
    for text in order {
        let length = lengths[text];
        match batches.last_mut() {
            Some(batch) if batch.texts.len() < most_texts && batch.tokens + length <= most_tokens => {
                batch.texts.push(text);
                batch.tokens += length;
            }
            _ => batches.push(Batch { texts: vec![text], tokens: length, shared: 0 }),
        }
    }
    batches
}

/// Token rows of each text in a batch: `offsets[i]..offsets[i + 1]`.
pub fn offsets(lengths: impl Iterator<Item = usize>) -> Vec<u32> {
    let mut offsets = vec![0u32];
    for length in lengths {
        offsets.push(offsets[offsets.len() - 1] + length as u32);
    }
    offsets
}

/// The token rows of text `i`.
pub fn rows(offsets: &[u32], i: usize) -> Range<usize> {
    offsets[i] as usize..offsets[i + 1] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_in_one_batch_and_no_batch_is_too_large() {
        let lengths: Vec<usize> = (0..500).map(|i| (i * 7919) % 97).collect();
        let batches = pack(&lengths, 128, 8);
        let mut seen: Vec<usize> = batches.iter().flat_map(|b| b.texts.clone()).collect();
        seen.sort();
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
        for batch in &batches {
            assert!(batch.texts.len() <= 8 && batch.tokens <= 128);
            assert_eq!(batch.tokens, batch.texts.iter().map(|&t| lengths[t]).sum::<usize>());
        }
    }

    #[test]
    fn a_text_over_the_budget_runs_alone() {
        let batches = pack(&[500, 1], 128, 8);
        assert_eq!(batches[0], Batch { texts: vec![0], tokens: 500, shared: 0 });
        assert_eq!(batches[1], Batch { texts: vec![1], tokens: 1, shared: 0 });
    }

    #[test]
    fn offsets_are_running_sums() {
        let offsets = offsets([2, 0, 3].into_iter());
        assert_eq!(offsets, [0, 2, 2, 5]);
        assert_eq!(rows(&offsets, 2), 2..5);
    }
}
