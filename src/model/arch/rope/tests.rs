//! Rotary positions in all scalings.

use std::path::Path;

use serde_json::json;

use super::*;

/// What a configuration with these parameters gives for heads of 16 columns, or its faults.
fn rotary(parameters: &serde_json::Value) -> crate::Result<Rotary> {
    let config = json!({"max_position_embeddings": 128, "rope_scaling": parameters});
    let mut fields = Fields::new(config.as_object().unwrap(), Path::new("config.json"));
    let rotary = read(&mut fields, 16, ("rope_theta", 10_000.0));
    fields.done().map(|()| rotary)
}

/// Frequencies and factor of the reference's `ROPE_INIT_FUNCTIONS` for the same configurations.
#[test]
fn scalings_are_those_of_the_reference() {
    let smoothed = json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
        "original_max_position_embeddings": 64});
    let yarn = json!({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32});
    let other = json!({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "beta_fast": 8,
        "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 0.9, "truncate": false});
    let long = json!({"type": "longrope", "original_max_position_embeddings": 32,
        "short_factor": [1, 1, 1.5, 2, 2.5, 3, 3.5, 4], "long_factor": [1, 2, 3, 4, 5, 6, 7, 8]});
    let mut older = long.clone();
    older["type"] = "su".into();
    for (parameters, scale, expected) in [
        (json!({"type": "linear", "factor": 4}), 1.0, [0.25, 0.079056941, 0.025, 0.00790569466, 0.0025]),
        (json!({"type": "dynamic", "factor": 4}), 1.0, [1.0, 0.316227764, 0.1, 0.0316227786, 0.01]),
        (smoothed, 1.0, [1.0, 0.244384587, 0.0130422562, 0.00395284733, 0.00125]),
        (yarn, 1.138629436111989, [1.0, 0.197642356, 0.025, 0.00790569466, 0.0025]),
        (other, 0.9753496504321066, [1.0, 0.198583528, 0.0255952496, 0.00790569466, 0.0025]),
        (older, 1.1832159566199232, [1.0, 0.316227764, 0.0666666701, 0.0158113893, 0.004]),
        (long, 1.1832159566199232, [1.0, 0.316227764, 0.0666666701, 0.0158113893, 0.004]),
    ] {
        let Rotary { frequencies, scale: found, long, .. } = rotary(&parameters).unwrap();
        assert_eq!(found, scale as f32, "{parameters}");
        let near = |found: &[f32], expected: [f64; 5]| {
            found.iter().zip(expected).all(|(found, expected)| (f64::from(*found) / expected - 1.0).abs() < 3e-7)
        };
        assert!(near(&frequencies, expected), "{parameters}: {frequencies:?}");
        if let Some((most, long)) = long {
            assert_eq!(most, 32);
            assert!(near(&long, [1.0, 0.158113882, 0.0333333351, 0.00790569466, 0.002]), "{long:?}");
        }
    }
}

#[test]
fn faults_name_the_key() {
    for (parameters, said) in [
        (
            json!({"type": "wavy"}),
            "rope_scaling: rope_type is \"wavy\"; known are default, linear, dynamic, ntk, llama3",
        ),
        (json!({"type": "linear"}), "rope_scaling: factor is missing"),
        (json!({"type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 4}), "low_freq_factor is 4"),
        (json!({"type": "longrope", "short_factor": [1, 0]}), "short_factor has 2 numbers, expected 8 above zero"),
    ] {
        let message = rotary(&parameters).unwrap_err().to_string();
        assert!(message.starts_with("config.json") && message.contains(said), "{message}");
    }
}
