//! The steps of a class' normaliser and pre-tokenizer, and how its tokens become a text again.

/// A step of normalisation.
#[derive(Clone, Copy, PartialEq)]
pub(in super::super) enum Normal {
    /// Control characters out, Chinese characters apart, accents and, unless the class decides it, capitals as the settings
    /// say, as in BERT.
    Words { lower: Option<bool> },
    /// The same with capitals and accents kept, whatever the settings say.
    Cased,
    /// The file's map of characters, if it has one.
    Mapped,
    /// Letters composed with their accents.
    Composed,
    /// No accents, unless `keep_accents`.
    Plain,
    /// No capitals, if `do_lower_case`, by default so.
    Lower(bool),
    /// A text replaced by another.
    Text(&'static str, &'static str),
    /// What a pattern matches replaced by a text.
    Pattern(&'static str, &'static str),
    /// No white space at the end.
    Trimmed,
}

/// The steps that unify quotes; each changes characters inside a word.
pub(in super::super) const QUOTES: [Normal; 2] = [Normal::Text("``", "\""), Normal::Text("''", "\"")];

/// A step that splits a text.
#[derive(Clone, Copy, PartialEq)]
pub(in super::super) enum Split {
    /// White space apart and removed, marks apart, as in BERT.
    Words,
    /// Bytes in place of characters; with `words` also GPT-2's words, each with the space before it.
    Bytes { words: bool },
    /// What a pattern matches, and what is between, apart.
    Pattern(&'static str),
    /// Behind each of these characters.
    After(char),
    /// At white space, which is removed.
    Spaces,
    /// Marks apart, if `split_by_punct`.
    Marks,
    /// Each digit apart.
    Digits,
    /// `▁` in place of each space, and before a text.
    Spaced(Spaced),
}

/// `▁` in place of each space.
#[derive(Clone, Copy, PartialEq)]
pub(in super::super) struct Spaced {
    /// Where it stands, too, if a space is put before a text, and if not.
    pub before: [Before; 2],
    /// Whether the text is split before each.
    pub split: bool,
}

/// Parts of a text that have `▁` before them; added tokens divide a text into parts.
#[derive(Clone, Copy, PartialEq)]
pub(in super::super) enum Before {
    All,
    First,
    /// The first, or all if `legacy`.
    FirstUnlessLegacy,
    None,
}

/// How tokens become a text again.
#[derive(Clone, Copy, PartialEq)]
pub(in super::super) enum Decoded {
    /// Words with spaces between, continued by pieces that start with `##`.
    Words,
    /// Characters in place of bytes.
    Bytes,
    /// Spaces in place of `▁`.
    Spaced,
    /// The same, and characters in place of the pieces of their bytes.
    Fallback,
    /// Spaces in place of the ends of words.
    Ended,
}
