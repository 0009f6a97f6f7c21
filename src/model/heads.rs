//! The modules of `modules.json` after the encoder, read into data and added to the graph.

use std::path::Path;

use serde_json::Value;

use super::config::{read_fields, read_json};
use super::fields::{Fields, shown, unsupported};
use super::registry;
use super::routes::{Listing, Row};
use crate::ops::{ActivationKind, PoolMode};
use crate::{Error, Result};

/// One module after the Transformer.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Pools token vectors into one vector per text.
    Pooling {
        /// Concatenated in this order.
        modes: Vec<PoolMode>,
        /// Whether a prompt's tokens are pooled too.
        include_prompt: bool,
    },
    /// `act(W x + b)`; tensors `PATH/linear.weight` and `PATH/linear.bias`, where PATH is the module's folder.
    Dense {
        /// Folder of the module, relative to the model: prefix of the tensors' names.
        path: String,
        /// Input columns.
        input: usize,
        /// Output columns.
        output: usize,
        /// Whether there is a bias.
        bias: bool,
        /// Nonlinearity.
        activation: ActivationKind,
        /// Whether `x` is added to the result, multiplied by `PATH/residual.weight` where the columns differ.
        residual: bool,
    },
    /// Layer normalisation, eps 1e-5; tensors `PATH/norm.weight` and `PATH/norm.bias`.
    LayerNorm {
        /// Folder of the module, relative to the model.
        path: String,
        /// Columns.
        dimension: usize,
    },
    /// `x / max(||x||, 1e-12)`.
    Normalize,
}

/// The kind of the first module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// An encoder, as config.json describes it.
    Transformer,
    /// A table of token vectors, of which a text's are averaged.
    StaticEmbedding,
}

/// The modules of a model's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Modules {
    /// The kind of the first module.
    pub first: First,
    /// Folder of the first module, relative to the model (often empty).
    pub transformer: String,
    /// The class of the first module, if it is of the model's own code.
    pub own_class: Option<&'static str>,
    /// Whether the first module takes the task.
    pub takes_task: bool,
    /// The modules after it, without Dropout.
    pub heads: Vec<Head>,
}

impl Head {
    /// The mean of all tokens.
    fn mean() -> Self {
        Head::Pooling { modes: vec![PoolMode::Mean], include_prompt: true }
    }
}

impl Modules {
    /// Whether the task reaches the tokenizer, which may have a limit of its own for it.
    pub fn gives_task_to_tokenizer(&self) -> bool {
        self.first == First::Transformer && self.own_class.is_none()
    }

    /// Folders of the modules that have tensors of their own, for [`super::weights::Weights::open`].
    pub fn tensor_folders(&self) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for head in &self.heads {
            if let Head::Dense { path, .. } | Head::LayerNorm { path, .. } = head
                && !folders.contains(path)
            {
                folders.push(path.clone());
            }
        }
        folders
    }
}

/// Maximum columns of a Dense or LayerNorm module, far above any existing model.
const MOST_COLUMNS: usize = 1 << 20;
/// Maximum number of pooling modes of a module.
const MOST_MODES: usize = 32;
/// Names of the pooling modes, and of the booleans in older files, in the order in which the booleans concatenate.
const MODES: [(&str, &str, PoolMode); 6] = [
    ("cls", "pooling_mode_cls_token", PoolMode::Cls),
    ("max", "pooling_mode_max_tokens", PoolMode::Max),
    ("mean", "pooling_mode_mean_tokens", PoolMode::Mean),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", PoolMode::MeanSqrtLength),
    ("weightedmean", "pooling_mode_weightedmean_tokens", PoolMode::WeightedMean),
    ("lasttoken", "pooling_mode_lasttoken", PoolMode::LastToken),
];
const ACTIVATIONS: [(&str, ActivationKind); 6] = [
    ("Tanh", ActivationKind::Tanh),
    ("Identity", ActivationKind::Identity),
    ("ReLU", ActivationKind::Relu),
    ("GELU", ActivationKind::GeluErf),
    ("SiLU", ActivationKind::Silu),
    ("Sigmoid", ActivationKind::Sigmoid),
];

/// The modules of texts without a task, of all those that `modules.json` lists; pooling alone if there is no such file.
///
/// # Errors
/// As [`Listing::read`], [`Listing::choose`] and [`read_listed`].
pub fn read_modules(folder: &Path) -> Result<Modules> {
    match Listing::read(folder)? {
        Some(listing) => read_listed(folder, &listing.choose(None)?),
        None => read_bare(folder),
    }
}

/// The modules of a folder without `modules.json`: a Transformer and pooling.
///
/// # Errors
/// `ModelFormat` if it is no folder.
pub fn read_bare(folder: &Path) -> Result<Modules> {
    if !folder.is_dir() {
        return Err(Error::format(folder, "not a folder"));
    }
    let heads = vec![Head::Pooling { modes: vec![usual_pooling(folder)], include_prompt: true }];
    let (transformer, own_class) = (String::new(), None);
    Ok(Modules { first: First::Transformer, transformer, own_class, takes_task: false, heads })
}

