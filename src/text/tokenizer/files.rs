//! Builds a tokenizer from the files of a model's folder, as the reference does.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::utils::{Lowercase, Sequence};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};
use tokenizers::{PaddingDirection, Tokenizer, TruncationDirection};

use super::classes::{Around, Class, Kind, Words};
use super::guarded;
use super::settings::Settings;
use super::special::{Added, Specials};
use super::vocabulary::{Source, missing};
use crate::error::brief;
use crate::{Error, Result};

/// An end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Side {
    /// Its start.
    Left,
    /// Its end.
    #[default]
    Right,
}

impl Side {
    /// `left` or `right`.
    pub fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }
}

/// A tokenizer without built-in truncation and padding.
pub(super) struct Loaded {
    pub tokenizer: Tokenizer,
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
    /// The source file, for messages.
    pub path: PathBuf,
}

/// Truncation and padding as set in tokenizer.json; tokenizer_config.json takes precedence.
#[derive(Default)]
pub(super) struct Baked {
    pub truncation_side: Option<Side>,
    pub padding_side: Option<Side>,
    pub pad_token: Option<String>,
    pub limit: Option<usize>,
}

/// A tokenizer before the steps common to all kinds.
struct Begun {
    tokenizer: Tokenizer,
    added: Vec<(u32, Added)>,
    baked: Baked,
    around: Option<PostProcessorWrapper>,
    path: PathBuf,
}

/// Reads the tokenizer in `folder`.
pub(super) fn load(folder: &Path, lower_case: bool) -> Result<Loaded> {
    let settings = Settings::read(folder)?;
    let file = folder.join("tokenizer.json");
    let Begun { mut tokenizer, added, baked, around, path } = match (settings.class, file.exists()) {
        (Some(class), true) => built(&settings, class, Source::of_file(&file)?)?,
        (Some(class), false) => built(&settings, class, Source::of_folder(folder, class)?)?,
        (None, true) => as_it_is(file)?,
        (None, false) => return Err(missing(folder, "")),
    };
    let refused = |e: tokenizers::Error| fault(&path, format!("is refused: {}", brief(e)));
    if lower_case {
        put_lower_case_first(&mut tokenizer).map_err(refused)?;
    }
    let specials = Specials::read(&settings, baked.pad_token.as_deref())?;
    let known: Vec<_> = tokenizer.get_added_tokens_decoder().into_values().collect();
    let new = specials.to_add(&settings.added(added), &known);
    guarded(|| tokenizer.add_tokens(new)).map_err(refused)?;
    if settings.flag("split_special_tokens")?.unwrap_or(false) {
        tokenizer.set_encode_special_tokens(true);
    }
    if let Some(class) = settings.class {
        let roles = match class.around {
            Around::Roles(roles) | Around::FileOrRoles(roles) => {
                roles.map(|role| Some(role).filter(|role| !role.is_empty()))
            }
            // In a folder with tokenizer.json the reference ignores the flags.
            Around::Asked if folder.join("tokenizer.json").exists() => [None, None],
            Around::Asked => [asked(&settings, &specials, "bos_token")?, asked(&settings, &specials, "eos_token")?],
        };
        let template = match around.filter(|_| !matches!(class.around, Around::Roles(_))) {
            Some(own) => own,
            None => template(&tokenizer, class, roles, &specials).map_err(|problem| settings.fault(problem))?.into(),
        };
        tokenizer.with_post_processor(Some(template));
    }
    let id = |token: &str| tokenizer.token_to_id(token);
    Ok(Loaded {
        truncation_side: settings.side("truncation_side")?.or(baked.truncation_side).unwrap_or_default(),
        padding_side: settings.side("padding_side")?.or(baked.padding_side).unwrap_or_default(),
        pad_id: specials.of("pad_token").and_then(id),
        gives_segments: settings.gives_segments()?,
        special: specials.all().filter_map(id).collect(),
        tokenizer,
        path,
    })
}

/// The tokenizer of tokenizer.json without special tokens around a text, and its own limit.
pub(super) fn load_plain(folder: &Path) -> Result<(Loaded, Option<usize>)> {
    let Begun { mut tokenizer, baked, path, .. } = as_it_is(folder.join("tokenizer.json"))?;
    tokenizer.with_post_processor(None::<PostProcessorWrapper>);
    let loaded = Loaded {
        truncation_side: baked.truncation_side.unwrap_or_default(),
        padding_side: Side::default(),
        pad_id: None,
        gives_segments: false,
        special: HashSet::new(),
        tokenizer,
        path,
    };
    Ok((loaded, baked.limit))
}

