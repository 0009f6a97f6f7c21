//! The template around texts, applied to ids.

use tokenizers::{Encoding, Token};

use super::{Library, Tokens};

/// The ids of a text, or of a pair, with the template applied.
pub(super) fn post_process(inner: &Library, ids: &[u32], second: Option<&[u32]>) -> tokenizers::Result<Tokens> {
    let bare = |ids: &[u32], segment| {
        let token = |id: &u32| Token { id: *id, value: String::new(), offsets: (0, 0) };
        Encoding::from_tokens(ids.iter().map(token).collect(), segment)
    };
    let whole = inner.post_process(bare(ids, 0), second.map(|ids| bare(ids, 1)), true)?;
    Ok(Tokens { ids: whole.get_ids().to_vec(), type_ids: whole.get_type_ids().to_vec(), expansion: 0 })
}

/// The tokens that a template adds before and after every text; applying the template through the library takes a third
/// of the time of tokenizing.
#[derive(Debug, PartialEq)]
pub(super) struct Surroundings {
    pub before: Tokens,
    /// Segment of the text's own tokens.
    pub own: u32,
    pub after: Tokens,
}

impl Surroundings {
    /// The surroundings of a tokenizer; `None` if its template treats texts of 0 to 3 tokens differently.
    pub fn of(inner: &Library) -> tokenizers::Result<Option<Self>> {
        let marks = [u32::MAX, u32::MAX - 1, u32::MAX - 2];
        let one = post_process(inner, &marks[..1], None)?;
        let Some(place) = one.ids.iter().position(|id| *id == marks[0]) else { return Ok(None) };
        let cut = |range: std::ops::Range<usize>| Tokens {
            ids: one.ids[range.clone()].to_vec(),
            type_ids: one.type_ids[range].to_vec(),
            expansion: 0,
        };
        let found =
            Surroundings { before: cut(0..place), own: one.type_ids[place], after: cut(place + 1..one.ids.len()) };
        for length in 0..=marks.len() {
            if post_process(inner, &marks[..length], None)? != found.around(&marks[..length]) {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    pub fn around(&self, ids: &[u32]) -> Tokens {
        let own = vec![self.own; ids.len()];
        let Surroundings { before, after, .. } = self;
        Tokens {
            ids: [&before.ids, ids, &after.ids].concat(),
            type_ids: [&before.type_ids, &own[..], &after.type_ids].concat(),
            expansion: 0,
        }
    }
}
