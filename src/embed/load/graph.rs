//! Steps 3 and 4: the type of the weights, and the graphs that they fit.

use std::collections::HashSet;
use std::iter::once;
use std::sync::Arc;

use serde_json::Value;

use super::read::Files;
use super::spec::Described;
use super::table;
use crate::dtype::DType;
use crate::embed::integers;
use crate::model::dtype::{DTypeChoice, Sources};
use crate::model::encoder::{self, After, Built};
use crate::model::spec::EncoderSpec;
use crate::model::weights::Weights;
use crate::model::{config, registry};
use crate::numerics::Numerics;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};

/// How the type is chosen; sets the one to which the weights are rounded.
///
/// # Errors
/// As [`Sources::dtype`]; `Unsupported` where the class' modules, or numbers that are the same everywhere, must be in float32.
pub(super) fn choose_type(files: &Files<'_>, described: &mut Described) -> Result<DTypeChoice> {
    let Files { folder, options, config, config_path, sentence, .. } = files;
    let settings = files.modules.listed.then_some(files.transformer.as_path());
    let choice = options.dtype_choice().of_model(described.spec.integers);
    let everywhere = options.numerics == Some(Numerics::Everywhere);
    let dtype = match choice {
        DTypeChoice::Integers if everywhere => DType::F32,
        choice => Sources { settings, config, path: config_path, weights: &described.weights }.dtype(choice)?,
    };
    if let Some(key) = options.class.in_float32
        && sentence.settings.get(key).and_then(Value::as_array).is_some_and(|names| !names.is_empty())
        && dtype != DType::F32
    {
        let what = format!("{key} of {} in {}", folder.display(), dtype.name());
        return Err(Error::unsupported(what, "a model has one type here: load it with dtype=\"float32\""));
    }
    if everywhere && dtype.is_narrow() {
        let reason = format!("{} must compute in float32: load it with dtype=\"float32\"", folder.display());
        return Err(Numerics::refused(&format!("dtype=\"{}\"", dtype.name()), &reason));
    }
    described.weights.rounded = dtype;
    Ok(choice)
}

/// The graphs with the weights as they are, then with each adapter; checks that the checkpoint has what they read.
///
/// # Errors
/// `ModelFormat` for modules that do not fit each other; `Weights` for tensors that are missing, unexpected or of other shapes.
pub(super) fn build(files: &Files<'_>, described: &Described) -> Result<Vec<Built>> {
    let spec = &described.spec;
    let graph = |spec: &EncoderSpec| graph(files, described, spec);
    let tasks = spec.adapters.as_ref().map_or(0, |adapters| adapters.tasks.len());
    let adapted = (0..tasks).map(|place| graph(&spec.with_adapter(place)));
    let unseen = files.sentence.expansion.as_ref().filter(|expansion| !expansion.seen);
    let expanded = unseen.map(|_| graph(&spec.with_unseen_expansion()));
    let built = once(graph(spec)).chain(adapted).chain(expanded).collect::<Result<Vec<_>>>()?;
    // An adapter needs the weights themselves and its own.
    let needed = built.last().map_or_else(Vec::new, |built| encoder::needed(&built.graph));
    let of_decoder = |name: &str| spec.decoder.as_ref().is_some_and(|decoder| name.starts_with(&decoder.prefix));
    // What arguments leave out of the model of the file is not unexpected.
    let of_file: HashSet<String> = match files.arguments.config.is_empty() {
        true => HashSet::new(),
        false => {
            let own = config::read_json(&files.config_path)
                .and_then(|config| registry::read_spec(&described.model_type, &config, &files.config_path));
            let built = own.and_then(|(own, _)| graph(&own));
            let needed = built.map_or_else(|_| Vec::new(), |built| encoder::needed(&built.graph));
            needed.into_iter().map(|needed| needed.name).collect()
        }
    };
    let weights = &described.weights;
    let of_table = |name: &str| spec.made.is_some() && (name == spec.words.name || table::BESIDE.contains(&name));
    let checked = weights.check(&needed, |name| !of_decoder(name) && !of_file.contains(name) && !of_table(name));
    let skipped = checked.map_err(|error| with_remedy(error, weights, &described.model_type))?;
    if !skipped.is_empty() {
        let file = weights.path().display();
        log::info!(target: "grilly", "{file}: the model does not read {}", skipped.join(", "));
    }
    Ok(built)
}

/// The graph of an encoder, its head and its modules.
fn graph(files: &Files<'_>, described: &Described, spec: &EncoderSpec) -> Result<Built> {
    let result = files.options.class.result;
    let after = After { head: described.head.as_ref(), modules: &files.modules.heads, result };
    encoder::build(spec, after, described.weights.rounded).map_err(|error| match error {
        Error::InvalidArgument(problem) => Error::ModelFormat { path: files.folder.join("modules.json"), problem },
        other => other,
    })
}

/// The graphs with their products of tokens and weights in integers, if that was chosen, by numbers of this meaning.
///
/// # Errors
/// As [`integers::in_integers`].
pub(super) fn in_integers(
    built: Vec<Built>,
    chosen: Option<Numerics>,
    spec: &EncoderSpec,
    tokenizer: &Tokenizer,
    weights: &Arc<Weights>,
) -> Result<Vec<Built>> {
    let Some(numerics) = chosen else { return Ok(built) };
    let of = (tokenizer, spec.positions.longest_text());
    built.into_iter().map(|built| integers::in_integers(built, weights, of, numerics)).collect()
}

/// An error of the tensors, with the remedy.
pub(in crate::embed) fn with_remedy(error: Error, weights: &Weights, model_type: &str) -> Error {
    let Error::Weights { path, mut problems } = error else { return error };
    match registry::other_architecture(weights.stored_names(), model_type) {
        Some(other) => problems.insert(0, other),
        None => problems.push(format!(
            "config.json describes a {model_type} model with other tensors: fetch the folder anew, or save the model \
             again with `save_pretrained`"
        )),
    }
    Error::Weights { path, problems }
}
