//! Configuration keys of rotary positions and of layers with a window.

use std::f64::consts::PI;
use std::ops::RangeInclusive;

use super::config::MOST_ROWS;
use super::keys;
use crate::model::fields::{Fields, shown};
use crate::model::rotary::Rotary;
use crate::model::spec::EncoderSpec;
use crate::numerics::portable::{ln, powf};

pub(super) const BASES: RangeInclusive<f64> = 1.0..=1e15;
const FACTORS: RangeInclusive<f64> = 1e-6..=1e6;

/// What a kind of rotary positions has unless its keys say otherwise.
#[derive(Debug, Clone, Copy)]
struct Usual {
    /// Columns of a head that turn.
    columns: usize,
    /// `rope_theta`.
    base: f64,
    /// `max_position_embeddings`.
    longest: usize,
    /// `original_max_position_embeddings` beside the parameters, which is preferred to that among them.
    original: Option<usize>,
}

impl Usual {
    fn of(fields: &mut Fields<'_>, columns: usize, (key, base): (&str, f64)) -> Usual {
        if columns == 0 || !columns.is_multiple_of(2) {
            fields.fault(format!("{columns} columns of a head have rotary positions, expected an even number"));
        }
        let longest = fields.optional_size("max_position_embeddings", 1..=MOST_ROWS).unwrap_or(1);
        let original = fields.optional_size("original_max_position_embeddings", 1..=MOST_ROWS);
        Usual { columns: columns / 2 * 2, base: fields.number_or(key, base, BASES), longest, original }
    }

    /// `rope_parameters`, `rope_scaling` or an object within the former.
    fn parameters(self, fields: &mut Fields<'_>) -> Rotary {
        let rotary = self.scaled(fields);
        // Columns of a head that turn, which only some families read.
        fields.get("partial_rotary_factor");
        keys::report_inner(&format!("{}: rotary positions", fields.path().display()), fields);
        rotary
    }

    fn scaled(self, fields: &mut Fields<'_>) -> Rotary {
        let usual = Usual { base: fields.number_or("rope_theta", self.base, BASES), ..self };
        let rotary = Rotary::new(usual.base, usual.columns);
        match fields.text("rope_type").or_else(|| fields.text("type")).unwrap_or("default") {
            // Texts longer than the model's positions would change the base of "dynamic"; there are none.
            "default" | "dynamic" => rotary,
            "linear" => {
                let factor = required(fields, "factor") as f32;
                rotary.changed(|_, frequency| frequency / factor)
            }
            // By the code of GTE: a larger base, and all frequencies lower by the same factor.
            "ntk" => {
                let factor = required(fields, "factor");
                if let Some(value) = fields.get("mixed_b") {
                    fields.fault(format!("mixed_b is {}; only ntk without it is known", shown(value)));
                }
                let lower = powf(factor, 2.0 / usual.columns as f64) as f32;
                Rotary::new(usual.base * factor, usual.columns).changed(|_, frequency| frequency / lower)
            }
            "llama3" => usual.smoothed(fields, rotary),
            "yarn" => usual.yarn(fields, rotary),
            // "su" in the first configurations of Phi-3.
            "longrope" | "su" => usual.by_length(fields, rotary),
            other => {
                let known = "known are default, linear, dynamic, ntk, llama3, yarn, longrope";
                fields.fault(format!("rope_type is {other:?}; {known}"));
                rotary
            }
        }
    }

    /// Tokens of the longest texts before the scaling.
    fn original(self, fields: &mut Fields<'_>) -> f64 {
        let stated = fields.optional_size("original_max_position_embeddings", 1..=MOST_ROWS);
        self.original.or(stated).unwrap_or(self.longest) as f64
    }

