//! How the tokens of a class become a text again.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::bpe::BPEDecoder;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::decoders::wordpiece::WordPiece;
use tokenizers::normalizers::replace::Replace;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;

use super::Class;

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

impl Class {
    /// The decoder, where `splitter` is the pre-tokenizer.
    pub fn decoder(&self, splitter: Option<&PreTokenizerWrapper>) -> Option<DecoderWrapper> {
        Some(match self.decoded {
            Decoded::Words => WordPiece::new("##".to_owned(), true).into(),
            Decoded::Bytes => ByteLevel::default().into(),
            Decoded::Ended => BPEDecoder::new("</w>".to_owned()).into(),
            Decoded::Spaced => marks(splitter?)?.into(),
            Decoded::Fallback => {
                let spaces = Replace::new("▁", " ").ok()?.into();
                let begun = splitter.and_then(marks).is_some_and(|marks| marks.prepend_scheme != PrependScheme::Never);
                let start = begun.then(|| Strip::new(' ', 1, 0).into());
                let steps = [spaces, ByteFallback::new().into(), Fuse::new().into()];
                Sequence::new(steps.into_iter().chain(start).collect()).into()
            }
        })
    }
}

/// The marks that a pre-tokenizer puts before words.
fn marks(splitter: &PreTokenizerWrapper) -> Option<tokenizers::pre_tokenizers::metaspace::Metaspace> {
    match splitter {
        PreTokenizerWrapper::Metaspace(marks) => Some(marks.clone()),
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().find_map(marks),
        _ => None,
    }
}
