//! Longformer (Beltagy et al. 2020): RoBERTa in which each token sees others within a window. No token is global, as in
//! the reference without a `global_attention_mask`.

use serde_json::Value;

use super::config::{self, BERT_KEYS, ConfigFile, MOST_ROWS, Read, name_rules, segments};
use super::roberta;
use crate::model::fields::{Fields, shown};
use crate::model::spec::NameRules;

/// Reads a `model_type: "longformer"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        roberta::padding(fields, spec);
        segments(fields, spec);
        let windows = windows(fields, spec.layers.len());
        for (layer, window) in spec.layers.iter_mut().zip(windows) {
            layer.window = window / 2;
        }
    })?;
    // Projections of global tokens.
    let ignored = ["*_global.weight", "*_global.bias"].map(str::to_owned).into();
    Ok((spec, NameRules { ignored, ..name_rules("longformer.") }))
}

/// The tokens that each layer's window has beside a token itself, half of them on either side: one number for all layers
/// or one for each.
fn windows(fields: &mut Fields<'_>, layers: usize) -> Vec<u32> {
    let usual = vec![512; layers];
    let Some(stated) = fields.get("attention_window") else { return usual };
    let even = |value: &Value| value.as_u64().filter(|size| (1..=MOST_ROWS as u64).contains(size) && size % 2 == 0);
    let sizes = match stated {
        Value::Array(sizes) => sizes.iter().map(even).collect::<Option<Vec<_>>>(),
        size => even(size).map(|size| vec![size; layers]),
    };
    match sizes.filter(|sizes| sizes.len() == layers) {
        Some(sizes) => sizes.into_iter().map(|size| size as u32).collect(),
        None => {
            let found = shown(stated);
            fields.fault(format!(
                "attention_window is {found}, expected an even number, or one for each of {layers} layers"
            ));
            usual
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::model::arch::tests::{fault, spec};

    #[test]
    fn a_window_is_half_on_either_side() {
        let windows = |changes| spec("longformer", changes).layers.iter().map(|layer| layer.window).collect::<Vec<_>>();
        assert_eq!(windows(json!({})), [256, 256]);
        assert_eq!(windows(json!({"attention_window": 32})), [16, 16]);
        assert_eq!(windows(json!({"attention_window": [2, 64]})), [1, 32]);
        for wrong in [json!(7), json!(0), json!([8]), json!([8, 3]), json!("8")] {
            assert!(fault("longformer", json!({"attention_window": wrong})).contains("attention_window is"), "{wrong}");
        }
    }
}
