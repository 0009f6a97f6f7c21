//! The settings of modules under sentence-transformers' names.

use serde_json::{Value, json};

use super::read::ACTIVATIONS;
use super::{Feature, Head, MultiVectorMask, SpladePooling, TokenPooling};

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
    pub fn settings(&self, columns: &mut Columns) -> Value {
        match self {
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
            Head::LogitScore(score) => score.settings(),
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
            Head::MultiVectorMask(MultiVectorMask { skipped, tasks, kept }) => json!({
                "skiplist_words": skipped,
                "skiplist_tasks": tasks,
                "keep_only_token_ids": if kept.is_empty() { Value::Null } else { json!(kept) },
            }),
            Head::TokenPooling(TokenPooling { factor, protected, normalizes, tasks }) => json!({
                "pool_factor": factor,
                "num_protected_tokens": protected,
                "normalize_embeddings": normalizes,
                "tasks": tasks,
            }),
            Head::Products(products) => {
                columns.tokens = products.iter().map(|(_, columns)| columns).sum();
                Value::Object(products.iter().map(|(file, columns)| (file.clone(), json!(columns))).collect())
            }
            Head::Idle(_) => json!({}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{ActivationKind, PoolMode};

    #[test]
    fn settings_have_the_columns_of_what_a_module_reads() {
        let mut columns = Columns { tokens: 8, sentence: 8 };
        let pooling = Head::Pooling { modes: vec![PoolMode::Cls, PoolMode::Mean], include_prompt: true };
        let settings = pooling.settings(&mut columns);
        assert_eq!((&settings["embedding_dimension"], &settings["pooling_output_dimension"]), (&json!(8), &json!(16)));
        assert_eq!((&settings["pooling_mode"], columns.sentence), (&json!(["cls", "mean"]), 16));
        let dense = Head::Dense {
            path: "2_Dense".into(),
            of: Feature::Tokens,
            gives: Feature::Tokens,
            input: 8,
            output: 3,
            bias: false,
            activation: ActivationKind::Identity,
            residual: false,
        };
        let settings = dense.settings(&mut columns);
        assert_eq!(settings["activation_function"], "torch.nn.modules.linear.Identity");
        assert_eq!((&settings["module_output_name"], columns.tokens), (&json!("token_embeddings"), 3));
    }

    #[test]
    fn modes_are_known_by_their_names() {
        for name in ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"] {
            assert_eq!(PoolMode::named(name).map(PoolMode::name), Some(name));
        }
        assert_eq!((PoolMode::named("sum"), PoolMode::named("Mean")), (None, None));
    }
}
