//! Builds a tokenizer from the files of a model's folder, as the reference does.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::utils::{Lowercase, Sequence};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{PaddingDirection, TruncationDirection};

use super::choice::OwnTokenizers;
use super::classes::{Around, Class, Model};
use super::decoding::Described;
use super::files::{fault, read};
use super::frames::{self, Frame};
use super::parts::mended;
use super::sentence_pieces::SentencePieces;
use super::settings::{Baked, Settings};
use super::special::Added;
use super::vocabulary::{PIECES_OF_ANY, Source, extra, missing};
use super::{Library, Side, guarded, sentences};
use crate::Result;
use crate::error::brief;

/// A tokenizer without built-in truncation and padding.
pub(super) struct Loaded {
    pub tokenizer: Library,
    /// The end at which a long text is truncated.
    pub truncation_side: Side,
    /// The side of padding.
    pub padding_side: Side,
    /// Id of the padding token.
    pub pad_id: Option<u32>,
    /// Whether segments are passed to the model.
    pub gives_segments: bool,
    /// Ids of the special tokens.
    pub special: HashSet<u32>,
    /// What the files say beside the ids.
    pub described: Described,
    /// The chat template, or several by name; null for none.
    pub chat: Value,
    /// The source file, for messages.
    pub path: PathBuf,
}

/// Only larger vocabularies are those whose words may be mended.
const LARGE: usize = 100_000;

/// A tokenizer before the steps common to all kinds.
struct Begun {
    tokenizer: Library,
    added: Vec<(u32, Added)>,
    baked: Baked,
    around: Option<PostProcessorWrapper>,
    /// Whether all added tokens are matched before normalisation.
    verbatim: bool,
    path: PathBuf,
}

/// Reads the tokenizer in `folder`, with arguments that replace values of its settings.
pub(super) fn folder(
    folder: &Path,
    lower_case: bool,
    arguments: &Map<String, Value>,
    of_model: OwnTokenizers,
) -> Result<Loaded> {
    let settings = Settings::read(folder, arguments, of_model)?;
    let file = folder.join("tokenizer.json");
    let Begun { mut tokenizer, added, baked, around, verbatim, path } = match (settings.class, file.exists()) {
        (Some(class), true) if !class.keeps => built(&settings, class, Source::of_file(&file)?)?,
        (_, true) => as_it_is(file.clone())?,
        (Some(class), false) => built(&settings, class, Source::of_folder(folder, class, &settings)?)?,
        (None, false) => of_sentence_pieces(folder.join(PIECES_OF_ANY), &settings)?,
    };
    let refused = |e: tokenizers::Error| fault(&path, format!("is refused: {}", brief(e)));
    if lower_case {
        put_lower_case_first(&mut tokenizer).map_err(refused)?;
    }
    let specials = settings.specials(&baked)?;
    let known: Vec<_> = tokenizer.get_added_tokens_decoder().into_values().collect();
    let mut added = settings.added(added);
    added.values_mut().filter(|_| verbatim).for_each(|token| token.normalized = Some(false));
    let new = specials.to_add(&added, &known);
    guarded(|| tokenizer.add_tokens(new)).map_err(refused)?;
    if settings.mends
        && tokenizer.get_vocab_size(true) > LARGE
        && let Some(mended) = tokenizer.get_pre_tokenizer().cloned().and_then(mended)
    {
        tokenizer.with_pre_tokenizer(Some(mended));
    }
    if settings.flag("split_special_tokens")?.unwrap_or(false) {
        tokenizer.set_encode_special_tokens(true);
    }
    if settings.class.is_some() || !file.exists() {
        let frame = Frame::of(settings.class);
        let template = match around.filter(|_| frame.takes_that_of_the_file()) {
            Some(own) => own,
            None => frame.template(&tokenizer, &settings, &specials, file.exists())?,
        };
        tokenizer.with_post_processor(Some(template));
    }
    // Arguments ask anew, but a class that makes its template last keeps that.
    if settings.asked && !Frame::of(settings.class).is_fixed() {
        let asked = Frame::of(None).template(&tokenizer, &settings, &specials, false)?;
        tokenizer.with_post_processor(Some(asked));
    } else if file.exists() {
        frames::name_ignored_flags(&tokenizer, &settings, &specials)?;
    }
    let id = |token: &str| tokenizer.token_to_id(token);
    let own_side = settings.class.map_or(Side::default(), |class| class.padding_side);
    Ok(Loaded {
        truncation_side: settings.side("truncation_side")?.or(baked.truncation_side).unwrap_or_default(),
        padding_side: settings.side("padding_side")?.or(baked.padding_side).unwrap_or(own_side),
        pad_id: specials.of("pad_token").and_then(id),
        gives_segments: settings.gives_segments()?,
        special: specials.all().filter_map(id).collect(),
        described: Described::read(&settings, &specials, &tokenizer)?,
        chat: settings.chat_template().clone(),
        tokenizer,
        path,
    })
}

/// The tokenizer of tokenizer.json without special tokens around a text, and its own limit.
pub(super) fn plain(folder: &Path) -> Result<(Loaded, Option<usize>)> {
    let Begun { mut tokenizer, baked, path, .. } = as_it_is(folder.join("tokenizer.json"))?;
    tokenizer.with_post_processor(None::<PostProcessorWrapper>);
    let loaded = Loaded {
        truncation_side: baked.truncation_side.unwrap_or_default(),
        padding_side: Side::default(),
        pad_id: None,
        gives_segments: false,
        special: HashSet::new(),
        described: Described::default(),
        chat: Value::Null,
        tokenizer,
        path,
    };
    Ok((loaded, baked.limit))
}

