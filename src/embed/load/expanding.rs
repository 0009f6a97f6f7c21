//! What is put after the tokens of queries.

use super::read::Files;
use super::spec::Described;
use crate::embed::expansion::Filler;
use crate::model::config::Messages;
use crate::model::heads::Head;
use crate::text::tokenizer::Side;
use crate::{Error, Result};

/// What the settings ask for; `None` for queries as they are.
///
/// # Errors
/// `ModelFormat` for a token or a length that the model does not have; `Unsupported` for what is not computed.
pub(super) fn filler(files: &Files<'_>, described: &Described) -> Result<Option<Filler>> {
    let Files { transformer: path, sentence, modules, .. } = files;
    let Described { tokenizer, spec, .. } = described;
    let Some(expansion) = sentence.expansion.clone() else { return Ok(None) };
    let refuse = |what: &str, reason: &str| {
        Err(Error::unsupported(format!("{}: query_expansion {what}", path.display()), reason))
    };
    if sentence.messages != Messages::Never && tokenizer.chat_template().is_some() {
        return refuse("with a chat template", "a template has its own: remove query_expansion from the settings");
    }
    if tokenizer.padding_side() == Side::Left {
        let reason = "its tokens follow the query's: set padding_side to \"right\" in tokenizer_config.json";
        return refuse("with padding on the left", reason);
    }
    if !expansion.seen && !modules.heads.iter().any(|head| matches!(head, Head::MultiVectorMask(_))) {
        let reason = "its tokens would not be scored: list a MultiVectorMask in modules.json, or set attend to true";
        return refuse("without a MultiVectorMask", reason);
    }
    if !expansion.seen && spec.adapters.is_some() {
        return refuse("with attend false beside adapters for tasks", "set attend to true");
    }
    let longest = spec.positions.longest_text();
    if expansion.length > longest {
        let problem = format!("query_expansion: length is {}, but the model has {longest} positions", expansion.length);
        return Err(Error::format(path, problem));
    }
    let role = |role: &str| tokenizer.roles().iter().find(|(known, _)| known == role).map(|(_, token)| token.as_str());
    let token = expansion.token.as_deref().or_else(|| role("mask_token")).or_else(|| role("eos_token"));
    match token.and_then(|token| tokenizer.id(token)) {
        Some(id) => Ok(Some(Filler { id, expansion })),
        None => {
            let problem = match token {
                Some(token) => format!("query_expansion: token {token:?} is not in the tokenizer's vocabulary"),
                None => "query_expansion: the tokenizer has neither a mask token nor an end of texts; name a token"
                    .to_owned(),
            };
            Err(Error::format(path, problem))
        }
    }
}
