//! Texts as messages of a chat template, as the reference encodes them with a tokenizer that has one.

mod environment;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use rayon::prelude::*;
use serde_json::{Map, Value as Json};

use super::tokenizer::{Tokenizer, Tokens};
use crate::process::threads;
use crate::{Error, Result};

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The text itself.
    Flat,
    /// A list of parts, each with its type.
    Structured,
}

impl Form {
    /// `flat` or `structured`, as sentence-transformers has them.
    pub fn name(self) -> &'static str {
        match self {
            Form::Flat => "flat",
            Form::Structured => "structured",
        }
    }
}

/// What in a template's text shows that it takes a list of parts.
const STRUCTURED: [&str; 6] = ["content[0]", ".type", "'type'", "\"type\"", "item.type", "message.content["];
/// The roles of the two texts of a pair.
const PAIR: [&str; 2] = ["query", "document"];
/// Contents that tokenize differently.
const FILLERS: [&str; 2] = ["0", "1 2 3 4"];

/// The chat template of a tokenizer, with what is known of every text.
pub struct Chat {
    environment: Environment<'static>,
    /// The tokens by role and the arguments of the template.
    variables: BTreeMap<String, Value>,
    form: Form,
    takes_task: bool,
    /// Whether what follows a text is kept of a text that is truncated.
    restores: bool,
}

/// A message: its role and its text.
type Message<'a> = (&'a str, &'a str);

impl Chat {
    /// The template of a tokenizer: a text, or several by name; `tokens` by role, `arguments` of the template, and the form of
    /// messages, if it is not the one that the template tells.
    ///
    /// # Errors
    /// `Unsupported` for a template that cannot be read, and for several of which none is named `default`.
    pub fn new(
        template: &Json,
        tokens: &[(String, String)],
        arguments: &Map<String, Json>,
        form: Option<Form>,
    ) -> Result<Self> {
        let text = chosen(template, arguments.get("chat_template"))?;
        let flat = template.as_str().is_some_and(|text| !STRUCTURED.iter().any(|part| text.contains(part)));
        let form = form.unwrap_or(if flat { Form::Flat } else { Form::Structured });
        let environment = environment::of(&text).map_err(|e| Error::unsupported("the chat template", shown(&e)))?;
        let own = ["chat_template", "restore_suffix"];
        let given = arguments.iter().filter(|(key, _)| !own.contains(&key.as_str()));
        let mut variables: BTreeMap<String, Value> =
            tokens.iter().map(|(role, token)| (role.clone(), Value::from(token.clone()))).collect();
        variables.extend(given.map(|(key, value)| (key.clone(), Value::from(Serde(value)))));
        let undeclared = environment::template(&environment).undeclared_variables(false);
        let restores = arguments.get("restore_suffix").is_none_or(|value| value != &Json::Bool(false));
        Ok(Chat { environment, variables, form, takes_task: undeclared.contains("task"), restores })
    }

    /// The form of messages.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The tokens of texts, each a message of a user, or of pairs, each a query and a document; a prompt is the message of the
    /// system before them. Of texts over the limit what the template puts after them is kept.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that the template or the tokenizer refuses, `Unsupported` for pairs that the template does
    /// not carry.
    pub fn tokens(
        &self,
        texts: &[Vec<&str>],
        (prompt, task): (&str, Option<&str>),
        tokenizer: &Tokenizer,
        most: usize,
    ) -> Result<Vec<Tokens>> {
        let pairs = texts.first().is_some_and(|texts| texts.len() == 2);
        if pairs {
            self.check_pairs(task)?;
        }
        let conversation = |texts: &[&str]| -> Result<String> {
            let roles = if texts.len() == 2 { &PAIR[..] } else { &["user"][..] };
            let messages = roles.iter().copied().zip(texts.iter().copied());
            let system = Some(("system", prompt)).filter(|_| !prompt.is_empty());
            self.render(&system.into_iter().chain(messages).collect::<Vec<_>>(), task)
        };
        let all = || texts.par_iter().map(|texts| conversation(texts)).collect::<Result<Vec<_>>>();
        let rendered = threads::run(all)??;
        let mut tokens = tokenizer.encode_bare(&rendered, most)?;
        if self.restores && tokens.iter().any(|text| text.ids.len() >= most) {
            let fillers = FILLERS.map(|filler| conversation(&[filler; 2][..if pairs { 2 } else { 1 }]));
            let end = fillers.into_iter().collect::<Result<Vec<_>>>().and_then(|texts| end_of(&texts, tokenizer));
            let end = end.unwrap_or_default();
            for text in tokens.iter_mut().filter(|text| text.ids.len() >= most) {
                let keep = end.len().min(text.ids.len());
                let start = text.ids.len() - keep;
                text.ids[start..].copy_from_slice(&end[end.len() - keep..]);
            }
        }
        Ok(tokens)
    }