    /// Slow pairs turn `factor` times more slowly, fast ones as usual, those between by a mixture of both.
    fn smoothed(self, fields: &mut Fields<'_>, rotary: Rotary) -> Rotary {
        let [factor, low, high] =
            ["factor", "low_freq_factor", "high_freq_factor"].map(|key| required(fields, key) as f32);
        let original = self.original(fields) as f32;
        if low >= high {
            fields.fault(format!("low_freq_factor is {low}, expected less than high_freq_factor {high}"));
        }
        rotary.changed(|_, frequency| {
            let length = (2.0 * PI) as f32 / frequency;
            let share = (original / length - low) / (high - low);
            match length {
                _ if length > original / low => frequency / factor,
                _ if length < original / high => frequency,
                _ => (1.0 - share) * frequency / factor + share * frequency,
            }
        })
    }

    /// YaRN (Peng et al. 2023).
    fn yarn(self, fields: &mut Fields<'_>, rotary: Rotary) -> Rotary {
        let original = self.original(fields);
        let factor = optional(fields, "factor", FACTORS).unwrap_or(self.longest as f64 / original);
        let [fast, slow] = [("beta_fast", 32.0), ("beta_slow", 1.0)]
            .map(|(key, usual)| optional(fields, key, FACTORS).unwrap_or(usual));
        let whole = fields.flag_or("truncate", true);
        // The column whose pair turns so often within the original length.
        let column = |turns: f64| self.columns as f64 * ln(original / (turns * 2.0 * PI)) / (2.0 * ln(self.base));
        let round = |value: f64, to: fn(f64) -> f64| if whole { to(value) } else { value };
        let first = round(column(fast), f64::floor).max(0.0);
        let last = round(column(slow), f64::ceil).min(self.columns as f64 - 1.0);
        let last = if first == last { last + 0.001 } else { last };
        let by_logarithm = |times: f64| if factor <= 1.0 { 1.0 } else { 0.1 * times * ln(factor) + 1.0 };
        let [mscale, all] = ["mscale", "mscale_all_dim"].map(|key| optional(fields, key, 0.0..=1e6).unwrap_or(0.0));
        let inferred = match mscale * all {
            0.0 => by_logarithm(1.0),
            _ => by_logarithm(mscale) / by_logarithm(all),
        };
        let scale = optional(fields, "attention_factor", FACTORS).unwrap_or(inferred) as f32;
        let rotary = rotary.changed(|pair, frequency| {
            let stretched = ((pair as f32 - first as f32) / (last - first) as f32).clamp(0.0, 1.0);
            frequency / factor as f32 * stretched + frequency * (1.0 - stretched)
        });
        Rotary { scale, ..rotary }
    }

    /// LongRoPE (Ding et al. 2024): a divisor per pair, others for texts longer than the original length.
    fn by_length(self, fields: &mut Fields<'_>, rotary: Rotary) -> Rotary {
        let original = self.original(fields);
        let factor = optional(fields, "factor", FACTORS).unwrap_or(self.longest as f64 / original);
        let inferred = if factor <= 1.0 { 1.0 } else { (1.0 + ln(factor) / ln(original)).sqrt() };
        let scale = optional(fields, "attention_factor", FACTORS).unwrap_or(inferred) as f32;
        let pairs = rotary.frequencies.len();
        let [short, long] = ["short_factor", "long_factor"].map(|key| {
            let divisors = fields.numbers(key).unwrap_or_default();
            let usable = divisors.len() == pairs && divisors.iter().all(|divisor| FACTORS.contains(divisor));
            if !usable {
                fields.fault(format!("{key} has {} numbers, expected {pairs} above zero", divisors.len()));
            }
            let divided = |pair: usize, frequency| if usable { frequency / divisors[pair] as f32 } else { frequency };
            rotary.clone().changed(divided).frequencies
        });
        Rotary { frequencies: short, scale, long: Some((original as usize, long)), ..rotary }
    }
}

fn optional(fields: &mut Fields<'_>, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
    fields.get(key)?;
    Some(fields.number_or(key, *range.start(), range))
}

fn required(fields: &mut Fields<'_>, key: &str) -> f64 {
    optional(fields, key, FACTORS).unwrap_or_else(|| {
        fields.fault(format!("{key} is missing"));
        1.0
    })
}

