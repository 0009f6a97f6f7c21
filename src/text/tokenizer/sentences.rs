//! The tokenizer of a SentencePiece file alone, where no class says what it is: with the file's own settings.

use std::collections::{BTreeMap, HashSet};

use tokenizers::SplitDelimiterBehavior::Isolated;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::utils::Sequence as Normalizers;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

use super::Library;
use super::sentence_pieces::{Kind, SentencePieces, divisions};
use super::special::Added;

/// The tokenizer; pieces of BPE have the names of the tokens `added` with their ids. With `legacy` a space is put before
/// each part of a text that added tokens divide, otherwise before the first.
pub(super) fn tokenizer(
    stored: &SentencePieces,
    added: &BTreeMap<u32, Added>,
    legacy: bool,
) -> tokenizers::Result<Library> {
    let names: Vec<String> = match stored.unigram {
        true => stored.pieces.iter().map(|piece| piece.text.clone()).collect(),
        false => renamed(stored, added),
    };
    let whole: Vec<&str> = of_kind(stored, &names, Kind::Whole).collect();
    let model: ModelWrapper = if stored.unigram {
        let unknown = usize::try_from(stored.named[0].0).ok();
        Unigram::from(stored.scored(), unknown, stored.bytes)?.into()
    } else {
        let pieces: Vocab = (0..).zip(&names).map(|(id, name)| (name.clone(), id)).collect();
        let builder = BPE::builder().vocab_and_merges(pieces, ranked(stored, &names));
        let builder = builder.unk_token(stored.named[0].1.clone()).fuse_unk(true).byte_fallback(stored.bytes);
        builder.ignore_merges(!whole.is_empty()).build()?.into()
    };
    let mut tokenizer = Library::new(model.into());
    let steps = normalization(stored, legacy)?;
    tokenizer.with_normalizer((!steps.is_empty()).then(|| Normalizers::new(steps)))?;
    let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
    if stored.prefixed {
        let scheme = if legacy { PrependScheme::Always } else { PrependScheme::First };
        steps.push(Metaspace::new('▁', scheme, false).into());
    }
    if !whole.is_empty() {
        let mut longest_first = whole;
        longest_first.sort_by_key(|text| std::cmp::Reverse(text.chars().count()));
        let pattern = longest_first.into_iter().map(literal).collect::<Vec<_>>().join("|");
        steps.push(Split::new(SplitPattern::Regex(pattern), Isolated, false)?.into());
    }
    tokenizer.with_pre_tokenizer((!steps.is_empty()).then(|| Sequence::new(steps)));
    tokenizer.with_decoder(Some(decoder(stored)?));
    Ok(tokenizer)
}

/// The names of pieces of a kind.
fn of_kind<'a>(stored: &'a SentencePieces, names: &'a [String], kind: Kind) -> impl Iterator<Item = &'a str> {
    stored.pieces.iter().zip(names).filter(move |(piece, _)| piece.kind == kind).map(|(_, name)| name.as_str())
}

/// The names of the pieces, of which added tokens with the same ids replace those that are free.
fn renamed(stored: &SentencePieces, added: &BTreeMap<u32, Added>) -> Vec<String> {
    let pieces = || (0..).zip(&stored.pieces);
    let kept: HashSet<&str> =
        pieces().filter(|(id, _)| !added.contains_key(id)).map(|(_, piece)| piece.text.as_str()).collect();
    let name = |(id, piece): (u32, &super::sentence_pieces::Piece)| match added.get(&id) {
        Some(token) if !kept.contains(token.content.as_str()) => token.content.clone(),
        _ => piece.text.clone(),
    };
    pieces().map(name).collect()
}

/// The merges of ordinary pieces, the piece of the highest score first.
fn ranked(stored: &SentencePieces, names: &[String]) -> Merges {
    let normal: Vec<(&str, (f32, usize))> = (0..)
        .zip(&stored.pieces)
        .zip(names)
        .filter(|((_, piece), _)| piece.kind == Kind::Normal)
        .map(|((id, piece), name)| (name.as_str(), (piece.score, id)))
        .collect();
    let known: HashSet<&str> = normal.iter().map(|(name, _)| *name).collect();
    let known = |part: &str| known.contains(part);
    let mut ranked: Vec<(f32, usize, String, String)> = Vec::new();
    for (name, (score, id)) in &normal {
        let parts = divisions(name).filter(|(left, right)| known(left) && known(right));
        ranked.extend(parts.map(|(left, right)| (-score, *id, left, right)));
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, &a.2, &a.3).cmp(&(b.1, &b.2, &b.3))));
    ranked.into_iter().map(|(_, _, left, right)| (left, right)).collect()
}

/// The steps of normalisation, in SentencePiece's order.
fn normalization(stored: &SentencePieces, legacy: bool) -> tokenizers::Result<Vec<NormalizerWrapper>> {
    let pattern = |text: &str| ReplacePattern::Regex(text.to_owned());
    let mut steps: Vec<NormalizerWrapper> = stored.characters()?.map(NormalizerWrapper::from).into_iter().collect();
    if stored.squeezed {
        // Other white space stays.
        steps.push(Replace::new(pattern(r"\A +| +\z"), "")?.into());
        steps.push(Replace::new(pattern(" {2,}"), " ")?.into());
    }
    if stored.escaped {
        steps.push(Replace::new(" ", "▁")?.into());
    }
    if stored.prefixed && legacy {
        // The library puts no `▁` before one that is there.
        steps.push(Replace::new(pattern(r"\A▁"), "▁▁")?.into());
    }
    Ok(steps)
}

/// Spaces in place of `▁`, characters in place of their bytes, and no space that was put before the text.
fn decoder(stored: &SentencePieces) -> tokenizers::Result<Decoders> {
    let mut steps: Vec<DecoderWrapper> = vec![Replace::new("▁", " ")?.into()];
    if stored.bytes {
        steps.push(ByteFallback::new().into());
    }
    if stored.bytes || stored.prefixed {
        steps.push(Fuse::new().into());
    }
    if stored.prefixed {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    Ok(Decoders::new(steps))
}

/// A pattern that matches a text alone.
fn literal(text: &str) -> String {
    let escaped = |letter: char| (letter.is_ascii() && !letter.is_ascii_alphanumeric()).then_some('\\');
    text.chars().flat_map(|letter| escaped(letter).into_iter().chain([letter])).collect()
}
