//! BigBird (Zaheer et al. 2020) where each token sees all others: BERT with gelu_new, and embeddings that may be scaled.
//! The reference attends so to texts of up to (5 + 2 `num_random_blocks`) `block_size` tokens, and to all texts from the
//! first of these on.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_ROWS, Read, name_rules, segments};
use crate::model::fields::unsupported;

const KEYS: Keys = Keys { activation: ("hidden_act", "gelu_new"), ..BERT_KEYS };

/// Reads a `model_type: "big_bird"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let (mut kind, mut whole) = ("", 0);
    let spec = config::read(config, &KEYS, |fields, spec| {
        segments(fields, spec);
        kind = fields.text("attention_type").unwrap_or("block_sparse");
        let random = fields.optional_size("num_random_blocks", 0..=MOST_ROWS).unwrap_or(3);
        whole = (5 + 2 * random) * fields.optional_size("block_size", 1..=MOST_ROWS).unwrap_or(64);
        let bias = fields.flag_or("use_bias", true);
        for layer in &mut spec.layers {
            layer.query_key_value.bias = bias;
        }
        if fields.flag_or("rescale_embeddings", false) {
            spec.word_scale = (spec.hidden as f32).sqrt();
        }
    })?;
    let longest = spec.positions.longest_text();
    if kind != "original_full" && (kind != "block_sparse" || longest > whole) {
        let what = format_args!("attention_type {kind:?} with texts of {longest} tokens");
        let reason =
            format!("only texts of up to {whole} tokens are read without blocks; with \"original_full\" all are");
        return Err(unsupported(config.path, what, reason));
    }
    Ok((spec, name_rules("bert.")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Error;
    use crate::model::arch::tests::{reading, spec};

    #[test]
    fn texts_that_the_reference_reads_in_blocks_are_refused() {
        let of = |positions: u32, kind| json!({"max_position_embeddings": positions, "attention_type": kind});
        assert_eq!(spec("big_bird", of(704, "block_sparse")).positions.longest_text(), 704);
        assert_eq!(spec("big_bird", of(4096, "original_full")).positions.longest_text(), 4096);
        for refused in [of(4096, "block_sparse"), of(66, "sparse")] {
            let Err(error @ Error::Unsupported { .. }) = reading("big_bird", refused) else { panic!() };
            assert!(error.to_string().contains("attention_type"), "{error}");
        }
        assert_eq!(spec("big_bird", json!({"rescale_embeddings": true})).word_scale, 48f32.sqrt());
    }
}
