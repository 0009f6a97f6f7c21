//! Code of a repository, which `auto_map` of config.json names. It is never run: a class that computes what a form here
//! does is read as that form, another refused.

use std::path::Path;

use serde_json::{Map, Value};

use crate::Result;
use crate::model::fields::unsupported;

const KEY: &str = "auto_map";

/// Whether a class is the base model or one with a head of the classes that start with `prefix`.
pub(super) fn is_of(prefix: &str, class: &str) -> bool {
    let rest = class.strip_prefix(prefix);
    rest.is_some_and(|rest| ["Model", "EncoderModel", "LoRA"].contains(&rest) || rest.starts_with("For"))
}

/// Checks the class that the configuration names for `kind`, such as `AutoModel`; classes of configurations, tokenizers and
/// of heads that are not asked for change nothing. `open` is whether the code may attend in both directions though the
/// form does not.
///
/// # Errors
/// `Unsupported` for a class whose name does not start with `prefix`, and where `open`.
pub(super) fn check(config: &Map<String, Value>, path: &Path, kind: &str, prefix: &str, open: bool) -> Result<()> {
    let Some(named) = config.get(KEY).and_then(|map| map.get(kind)?.as_str()) else { return Ok(()) };
    let class = named.rsplit('.').next().unwrap_or(named);
    let refused = |reason: String| Err(unsupported(path, format_args!("{KEY} {kind} {named:?}"), reason));
    if !is_of(prefix, class) {
        return refused(format!(
            "a repository's own code is not run, and nothing is known of this class; sentence-transformers runs it with \
             trust_remote_code, and reads the tensors as {prefix}Model without: for that, take {KEY} out"
        ));
    }
    if open {
        return refused(
            "a repository's own code is not run, and classes of this name attend causally or in both directions: state \
             is_causal in config.json, false if this one attends in both, as that of gte-Qwen2-7B-instruct and stella \
             does, or else true"
                .into(),
        );
    }
    log::debug!(target: "grilly", "{}: {KEY} {kind} {named:?} is read as {prefix}{}", path.display(), &class[prefix.len()..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::arch::tests::{reading, spec};

    fn map(kind: &str, class: &str) -> Value {
        json!({KEY: {kind: class}})
    }

    fn with(mut map: Value, more: Value) -> Value {
        map.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        map
    }

    #[test]
    fn classes_of_forms_are_read_and_others_refused() {
        let own = map("AutoModel", "x/y--modeling_bert.BertModel");
        assert_eq!(spec("bert", own), spec("bert", json!({})));
        for kind in ["AutoConfig", "AutoTokenizer", "AutoModelForMaskedLM"] {
            assert_eq!(spec("bert", map(kind, "odd.Any")), spec("bert", json!({})));
        }
        assert_eq!(spec("bert", json!({KEY: {"AutoTokenizer": ["a.B", null]}})), spec("bert", json!({})));
        for (model_type, class) in [
            ("bert", "jinaai/jina-bert-implementation--modeling_bert.JinaBertModel"),
            ("roberta", "modeling.BertModel"),
            ("llama", "modeling.LlamaBidirectionalModel"),
            ("new", "modeling.GteModel"),
        ] {
            let error = reading(model_type, map("AutoModel", class)).unwrap_err().to_string();
            let start = format!("config.json: auto_map AutoModel {class:?}: a repository's own code is not run");
            assert!(error.starts_with(&start) && error.contains("take auto_map out"), "{error}");
        }
    }

    #[test]
    fn a_class_that_may_attend_in_both_directions_has_to_say_so() {
        let qwen = || map("AutoModel", "modeling_qwen.Qwen2Model");
        let error = reading("qwen2", qwen()).unwrap_err().to_string();
        assert!(error.contains("modeling_qwen.Qwen2Model") && error.contains("state is_causal"), "{error}");
        for stated in [true, false] {
            assert_eq!(spec("qwen2", with(qwen(), json!({"is_causal": stated}))).causal, stated);
        }
        assert!(spec("phi3", map("AutoModelForCausalLM", "modeling_phi3.Phi3ForCausalLM")).causal);
        assert!(!spec("eurobert", map("AutoModel", "modeling_eurobert.EuroBertModel")).causal);
    }
}
