//! Loading: from a folder to a model ready on a device.

use std::collections::HashSet;
use std::iter::once;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock, RwLock};

use serde_json::{Map, Value};

use super::stages::{Runner, Source, Stage};
use super::{EmbeddingModel, LoadOptions, integers};
use crate::backend::ProgramOptions;
use crate::dtype::DType;
use crate::model::arguments::Arguments;
use crate::model::config::{Messages, SentenceConfig};
use crate::model::dtype::{DTypeChoice, Sources};
use crate::model::encoder::After;
use crate::model::heads::{First, Head};
use crate::model::routes::{Listing, Row};
use crate::model::spec::{EncoderSpec, NameRules, PositionRows, Positions, Table};
use crate::model::weights::Weights;
use crate::model::{class, config, encoder, foreign, heads, registry, shaders};
use crate::settings::Settings;
use crate::text::chat::Chat;
use crate::text::tokenizer::{Side, Tokenizer};
use crate::{Error, Result};

impl EmbeddingModel {
    /// Loads the model in `folder`, and prepares it for texts without a task, or for its first route.
    ///
    /// # Errors
    /// `ModelFormat`, `Weights`, `Unsupported` for faults of the folder; `IndexOutOfRange` and `DeviceUnavailable` for
    /// the device; `InvalidArgument` for a default task that the model does not have.
    pub fn load(folder: &Path, options: &LoadOptions) -> Result<Self> {
        let threads = |count| rayon::ThreadPoolBuilder::new().num_threads(count).build().map(Arc::new);
        let threads = options.num_threads.map(threads).transpose();
        let mut loading = Loading {
            folder,
            options,
            settings: Settings::from_env()?,
            threads: threads.map_err(|e| Error::unsupported("num_threads", e.to_string()))?,
            runner: Arc::default(),
            places: 0,
        };
        let listing = class::read_listing(folder, options.class)?;
        let choices = listing.as_ref().map_or_else(|| Ok(vec![Vec::new()]), Listing::choices)?;
        let mut models = choices.into_iter().map(|rows| loading.model(rows)).collect::<Result<Vec<_>>>()?;
        if options.default_task.is_some() && models.iter().all(|model| model.spec.adapters.is_none()) {
            return Err(Error::unsupported("default_task", "the model has no adapters for tasks"));
        }
        let mut model = models.remove(0);
        (model.listing, model.others) = (listing, models);
        let (first, stage) = model.first_used();
        let runner = first.source.open(stage, &options.device, loading.places)?;
        *model.runner.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Arc::new(runner));
        Ok(model)
    }
}

/// What the models of all choices of modules share.
struct Loading<'a> {
    folder: &'a Path,
    options: &'a LoadOptions,
    settings: Settings,
    threads: Option<Arc<rayon::ThreadPool>>,
    runner: Arc<RwLock<Option<Arc<Runner>>>>,
    /// Number of stages so far.
    places: usize,
}