    fn render(&self, messages: &[Message<'_>], task: Option<&str>) -> Result<String> {
        let message = |&(role, text): &Message<'_>| match self.form {
            Form::Flat => context! { role, content => text },
            Form::Structured => context! { role, content => [context! { type => "text", text }] },
        };
        let usual =
            [("tools", Value::from(())), ("documents", Value::from(())), ("add_generation_prompt", false.into())];
        let mut all: BTreeMap<&str, Value> = usual.into_iter().collect();
        all.extend(task.filter(|_| self.takes_task).map(|task| ("task", Value::from(task))));
        all.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.clone())));
        all.insert("messages", messages.iter().map(message).collect());
        let all = Value::from_pairs(all);
        environment::template(&self.environment).render(all).map_err(|error| {
            Error::InvalidArgument(format!("the chat template refuses the messages: {}", shown(&error)))
        })
    }

    /// Refuses pairs of which the template drops a text.
    fn check_pairs(&self, task: Option<&str>) -> Result<()> {
        let render = |texts: [&str; 2]| self.render(&[(PAIR[0], texts[0]), (PAIR[1], texts[1])], task);
        let found = [["alpha", "bravo"], ["charlie", "bravo"], ["alpha", "foxtrot"]].map(render);
        let [base, first, second] = found.map(|text| text.map_err(|error| error.to_string()));
        let lost = match (base, first, second) {
            (Ok(base), Ok(first), Ok(second)) if base != first && base != second => return Ok(()),
            (Ok(_), Ok(_), Ok(_)) => "it leaves out a text of a pair".to_owned(),
            (base, first, second) => [base, first, second].into_iter().find_map(Result::err).unwrap_or_default(),
        };
        let remedy =
            "set one that has the roles \"query\" and \"document\", as processor_kwargs={\"chat_template\": ...}";
        Err(Error::unsupported(format!("the chat template with pairs: {lost}"), remedy))
    }
}

/// The template that counts.
fn chosen(template: &Json, given: Option<&Json>) -> Result<String> {
    let text = |value: &Json| value.as_str().map(str::to_owned);
    let named: BTreeMap<String, String> = match template {
        Json::Array(rows) => {
            rows.iter().filter_map(|row| Some((text(row.get("name")?)?, text(row.get("template")?)?))).collect()
        }
        Json::Object(named) => named.iter().filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect(),
        _ => BTreeMap::new(),
    };
    let found = match given.and_then(Json::as_str) {
        Some(given) => Some(named.get(given).cloned().unwrap_or_else(|| given.to_owned())),
        None => text(template).or_else(|| named.get("default").cloned()),
    };
    found.ok_or_else(|| {
        let names: Vec<String> = named.into_keys().collect();
        let remedy = "name one of them in the Transformer's settings, as \
                      processing_kwargs = {\"chat_template\": {\"chat_template\": NAME}}";
        Error::unsupported(format!("several chat templates {names:?} without a \"default\""), remedy)
    })
}

/// The tokens at the end of both texts, which the template puts there.
fn end_of(texts: &[String], tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    let tokens = tokenizer.encode_bare(texts, usize::MAX)?;
    let [first, second] = &tokens[..] else { return Ok(Vec::new()) };
    let pairs = first.ids.iter().rev().zip(second.ids.iter().rev());
    let count = pairs.take_while(|(one, other)| one == other).count();
    // Texts that never differ hold no content.
    if count == first.ids.len().min(second.ids.len()) {
        return Ok(Vec::new());
    }
    Ok(first.ids[first.ids.len() - count..].to_vec())
}

/// A template's error, with its cause.
fn shown(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.to_string(), str::to_owned)
}
