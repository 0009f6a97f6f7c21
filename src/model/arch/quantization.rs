//! Products in integers, as `quantization_config` describes them: transformers' BitNet layers, signs, and 8 bits.

use std::path::Path;

use serde_json::{Map, Value};

use super::keys;
use crate::Result;
use crate::model::fields::{Fields, shown, unsupported};
use crate::model::spec::{EncoderSpec, Matrix, NameRules, Order};
use crate::ops::Levels;
use crate::quant::format::Applied;

const KEY: &str = "quantization_config";
/// Of any method: whether products of tokens that it leaves in floating point are in 8-bit integers.
const OTHERS: &str = "grilly_int8";
/// transformers' method, and those of models converted here.
const METHODS: [&str; 3] = ["bitnet", "grilly_1bit", "grilly_int8"];

/// Reads `quantization_config`, if there is one, into the products of the layers.
///
/// # Errors
/// `ModelFormat` for invalid values; `Unsupported` for another method, and for products that it does not have.
pub fn read(config: &Map<String, Value>, path: &Path, spec: &mut EncoderSpec, rules: &NameRules) -> Result<()> {
    let mut fields = Fields::new(config, path);
    let Some(config) = fields.object(KEY).filter(|config| !config.is_empty()) else { return fields.done() };
    let refused = |what: String, reason: &str| Err(unsupported(path, format_args!("{KEY}: {what}"), reason));
    let method = config.get("quant_method").and_then(Value::as_str);
    let Some(method) = method.filter(|method| METHODS.contains(method)) else {
        let found = config
            .get("quant_method")
            .map_or("no quant_method".into(), |found| format!("quant_method {}", shown(found)));
        return refused(
            found,
            "known are \"bitnet\", \"grilly_1bit\" and \"grilly_int8\"; fetch the model in floating point",
        );
    };
    let mut integers = false;
    let described = fields.within(KEY, |fields| {
        fields.get("quant_method");
        let described = match method {
            "bitnet" => bitnet(fields),
            "grilly_1bit" => (Matrix::Rounded(Levels::Binary), None),
            _ => (Matrix::Numbers, None),
        };
        integers = fields.flag_or(OTHERS, method == OTHERS);
        let kept = fields.texts("modules_to_not_convert").unwrap_or_default();
        let of_layers =
            |kept: &&str| spec.products().any(|product| product.names.iter().any(|name| is_within(name, kept)));
        if let Some(kept) = kept.into_iter().find(of_layers) {
            fields
                .fault(format!("modules_to_not_convert has {kept:?}, but all products of the layers are in integers"));
        }
        keys::report_inner(&format!("{}: {KEY}", path.display()), fields);
        described
    });
    let (matrix, norm_eps) = described.unwrap_or_default();
    if let Some(eps) = norm_eps.filter(|eps| *eps as f32 != spec.norm_eps) {
        return refused(format!("rms_norm_eps {eps}"), "only the epsilon of the model's own norms is known");
    }
    if let Matrix::Packed(_) = matrix {
        let rows = [spec.hidden, spec.intermediate, spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim];
        if let Some(rows) = rows.into_iter().find(|rows| !rows.is_multiple_of(4)) {
            fields.fault(format!("{KEY}: a product has {rows} rows, expected a multiple of 4, the rows of a byte"));
        }
        let others = spec.adapters.is_some() || spec.layers.iter().any(|layer| layer.mixture.is_some());
        // Blocks of rows are not blocks of packed rows.
        let whole = rules.stacked.is_empty() && spec.products().all(|product| product.order == Order::ByResult);
        if others || !whole {
            return refused("packed weights".into(), "products of this architecture are not stored as torch's Linear");
        }
    }
    if norm_eps.is_some() && spec.products().any(|product| !product.norms.is_empty()) {
        return refused("use_rms_norm true".into(), "some products of this architecture have norms already");
    }
    spec.integers = integers;
    for product in spec.products_mut() {
        product.matrix = matrix;
        if norm_eps.is_some() {
            product.norms = product.names.iter().map(|name| format!("{name}.rms_norm")).collect();
        }
    }
    fields.done()
}