/// Rotary positions for heads of which `columns` columns turn: `rope_parameters`, or its older form, `rope_theta` (or
/// the key given, with its default) and `rope_scaling`.
pub(super) fn read(fields: &mut Fields<'_>, columns: usize, key: (&str, f64)) -> Rotary {
    let usual = Usual::of(fields, columns, key);
    let given = fields.within(place(fields), |fields| usual.parameters(fields));
    given.unwrap_or_else(|| Rotary::new(usual.base, usual.columns))
}

/// The key of the parameters: the older one counts first.
fn place(fields: &Fields<'_>) -> &'static str {
    if fields.is_set("rope_scaling") { "rope_scaling" } else { "rope_parameters" }
}

/// Share of a head's columns that turn: `partial_rotary_factor` among the parameters, or an older key with its default.
pub(super) fn share(fields: &mut Fields<'_>, (key, usual): (&str, f64)) -> f64 {
    let usual = fields.number_or(key, usual, 0.0..=1.0);
    let given = fields.within(place(fields), |fields| fields.number_or("partial_rotary_factor", usual, 0.0..=1.0));
    given.unwrap_or(usual)
}

/// The rotary positions of all layers, in the share of a head's columns that `partial_rotary_factor` states.
pub(super) fn turn_share(fields: &mut Fields<'_>, spec: &mut EncoderSpec, usual: f64) {
    let columns = (spec.head_dim as f64 * share(fields, ("partial_rotary_factor", usual))) as usize;
    spec.rotary = vec![read(fields, columns, ("rope_theta", 10_000.0))];
}

/// The same as [`read`] for the layers of one kind of `layer_types`; the older form is a key with its default.
pub(super) fn of_layers(fields: &mut Fields<'_>, kind: &str, columns: usize, key: (&str, f64)) -> Rotary {
    let usual = Usual::of(fields, columns, key);
    let given = fields.within("rope_parameters", |fields| {
        if ["rope_type", "type", "rope_theta"].into_iter().any(|key| fields.is_set(key)) {
            fields.fault("states one kind for all layers, expected an object per kind of layer".into());
        }
        fields.within(kind, |fields| usual.parameters(fields))
    });
    given.flatten().unwrap_or_else(|| Rotary::new(usual.base, usual.columns))
}

/// The same as [`of_layers`], unless the older form has the parameters of all kinds.
pub(super) fn of_kind(fields: &mut Fields<'_>, kind: &str, columns: usize, key: (&str, f64)) -> Rotary {
    match fields.is_set("rope_scaling") {
        true => read(fields, columns, key),
        false => of_layers(fields, kind, columns, key),
    }
}

/// For each layer whether it has a window: `layer_types`, or what `usual` says.
pub(super) fn sliding(fields: &mut Fields<'_>, layers: usize, usual: impl Fn(usize) -> bool) -> Vec<bool> {
    let Some(kinds) = fields.texts("layer_types") else { return (0..layers).map(usual).collect() };
    let known = ["full_attention", "sliding_attention"];
    if kinds.len() != layers || kinds.iter().any(|kind| !known.contains(kind)) {
        fields.fault(format!("layer_types is {kinds:?}, expected {layers} of {known:?}"));
        return vec![false; layers];
    }
    kinds.iter().map(|kind| *kind == known[1]).collect()
}

/// Gives the layers that have one the window.
pub(super) fn set_windows(spec: &mut EncoderSpec, sliding: &[bool], window: u32) {
    for (layer, _) in spec.layers.iter_mut().zip(sliding).filter(|(_, sliding)| **sliding) {
        layer.window = window;
    }
}

/// The largest distance that `sliding_window` (4096 if missing, none if null) leaves visible: of nearer keys in causal
/// attention, of keys up to it otherwise.
pub(super) fn window(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Option<u32> {
    if fields.is_null("sliding_window") {
        return None;
    }
    let window = fields.optional_size("sliding_window", 2..=MOST_ROWS).unwrap_or(4096);
    Some(window as u32 - u32::from(spec.causal))
}

/// The same as a layer has it, and 0 also where the key is missing.
pub(super) fn stated_window(fields: &mut Fields<'_>, spec: &EncoderSpec) -> u32 {
    fields.get("sliding_window").and_then(|_| window(fields, spec)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
