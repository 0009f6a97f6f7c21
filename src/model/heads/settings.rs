//! The settings of modules under sentence-transformers' names.

use serde_json::{Map, Value, json};

use super::read::ACTIVATIONS;
use super::{Feature, Head, SpladePooling};

/// Columns of the vectors that modules pass on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Of one token's vector.
    pub tokens: usize,
    /// Of one text's.
    pub sentence: usize,
}

impl Head {
    /// The settings as a JSON object; `columns` are those of what the module reads, and become those of its result.
    pub fn settings(&self, columns: &mut Columns) -> Map<String, Value> {
        let settings = match self {
            Head::WeightedLayerPooling { layers, first, .. } => {
                json!({"embedding_dimension": columns.tokens, "num_hidden_layers": layers, "layer_start": first})
            }
            Head::Pooling { modes, include_prompt } => {
                columns.sentence = modes.len() * columns.tokens;
                json!({
                    "embedding_dimension": columns.tokens,
                    "pooling_mode": modes.iter().map(|mode| mode.name()).collect::<Vec<_>>(),
                    "include_prompt": include_prompt,
                    "pooling_output_dimension": columns.sentence,
                })
            }
            Head::SpladePooling(SpladePooling { mode, twice }) => {
                let function = if *twice { "log1p_relu" } else { "relu" };
                json!({"pooling_strategy": mode.name(), "activation_function": function})
            }
            Head::Dense { of, gives, input, output, bias, activation, residual, .. } => {
                match gives {
                    Feature::Tokens => columns.tokens = *output,
                    Feature::Sentence => columns.sentence = *output,
                    Feature::Scores => {}
                }
                let name = ACTIVATIONS.iter().find(|(_, kind)| kind == activation).map_or("", |(name, _)| name);
                let home = if name == "Identity" { "linear" } else { "activation" };
                json!({
                    "in_features": input,
                    "out_features": output,
                    "bias": bias,
                    "activation_function": format!("torch.nn.modules.{home}.{name}"),
                    "module_input_name": of.name(),
                    "module_output_name": gives.name(),
                    "use_residual": residual,
                })
            }
            Head::LayerNorm { dimension, .. } => json!({"dimension": dimension}),
            Head::Normalize { of } => json!({"module_input_name": of.name(), "module_output_name": of.name()}),
            Head::Idle(_) => json!({}),
        };
        match settings {
            Value::Object(settings) => settings,
            _ => Map::new(),
        }
    }
}
