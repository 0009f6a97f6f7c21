//! What a batch feeds to a program: its counts, and the contents of its inputs.

use super::session::Work;
use crate::model::encoder::{Input, STATES};
use crate::ops::Counts;
use crate::text::packing::{self, Batch};
use crate::text::tokenizer::Tokens;

/// Rows of a text, counted from its first, for which a kernel of attention may decide something together: a multiple of the rows
/// of a subgroup on matrix cores.
const TOGETHER: usize = 64;

impl Work<'_> {
    /// The number of tokens with which all of these texts begin, in whole groups of [`TOGETHER`]; each has another one at least.
    pub(super) fn common(&self, texts: &[usize]) -> usize {
        let [first, others @ ..] = texts else { return 0 };
        let first = &self.tokens[*first].ids;
        let with = |text: &usize| {
            let ids = &self.tokens[*text].ids;
            let most = ids.len().min(first.len()).saturating_sub(1);
            first.iter().zip(ids).take(most).take_while(|(one, other)| one == other).count()
        };
        others.iter().map(with).min().unwrap_or(0) / TOGETHER * TOGETHER
    }

    /// The texts of a batch, each with the number of its tokens that are those of the first text.
    fn texts<'b>(&'b self, batch: &'b Batch) -> impl Iterator<Item = (&'b Tokens, usize)> {
        let shared = |place: usize| if place == 0 { 0 } else { batch.shared };
        batch.texts.iter().enumerate().map(move |(place, &text)| (&self.tokens[text], shared(place)))
    }

    /// The first row of each text in a batch, and the row after the last.
    fn offsets(&self, batch: &Batch) -> Vec<u32> {
        packing::offsets(self.texts(batch).map(|(text, shared)| text.ids.len() - shared))
    }

    pub(super) fn counts(&self, batch: &Batch) -> Counts {
        let sum = |rows: &dyn Fn(usize) -> usize| batch.texts.iter().map(|&text| rows(text)).sum();
        let others = match self.stage.inputs.contains(&Input::KeyRows) {
            true => sum(&|text| self.length(text) - self.tokens[text].expansion),
            false => sum(&|text| self.states_of(text)),
        };
        let tokens = self.texts(batch).map(|(text, shared)| text.ids.len() - shared).sum();
        Counts::new(tokens, batch.texts.len()).with(STATES, others)
    }

    /// The bits of an input for a batch.
    pub(super) fn fill(&self, input: Input, batch: &Batch) -> Vec<u32> {
        let texts = || self.texts(batch);
        let seen = |text: &Tokens| text.ids.len() - text.expansion;
        match input {
            Input::Words => texts().flat_map(|(text, shared)| &text.ids[shared..]).copied().collect(),
            Input::Neighbours(none) => {
                let around = |(text, shared): (&Tokens, usize)| -> Vec<u32> {
                    let at =
                        |place: Option<usize>| place.and_then(|place| text.ids.get(place)).copied().unwrap_or(none);
                    let of = |place: usize| [Some(place + 1), Some(place), place.checked_sub(1)].map(at);
                    (shared..text.ids.len()).flat_map(of).collect()
                };
                texts().flat_map(around).collect()
            }
            Input::Positions(rows) => texts().flat_map(|(text, shared)| rows.of(&text.ids).split_off(shared)).collect(),
            Input::Offsets => self.offsets(batch),
            // A prompt that fills a truncated text leaves no tokens to pool.
            Input::FirstPooled => {
                texts().map(|(text, shared)| self.first.min(text.ids.len() - shared) as u32).collect()
            }
            Input::Segments => texts().flat_map(|(text, shared)| &text.type_ids[shared..]).copied().collect(),
            Input::States => {
                let states = batch.texts.iter().filter_map(|&text| self.states.get(text));
                states.flatten().map(|number| number.to_bits()).collect()
            }
            Input::StateOffsets => packing::offsets(batch.texts.iter().map(|&text| self.states_of(text))),
            Input::KeyOffsets => packing::offsets(texts().map(|(text, _)| seen(text))),
            // What texts begin with together are the first rows.
            Input::KeyRows => {
                let offsets = self.offsets(batch);
                let rows = |((text, shared), first): ((&Tokens, usize), &u32)| {
                    let own = (seen(text) - shared) as u32;
                    (0..shared as u32).chain(*first..*first + own)
                };
                texts().zip(&offsets).flat_map(rows).collect()
            }
            Input::Seen => {
                let places = |(text, shared): (&Tokens, usize)| {
                    let end = seen(text);
                    (shared..text.ids.len()).map(move |place| u32::from(place < end))
                };
                texts().flat_map(places).collect()
            }
            // In training only.
            Input::DropoutKey => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::Encoded;
    use crate::embed::stages::Stage;
    use crate::graph::Graph;
    use crate::graph::shaders::Registry;
    use crate::model::encoder::Built;
    use crate::model::spec::PositionRows;

    #[test]
    fn what_texts_begin_with_is_a_part_of_the_first_alone() {
        let inputs = vec![Input::Words, Input::KeyRows];
        let built = Built { graph: Graph::new(), inputs, states: Vec::new() };
        let stage = Stage::new(0, built, "", Registry::generic()).unwrap();
        let texts: [&[u32]; 3] = [&[1, 2, 3, 4], &[1, 2, 9], &[1, 2, 3]];
        let tokens = texts.iter().map(|ids| Tokens::new(ids.to_vec(), vec![0; ids.len()])).collect();
        let work = Work { tokens, ..Work::new(&stage, 3, Encoded::default()) };
        // Two are no whole group.
        assert_eq!([work.common(&[0, 1, 2]), work.common(&[0, 2]), work.common(&[1]), work.common(&[])], [0; 4]);
        let of = |shared| {
            let batch = Batch { texts: vec![0, 1, 2], tokens: 10, shared };
            let positions = Input::Positions(PositionRows::Counted);
            let inputs =
                [Input::Words, positions, Input::Offsets, Input::KeyOffsets, Input::KeyRows, Input::FirstPooled];
            (work.counts(&batch), inputs.map(|input| work.fill(input, &batch)))
        };
        let keys = vec![0, 4, 7, 10];
        let (counts, [words, positions, offsets, key_offsets, key_rows, first]) = of(2);
        assert_eq!(counts, Counts::new(6, 3).with(STATES, 10));
        assert_eq!((words, positions, offsets), (vec![1, 2, 3, 4, 9, 3], vec![0, 1, 2, 3, 2, 2], vec![0, 4, 5, 6]));
        assert_eq!((&key_offsets, key_rows, first), (&keys, vec![0, 1, 2, 3, 0, 1, 4, 0, 1, 5], vec![0; 3]));
        let (counts, [words, _, offsets, key_offsets, key_rows, _]) = of(0);
        assert_eq!(counts, Counts::new(10, 3).with(STATES, 10));
        assert_eq!(
            (words.len(), offsets, key_offsets, key_rows),
            (10, keys.clone(), keys, (0..10).collect::<Vec<_>>())
        );
    }

    #[test]
    fn a_word_has_neighbours_in_its_text_alone() {
        let built = Built { graph: Graph::new(), inputs: Vec::new(), states: Vec::new() };
        let stage = Stage::new(0, built, "", Registry::generic()).unwrap();
        let tokens = [&[1, 2, 3][..], &[4], &[]].map(|ids| Tokens::new(ids.to_vec(), vec![0; ids.len()]));
        let work = Work { tokens: tokens.into(), ..Work::new(&stage, 3, Encoded::default()) };
        let batch = Batch { texts: vec![0, 1, 2], tokens: 4, shared: 0 };
        let expected = [[2, 1, 9], [3, 2, 1], [9, 3, 2], [9, 4, 9]].concat();
        assert_eq!(work.fill(Input::Neighbours(9), &batch), expected);
    }

    #[test]
    fn tokens_of_an_expansion_are_not_seen() {
        let inputs = vec![Input::Words, Input::KeyRows, Input::Seen];
        let stage =
            Stage::new(0, Built { graph: Graph::new(), inputs, states: Vec::new() }, "", Registry::generic()).unwrap();
        let tokens = [(3, 1), (2, 0), (2, 2)].map(|(length, expansion)| Tokens {
            expansion,
            ..Tokens::new((0..length).collect(), vec![0; length as usize])
        });
        let work = Work { tokens: tokens.into(), ..Work::new(&stage, 3, Encoded::default()) };
        let batch = Batch { texts: vec![0, 1, 2], tokens: 7, shared: 0 };
        assert_eq!(work.fill(Input::Seen, &batch), [1, 1, 0, 1, 1, 0, 0]);
        assert_eq!((work.fill(Input::KeyRows, &batch), work.counts(&batch).others[STATES]), (vec![0, 1, 3, 4], 4));
    }

    #[test]
    fn texts_share_whole_groups_of_tokens() {
        let stage = Stage::new(
            0,
            Built { graph: Graph::new(), inputs: Vec::new(), states: Vec::new() },
            "",
            Registry::generic(),
        )
        .unwrap();
        // Of as many tokens, and the last of which is another.
        let tokens = [(140, 1), (140, 2), (129, 3), (128, 4)]
            .map(|(length, last)| Tokens::new((10..9 + length).chain([last]).collect(), vec![0; length as usize]));
        let work = Work { tokens: tokens.into(), ..Work::new(&stage, 4, Encoded::default()) };
        // The last token of a text is its own.
        assert_eq!([work.common(&[0, 1]), work.common(&[0, 1, 2]), work.common(&[0, 1, 2, 3])], [128, 128, 64]);
    }
}
