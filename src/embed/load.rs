//! Loading: from a folder to a model ready on a device.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock, RwLock};

use super::stages::{Part, Source, Stage};
use super::{EmbeddingModel, LoadOptions};
use serde_json::Map;

use crate::backend::ProgramOptions;
use crate::model::dtype::Sources;
use crate::model::heads::{First, Head};
use crate::model::spec::{EncoderSpec, NameRules, Table};
use crate::model::weights::Weights;
use crate::model::{config, encoder, heads, registry, shaders};
use crate::settings::Settings;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};

impl EmbeddingModel {
    /// Loads the model in `folder`.
    ///
    /// # Errors
    /// `ModelFormat`, `Weights`, `Unsupported` for faults of the folder; `IndexOutOfRange` and `DeviceUnavailable` for
    /// the device.
    pub fn load(folder: &Path, options: &LoadOptions) -> Result<Self> {
        let settings = Settings::from_env()?;
        let modules = heads::read_modules(folder)?;
        let transformer = folder.join(&modules.transformer);
        let config_path = transformer.join("config.json");
        let mut sentence = config::read_sentence_config(folder, &transformer)?;
        let open = |rules: &NameRules| Weights::open(folder, &modules.transformer, &modules.tensor_folders(), rules);
        let (config, model_type, spec, tokenizer, mut weights) = match modules.first {
            First::Transformer => {
                let config = config::read_json(&config_path)?;
                let model_type = registry::model_type(&config, &config_path)?.to_owned();
                let (spec, rules) = registry::read_spec(&model_type, &config, &config_path)?;
                (config, model_type, spec, Tokenizer::load(&transformer, sentence.do_lower_case)?, open(&rules)?)
            }
            First::StaticEmbedding => {
                let weights = open(&NameRules::of_table())?;
                let (tokenizer, limit) = Tokenizer::plain(&transformer)?;
                sentence.max_seq_length = limit;
                (Map::new(), "StaticEmbedding".to_owned(), table(&weights)?, tokenizer, weights)
            }
        };
        let settings_count = folder.join("modules.json").exists();
        let settings_folder = settings_count.then_some(transformer.as_path());
        let sources = Sources { settings: settings_folder, config: &config, path: &config_path, weights: &weights };
        let dtype = sources.dtype(options.dtype)?;
        let built = encoder::build(&spec, &modules.heads, dtype).map_err(|error| match error {
            Error::InvalidArgument(problem) => Error::ModelFormat { path: folder.join("modules.json"), problem },
            other => other,
        })?;
        weights.rounded = dtype;
        let of_decoder = |name: &str| spec.decoder.as_ref().is_some_and(|decoder| name.starts_with(&decoder.prefix));
        let checked = weights.check(&encoder::needed(&built.graph), |name| !of_decoder(name));
        checked.map_err(|error| with_remedy(error, &weights, &model_type))?;
        let encoder = Stage::new(Part::Encoder, built, &model_type, &shaders::read());
        log::debug!(target: "grilly", "plan of {}:\n{}", folder.display(), encoder.plan);
        let limits = ProgramOptions { num_threads: options.num_threads, memory_limit: options.memory_limit };
        let weights = Arc::new(weights);
        let source = Source { encoder, decoder: OnceLock::new(), weights, options: limits, settings };
        let runner = source.open(&options.device)?;
        let most = options.max_seq_length.or(sentence.max_seq_length).unwrap_or(spec.positions.longest_text());
        let include_prompt = modules.heads.iter().all(|h| !matches!(h, Head::Pooling { include_prompt: false, .. }));
        let threads = |count| rayon::ThreadPoolBuilder::new().num_threads(count).build();
        let tokenizer_threads = options.num_threads.map(threads).transpose();
        let tokenizer_threads = tokenizer_threads.map_err(|e| Error::unsupported("num_threads", e.to_string()))?;
        Ok(EmbeddingModel {
            folder: folder.to_owned(),
            model_type,
            config_json: serde_json::Value::Object(config).to_string(),
            sentence,
            modules,
            max_seq_length: AtomicUsize::new(clamp_length(most, &spec)),
            include_prompt: AtomicBool::new(include_prompt),
            spec,
            tokenizer,
            tokenizer_threads,
            source,
            runner: RwLock::new(Some(Arc::new(runner))),
            process: std::process::id(),
        })
    }
}

/// An error of the tensors, with the remedy.
pub(super) fn with_remedy(error: Error, weights: &Weights, model_type: &str) -> Error {
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

/// The description of a table of token vectors.
fn table(weights: &Weights) -> Result<EncoderSpec> {
    const NAME: &str = "embedding.weight";
    match weights.shape(NAME) {
        Some(&[rows, columns]) if columns > 0 => Ok(EncoderSpec::of_table(Table { name: NAME.into(), rows }, columns)),
        found => {
            let problem = format!("{NAME} or embeddings has shape {found:?}, expected [tokens, columns]");
            Err(Error::Weights { path: weights.path().to_owned(), problems: vec![problem] })
        }
    }
}

/// The token limit per text, reduced to what the model supports.
pub(super) fn clamp_length(most: usize, spec: &EncoderSpec) -> usize {
    let longest = spec.positions.longest_text();
    if most > longest {
        log::warn!(
            target: "grilly",
            "max_seq_length {most} is more than the model's {longest} positions; using {longest}"
        );
    }
    most.clamp(1, longest)
}