/// The tokenizer that a class builds from its arguments and the files' contents.
fn built(settings: &Settings, class: &Class, source: Source) -> Result<Begun> {
    let Source { pieces, merges, characters, added, baked, around, unknown: stated, path } = source;
    let unusable = |e: tokenizers::Error| fault(&path, format!("cannot make a {}: {}", class.name(), brief(e)));
    let specials = settings.specials(&baked)?;
    let unknown = match specials.of("unk_token") {
        None if class.needs_unknown() => return Err(settings.fault("unk_token is null".into())),
        unknown => unknown.unwrap_or_default(),
    };
    let unknown_id = stated.or(settings.whole("unk_id", u32::MAX as usize)?);
    let model = guarded(|| class.model(pieces, merges, (unknown, unknown_id))).map_err(unusable)?;
    let mut tokenizer = Library::new(model.into());
    tokenizer.with_normalizer(class.normalizer(settings, characters)?).map_err(unusable)?;
    tokenizer.with_pre_tokenizer(class.pre_tokenizer(settings)?);
    let decoder = class.decoder(tokenizer.get_pre_tokenizer());
    tokenizer.with_decoder(decoder);
    let alone = path.extension().is_some_and(|kind| kind == "txt") || path.ends_with("vocab.json");
    if alone || matches!(class.around, Around::FileOrRoles(_)) {
        // The pieces are the only source of these tokens.
        let roles: &[&str] = match &class.around {
            Around::Roles(roles) | Around::FileOrRoles(roles) | Around::Numbered(roles, _) => roles,
            Around::Asked | Around::Flags | Around::Asking(_) => &[],
        };
        let around = roles.iter().filter_map(|role| specials.of(role));
        let mut needed = (class.model == Model::Words).then_some(unknown).into_iter().chain(around);
        if let Some(token) = needed.find(|token| tokenizer.token_to_id(token).is_none()) {
            return Err(fault(&path, format!("has no {token}")));
        }
    }
    Ok(Begun { tokenizer, added, baked, around, verbatim: false, path })
}

/// The tokenizer of an unchanged tokenizer.json.
fn as_it_is(path: PathBuf) -> Result<Begun> {
    let unusable = |e: tokenizers::Error| fault(&path, format!("is not a tokenizer: {}", brief(e)));
    let text = String::from_utf8(read(&path)?).map_err(|e| unusable(e.into()))?;
    let mut tokenizer = guarded(|| text.parse::<Library>()).map_err(unusable)?;
    let baked = Baked {
        truncation_side: tokenizer
            .get_truncation()
            .map(|own| Side::of(matches!(own.direction, TruncationDirection::Left))),
        padding_side: tokenizer.get_padding().map(|own| Side::of(matches!(own.direction, PaddingDirection::Left))),
        tokens: tokenizer.get_padding().map(|padding| ("pad_token", padding.pad_token.clone())).into_iter().collect(),
        extra: None,
        limit: tokenizer.get_truncation().map(|truncation| truncation.max_length),
    };
    tokenizer.with_truncation(None).map_err(unusable)?;
    tokenizer.with_padding(None);
    let own = tokenizer.get_added_tokens_decoder().into_iter();
    let added = own.map(|(id, token)| (id, Added::from(token))).collect();
    Ok(Begun { tokenizer, added, baked, around: None, verbatim: false, path })
}

/// The tokenizer of a file of SentencePiece's, with the file's own settings.
fn of_sentence_pieces(path: PathBuf, settings: &Settings) -> Result<Begun> {
    if !path.exists() {
        return Err(missing(path.parent().unwrap_or(&path), &format!(" and no {PIECES_OF_ANY}")));
    }
    let stored = SentencePieces::read(&path)?;
    let added = settings.added(Vec::new());
    let legacy = settings.flag("legacy")?.unwrap_or(!settings.holds_null("legacy"));
    let tokenizer = guarded(|| sentences::tokenizer(&stored, &added, legacy));
    let tokenizer = tokenizer.map_err(|e| fault(&path, format!("cannot be used: {}", brief(e))))?;
    let roles = ["unk_token", "bos_token", "eos_token"];
    let tokens = roles.into_iter().zip(&stored.named).filter(|(_, (id, _))| *id >= 0);
    let mut extra = extra(&stored);
    extra.retain(|token| token.special);
    let baked = Baked {
        tokens: tokens.map(|(role, (_, name))| (role, name.clone())).collect(),
        extra: Some(extra),
        ..Baked::default()
    };
    Ok(Begun { tokenizer, added: Vec::new(), baked, around: None, verbatim: stored.prefixed, path })
}

/// Adds lower-casing before the tokenizer's own normalisation, unless it is already one of its steps.
fn put_lower_case_first(tokenizer: &mut Library) -> tokenizers::Result<()> {
    let mut steps = vec![NormalizerWrapper::Lowercase(Lowercase)];
    match tokenizer.get_normalizer() {
        None => {}
        Some(NormalizerWrapper::Sequence(own)) => steps.extend(own.as_ref().iter().cloned()),
        Some(own) => steps.push(own.clone()),
    }
    if !steps[1..].iter().any(|step| matches!(step, NormalizerWrapper::Lowercase(_))) {
        tokenizer.with_normalizer(Some(Sequence::new(steps)))?;
    }
    Ok(())
}
