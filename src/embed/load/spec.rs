//! Step 2: the encoder as data, with its tokenizer and its opened checkpoint.

use serde_json::Value;

use super::read::Files;
use super::table;
use crate::graph::split;
use crate::model::heads::{self, Feature, First, Head};
use crate::model::spec::{EncoderSpec, NameRules, PositionRows};
use crate::model::stanford;
use crate::model::task_head::{HeadStep, TaskHead};
use crate::model::weights::Weights;
use crate::model::{registry, shaders};
use crate::ops::{Attention, PoolMode};
use crate::text::tokenizer::{Side, Tokenizer};
use crate::{Error, Result};

/// An encoder that files describe.
pub(super) struct Described {
    pub model_type: String,
    pub spec: EncoderSpec,
    pub head: Option<TaskHead>,
    pub tokenizer: Tokenizer,
    /// Not yet checked against the graph.
    pub weights: Weights,
    /// The limit of tokens that the files state.
    pub max_seq_length: Option<usize>,
}

/// Describes the encoder.
///
/// # Errors
/// `ModelFormat`, `Weights` and `Unsupported` for faults of the files.
pub(super) fn describe(files: &Files<'_>) -> Result<Described> {
    let mut described = match files.modules.first {
        First::Transformer => transformer(files)?,
        First::StaticEmbedding => table::describe(files)?,
    };
    if let Some(levels) = files.options.rounded_products
        && described.spec.round_products(levels) == 0
    {
        let reason = match described.spec.layers.is_empty() {
            true => "it has no layers",
            false => "its products are in integers already",
        };
        return Err(Error::unsupported(format!("rounded products of {}", files.folder.display()), reason));
    }
    Ok(described)
}

pub(super) fn open(files: &Files<'_>, rules: &NameRules) -> Result<Weights> {
    Weights::open(files.folder, &files.modules.transformer, &files.modules.tensor_folders(), rules)
}

fn transformer(files: &Files<'_>) -> Result<Described> {
    let Files { config, config_path, arguments, modules, sentence, .. } = files;
    let model_type = registry::model_type(config, config_path)?.to_owned();
    let (mut spec, mut rules) = registry::read_spec(&model_type, config, config_path)?;
    if let Some(class) = modules.own_class
        && spec.adapters.as_ref().is_none_or(|adapters| adapters.module != class)
    {
        return Err(heads::unknown_module(&files.folder.join("modules.json"), class));
    }
    let mut head = None;
    if let Some(task) = modules.task {
        let read = registry::read_head(task, &model_type, config, config_path, &spec)?;
        rules = rules.with_head(&read);
        spec.shared_beginning = may_share(&spec, &read, &modules.heads) && !is_taken_apart(&spec, &model_type);
        head = Some(read);
    }
    rules.aliases.extend(stanford::alias(&modules.heads).filter(|_| !modules.listed));
    rules.torch_first = arguments.model.get("use_safetensors") == Some(&Value::Bool(false));
    let tokenizer = Tokenizer::with_arguments(
        &files.transformer,
        sentence.do_lower_case,
        &arguments.processor,
        registry::tokenizer,
    )?;
    let tokenizer = match sentence.processing.special_tokens {
        true => tokenizer,
        false => tokenizer.without_surroundings()?,
    };
    let tokenizer = match sentence.markers.is_empty() {
        true => tokenizer,
        false => tokenizer.with_beginnings(&sentence.markers)?,
    };
    if !modules.listed {
        stanford::check_markers(files.folder, &sentence.markers, |token| tokenizer.id(token).is_some())?;
    }
    if arguments.processor.contains_key("padding_side") {
        check_padding(&spec, &tokenizer)?;
    }
    let weights = open(files, &rules)?;
    spec.adapt_to(|name| weights.shape(name).is_some());
    Ok(Described { model_type, spec, head, tokenizer, weights, max_seq_length: sentence.max_seq_length })
}

/// Whether the vectors of tokens depend on those before them alone, by attention, and only that of a text's last one is read.
fn may_share(spec: &EncoderSpec, head: &TaskHead, modules: &[Head]) -> bool {
    let longest = spec.positions.longest_text();
    let last = |step: &HeadStep| !matches!(step, HeadStep::Pool(mode) if *mode != PoolMode::LastToken);
    let of_scores =
        |module: &Head| matches!(module, Head::LogitScore(_) | Head::Idle(_) | Head::Dense { of: Feature::Scores, .. });
    spec.causal
        && spec.layers.iter().all(|layer| layer.short_convolution.is_none())
        && head.steps.first() == Some(&HeadStep::Pool(PoolMode::LastToken))
        && head.steps.iter().all(last)
        && modules.iter().all(of_scores)
        && spec.rotary.iter().all(|kind| kind.rows(longest).0 == PositionRows::Counted)
}

/// Whether a shader of the user is registered for a part of attention, which then has texts of one length alone.
fn is_taken_apart(spec: &EncoderSpec, model_type: &str) -> bool {
    let shaders = shaders::read();
    let window = spec.layers.iter().map(|layer| layer.window).max().unwrap_or_default();
    let bias = !spec.slopes.is_empty() || spec.relative_biases.is_some();
    let attention = Attention { causal: true, soft_cap: spec.score_cap, window, bias, ..Attention::default() };
    let mut parts = split::parts(&attention, model_type).into_iter();
    parts.any(|(op, operands)| shaders.in_place_of(&op, operands, model_type).is_some())
}

/// Refuses padding at the start of texts where positions count it: the reference's numbers then depend on the batch.
fn check_padding(spec: &EncoderSpec, tokenizer: &Tokenizer) -> Result<()> {
    if tokenizer.padding_side() == Side::Right || !spec.positions.count_padding() {
        return Ok(());
    }
    let reason = "the model counts positions from the start of a padded row, so that its numbers would depend on the other \
                  texts: leave it out, or pad on the right";
    Err(Error::unsupported("processor_kwargs['padding_side'] = \"left\"", reason))
}
