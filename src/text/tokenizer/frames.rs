//! The tokens around texts.

use tokenizers::Tokenizer;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};

use super::classes::{Around, Class, Pair};
use super::settings::Settings;
use super::special::Specials;
use crate::Result;

/// What is put around texts.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    name: &'static str,
    around: Around,
    pair: Pair,
}

impl Frame {
    /// That of a class; without one, what the flags select.
    pub fn of(class: Option<&'static Class>) -> Self {
        let usual = Frame { name: "tokenizer", around: Around::Asked, pair: Pair::Begun };
        class.map_or(usual, |class| Frame { name: class.name(), around: class.around, pair: class.pair })
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
        tokenizer: &Tokenizer,
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
        self.of_roles(tokenizer, roles, specials).map(Into::into).map_err(|problem| settings.fault(problem))
    }

    /// A template that puts the tokens of two roles before and after each text, of segment 0 for a text alone; `None` for no
    /// token.
    fn of_roles(
        self,
        tokenizer: &Tokenizer,
        [first, last]: [Option<&str>; 2],
        specials: &Specials,
    ) -> Result<TemplateProcessing, String> {
        let numbers = if let Around::Numbered(_, ids) = self.around { ids.map(Some) } else { [None, None] };
        let token = |place: &str, role: &str, number: Option<u32>| {
            let token = specials.of(role).ok_or_else(|| format!("{role} is null, but a {} needs it", self.name))?;
            let id = number.or_else(|| tokenizer.token_to_id(token));
            let id = id.ok_or_else(|| format!("{role} {token:?} cannot be added"))?;
            SpecialToken::new(place.to_owned(), vec![id], vec![token.to_owned()]).map_err(|e| e.to_string())
        };
        let places = [("first", first), ("last", last)];
        let [before, after] = places.map(|(place, role)| role.map_or("", |_| place));
        let tokens = places.into_iter().zip(numbers);
        let tokens = tokens.filter_map(|((place, role), number)| Some(token(place, role?, number)));
        TemplateProcessing::builder()
            .try_single(format!("{before} $A {after}").trim())?
            .try_pair(self.pair.template(before, after).as_str())?
            .special_tokens(tokens.collect::<Result<Vec<_>, _>>()?)
            .build()
            .map_err(|e| e.to_string())
    }
}

/// The role of a token enabled by a flag, if there is such a token.
fn asked(settings: &Settings, specials: &Specials, role: &'static str) -> Result<Option<&'static str>> {
    let flag = settings.flag(&format!("add_{role}"))?;
    Ok(Some(role).filter(|role| flag.unwrap_or(false) && specials.of(role).is_some()))
}
