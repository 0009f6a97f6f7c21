//! The settings in tokenizer_config.json, combined with older files beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::choice::{OwnTokenizers, class_of, is_older_mistral};
use super::classes::Class;
use super::files::{Side, fault, read, read_object};
use super::special::{Added, ROLES};
use crate::{Error, Result};

/// Special tokens without a role, under the current key and its predecessor.
const EXTRA: &str = "extra_special_tokens";
const ADDITIONAL: &str = "additional_special_tokens";
/// Settings by which the reference makes another tokenizer of the files, and why they are refused.
const OTHER_TOKENIZERS: &[(&str, &str)] = &[
    ("init_inputs", "arguments without names are not known: leave them out"),
    ("tokenizer_truncation", "truncation_side and model_max_length are read: set these"),
    ("tokenizer_padding", "padding_side and pad_token are read: set these"),
];
/// The chat template.
const CHAT: &str = "chat_template";
/// Whether the tokens of two roles are put around a text.
const FLAGS: [&str; 2] = ["add_bos_token", "add_eos_token"];

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

impl Settings {
    pub fn read(folder: &Path, arguments: &Map<String, Value>, of_model: OwnTokenizers) -> Result<Self> {
        let path = folder.join("tokenizer_config.json");
        let mut values = read_object(&path)?.unwrap_or_default();
        let asked = FLAGS.iter().any(|flag| arguments.contains_key(*flag));
        if asked && folder.join("tokenizer.json").exists() {
            FLAGS.iter().for_each(|flag| drop(values.remove(*flag)));
        }
        // Files count before the setting.
        if let Some(templates) = templates(folder)? {
            values.insert(CHAT.into(), templates);
        }
        values.extend(arguments.clone());
        for (key, reason) in OTHER_TOKENIZERS {
            let asks = |value: &Value| holds_something(value) || *value == Value::Bool(true);
            if let Some(value) = values.get(*key).filter(|value| asks(value)) {
                return Err(Error::unsupported(format!("{}: {key} {value}", path.display()), *reason));
            }
        }
        let model = read_object(&folder.join("config.json"))?.unwrap_or_default();
        let class = class_of(&values, &model, folder, of_model)?;
        let (others, older) = Default::default();
        let mut settings = Settings { path, values, others, class, mends: false, added: None, older, asked };
        if settings.values.contains_key(ADDITIONAL) && !settings.values.get(EXTRA).is_some_and(holds_something) {
            let list = settings.values.remove(ADDITIONAL).unwrap_or_default();
            settings.values.insert(EXTRA.into(), list);
        }
        settings.set_others_apart();
        settings.put_saved_others_back();
        settings.mends = settings.flag("fix_mistral_regex")?.unwrap_or(false) && is_older_mistral(&model, of_model);
        settings.refuse_other_files()?;
        match settings.values.get("added_tokens_decoder") {
            Some(tokens) => settings.added = Some(settings.added_of(tokens)?),
            None => settings.read_older(folder, arguments)?,
        }
        Ok(settings)
    }

