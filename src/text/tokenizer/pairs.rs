//! Pairs of texts, in the template of two.

use tokenizers::PostProcessor;

use super::surroundings::post_process;
use super::{Side, Tokenizer, Tokens, each, room};
use crate::Result;

impl Tokenizer {
    /// Tokens of each pair, in parallel on the current rayon pool. Of a pair with more than `most` tokens the longer text
    /// is truncated to what the shorter leaves, and both to halves where neither is short: `longest_first` in the
    /// reference.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_pairs(&self, pairs: &[[String; 2]], most: usize) -> Result<Vec<Tokens>> {
        let added = self.loaded.tokenizer.get_post_processor().map_or(0, |template| template.added_tokens(true));
        let room = room(most, added, "pair")?;
        let side = self.truncation_side();
        each(pairs, "pair", |pair| self.encode_pair(pair, room, side))
    }

    /// Tokens of one pair, at most `room` not counting special tokens.
    fn encode_pair(&self, [first, second]: &[String; 2], room: usize, side: Side) -> tokenizers::Result<Tokens> {
        let mut ids = [self.plain_ids(first, room, side)?, self.plain_ids(second, room, side)?];
        // The longer text keeps one token more where both are long, so their whole lengths count.
        if room % 2 == 1 && ids.iter().all(|ids| ids.len() >= room) {
            ids = [self.plain_ids(first, usize::MAX, side)?, self.plain_ids(second, usize::MAX, side)?];
        }
        let lengths = kept([ids[0].len(), ids[1].len()], room);
        for (ids, length) in ids.iter_mut().zip(lengths) {
            side.cut(ids, length);
        }
        Ok(self.segmented(post_process(&self.loaded.tokenizer, &ids[0], Some(&ids[1]))?))
    }
}

/// The tokens kept of two texts of so many.
pub(super) fn kept([first, second]: [usize; 2], room: usize) -> [usize; 2] {
    if first + second <= room {
        return [first, second];
    }
    let short = first.min(second).min(room / 2);
    if first <= second { [short, room - short] } else { [room - short, short] }
}

#[cfg(test)]
mod tests {
    use tokenizers::utils::truncation::{TruncationParams, truncate_encodings};

    use tokenizers::{Encoding, Token};

    use super::*;

    #[test]
    fn the_lengths_are_those_of_the_library() {
        let encoding = |length: usize| {
            let token = |id: usize| Token { id: id as u32, value: String::new(), offsets: (0, 0) };
            Encoding::from_tokens((0..length).map(token).collect(), 0)
        };
        for (first, second, room) in
            (0..9).flat_map(|first| (0..9).flat_map(move |second| (0..13).map(move |room| (first, second, room))))
        {
            let most = TruncationParams { max_length: room, ..TruncationParams::default() };
            let (a, b) = truncate_encodings(encoding(first), Some(encoding(second)), &most).unwrap();
            assert_eq!(kept([first, second], room), [a.len(), b.unwrap().len()], "{first} {second} {room}");
        }
    }
}
