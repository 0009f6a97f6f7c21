//! The words of the vocabulary whose logits are scores.

use super::read::Files;
use super::spec::Described;
use crate::model::heads::{Head, LogitScore, SCORED_TOKENS, Word};
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};

/// Names of the caller's arguments.
const ARGUMENTS: [&str; 2] = ["true_token", "false_token"];
/// The file of a module's settings.
const SETTINGS: &str = "config.json";

/// Gives each word its id, of those that the caller names in place of the usual ones.
///
/// # Errors
/// `InvalidArgument` for names that are not one token, and where the folder or a head of its checkpoint says what is scored;
/// `Unsupported` for a tokenizer without the usual words; `ModelFormat` for an id beyond the vocabulary.
pub(super) fn resolve(files: &mut Files<'_>, described: &Described) -> Result<()> {
    let given = files.options.score_tokens.as_deref();
    let unused = |reason: String| Error::InvalidArgument(format!("{} is given, but {reason}", ARGUMENTS[0]));
    let scores = files.modules.heads.iter_mut().filter_map(|head| match head {
        Head::LogitScore(score) => Some(score),
        _ => None,
    });
    if given.is_some_and(|words| !(1..=ARGUMENTS.len()).contains(&words.len())) {
        return Err(Error::InvalidArgument("score_tokens has one or two tokens".into()));
    }
    let mut found = false;
    for score in scores {
        found = true;
        match (given, &score.path) {
            (Some(_), Some(path)) => {
                let file = files.folder.join(path).join(SETTINGS);
                return Err(unused(format!("{} says which tokens are scored: leave it out", file.display())));
            }
            (Some(words), None) => *score = LogitScore::named(words),
            (None, _) => {}
        }
        for (place, word) in score.words.iter_mut().enumerate() {
            if let Word::Named(name) = word {
                *word = Word::Id(id(&described.tokenizer, name, ARGUMENTS[place], given.is_some())?);
            }
        }
        let rows = described.spec.words.rows;
        if let Some((place, id)) = score.ids()?.into_iter().enumerate().find(|(_, id)| *id as usize >= rows) {
            let path = score.path.as_ref().map(|path| files.folder.join(path).join(SETTINGS));
            let problem = format!("{} is {id}, but the vocabulary has {rows} tokens", SCORED_TOKENS[place]);
            return Err(Error::format(path.as_ref().unwrap_or(&files.config_path), problem));
        }
    }
    match given {
        Some(_) if !found => Err(unused(format!(
            "{} has a head for scores of its own, and no logits of words: leave it out",
            files.folder.display()
        ))),
        _ => Ok(()),
    }
}

/// The id of a token by its name in the vocabulary, or of the only token of a text.
fn id(tokenizer: &Tokenizer, name: &str, argument: &str, given: bool) -> Result<u32> {
    if let Some(id) = tokenizer.id(name) {
        return Ok(id);
    }
    let unknown =
        tokenizer.roles().iter().find(|(role, _)| role == "unk_token").and_then(|(_, token)| tokenizer.id(token));
    let tokens = tokenizer.encode_bare(&[name.to_owned()], usize::MAX)?.pop().unwrap_or_default().ids;
    match tokens[..] {
        [id] if Some(id) != unknown => Ok(id),
        _ if given => {
            let parts: Vec<String> = tokens.iter().filter_map(|id| tokenizer.token(*id)).collect();
            let count = parts.len();
            let problem = format!("{argument} {name:?} is {count} tokens of this tokenizer, {parts:?}");
            Err(Error::InvalidArgument(format!("{problem}, expected a token that it knows")))
        }
        _ => {
            let what = format!("scores from a decoder's logits: the tokenizer has no token {name:?}");
            Err(Error::unsupported(what, "name the tokens of both answers with true_token and false_token"))
        }
    }
}
