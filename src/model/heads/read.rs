//! The configurations of the modules after the first.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::known::unknown_module;
use super::{Feature, Head, SpladePooling, logit_score, mask, token_pooling};
use crate::Result;
use crate::model::fields::{Fields, shown, unsupported};
use crate::model::files::{MODEL_SETTINGS, read_fields};
use crate::model::routes::Row;
use crate::ops::{ActivationKind, PoolMode};

/// Maximum columns of a Dense or LayerNorm module, far above any existing model.
const MOST_COLUMNS: usize = 1 << 20;
/// Maximum number of pooling modes of a module.
const MOST_MODES: usize = 32;
/// Maximum number of layers of a WeightedLayerPooling module.
const MOST_LAYERS: usize = 10_000;
/// Names of the pooling modes, and of the booleans in older files, in the order in which the booleans concatenate.
pub(super) const MODES: [(&str, &str, PoolMode); 6] = [
    ("cls", "pooling_mode_cls_token", PoolMode::Cls),
    ("max", "pooling_mode_max_tokens", PoolMode::Max),
    ("mean", "pooling_mode_mean_tokens", PoolMode::Mean),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", PoolMode::MeanSqrtLength),
    ("weightedmean", "pooling_mode_weightedmean_tokens", PoolMode::WeightedMean),
    ("lasttoken", "pooling_mode_lasttoken", PoolMode::LastToken),
];
/// Names of the ways in which SpladePooling pools.
pub(super) const SPLADE_MODES: [(&str, PoolMode); 2] = [("max", PoolMode::Max), ("sum", PoolMode::Sum)];
/// Its functions of logits, and whether they take `log(1 + x)` twice.
const SPLADE_FUNCTIONS: [(&str, bool); 2] = [("relu", false), ("log1p_relu", true)];
pub(super) const ACTIVATIONS: [(&str, ActivationKind); 6] = [
    ("Tanh", ActivationKind::Tanh),
    ("Identity", ActivationKind::Identity),
    ("ReLU", ActivationKind::Relu),
    ("GELU", ActivationKind::GeluErf),
    ("SiLU", ActivationKind::Silu),
    ("Sigmoid", ActivationKind::Sigmoid),
];

/// The Dense of PyLate, which is that of sentence-transformers for the tokens' vectors.
pub(in crate::model) const DENSE_OF_PYLATE: &str = "pylate.models.Dense.Dense";

/// Modules after which a text has other vectors, and those of a text are the result.
const OF_TOKENS: [&str; 2] = ["MultiVectorMask", "HierarchicalTokenPooling"];

/// What the settings of a module are read from.
pub(super) struct Place<'a> {
    /// The model's.
    folder: &'a Path,
    row: &'a Row,
    /// What a module without a statement reads.
    usual: Feature,
    /// Of the module.
    path: PathBuf,
    /// config.json of the first module.
    config: &'a Map<String, Value>,
}

type ReadModule = fn(&Place<'_>) -> Result<Head>;

/// The modules that are read after the first.
pub(super) const MODULES: [(&str, ReadModule); 10] = [
    ("WeightedLayerPooling", |place| {
        let head = read_all(&place.path, |fields| Ok(read_weighted_layers(fields, &place.row.path)))?;
        Ok(if hidden_states(place.config, &place.path)? { head } else { Head::Idle("WeightedLayerPooling") })
    }),
    ("Pooling", |place| read_all(&place.path, |fields| read_pooling(fields, &place.path))),
    ("SpladePooling", |place| read_all(&place.path, read_splade)),
    ("LogitScore", |place| read_all(&place.path, |fields| logit_score::read(fields, &place.row.path))),
    ("Dense", |place| read_fields(&place.path, |fields| read_dense(fields, place))),
    ("LayerNorm", |place| {
        let dimension = read_all(&place.path, |fields| Ok(fields.size("dimension", 1..=MOST_COLUMNS)))?;
        Ok(Head::LayerNorm { path: place.row.path.clone(), dimension })
    }),
    // Older versions save neither a folder nor a configuration.
    ("Normalize", |place| {
        let of = match place.path.exists() && !place.is_implied() {
            true => read_fields(&place.path, |fields| read_normalize(fields, &place.path))?,
            false => place.usual,
        };
        Ok(Head::Normalize { of })
    }),
    ("MultiVectorMask", |place| match place.is_implied() {
        true => read_fields(&place.folder.join(MODEL_SETTINGS), |fields| Ok(mask::of_pylate(fields))),
        false => read_all(&place.path, mask::read),
    }),
    ("HierarchicalTokenPooling", |place| read_all(&place.path, token_pooling::read)),
    ("Dropout", |_| Ok(Head::Idle("Dropout"))),
];

impl Place<'_> {
    /// Whether modules.json does not list the module, which has no files then.
    fn is_implied(&self) -> bool {
        self.row.path.is_empty()
    }
}