/// Reads the configuration of each module of a list, which is not empty.
///
/// # Errors
/// `ModelFormat` for unreadable or invalid files; `Unsupported` for an unknown module or activation.
pub fn read_listed(folder: &Path, rows: &[Row]) -> Result<Modules> {
    let path = folder.join("modules.json");
    let Some((row, rest)) = rows.split_first() else {
        return Err(Error::format(&path, "lists no modules"));
    };
    let (first, mut heads, own_class) = match row.kind.as_str() {
        "Transformer" => (First::Transformer, Vec::new(), None),
        "StaticEmbedding" => (First::StaticEmbedding, vec![Head::mean()], None),
        // Which architecture it belongs to is known when config.json is read.
        class if registry::own_module(class).is_some() => (First::Transformer, Vec::new(), registry::own_module(class)),
        other => {
            let what = format!("the first module is {other}");
            return Err(unsupported(&path, what, "only a Transformer or a StaticEmbedding is known there"));
        }
    };
    for row in rest {
        heads.extend(read_head(folder, &path, row)?);
    }
    if !heads.iter().any(|head| matches!(head, Head::Pooling { .. })) {
        return Err(unsupported(&path, "no Pooling module", "a text needs one vector"));
    }
    Ok(Modules { first, transformer: row.path.clone(), own_class, takes_task: row.takes_task, heads })
}

/// Pooling of a bare transformer: of the last token after a causal language model, otherwise the mean. Loading reports
/// the faults of config.json.
fn usual_pooling(folder: &Path) -> PoolMode {
    let config = read_json(&folder.join("config.json")).unwrap_or_default();
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    match config.get("is_causal") != Some(&Value::Bool(false))
        && class.is_some_and(|class| class.ends_with("ForCausalLM"))
    {
        true => PoolMode::LastToken,
        false => PoolMode::Mean,
    }
}

/// The modules of sentence-transformers that are read, each with its modes or activations.
pub fn known_modules() -> [(&'static str, Vec<&'static str>); 8] {
    let activations = ACTIVATIONS.iter().map(|(name, _)| *name).collect();
    [
        ("Transformer", vec![]),
        ("StaticEmbedding", vec![]),
        ("Pooling", MODES.iter().map(|(name, ..)| *name).collect()),
        ("Dense", activations),
        ("LayerNorm", vec![]),
        ("Normalize", vec![]),
        ("Dropout", vec![]),
        ("Router", vec![]),
    ]
}

/// The error for a module of another class.
pub fn unknown_module(path: &Path, class: &str) -> Error {
    let known = known_modules().map(|(name, _)| name).join(", ");
    unsupported(path, format!("module {class}"), format!("known are {known} of sentence_transformers"))
}

/// A module after the Transformer; `None` for one without effect.
fn read_head(folder: &Path, listing: &Path, row: &Row) -> Result<Option<Head>> {
    let config = folder.join(&row.path).join("config.json");
    Ok(match row.kind.as_str() {
        "Pooling" => Some(read_fields(&config, |fields| read_pooling(fields, &config))?),
        "Dense" => Some(read_fields(&config, |fields| read_dense(fields, &config, &row.path))?),
        "LayerNorm" => {
            let dimension = read_fields(&config, |fields| Ok(fields.size("dimension", 1..=MOST_COLUMNS)))?;
            Some(Head::LayerNorm { path: row.path.clone(), dimension })
        }
        "Normalize" => {
            // Older versions save neither a folder nor a configuration.
            if config.exists() {
                read_fields(&config, |fields| check_features(fields, &config))?;
            }
            Some(Head::Normalize)
        }
        "Dropout" => None,
        other => return Err(unknown_module(listing, other)),
    })
}

fn read_pooling(fields: &mut Fields<'_>, path: &Path) -> Result<Head> {
    for key in ["embedding_dimension", "word_embedding_dimension"] {
        fields.optional_size(key, 1..=MOST_COLUMNS);
    }
    let include_prompt = fields.flag_or("include_prompt", true);
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

fn read_dense(fields: &mut Fields<'_>, path: &Path, folder: &str) -> Result<Head> {
    let input = fields.size("in_features", 1..=MOST_COLUMNS);
    let output = fields.size("out_features", 1..=MOST_COLUMNS);
    let bias = fields.flag_or("bias", true);
    let residual = fields.flag_or("use_residual", false);
    let activation = fields.text("activation_function").unwrap_or("torch.nn.modules.activation.Tanh");
    check_features(fields, path)?;
    let class = activation.strip_prefix("torch.nn.").and_then(|rest| rest.rsplit('.').next());
    let Some((_, kind)) = ACTIVATIONS.iter().find(|(known, _)| class == Some(known)) else {
        let known = ACTIVATIONS.map(|(known, _)| known).join(", ");
        let what = format!("activation_function {activation:?}");
        return Err(unsupported(path, what, format!("known are {known} of torch.nn")));
    };
    Ok(Head::Dense { path: folder.to_owned(), input, output, bias, activation: *kind, residual })
}

/// Rejects modules configured to read or write a feature other than the sentence's vector.
fn check_features(fields: &mut Fields<'_>, path: &Path) -> Result<()> {
    for key in ["module_input_name", "module_output_name"] {
        if let Some(name) = fields.text(key).filter(|name| *name != "sentence_embedding") {
            return Err(unsupported(path, format!("{key} {name:?}"), "only \"sentence_embedding\" is known"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
