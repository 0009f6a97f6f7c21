//! Queries of a fixed number of tokens: a token that is put after a query's own.

use crate::model::config::Expansion;
use crate::text::tokenizer::Tokens;

/// What is put after the tokens of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filler {
    /// The id of the token.
    pub id: u32,
    pub expansion: Expansion,
}

impl Filler {
    /// Puts the token after the others until each query has as many as it must.
    pub fn fill(&self, queries: &mut [Tokens]) {
        for query in queries {
            query.expansion = self.expansion.length.saturating_sub(query.ids.len());
            let length = query.ids.len() + query.expansion;
            query.ids.resize(length, self.id);
            query.type_ids.resize(length, 0);
        }
    }
}