    /// Reads special_tokens_map.json and added_tokens.json, which apply where tokenizer_config.json lists no added
    /// tokens.
    fn read_older(&mut self, folder: &Path, arguments: &Map<String, Value>) -> Result<()> {
        for (key, mut value) in read_object(&folder.join("special_tokens_map.json"))?.unwrap_or_default() {
            if arguments.get(&key).is_some_and(|given| !given.is_null()) {
                continue;
            }
            if let (Value::Object(token), true) = (&mut value, key != EXTRA) {
                token.insert("special".into(), Value::Bool(true));
            }
            if let (Value::Array(new), Some(Value::Array(own))) = (&value, self.values.get(&key))
                && key == EXTRA
            {
                let fresh = new.iter().filter(|token| !own.contains(token)).cloned();
                value = Value::Array(own.iter().cloned().chain(fresh).collect());
            }
            self.values.insert(key, value);
        }
        self.set_others_apart();
        let path = folder.join("added_tokens.json");
        for (content, id) in read_object(&path)?.unwrap_or_default() {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| fault(&path, format!("the id of {content:?} is not a number of 32 bits")))?;
            let extra = self.values.get(EXTRA).and_then(Value::as_array).into_iter().flatten();
            let named = ROLES.iter().filter_map(|role| self.values.get(*role)).chain(extra);
            let special = named.filter_map(content_of).any(|known| known == content);
            let mut token = Added::special(&content);
            token.special = special;
            self.older.insert(id, token);
        }
        Ok(())
    }

    /// Refuses what names another file than tokenizer.json.
    fn refuse_other_files(&self) -> Result<()> {
        let versions = self.values.get("fast_tokenizer_files").and_then(Value::as_array).into_iter().flatten();
        let mut other = versions.filter_map(Value::as_str).filter(|name| *name != "tokenizer.json");
        let Some(name) = other.next() else { return Ok(()) };
        let what = format!("{}: fast_tokenizer_files names {name:?}", self.path.display());
        let reason =
            "only tokenizer.json is read; give the file that transformers chooses that name, and remove the key";
        Err(Error::unsupported(what, reason))
    }

    /// Adds the tokens with other roles that the reference saves together, where there are none by themselves.
    fn put_saved_others_back(&mut self) {
        let saved = self.values.remove("model_specific_special_tokens");
        let own = |(key, value): (&String, &Value)| is_other_role(key) && content_of(value).is_some();
        if let (Some(Value::Object(mut saved)), false) = (saved, self.values.iter().any(own) || !self.others.is_empty())
        {
            self.others.append(&mut saved);
        }
    }

    fn set_others_apart(&mut self) {
        if let Some(Value::Object(others)) = self.values.get_mut(EXTRA) {
            self.others.append(others);
            self.values.remove(EXTRA);
        }
    }

    /// Added tokens by id: those of tokenizer_config.json, or else those of the older file and of tokenizer.json.
    pub fn added(&self, of_file: Vec<(u32, Added)>) -> BTreeMap<u32, Added> {
        self.added.clone().unwrap_or_else(|| self.older.clone().into_iter().chain(of_file).collect())
    }

    fn added_of(&self, tokens: &Value) -> Result<BTreeMap<u32, Added>> {
        let wrong = |what: &str| fault(&self.path, format!("added_tokens_decoder: {what}"));
        let tokens = tokens.as_object().ok_or_else(|| wrong("not an object"))?;
        let token = |(id, token): (&String, &Value)| {
            let known = id.parse().map_err(|_| wrong(&format!("{id:?} is not an id")))?;
            match token {
                Value::Object(_) => Added::of_value(token).map(|token| (known, token)),
                _ => None,
            }
            .ok_or_else(|| wrong(&format!("the token {id} is not an object with its content and flags")))
        };
        tokens.iter().map(token).collect()
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

/// The chat templates that have files: one, or several by name.
fn templates(folder: &Path) -> Result<Option<Value>> {
    let text = |path: &Path| {
        String::from_utf8(read(path)?).map(Value::from).map_err(|_| fault(path, "is not in UTF-8".into()))
    };
    let (own, others) = (folder.join("chat_template.jinja"), folder.join("additional_chat_templates"));
    let mut found = Map::new();
    if own.exists() {
        found.insert("default".into(), text(&own)?);
    }
    for entry in std::fs::read_dir(&others).into_iter().flatten().flatten() {
        let path = entry.path();
        if let (Some(name), Some("jinja")) =
            (path.file_stem().and_then(|n| n.to_str()), path.extension().and_then(|e| e.to_str()))
        {
            found.insert(name.to_owned(), text(&path)?);
        }
    }
    Ok(match found.len() {
        0 => None,
        1 if found.contains_key("default") => found.remove("default"),
        _ => Some(Value::Object(found)),
    })
}

/// Whether a list or an object has entries.
fn holds_something(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty()) || value.as_object().is_some_and(|map| !map.is_empty())
}

/// A string, or the `content` of an object.
fn content_of(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}
