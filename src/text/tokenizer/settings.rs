//! The settings in tokenizer_config.json, combined with older files beside it.

mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::Side;
use super::classes::Class;
use super::files::fault;
use super::special::{Added, ROLES, Specials};
use crate::{Error, Result};

/// Special tokens without a role, under the current key and its predecessor.
const EXTRA: &str = "extra_special_tokens";
const ADDITIONAL: &str = "additional_special_tokens";
/// The chat template.
const CHAT: &str = "chat_template";

/// The arguments of the reference's tokenizer class.
pub(super) struct Settings {
    path: PathBuf,
    values: Map<String, Value>,
    /// Special tokens with roles specific to the model.
    others: Map<String, Value>,
    /// `None` where tokenizer.json is used unchanged.
    pub class: Option<&'static Class>,
    /// Whether the words of an older file of Mistral's are mended, if its vocabulary is large.
    pub mends: bool,
    /// Added tokens of tokenizer_config.json, by id; if present, those of other files are ignored.
    added: Option<BTreeMap<u32, Added>>,
    /// Added tokens of added_tokens.json, by id.
    older: BTreeMap<u32, Added>,
    /// Whether arguments say which tokens are put around a text.
    pub asked: bool,
}

/// Truncation and padding as set in tokenizer.json; tokenizer_config.json takes precedence.
#[derive(Default)]
pub(super) struct Baked {
    pub truncation_side: Option<Side>,
    pub padding_side: Option<Side>,
    /// Tokens by role.
    pub tokens: Vec<(&'static str, String)>,
    /// Special tokens without a role, where the file has them instead of tokenizer_config.json.
    pub extra: Option<Vec<Added>>,
    pub limit: Option<usize>,
}

impl Settings {
    /// Added tokens by id: those of tokenizer_config.json, or else those of the older file and of tokenizer.json.
    pub fn added(&self, of_file: Vec<(u32, Added)>) -> BTreeMap<u32, Added> {
        self.added.clone().unwrap_or_else(|| self.older.clone().into_iter().chain(of_file).collect())
    }

