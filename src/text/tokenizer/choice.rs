//! Which class a folder's tokenizer has.

use std::path::Path;

use serde_json::{Map, Value};

use super::classes::{Class, Named};
use super::files::read;
use crate::{Error, Result};

/// The class of the tokenizer of a `model_type`.
#[derive(Clone, Copy)]
pub struct OwnTokenizer {
    /// Its name.
    pub class: &'static str,
    /// Whether it is the class even where a file names another.
    pub always: bool,
    /// Whether `fix_mistral_regex` counts.
    pub mended: bool,
}

/// What the architectures say of their tokenizers, by `model_type`; `None` for one that none has.
pub type OwnTokenizers = fn(&str) -> Option<OwnTokenizer>;

/// The class named by tokenizer_config.json, or else by config.json, or else the default of the `model_type`, as the
/// reference chooses it; `None` where it uses tokenizer.json unchanged.
pub(super) fn class_of(
    values: &Map<String, Value>,
    model: &Map<String, Value>,
    folder: &Path,
    of_model: OwnTokenizers,
) -> Result<Option<&'static Class>> {
    let text = |values: &Map<String, Value>, key: &str| {
        values.get(key).and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    if let Some(code) = own_code(values) {
        // A repository may have another one's code.
        let name = code.rsplit("--").next().unwrap_or_default();
        return Class::built(name).map(Some).ok_or_else(|| {
            let file = folder.join("tokenizer_config.json");
            let what = format!("{}: auto_map names the tokenizer {code:?}", file.display());
            let reason = "which is code of the repository, and is not run; where it makes the same tokens as tokenizer_class, \
                 which transformers' AutoTokenizer tells with and without trust_remote_code, remove auto_map from the file";
            Error::unsupported(what, reason)
        });
    }
    let own = text(values, "tokenizer_class");
    let source = if own.is_some() { "tokenizer_config.json" } else { "config.json" };
    let Some(named) = own.or_else(|| text(model, "tokenizer_class")) else {
        let Some(model_type) = text(model, "model_type") else { return Ok(Some(Class::usual())) };
        let Some(own) = of_model(&model_type) else { return Ok(None) };
        return match Class::named(own.class) {
            Named::Built(class) => Ok(Some(class)),
            Named::Coded => {
                let file = folder.join("config.json");
                let what = format!("{}: {}, the tokenizer of model_type {model_type:?},", file.display(), own.class);
                Err(coded(what, own.class))
            }
            Named::AsItIs | Named::Unheard => Ok(None),
        };
    };
    let own = text(model, "model_type").and_then(|model_type| of_model(&model_type));
    let distrusted =
        own.is_some_and(|own| own.always) || text(model, "model_name").is_some_and(|name| Class::overrules(&name));
    let name = match own {
        _ if !distrusted && Class::yields_to_bytes(&named) && over_bytes(folder)? => return Ok(None),
        Some(own) if matches!(Class::named(own.class), Named::AsItIs) => return Ok(None),
        Some(own) if distrusted => own.class,
        _ => &named,
    };
    Ok(match Class::named(name) {
        Named::Built(class) => Some(class),
        Named::AsItIs => None,
        Named::Coded => {
            return Err(coded(format!("{}: tokenizer_class {name:?}", folder.join(source).display()), name));
        }
        Named::Unheard => {
            if folder.join("tokenizer.json").exists() {
                let file = folder.join(source);
                log::warn!(
                    target: "grilly",
                    "{}: tokenizer_class {name:?} is not known; tokenizer.json is used as it is, from which that class' own \
                     normalisation, splitting and tokens around a text may differ",
                    file.display()
                );
            }
            None
        }
    })
}

/// The error for a class that is Python code.
fn coded(what: String, class: &str) -> Error {
    let reason = match class.strip_suffix("Fast").unwrap_or(class) {
        "RoFormerTokenizer" => {
            "splits texts by the dictionary of rjieba, which is not here; where BertTokenizer makes the same tokens, as for \
             words of single characters, name it in tokenizer_config.json instead"
        }
        _ => {
            "is Python code, which is not run; where a tokenizer.json makes the same tokens, name PreTrainedTokenizerFast \
             instead"
        }
    };
    Error::unsupported(what, reason)
}

/// The tokenizer of a repository's own code that `auto_map` names: the faster of two.
fn own_code(values: &Map<String, Value>) -> Option<&str> {
    let map = values.get("auto_map")?;
    let named = map.get("AutoTokenizer").or(map.is_array().then_some(map))?;
    let [slow, fast] = [0, 1].map(|place| named.get(place).and_then(Value::as_str));
    fast.or(slow).or(named.as_str())
}

/// Whether a model has the words of Mistral's models before transformers 5.
pub(super) fn is_older_mistral(model: &Map<String, Value>, of_model: OwnTokenizers) -> bool {
    let text = |key: &str| model.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let major = text("transformers_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    !model.is_empty()
        && major.is_none_or(|major| major < 5)
        && text("model_type").is_none_or(|kind| of_model(kind).is_some_and(|own| own.mended))
}

/// Whether tokenizer.json mentions bytes in place of characters.
fn over_bytes(folder: &Path) -> Result<bool> {
    let path = folder.join("tokenizer.json");
    let mark = b"\"ByteLevel\"";
    Ok(path.exists() && read(&path)?.windows(mark.len()).any(|part| part == mark))
}
