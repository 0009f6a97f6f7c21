//! Keyword arguments that the reference passes on to the readers of a model's files: those of the caller, and those that the
//! settings of the folder's Transformer hold.

mod rows;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde_json::{Map, Value};

use super::fields::{Fields, shown, unsupported};
use super::json::{read_json, transformer_settings};
use crate::{Error, Result};
use rows::{Effect, KINDS, Kind, OF_HUB, ONLY_IF_STATED, OTHER_NAMES};

/// The arguments of each reader, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    /// Of the weights' reader.
    pub model: Map<String, Value>,
    /// Of the tokenizer's reader: they replace values of tokenizer_config.json.
    pub processor: Map<String, Value>,
    /// Of the configuration's reader: they replace values of config.json.
    pub config: Map<String, Value>,
}

impl Arguments {
    /// Those of a caller, from an object with `model_kwargs`, `processor_kwargs` and `config_kwargs`, each of which may be
    /// missing; and a line for each that changes nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for another text; `Unsupported` for an argument that has an effect which is not computed, and for one
    /// that no reader has.
    pub fn of_caller(text: &str) -> Result<(Self, Vec<String>)> {
        let wrong = |problem: String| Error::InvalidArgument(format!("the arguments are no JSON object: {problem}"));
        let values: Map<String, Value> = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let (mut found, mut notes) = (Arguments::default(), Vec::new());
        for (kind, own) in KINDS.iter().zip(found.each()) {
            if let Some(Value::Object(given)) = values.get(kind.name) {
                *own = given.clone();
            }
            for (key, value) in own.iter() {
                let what = || format!("{}[{key:?}] = {}", kind.name, shown(value));
                match kind.effect(key) {
                    Some(Effect::Read) => {}
                    Some(Effect::Nothing) => notes.push(format!("{} changes nothing here", what())),
                    Some(Effect::Never(reason)) => return Err(Error::unsupported(what(), reason)),
                    Some(Effect::Refused(reason)) if is_set(value) => return Err(Error::unsupported(what(), reason)),
                    Some(Effect::Refused(_)) => {}
                    None => return Err(Error::unsupported(what(), kind.unknown(key))),
                }
            }
        }
        Ok((found, notes))
    }

    /// Those in the settings of a Transformer's folder, under their names or the older ones.
    ///
    /// # Errors
    /// `ModelFormat` for a faulty file; `Unsupported` as in [`Arguments::of_caller`], but for the tokenizer's that no reader
    /// has, which change nothing.
    pub fn of_folder(transformer: &Path) -> Result<Self> {
        let mut found = Arguments::default();
        let Some((path, values)) = transformer_settings(transformer)? else { return Ok(found) };
        let mut fields = Fields::new(&values, &path);
        for (kind, own) in KINDS.iter().zip(found.each()) {
            // The older name counts where both are there.
            let name = if fields.get(kind.older).is_some() { kind.older } else { kind.name };
            let given = fields.object(name).into_iter().flatten().filter(|(key, _)| !OF_HUB.contains(&key.as_str()));
            *own = given.map(|(key, value)| (key.clone(), value.clone())).collect();
            for (key, value) in own.iter() {
                let what = format!("{name}: {key} {}", shown(value));
                match kind.effect(key) {
                    Some(Effect::Read) => {}
                    Some(Effect::Never(reason)) => return Err(unsupported(&path, what, reason)),
                    Some(Effect::Refused(reason)) if is_set(value) => return Err(unsupported(&path, what, reason)),
                    None if kind.strict => return Err(unsupported(&path, what, kind.unknown(key))),
                    _ => log::debug!(target: "grilly", "{}: {what} changes nothing", path.display()),
                }
            }
        }
        fields.done().map(|()| found)
    }

    /// These, and `others`, which count where both have a key.
    pub fn and(mut self, others: &Arguments) -> Self {
        for (own, other) in self.each().into_iter().zip([&others.model, &others.processor, &others.config]) {
            own.extend(other.clone());
        }
        self
    }

    fn each(&mut self) -> [&mut Map<String, Value>; 3] {
        [&mut self.model, &mut self.processor, &mut self.config]
    }

    /// The config.json at `path`, with the values that are replaced.
    ///
    /// # Errors
    /// `ModelFormat` naming the file.
    pub fn configuration(&self, path: &Path) -> Result<Map<String, Value>> {
        let mut config = read_json(path)?;
        self.replace(&mut config, path);
        Ok(config)
    }

    /// Replaces values of a config.json, those that the file has under an architecture's own name there.
    fn replace(&self, config: &mut Map<String, Value>, path: &Path) {
        let counts = |key: &str| KINDS[2].effect(key) != Some(Effect::Nothing);
        for (key, value) in self.config.iter().filter(|(key, _)| counts(key)) {
            let other = OTHER_NAMES.iter().find(|names| names[0] == key).into_iter().flat_map(|names| &names[1..]);
            let stated = other.copied().find(|name| config.contains_key(*name));
            if ONLY_IF_STATED.contains(&key.as_str()) && !config.contains_key(key) {
                let file = path.display();
                log::warn!(
                    target: "grilly",
                    "config_kwargs: {key} {} changes nothing, as in transformers, since {file} does not state it",
                    shown(value)
                );
                continue;
            }
            config.insert(stated.filter(|_| !config.contains_key(key)).unwrap_or(key).to_owned(), value.clone());
        }
        // Fewer layers are the first ones.
        let layers = self.config.get("num_hidden_layers").and_then(Value::as_u64);
        if let (Some(layers), Some(Value::Array(kinds))) = (layers, config.get_mut("layer_types")) {
            kinds.truncate(usize::try_from(layers).unwrap_or(usize::MAX));
        }
    }
}

impl Kind {
    fn effect(&self, key: &str) -> Option<Effect> {
        let named = |names: &&str| names.split_whitespace().any(|name| name == key || ends_so(name, key));
        let found = self.rows.iter().find(|(names, _)| named(names)).map(|(_, effect)| *effect);
        found.or(if self.open { Some(Effect::Read) } else { None })
    }

    /// Why a key that no reader has is refused.
    fn unknown(&self, key: &str) -> String {
        let names = self.rows.iter().filter(|(_, effect)| *effect == Effect::Read);
        let mut names: Vec<&str> = names.flat_map(|(names, _)| names.split_whitespace()).collect();
        names.sort_by(|a, b| strsim(key, b).total_cmp(&strsim(key, a)));
        format!("nothing reads it; the nearest name that is read is {:?}", names.first().unwrap_or(&""))
    }
}

/// Whether a name such as `*_token` stands for the key.
fn ends_so(name: &str, key: &str) -> bool {
    name.strip_prefix('*').is_some_and(|end| key.ends_with(end))
}

/// The share of pairs of letters that two names have in common.
fn strsim(one: &str, other: &str) -> f64 {
    let pairs = |text: &str| text.as_bytes().windows(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (one, other) = (pairs(one), pairs(other));
    let shared = one.iter().filter(|pair| other.contains(pair)).count();
    shared as f64 / one.len().max(other.len()).max(1) as f64
}

/// Whether a value asks for something.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