    /// The chat template, or several by name; null for none.
    pub fn chat_template(&self) -> &Value {
        self.values.get(CHAT).unwrap_or(&Value::Null)
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.fault(format!("{key} is neither true nor false"))),
        }
    }

    pub fn holds_null(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(Value::is_null)
    }

    pub fn side(&self, key: &str) -> Result<Option<Side>> {
        match self.values.get(key).map(|side| side.as_str()) {
            None => Ok(None),
            Some(Some("right")) => Ok(Some(Side::Right)),
            Some(Some("left")) => Ok(Some(Side::Left)),
            Some(_) => Err(self.fault(format!("{key} is neither \"right\" nor \"left\""))),
        }
    }

    /// Names of the model's inputs, of which `token_type_ids` are segments; without a list those of the class.
    pub fn input_names(&self) -> Result<Vec<String>> {
        match self.values.get("model_input_names") {
            None if self.class.is_some_and(|class| class.gives_segments) => {
                Ok(["input_ids", "token_type_ids", "attention_mask"].map(str::to_owned).into())
            }
            None => Ok(["input_ids", "attention_mask"].map(str::to_owned).into()),
            Some(Value::Array(names)) => Ok(names.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            Some(_) => Err(self.fault("model_input_names is not a list".into())),
        }
    }

    /// Whether segments are passed to the model.
    pub fn gives_segments(&self) -> Result<bool> {
        Ok(self.input_names()?.iter().any(|name| name == "token_type_ids"))
    }

    /// The token of a role, or `default` if there is no setting; null means none. `of_text` makes a token of a setting
    /// that is a string.
    pub fn token(&self, role: &str, default: Option<&str>, of_text: impl Fn(&str) -> Added) -> Result<Option<Added>> {
        match self.values.get(role) {
            None => Ok(default.map(of_text)),
            Some(Value::Null) => Ok(None),
            Some(Value::String(content)) => Ok(Some(of_text(content))),
            Some(other) => self.added_token(role, other).map(Some),
        }
    }

    /// The special tokens of the configuration, or else the class' defaults, or else those of the vocabulary's file.
    pub fn specials(&self, baked: &Baked) -> Result<Specials> {
        let class = self.class;
        let mut named = Vec::new();
        for role in ROLES {
            let takes_spaces = role == "mask_token" && class.is_some_and(|class| class.mask_takes_spaces);
            let text = |content: &str| Added { lstrip: takes_spaces, ..Added::special(content) };
            let stated = baked.tokens.iter().find(|(known, _)| *known == role).map(|(_, token)| token.as_str());
            let default = class.and_then(|class| class.token(role)).or(stated);
            named.extend(self.token(role, default, text)?.map(|token| (role.to_owned(), token)));
        }
        named.extend(self.other_tokens()?);
        let plain = class.is_some_and(|class| class.plain_specials);
        Ok(Specials { named, extra: self.extra_tokens(baked.extra.as_deref())?, plain })
    }

    fn added_token(&self, key: &str, value: &Value) -> Result<Added> {
        let wrong = || self.fault(format!("{key} is neither a string nor an object with the token's content"));
        Added::of_value(value).ok_or_else(wrong)
    }

    /// Special tokens with roles specific to this model.
    pub fn other_tokens(&self) -> Result<Vec<(String, Added)>> {
        let own = self.values.iter().filter(|(key, value)| is_other_role(key) && content_of(value).is_some());
        let token = |(key, value): (&String, &Value)| Ok((key.clone(), self.added_token(key, value)?));
        own.chain(&self.others).map(token).collect()
    }

    /// Special tokens without a role. The older key applies only if the newer one is absent; there null means the
    /// class' default. Those `stated` by the vocabulary's file replace both.
    pub fn extra_tokens(&self, stated: Option<&[Added]>) -> Result<Vec<Added>> {
        let tokens = |key: &str, value: &Value| match value {
            Value::Array(list) => list.iter().map(|token| self.added_token(key, token)).collect(),
            Value::Null => Ok(Vec::new()),
            _ => Err(self.fault(format!("{key} is not a list of tokens"))),
        };
        let mut listed = match (self.values.get(EXTRA), stated, self.values.get(ADDITIONAL)) {
            (Some(extra), ..) => return tokens(EXTRA, extra),
            (None, Some(stated), _) => stated.to_vec(),
            (None, None, Some(additional)) if !additional.is_null() => tokens(ADDITIONAL, additional)?,
            _ => {
                let own = self.class.map_or(&[][..], |class| class.extra).iter();
                own.map(|token| Added::special(token)).collect()
            }
        };
        let numbered = listed.iter().filter(|token| token.content.contains("<extra_id_")).count();
        match self.extra_ids()? {
            number if numbered == 0 => {
                listed.extend((0..number).map(|number| Added::special(&format!("<extra_id_{number}>"))));
            }
            0 => {}
            number if number == numbered => {}
            number => {
                let problem = format!("extra_ids is {number}, but there are {numbered} special tokens <extra_id_N>");
                return Err(self.fault(problem));
            }
        }
        Ok(listed)
    }

    /// The number of special tokens `<extra_id_N>`.
    pub fn extra_ids(&self) -> Result<usize> {
        let Some(usual) = self.class.and_then(|class| class.extra_ids) else { return Ok(0) };
        Ok(self.whole("extra_ids", 10_000)?.unwrap_or(usual))
    }

    /// A whole number, if there is one.
    pub fn whole(&self, key: &str, most: usize) -> Result<Option<usize>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|number| *number <= most);
        number.map(Some).ok_or_else(|| self.fault(format!("{key} is not a whole number up to {most}")))
    }

    pub fn warn(&self, remark: &str) {
        log::warn!(target: "grilly", "{}: {remark}", self.path.display());
    }

    pub fn fault(&self, problem: String) -> Error {
        fault(&self.path, problem)
    }
}

/// Whether a key names a token of a role specific to the model.
fn is_other_role(key: &str) -> bool {
    key.ends_with("_token") && !ROLES.contains(&key)
}

/// A string, or the `content` of an object.
fn content_of(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}