impl Loading<'_> {
    /// The place of another stage.
    fn place(&mut self) -> usize {
        self.places += 1;
        self.places - 1
    }

    /// The model of one choice of modules.
    fn model(&mut self, rows: Vec<Row>) -> Result<EmbeddingModel> {
        let (folder, options) = (self.folder, self.options);
        let transformer = folder.join(rows.first().map_or("", |row| &row.path));
        foreign::refuse(&transformer)?;
        let config_path = transformer.join("config.json");
        let stated = if rows.is_empty() { Arguments::default() } else { Arguments::of_folder(&transformer)? };
        let arguments = stated.and(&options.arguments);
        let found = arguments.configuration(&config_path);
        let absent = Map::new();
        let config = found.as_ref().unwrap_or(&absent);
        let mut modules = match rows.is_empty() {
            true => class::read_bare(folder, options.class, config)?,
            false => class::read_listed(folder, options.class, &rows, config)?,
        };
        if let (Some(chosen), First::Transformer) = (&options.pooling, modules.first) {
            modules.pool(chosen);
        }
        let mut sentence = config::read_sentence_config(folder, options.class, &modules, &arguments, config)?;
        let open = |rules: &NameRules| Weights::open(folder, &modules.transformer, &modules.tensor_folders(), rules);
        let mut head = None;
        let (config, model_type, mut spec, tokenizer, mut weights) = match modules.first {
            First::Transformer => {
                let config = found?;
                let model_type = registry::model_type(&config, &config_path)?.to_owned();
                let (mut spec, mut rules) = registry::read_spec(&model_type, &config, &config_path)?;
                if let Some(class) = modules.own_class
                    && spec.adapters.as_ref().is_none_or(|adapters| adapters.module != class)
                {
                    return Err(heads::unknown_module(&folder.join("modules.json"), class));
                }
                if let Some(task) = modules.task {
                    let read = registry::read_head(task, &model_type, &config, &config_path, &spec)?;
                    rules = rules.with_head(&read);
                    head = Some(read);
                }
                rules.torch_first = arguments.model.get("use_safetensors") == Some(&Value::Bool(false));
                let tokenizer = Tokenizer::with_arguments(&transformer, sentence.do_lower_case, &arguments.processor)?;
                let tokenizer = match sentence.processing.special_tokens {
                    true => tokenizer,
                    false => tokenizer.without_surroundings()?,
                };
                if arguments.processor.contains_key("padding_side") {
                    check_padding(&spec, &tokenizer)?;
                }
                let weights = open(&rules)?;
                spec.find_own_norms(|name| weights.shape(name).is_some());
                (config, model_type, spec, tokenizer, weights)
            }
            First::StaticEmbedding => {
                let weights = open(&NameRules::of_table())?;
                let (tokenizer, limit) = Tokenizer::plain(&transformer)?;
                sentence.max_seq_length = limit;
                (Map::new(), "StaticEmbedding".to_owned(), table(&weights)?, tokenizer, weights)
            }
        };
        if let Some(levels) = options.rounded_products
            && spec.round_products(levels) == 0
        {
            let reason =
                if spec.layers.is_empty() { "it has no layers" } else { "its products are in integers already" };
            return Err(Error::unsupported(format!("rounded products of {}", folder.display()), reason));
        }
        let settings_folder = modules.listed.then_some(transformer.as_path());
        let sources = Sources { settings: settings_folder, config: &config, path: &config_path, weights: &weights };
        let choice = options.dtype_choice().of_model(spec.integers);
        weights.rounded = sources.dtype(choice)?;
        if let Some(key) = options.class.in_float32
            && sentence.settings.get(key).and_then(Value::as_array).is_some_and(|names| !names.is_empty())
            && weights.rounded != DType::F32
        {
            let what = format!("{key} of {} in {}", folder.display(), weights.rounded.name());
            return Err(Error::unsupported(what, "a model has one type here: load it with dtype=\"float32\""));
        }
        let after = After { head: head.as_ref(), modules: &modules.heads, result: options.class.result };
        let build = |spec: &EncoderSpec| {
            encoder::build(spec, after, weights.rounded).map_err(|error| match error {
                Error::InvalidArgument(problem) => Error::ModelFormat { path: folder.join("modules.json"), problem },
                other => other,
            })
        };
        let tasks = spec.adapters.as_ref().map_or(0, |adapters| adapters.tasks.len());
        let adapted = (0..tasks).map(|place| build(&spec.with_adapter(place)));
        let built = once(build(&spec)).chain(adapted).collect::<Result<Vec<_>>>()?;
        // An adapter needs the weights themselves and its own.
        let needed = built.last().map_or_else(Vec::new, |built| encoder::needed(&built.graph));
        let of_decoder = |name: &str| spec.decoder.as_ref().is_some_and(|decoder| name.starts_with(&decoder.prefix));
        // What arguments leave out of the model of the file is not unexpected.
        let of_file: HashSet<String> = match arguments.config.is_empty() {
            true => HashSet::new(),
            false => {
                let own = config::read_json(&config_path)
                    .and_then(|config| registry::read_spec(&model_type, &config, &config_path));
                let built = own.and_then(|(own, _)| build(&own));
                let needed = built.map_or_else(|_| Vec::new(), |built| encoder::needed(&built.graph));
                needed.into_iter().map(|needed| needed.name).collect()
            }
        };
        let checked = weights.check(&needed, |name| !of_decoder(name) && !of_file.contains(name));
        let skipped = checked.map_err(|error| with_remedy(error, &weights, &model_type))?;
        if !skipped.is_empty() {
            let file = weights.path().display();
            log::info!(target: "grilly", "{file}: the model does not read {}", skipped.join(", "));
        }
        let weights = Arc::new(weights);
        let built = match choice {
            DTypeChoice::Integers => {
                let most = spec.positions.longest_text();
                let each = built.into_iter().map(|built| integers::in_integers(built, &weights, &tokenizer, most));
                each.collect::<Result<Vec<_>>>()?
            }
            _ => built,
        };
        let mut shaders = shaders::read();
        if let Some(products) = options.float32_products {
            Arc::make_mut(&mut shaders).float32_products = products;
        }
        let stages = built.into_iter().map(|built| Stage::new(self.place(), built, &model_type, &shaders));
        let encoders: Vec<Stage> = stages.collect();
        log::debug!(target: "grilly", "plan of {}:\n{}", folder.display(), encoders[0].plan);
        let limits = ProgramOptions { num_threads: options.num_threads, memory_limit: options.memory_limit };
        let source = Source {
            encoders,
            decoder: OnceLock::new(),
            decoder_place: self.place(),
            weights,
            options: limits,
            settings: self.settings.clone(),
        };
        let most = options.max_seq_length.or(sentence.max_seq_length).unwrap_or(spec.positions.longest_text());
        let chat = chat(&sentence, &tokenizer, &transformer)?;
        let include_prompt = modules.heads.iter().all(|h| !matches!(h, Head::Pooling { include_prompt: false, .. }));
        let model = EmbeddingModel {
            folder: folder.to_owned(),
            class: options.class,
            model_type,
            config_json: serde_json::Value::Object(config).to_string(),
            max_seq_length: AtomicUsize::new(clamp_length(most, &spec)),
            include_prompt: AtomicBool::new(include_prompt),
            default_task: options.default_task.clone().or_else(|| sentence.default_task.clone()),
            integers: choice == DTypeChoice::Integers,
            sentence,
            modules,
            rows,
            spec,
            head,
            tokenizer,
            chat,
            tokenizer_threads: self.threads.clone(),
            source,
            listing: None,
            others: Vec::new(),
            runner: self.runner.clone(),
            process: std::process::id(),
        };
        // A default task must be one of the tasks.
        model.adapter(None).map(|_| model)
    }
}