/// The tokenizer that a class builds from its arguments and the files' contents.
fn built(settings: &Settings, class: &Class, source: Source) -> Result<Begun> {
    let Source { pieces, merges, characters, added, baked, around, path } = source;
    let unusable = |e: tokenizers::Error| fault(&path, format!("cannot make a {}: {}", class.name(), brief(e)));
    let specials = Specials::read(settings, None)?;
    let unknown = match specials.of("unk_token") {
        None if class.kind != Kind::Bytes(Words::Composed) => return Err(settings.fault("unk_token is null".into())),
        // Every text has bytes.
        unknown => unknown.unwrap_or_default(),
    };
    let unknown_id = settings.whole("unk_id", u32::MAX as usize)?;
    let model = guarded(|| class.model(pieces, merges, (unknown, unknown_id))).map_err(unusable)?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(class.normalizer(settings, characters)?).map_err(unusable)?;
    tokenizer.with_pre_tokenizer(Some(class.pre_tokenizer(settings)?));
    let alone = path.file_name().is_none_or(|name| name != "tokenizer.json");
    if alone || matches!(class.around, Around::FileOrRoles(_)) {
        // The pieces are the only source of these tokens.
        let roles: &[&str] = match &class.around {
            Around::Roles(roles) | Around::FileOrRoles(roles) => roles,
            Around::Asked => &[],
        };
        let around = roles.iter().filter_map(|role| specials.of(role));
        let mut needed = (class.kind == Kind::Words).then_some(unknown).into_iter().chain(around);
        if let Some(token) = needed.find(|token| tokenizer.token_to_id(token).is_none()) {
            return Err(fault(&path, format!("has no {token}")));
        }
    }
    Ok(Begun { tokenizer, added, baked, around, path })
}

/// The tokenizer of an unchanged tokenizer.json.
fn as_it_is(path: PathBuf) -> Result<Begun> {
    let unusable = |e: tokenizers::Error| fault(&path, format!("is not a tokenizer: {}", brief(e)));
    let text = String::from_utf8(read(&path)?).map_err(|e| unusable(e.into()))?;
    // The library has compiled this; `from_bytes` would compile its parsers once more.
    let mut tokenizer = guarded(|| text.parse::<Tokenizer>()).map_err(unusable)?;
    let baked = Baked {
        truncation_side: tokenizer.get_truncation().map(|truncation| match truncation.direction {
            TruncationDirection::Left => Side::Left,
            TruncationDirection::Right => Side::Right,
        }),
        padding_side: tokenizer.get_padding().map(|padding| match padding.direction {
            PaddingDirection::Left => Side::Left,
            PaddingDirection::Right => Side::Right,
        }),
        pad_token: tokenizer.get_padding().map(|padding| padding.pad_token.clone()),
        limit: tokenizer.get_truncation().map(|truncation| truncation.max_length),
    };
    tokenizer.with_truncation(None).map_err(unusable)?;
    tokenizer.with_padding(None);
    let own = tokenizer.get_added_tokens_decoder().into_iter();
    let added = own.map(|(id, token)| (id, Added::from(token))).collect();
    Ok(Begun { tokenizer, added, baked, around: None, path })
}

/// The role of a token enabled by a flag, if there is such a token.
fn asked(settings: &Settings, specials: &Specials, role: &'static str) -> Result<Option<&'static str>> {
    let flag = settings.flag(&format!("add_{role}"))?;
    Ok(Some(role).filter(|role| flag.unwrap_or(false) && specials.of(role).is_some()))
}

/// A template that puts the tokens of two roles before and after each text, of segment 0 for a text alone; `None` for no
/// token.
fn template(
    tokenizer: &Tokenizer,
    class: &Class,
    [first, last]: [Option<&str>; 2],
    specials: &Specials,
) -> Result<TemplateProcessing, String> {
    let token = |place: &str, role: &str| {
        let token = specials.of(role).ok_or_else(|| format!("{role} is null, but a {} needs it", class.name()))?;
        let id = tokenizer.token_to_id(token).ok_or_else(|| format!("{role} {token:?} cannot be added"))?;
        SpecialToken::new(place.to_owned(), vec![id], vec![token.to_owned()]).map_err(|e| e.to_string())
    };
    let places = [("first", first), ("last", last)];
    let [before, after] = places.map(|(place, role)| role.map_or("", |_| place));
    let tokens = places.into_iter().filter_map(|(place, role)| Some(token(place, role?)));
    TemplateProcessing::builder()
        .try_single(format!("{before} $A {after}").trim())?
        .try_pair(class.pair.template(before, after).as_str())?
        .special_tokens(tokens.collect::<Result<Vec<_>, _>>()?)
        .build()
        .map_err(|e| e.to_string())
}

/// Adds lower-casing before the tokenizer's own normalisation, unless it is already one of its steps.
fn put_lower_case_first(tokenizer: &mut Tokenizer) -> tokenizers::Result<()> {
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

pub(super) fn fault(path: &Path, problem: String) -> Error {
    Error::format(path, problem)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    // Checked before reading, since reading a pipe would block until its other end opens.
    if !path.is_file() {
        return Err(fault(path, "not a regular file".into()));
    }
    std::fs::read(path).map_err(|e| fault(path, format!("cannot be read: {e}")))
}

/// A JSON file as an object; `None` if there is no such file.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.exists() {
        return Ok(None);
    }
    serde_json::from_slice(&read(path)?).map(Some).map_err(|e| fault(path, format!("not a JSON object: {}", brief(e))))
}