/// A module after the first, whose config.json is `config`, in a model that gives `result`.
pub(in crate::model) fn read_head(
    folder: &Path,
    row: &Row,
    config: &Map<String, Value>,
    result: Feature,
) -> Result<Head> {
    let usual = if result == Feature::Tokens { Feature::Tokens } else { Feature::Sentence };
    let kind = if usual == Feature::Tokens && row.kind == DENSE_OF_PYLATE { "Dense" } else { row.kind.as_str() };
    let path = folder.join("modules.json");
    let Some((_, read)) = MODULES.iter().find(|(name, _)| *name == kind) else {
        return Err(unknown_module(&path, kind));
    };
    if usual != Feature::Tokens && OF_TOKENS.contains(&kind) {
        return Err(unsupported(&path, format!("module {kind}"), "a MultiVectorEncoder alone has it: take it out"));
    }
    read(&Place { folder, row, usual, path: folder.join(&row.path).join("config.json"), config })
}

/// Reads a configuration in which other keys are faults: the reference fails for them, and a misspelt one would be left out.
fn read_all<T>(path: &Path, read: impl FnOnce(&mut Fields<'_>) -> Result<T>) -> Result<T> {
    read_fields(path, |fields| {
        let found = read(fields)?;
        for key in fields.unread() {
            fields.fault(format!("the module has no setting {key}, nor has it in sentence-transformers"));
        }
        Ok(found)
    })
}

/// Columns of the tokens' vectors, under the key's current or its older name: nothing depends on them.
fn check_columns(fields: &mut Fields<'_>) {
    for key in ["embedding_dimension", "word_embedding_dimension"] {
        fields.optional_size(key, 1..=MOST_COLUMNS);
    }
}

fn read_weighted_layers(fields: &mut Fields<'_>, folder: &str) -> Head {
    check_columns(fields);
    let layers = fields.optional_size("num_hidden_layers", 1..=MOST_LAYERS).unwrap_or(12);
    let first = fields.optional_size("layer_start", 0..=MOST_LAYERS).unwrap_or(4);
    if first > layers {
        fields.fault(format!("layer_start is {first}, or is missing and then is 4, but num_hidden_layers is {layers}"));
    }
    Head::WeightedLayerPooling { path: folder.to_owned(), layers, first }
}

/// Whether the Transformer passes its hidden states on; the reference leaves the token vectors as they are if not.
fn hidden_states(config: &Map<String, Value>, module: &Path) -> Result<bool> {
    match config.get("output_hidden_states") {
        Some(Value::Bool(true)) => Ok(true),
        None | Some(Value::Null | Value::Bool(false)) => {
            log::warn!(
                target: "grilly",
                "{}: this WeightedLayerPooling has no effect, as in sentence-transformers, since the Transformer's config.json \
                 does not set output_hidden_states to true",
                module.display()
            );
            Ok(false)
        }
        Some(other) => {
            let what = format!("output_hidden_states {}", shown(other));
            Err(unsupported(Path::new("config.json"), what, "only true and false are known"))
        }
    }
}

fn read_pooling(fields: &mut Fields<'_>, path: &Path) -> Result<Head> {
    check_columns(fields);
    let include_prompt = fields.flag_or("include_prompt", true);
    // Beside the newer key the older ones count for nothing.
    for (_, key, _) in MODES {
        fields.get(key);
    }
    let mode = |name: &Value| {
        let found = MODES.iter().find(|(known, ..)| name.as_str() == Some(known)).map(|(.., mode)| *mode);
        let known = || format!("known are {}", MODES.map(|(known, ..)| known).join(", "));
        found.ok_or_else(|| unsupported(path, format!("pooling_mode {}", shown(name)), known()))
    };
    let modes: Vec<PoolMode> = match fields.get("pooling_mode") {
        Some(Value::Array(names)) => names.iter().map(mode).collect::<Result<_>>()?,
        Some(name) => vec![mode(name)?],
        None => {
            let set = MODES.iter().filter(|(_, key, _)| fields.flag_or(key, false)).map(|(.., mode)| *mode);
            let set: Vec<PoolMode> = set.collect();
            if set.is_empty() { vec![PoolMode::Mean] } else { set }
        }
    };
    if modes.is_empty() || modes.len() > MOST_MODES {
        fields.fault(format!("pooling_mode lists {} modes, expected 1 to {MOST_MODES}", modes.len()));
    }
    Ok(Head::Pooling { modes, include_prompt })
}

fn read_splade(fields: &mut Fields<'_>) -> Result<Head> {
    check_columns(fields);
    // A part of the work at a time.
    fields.get("chunk_size");
    let mode = fields.choice("pooling_strategy", "max", &SPLADE_MODES)?;
    let twice = fields.choice("activation_function", "relu", &SPLADE_FUNCTIONS)?;
    Ok(Head::SpladePooling(SpladePooling { mode, twice }))
}

fn read_dense(fields: &mut Fields<'_>, place: &Place<'_>) -> Result<Head> {
    let (path, folder) = (&place.path, &place.row.path);
    let input = fields.size("in_features", 1..=MOST_COLUMNS);
    let output = fields.size("out_features", 1..=MOST_COLUMNS);
    let bias = fields.flag_or("bias", true);
    let residual = fields.flag_or("use_residual", false);
    let activation = fields.text("activation_function").unwrap_or("torch.nn.modules.activation.Tanh");
    let [of, gives] = read_features(fields, path, place.usual)?;
    for key in ["init_weight", "init_bias"] {
        fields.get(key);
    }
    for key in fields.unread() {
        let file = path.display();
        log::warn!(target: "grilly", "{file}: a Dense has no setting {key}, which is left out, as in sentence-transformers");
    }
    let class = activation.strip_prefix("torch.nn.").and_then(|rest| rest.rsplit('.').next());
    let Some((_, kind)) = ACTIVATIONS.iter().find(|(known, _)| class == Some(known)) else {
        let known = ACTIVATIONS.map(|(known, _)| known).join(", ");
        let what = format!("activation_function {activation:?}");
        return Err(unsupported(path, what, format!("known are {known} of torch.nn")));
    };
    Ok(Head::Dense { path: folder.clone(), of, gives, input, output, bias, activation: *kind, residual })
}

/// What a Normalize module reads and replaces.
fn read_normalize(fields: &mut Fields<'_>, path: &Path) -> Result<Feature> {
    let [of, gives] = read_features(fields, path, Feature::Sentence)?;
    if of == gives {
        return Ok(of);
    }
    let reason = format!("{:?} is read, and only that can be replaced", of.name());
    Err(unsupported(path, format!("module_output_name {:?}", gives.name()), reason))
}

/// What a module reads, `usual` if it does not say, and what its result is.
fn read_features(fields: &mut Fields<'_>, path: &Path, usual: Feature) -> Result<[Feature; 2]> {
    let mut named = |key: &str, other: Feature| match fields.text(key) {
        None => Ok(other),
        Some(name) => Feature::ALL.into_iter().find(|feature| feature.name() == name).ok_or_else(|| {
            let known = Feature::ALL.map(|feature| format!("{:?}", feature.name())).join(", ");
            unsupported(path, format!("{key} {name:?}"), format!("known are {known}"))
        }),
    };
    let read = named("module_input_name", usual)?;
    let given = named("module_output_name", read)?;
    if given != read && [read, given] != [Feature::Sentence, Feature::Scores] {
        let what = format!("module_output_name {:?}", given.name());
        return Err(unsupported(path, what, format!("{:?} is read, and cannot become that", read.name())));
    }
    Ok([read, given])
}
