//! Tokens matched verbatim in a text: special tokens, and tokens added to a vocabulary.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::Value;
use tokenizers::AddedToken;

/// Roles of special tokens, in the order in which the reference adds the tokens.
pub(super) const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A token as written in the files.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Added {
    pub content: String,
    #[serde(default)]
    pub single_word: bool,
    #[serde(default)]
    pub lstrip: bool,
    #[serde(default)]
    pub rstrip: bool,
    /// Whether it is matched after normalisation; if unspecified, false for special tokens.
    pub normalized: Option<bool>,
    #[serde(default)]
    pub special: bool,
}

impl Added {
    /// A special token given as a plain string.
    pub fn special(content: &str) -> Self {
        let content = content.to_owned();
        Added { content, single_word: false, lstrip: false, rstrip: false, normalized: None, special: true }
    }

    /// A token that is matched before normalisation.
    pub fn verbatim(content: &str, special: bool) -> Self {
        Added { normalized: Some(false), special, ..Added::special(content) }
    }

    /// A token given as a string or an object with `content`.
    pub fn of_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(content) => Some(Added::special(content)),
            _ => serde_json::from_value(value.clone()).ok(),
        }
    }

    fn library(&self) -> AddedToken {
        AddedToken::from(self.content.clone(), self.special)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
            .normalized(self.normalized.unwrap_or(!self.special))
    }
}

impl From<AddedToken> for Added {
    fn from(token: AddedToken) -> Self {
        let AddedToken { content, single_word, lstrip, rstrip, normalized, special } = token;
        Added { content, single_word, lstrip, rstrip, normalized: Some(normalized), special }
    }
}

/// The special tokens of a tokenizer.
pub(super) struct Specials {
    /// Tokens by role; the roles of [`ROLES`] first.
    pub named: Vec<(String, Added)>,
    pub extra: Vec<Added>,
    /// Whether all are added once more as plain strings.
    pub plain: bool,
}

impl Specials {
    /// The token of a role.
    pub fn of(&self, role: &str) -> Option<&str> {
        self.named.iter().find(|(known, _)| known == role).map(|(_, token)| token.content.as_str())
    }

    /// The tokens by role.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().map(|(role, token)| (role.as_str(), token.content.as_str()))
    }

    /// The tokens without a role.
    pub fn extra(&self) -> impl Iterator<Item = &str> {
        self.extra.iter().map(|token| token.content.as_str())
    }

    /// Every special token, once per role.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(_, token)| token).chain(&self.extra).map(|token| token.content.as_str())
    }

    /// The tokens to add, in order, to a tokenizer that has the tokens `known`: those of `added` that are missing or
    /// differ, then the special tokens missing in both, then, where the class does so, all special tokens as plain strings.
    pub fn to_add(&self, added: &BTreeMap<u32, Added>, known: &[AddedToken]) -> Vec<AddedToken> {
        let mut tokens: Vec<Added> =
            added.values().filter(|token| !known.contains(&token.library())).cloned().collect();
        let listed: HashSet<String> = known
            .iter()
            .map(|token| &token.content)
            .chain(tokens.iter().map(|token| &token.content))
            .cloned()
            .collect();
        for token in self.named.iter().map(|(_, token)| token).chain(&self.extra) {
            if !listed.contains(&token.content) && !tokens.contains(token) {
                tokens.push(token.clone());
            }
        }
        for token in &mut tokens {
            token.special |= self.named.iter().any(|(_, named)| named.content == token.content);
        }
        if self.plain {
            tokens.extend(self.all().map(Added::special));
        }
        tokens.iter().map(Added::library).collect()
    }
}
