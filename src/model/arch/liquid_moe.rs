//! Mixtures of experts with a liquid gate: NomicBERT v2, whose routers read the state of a liquid time-constant cell.
//!
//! No checkpoint is published. The keys `liquid_units` and `liquid_steps` and the tensors `mlp.router.cell.*` are added to
//! what NomicBERT v2 has; `router.layer` has a column for each unit.

use super::config::{ConfigFile, MOST_COLUMNS, Read};
use super::nomic_bert;
use crate::model::fields::Fields;
use crate::model::mixture::{LiquidCell, Mixture};
use crate::model::spec::{Layer, Product};

const UNITS: &str = "liquid_units";
const STEPS: &str = "liquid_steps";
/// Steps unless the configuration has them, as in the code of Hasani et al.
const USUAL_STEPS: usize = 6;
/// Each is a product and some elementwise operations of its own.
const MOST_STEPS: usize = 64;

/// Reads a `model_type: "liquid_moe"` configuration.
///
/// # Errors
/// As [`nomic_bert::read`]; `ModelFormat` for missing or invalid numbers of units and steps, or without experts.
pub fn read(config: ConfigFile<'_>) -> Read {
    let (mut spec, rules) = nomic_bert::read(config)?;
    let mut fields = Fields::new(config.values, config.path);
    let units = fields.size(UNITS, 1..=MOST_COLUMNS);
    let steps = fields.optional_size(STEPS, 1..=MOST_STEPS).unwrap_or(USUAL_STEPS);
    if spec.layers.iter().all(|layer| layer.mixture.is_none()) {
        fields.fault("no layer is a mixture of experts; expected num_experts, moe_top_k and moe_every_n_layers".into());
    }
    fields.done()?;
    let liquid = |mixture: Mixture| {
        let name = |part: &str| mixture.router.names[0].replace("router.layer", &format!("router.cell.{part}"));
        let (input, recurrent) = (Product::biased([name("input")]), Product::plain([name("recurrent")]));
        let cell = LiquidCell { units, steps, input, recurrent, rate: name("rate"), target: name("target") };
        Mixture { cell: Some(cell), ..mixture }
    };
    spec.layers = spec.layers.into_iter().map(|layer| Layer { mixture: layer.mixture.map(liquid), ..layer }).collect();
    Ok((spec, rules))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    fn reading(changes: Value) -> Read {
        let mut config = json!({"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 66, "vocab_size": 100,
            "n_inner": 200, "activation_function": "gelu", "num_experts": 6, "moe_top_k": 2, "moe_every_n_layers": 2,
            "liquid_units": 10});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        read(ConfigFile { values: config.as_object().unwrap(), path: Path::new("config.json") })
    }

    #[test]
    fn the_routers_of_mixtures_read_a_cell() {
        let (spec, rules) = reading(json!({})).unwrap();
        assert!(spec.layers[0].mixture.is_none());
        let cell = spec.layers[1].mixture.as_ref().unwrap().cell.as_ref().unwrap();
        assert_eq!((cell.units, cell.steps), (10, USUAL_STEPS));
        assert!(cell.input.bias && !cell.recurrent.bias);
        for (stored, uniform) in [
            ("input.weight", format!("{}.weight", cell.input.names[0])),
            ("recurrent.weight", format!("{}.weight", cell.recurrent.names[0])),
            ("rate", cell.rate.clone()),
            ("target", cell.target.clone()),
        ] {
            assert_eq!(rules.uniform(&format!("encoder.layers.1.mlp.router.cell.{stored}")), uniform);
        }
        let one = reading(json!({"liquid_steps": 1})).unwrap().0;
        assert_eq!(one.layers[1].mixture.as_ref().unwrap().cell.as_ref().unwrap().steps, 1);
    }

    #[test]
    fn what_is_no_liquid_gate_is_refused_by_name() {
        for (changes, said) in [
            (json!({"liquid_units": null}), "liquid_units is missing"),
            (json!({"liquid_units": 0}), "liquid_units is 0"),
            (json!({"liquid_steps": 0}), "liquid_steps is 0, expected a whole number from 1 to 64"),
            (json!({"liquid_steps": 65}), "liquid_steps is 65"),
            (json!({"liquid_steps": 1.5}), "liquid_steps is 1.5"),
            (json!({"n_layer": 1}), "no layer is a mixture of experts"),
            (json!({"num_experts": 0, "moe_top_k": 0, "moe_every_n_layers": 0}), "no layer is a mixture of experts"),
        ] {
            let found = reading(changes).unwrap_err().to_string();
            assert!(found.starts_with("config.json") && found.contains(said), "{found}");
        }
    }
}
