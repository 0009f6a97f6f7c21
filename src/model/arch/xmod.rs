//! X-MOD (Pfeiffer et al. 2022): RoBERTa with a narrow part for each language after the feed-forward part of a layer; texts
//! are of the language that the configuration names.

use super::config::{self, BERT_KEYS, ConfigFile, MOST_COLUMNS, Read, name_rules, segments};
use super::roberta;
use crate::model::fields::Fields;
use crate::model::spec::{Bottleneck, Layer, Norms, Product};

/// Reads a `model_type: "xmod"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut rules = name_rules("roberta.");
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        roberta::padding(fields, spec);
        segments(fields, spec);
        let language = language(fields);
        let factor = fields.optional_size("adapter_reduction_factor", 1..=MOST_COLUMNS).unwrap_or(2);
        let columns = spec.hidden / factor;
        if columns == 0 {
            fields.fault(format!("adapter_reduction_factor is {factor}, at most hidden_size {} is known", spec.hidden));
        }
        let before = fields.flag_or("pre_norm", false);
        let apart = fields.flag_or("adapter_layer_norm", false);
        let reused = fields.flag_or("adapter_reuse_layer_norm", true);
        let added = fields.flag_or("ln_before_adapter", true);
        spec.final_norm = before.then(|| "encoder.LayerNorm".to_owned());
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let name = |part: &str| format!("encoder.layer.{number}.output.{part}");
            let own = |part: &str| name(&format!("adapter_modules.{language}.{part}"));
            let norm = name("LayerNorm");
            // Of what the narrow part reads: that is also what it adds to, or only its operand.
            let read = if apart { Some(name("adapter_layer_norm")) } else { reused.then(|| norm.clone()) };
            let (sum, operand) = if added { (read, None) } else { (None, read) };
            let last = (!before).then(|| norm.clone());
            rules.ignored.push(name("adapter_modules.*"));
            *layer = Layer {
                attention_norms: match (before, layer.attention_norms.clone()) {
                    (true, norms) => Norms { before: norms.sum, sum: None, ..norms },
                    (false, norms) => norms,
                },
                feed_forward_norms: Norms { before: before.then_some(norm), sum, after: None },
                bottleneck: Some(Bottleneck {
                    columns,
                    down: Product::biased([own("dense1")]),
                    up: Product::biased([own("dense2")]),
                    norms: Norms { before: operand, sum: last, after: None },
                }),
                ..config::layer(number)
            };
        }
    })?;
    Ok((spec, rules))
}

/// The language of the texts: the reference refuses texts without one.
fn language(fields: &mut Fields<'_>) -> String {
    let known = fields.texts("languages").unwrap_or_else(|| vec!["en_XX"]);
    let chosen = fields.text("default_language");
    match chosen.filter(|chosen| known.contains(chosen)) {
        Some(chosen) => chosen.to_owned(),
        None => {
            let known = known.join(", ");
            fields.fault(match chosen {
                Some(other) => format!("default_language is {other:?}; languages are {known}"),
                None => format!("default_language is missing; name the language of the texts, one of {known}"),
            });
            String::new()
        }
    }
}