/// What transformers' method stores, and the epsilon of the norm that each product has of its own.
fn bitnet(fields: &mut Fields<'_>) -> (Matrix, Option<f64>) {
    let mut choice = |key: &str, known: [&'static str; 2]| match fields.text(key) {
        Some(found) if !known.contains(&found) => {
            fields.fault(format!("{key} is {found:?}, expected {:?} or {:?}", known[0], known[1]));
            known[0]
        }
        found => found.map_or(known[0], |found| known[usize::from(found == known[1])]),
    };
    let class = choice("linear_class", ["bitlinear", "autobitlinear"]);
    let mode = choice("quantization_mode", ["offline", "online"]);
    let matrix = match (class, mode) {
        ("bitlinear", "online") => {
            fields.fault("quantization_mode is \"online\", which only linear_class \"autobitlinear\" has".into());
            Matrix::default()
        }
        ("bitlinear", _) => Matrix::Packed(Applied::Divides),
        (_, "offline") => Matrix::Packed(Applied::Multiplies),
        _ => Matrix::Rounded(Levels::Ternary),
    };
    let eps = fields.number_or("rms_norm_eps", 1e-6, 0.0..=1.0);
    (matrix, fields.flag_or("use_rms_norm", false).then_some(eps))
}

/// Whether a module of this name is one that transformers leaves as it is because of `kept`: its start or its end.
fn is_within(name: &str, kept: &str) -> bool {
    name.starts_with(kept) || name.ends_with(kept) || format!("model.{name}").starts_with(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::arch::tests::{fault, reading, spec};
    use crate::ops::ActivationKind;

    /// The matrices of all products, which are the same.
    fn matrix(model_type: &str, config: Value) -> Matrix {
        let spec = spec(model_type, json!({KEY: config}));
        let found: Vec<Matrix> = spec.products().map(|product| product.matrix).collect();
        assert!(found.len() == 8 && found.iter().all(|matrix| *matrix == found[0]), "{found:?}");
        found[0]
    }

    #[test]
    fn every_product_of_the_layers_has_the_same_matrix() {
        for model_type in ["bitnet", "llama", "bert"] {
            for none in [json!({}), json!(null)] {
                assert_eq!(matrix(model_type, none), Matrix::Numbers);
            }
            assert_eq!(matrix(model_type, json!({"quant_method": "bitnet"})), Matrix::Packed(Applied::Divides));
            let offline = json!({"quant_method": "bitnet", "linear_class": "autobitlinear", "modules_to_not_convert": ["lm_head"]});
            assert_eq!(matrix(model_type, offline), Matrix::Packed(Applied::Multiplies));
            let online =
                json!({"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"});
            assert_eq!(matrix(model_type, online), Matrix::Rounded(Levels::Ternary));
            assert_eq!(matrix(model_type, json!({"quant_method": "grilly_1bit"})), Matrix::Rounded(Levels::Binary));
        }
        for (config, integers) in [
            (json!({"quant_method": "grilly_int8"}), true),
            (json!({"quant_method": "grilly_1bit", "grilly_int8": true}), true),
            (json!({"quant_method": "bitnet", "grilly_int8": false}), false),
            (json!({}), false),
        ] {
            assert_eq!(spec("bert", json!({KEY: config})).integers, integers);
        }
        assert_eq!(matrix("bert", json!({"quant_method": "grilly_int8"})), Matrix::Numbers);
        assert_eq!(matrix("gte", json!({"quant_method": "grilly_1bit"})), Matrix::Rounded(Levels::Binary));
        assert_eq!(matrix("gpt2", json!({"quant_method": "grilly_1bit"})), Matrix::Rounded(Levels::Binary));
    }

    #[test]
    fn norms_of_products_are_those_of_the_method_or_of_the_family() {
        let bitnet = spec("bitnet", json!({}));
        assert_eq!((bitnet.activation, bitnet.activation_squared, bitnet.norm_eps), (ActivationKind::Relu, true, 1e-5));
        let layer = &bitnet.layers[1];
        assert_eq!(layer.attention_output.norms, ["layers.1.self_attn.attn_sub_norm"]);
        assert_eq!(layer.feed_forward_out.norms, ["layers.1.mlp.ffn_sub_norm"]);
        assert!(!spec("bitnet", json!({"hidden_act": "silu"})).activation_squared);
        let with_norms = json!({"quant_method": "bitnet", "use_rms_norm": true, "rms_norm_eps": 1e-6});
        let llama = spec("llama", json!({KEY: with_norms}));
        let names = ["q", "k", "v"].map(|part| format!("layers.0.self_attn.{part}_proj.rms_norm"));
        assert_eq!(llama.layers[0].query_key_value.norms, names);
        let numbers = |spec: &EncoderSpec| spec.products().all(|product| product.matrix == Matrix::Numbers);
        let mut qwen = spec("qwen3", json!({}));
        qwen.find_own_norms(|name| name == "layers.0.self_attn.q_proj.weight");
        assert!(numbers(&qwen));
        qwen.find_own_norms(|name| name == "layers.1.mlp.down_proj.norm.weight");
        assert_eq!(qwen.layers[0].attention_output.norms, ["layers.0.self_attn.o_proj.norm"]);
        assert!(qwen.products().all(|product| product.matrix == Matrix::Rounded(Levels::Ternary)));
        let mut llama = spec("llama", json!({}));
        llama.find_own_norms(|_| true);
        assert!(numbers(&llama));
    }

    #[test]
    fn what_no_product_can_have_is_named() {
        let refused = |model_type: &str, config: Value| match reading(model_type, json!({KEY: config})) {
            Err(error @ crate::Error::Unsupported { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        };
        for (model_type, config, part) in [
            ("llama", json!({"quant_method": "gptq"}), "quant_method \"gptq\": known are \"bitnet\""),
            ("bert", json!({"quant_method": "bitsandbytes"}), "quant_method \"bitsandbytes\""),
            ("llama", json!({"bits": 4}), "no quant_method"),
            ("gpt2", json!({"quant_method": "bitnet"}), "not stored as torch's Linear"),
            ("gte", json!({"quant_method": "bitnet"}), "not stored as torch's Linear"),
            (
                "llama",
                json!({"quant_method": "bitnet", "use_rms_norm": true, "rms_norm_eps": 1e-3}),
                "rms_norm_eps 0.001",
            ),
            (
                "bitnet",
                json!({"quant_method": "bitnet", "use_rms_norm": true, "rms_norm_eps": 1e-5}),
                "have norms already",
            ),
        ] {
            let message = refused(model_type, config);
            assert!(message.starts_with("config.json: quantization_config: ") && message.contains(part), "{message}");
        }
        let bitnet = |key: &str, value: Value| json!({KEY: {"quant_method": "bitnet", key: value}});
        for (changes, part) in [
            (bitnet("linear_class", json!("linear")), "linear_class is \"linear\", expected \"bitlinear\" or"),
            (bitnet("quantization_mode", json!("online")), "which only linear_class \"autobitlinear\" has"),
            (bitnet("modules_to_not_convert", json!(["down_proj"])), "modules_to_not_convert has \"down_proj\""),
            (
                bitnet("modules_to_not_convert", json!(["model.layers.0"])),
                "modules_to_not_convert has \"model.layers.0\"",
            ),
            (json!({KEY: "bitnet"}), "quantization_config is \"bitnet\", expected an object"),
            (
                json!({KEY: {"quant_method": "bitnet"}, "intermediate_size": 98}),
                "a product has 98 rows, expected a multiple",
            ),
        ] {
            let message = fault("llama", changes);
            assert!(message.contains(part), "{part} not in {message}");
        }
    }
}