/// The chat template of which texts become messages.
fn chat(sentence: &SentenceConfig, tokenizer: &Tokenizer, transformer: &Path) -> Result<Option<Chat>> {
    let form = match sentence.messages {
        Messages::Never => return Ok(None),
        Messages::WithTemplate => None,
        Messages::Always(form) => form,
    };
    match tokenizer.chat_template() {
        Some(template) => Chat::new(template, tokenizer.roles(), &sentence.processing.template, form).map(Some),
        None if sentence.messages == Messages::WithTemplate => Ok(None),
        None => {
            let what = "modality_config has messages, but the tokenizer has no chat template";
            let reason = "put chat_template.jinja into the folder, or give processor_kwargs={\"chat_template\": ...}";
            Err(Error::unsupported(format!("{}: {what}", transformer.display()), reason))
        }
    }
}

/// Refuses padding at the start of texts where positions count it: the reference's numbers then depend on the batch.
fn check_padding(spec: &EncoderSpec, tokenizer: &Tokenizer) -> Result<()> {
    if tokenizer.padding_side() == Side::Right
        || !matches!(spec.positions, Positions::Learned { rows: PositionRows::Counted, .. })
    {
        return Ok(());
    }
    let reason = "the model counts positions from the start of a padded row, so that its numbers would depend on the other \
                  texts: leave it out, or pad on the right";
    Err(Error::unsupported("processor_kwargs['padding_side'] = \"left\"", reason))
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

/// The description of a table of token vectors. Under model2vec's name for it, a mapping of the tokens to its rows or a factor
/// of each would change them, as in sentence-transformers.
fn table(weights: &Weights) -> Result<EncoderSpec> {
    const NAME: &str = "embedding.weight";
    const CHANGES: [&str; 2] = ["mapping", "weights"];
    let of_model2vec = weights.stored_names().any(|name| name == "embeddings");
    if let Some(name) = CHANGES.into_iter().find(|name| of_model2vec && weights.shape(name).is_some()) {
        let problem = format!(
            "embeddings with {name} are not read: load the model with sentence-transformers and save it, which applies them"
        );
        return Err(Error::Weights { path: weights.path().to_owned(), problems: vec![problem] });
    }
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
