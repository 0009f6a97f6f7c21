//! Tokens that are put after those of a query: `query_expansion` of the Transformer's settings.

use serde_json::{Value, json};

use super::LONGEST_TEXT;
use crate::model::fields::Fields;

/// Tokens that are put after those of a query until it has a number of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expansion {
    /// Whether longer queries are truncated to that number.
    pub fixed: bool,
    /// Whether the query's tokens see those that are put after them, which see the query's in any case.
    pub seen: bool,
    /// The token; `None` for the tokenizer's mask, or else its end of a text.
    pub token: Option<String>,
    /// The number of tokens, special ones included.
    pub length: usize,
}

impl Expansion {
    /// Reads the setting.
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let fixed = match fields.text("strategy") {
            Some("fixed") => true,
            Some("min") => false,
            other => {
                fields.fault(format!("strategy is {other:?}, expected \"fixed\" or \"min\""));
                true
            }
        };
        let seen = fields.flag_or("attend", false);
        let token = fields.text("token").map(str::to_owned);
        let length = fields.size("length", 1..=LONGEST_TEXT);
        for key in fields.unread() {
            fields.fault(format!("{key} is not a setting of it; known are attend, length, strategy and token"));
        }
        Expansion { fixed, seen, token, length }
    }

    /// The setting as sentence-transformers writes it.
    pub fn to_json(&self) -> Value {
        let strategy = if self.fixed { "fixed" } else { "min" };
        json!({"strategy": strategy, "attend": self.seen, "token": self.token, "length": self.length})
    }
}
