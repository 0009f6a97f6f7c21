//! The tokens around texts.

use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};

use super::classes::{Around, Class, Model, Pair};
use super::settings::Settings;
use super::special::Specials;
use super::{Library, guarded};
use crate::{Error, Result};

/// A token and its id.
type Token = (String, u32);

/// What is put around texts.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    name: &'static str,
    around: Around,
    pair: Pair,
    /// Of a class whose offsets leave out spaces: whether a setting may say otherwise.
    trims: Option<Trims>,
}

/// Whether the settings of a class say if the offsets of its tokens leave out spaces, or it always does so.
#[derive(Clone, Copy, PartialEq)]
enum Trims {
    Always,
    Asked,
}

impl Frame {
    /// That of a class; without one, what the flags select.
    pub fn of(class: Option<&'static Class>) -> Self {
        let usual = Frame { name: "tokenizer", around: Around::Asked, pair: Pair::Begun, trims: None };
        let Some(class) = class else { return usual };
        let trims = match class.model {
            _ if class.pair != Pair::Doubled || class.gives_segments || !matches!(class.around, Around::Roles(_)) => {
                None
            }
            Model::Words => Some(Trims::Always),
            Model::Merged(_) => Some(Trims::Asked),
            Model::Scored(_) => None,
        };
        Frame { name: class.name(), around: class.around, pair: class.pair, trims }
    }

    /// Whether the post-processor of tokenizer.json comes first.
    pub fn takes_that_of_the_file(self) -> bool {
        matches!(self.around, Around::Asked | Around::FileOrRoles(_))
    }

    /// Whether the class alone says which tokens they are.
    pub fn is_fixed(self) -> bool {
        matches!(self.around, Around::Roles(_) | Around::Numbered(..))
    }

    /// The template for the tokens of a text; `beside_file` says that there is a tokenizer.json.
    pub fn template(
        self,
        tokenizer: &Library,
        settings: &Settings,
        specials: &Specials,
        beside_file: bool,
    ) -> Result<PostProcessorWrapper> {
        let roles = match self.around {
            Around::Roles(roles) | Around::FileOrRoles(roles) | Around::Numbered(roles, _) => {
                roles.map(|role| Some(role).filter(|role| !role.is_empty()))
            }
            // In a folder with tokenizer.json the reference ignores the flags.
            Around::Asked | Around::Flags if beside_file => [None, None],
            Around::Asked | Around::Flags => {
                [asked(settings, specials, "bos_token")?, asked(settings, specials, "eos_token")?]
            }
            Around::Asking(role) => [None, asked(settings, specials, role)?],
        };
        let asked = |key: &str, usual: bool| Ok::<_, Error>(settings.flag(key)?.unwrap_or(usual));
        let trims = match self.trims {
            None => None,
            Some(Trims::Always) => Some((true, false)),
            Some(Trims::Asked) => Some((asked("trim_offsets", true)?, asked("add_prefix_space", false)?)),
        };
        let tokens = self.tokens(tokenizer, roles, specials).map_err(|problem| settings.fault(problem))?;
        match (trims, tokens) {
            // The tokens of the template, too.
            (Some((trims, prefix)), [Some(first), Some(last)]) => {
                Ok(RobertaProcessing::new(last, first).trim_offsets(trims).add_prefix_space(prefix).into())
            }
            (_, tokens) => self.around(tokens).map(Into::into).map_err(|problem| settings.fault(problem)),
        }
    }

    /// The tokens of two roles, of which either may be none, and their ids.
    fn tokens(
        self,
        tokenizer: &Library,
        [first, last]: [Option<&str>; 2],
        specials: &Specials,
    ) -> Result<[Option<Token>; 2], String> {
        let numbers = if let Around::Numbered(_, ids) = self.around { ids.map(Some) } else { [None, None] };
        let token = |role: &str, number: Option<u32>| {
            let token = specials.of(role).ok_or_else(|| format!("{role} is null, but a {} needs it", self.name))?;
            let id = number.or_else(|| tokenizer.token_to_id(token));
            Ok::<_, String>((token.to_owned(), id.ok_or_else(|| format!("{role} {token:?} cannot be added"))?))
        };
        let [before, after] = numbers;
        Ok([first.map(|role| token(role, before)).transpose()?, last.map(|role| token(role, after)).transpose()?])
    }

    /// A template that puts tokens before and after each text, of segment 0 for a text alone.
    fn around(self, tokens: [Option<Token>; 2]) -> Result<TemplateProcessing, String> {
        let [before, after] =
            [("first", &tokens[0]), ("last", &tokens[1])].map(|(place, token)| token.as_ref().map_or("", |_| place));
        let named = ["first", "last"].into_iter().zip(tokens);
        let tokens = named.filter_map(|(place, token)| {
            let (token, id) = token?;
            Some(SpecialToken::new(place.to_owned(), vec![id], vec![token]).map_err(|e| e.to_string()))
        });
        TemplateProcessing::builder()
            .try_single(format!("{before} $A {after}").trim())?
            .try_pair(self.pair.template(before, after).as_str())?
            .special_tokens(tokens.collect::<Result<Vec<_>, _>>()?)
            .build()
            .map_err(|e| e.to_string())
    }
}

/// Warns of flags that the reference ignores beside tokenizer.json, where the tokens around a text are others.
pub(super) fn name_ignored_flags(tokenizer: &Library, settings: &Settings, specials: &Specials) -> Result<()> {
    for role in ["bos_token", "eos_token"] {
        let Some(token) = asked(settings, specials, role)?.and_then(|role| specials.of(role)) else { continue };
        let around = guarded(|| tokenizer.encode_fast("", true));
        if around
            .is_ok_and(|around| !around.get_ids().iter().any(|id| tokenizer.id_to_token(*id).as_deref() == Some(token)))
        {
            settings.warn(&format!(
                "add_{role} is ignored, as in transformers 5: tokenizer.json says which tokens are around a text, and {token:?} \
                 is none of them"
            ));
        }
    }
    Ok(())
}

/// The role of a token enabled by a flag, if there is such a token.
fn asked(settings: &Settings, specials: &Specials, role: &'static str) -> Result<Option<&'static str>> {
    let flag = settings.flag(&format!("add_{role}"))?;
    Ok(Some(role).filter(|role| flag.unwrap_or(false) && specials.of(role).is_some()))
}
