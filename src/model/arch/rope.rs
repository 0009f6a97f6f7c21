//! Configuration keys of rotary positions and of layers with a window.

use std::ops::RangeInclusive;

use crate::model::fields::Fields;
use crate::model::rotary::Rotary;

pub(super) const BASES: RangeInclusive<f64> = 1.0..=1e15;

/// Rotary positions for heads of which `columns` columns turn: `rope_parameters`, or its older form, `rope_theta` and
/// `rope_scaling`. `base` stands in for a missing `rope_theta`.
pub(super) fn read(fields: &mut Fields<'_>, columns: usize, base: f64) -> Rotary {
    let base = fields.number_or("rope_theta", base, BASES);
    let given = fields.within("rope_parameters", |fields| parameters(fields, columns, base));
    let given = given.or_else(|| fields.within("rope_scaling", |fields| parameters(fields, columns, base)));
    given.unwrap_or_else(|| Rotary::new(base, columns))
}

/// The same for the layers of one kind of `layer_types`; the older form is a key with its default.
pub(super) fn of_layers(fields: &mut Fields<'_>, kind: &str, columns: usize, (key, base): (&str, f64)) -> Rotary {
    let base = fields.number_or(key, base, BASES);
    let given =
        fields.within("rope_parameters", |fields| fields.within(kind, |fields| parameters(fields, columns, base)));
    given.flatten().unwrap_or_else(|| Rotary::new(base, columns))
}

fn parameters(fields: &mut Fields<'_>, columns: usize, base: f64) -> Rotary {
    let base = fields.number_or("rope_theta", base, BASES);
    let mut rotary = Rotary::new(base, columns);
    match fields.text("rope_type").or_else(|| fields.text("type")).unwrap_or("default") {
        // Texts longer than the model's positions would change the base of "dynamic"; there are none.
        "default" | "dynamic" => {}
        "linear" => {
            let factor = fields.number_or("factor", 1.0, BASES) as f32;
            rotary.frequencies.iter_mut().for_each(|frequency| *frequency /= factor);
        }
        other => fields.fault(format!("rope_type is {other:?}; known are default, linear, dynamic")),
    }
    rotary
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
