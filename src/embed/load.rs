//! Loading, from a folder to a model ready on a device: its files are read, its encoder described and its checkpoint opened,
//! the type chosen, the graphs built and checked against the checkpoint, and planned as stages.

mod expanding;
mod graph;
mod read;
mod scored_words;
mod spec;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock, RwLock};

use serde_json::Value;

use super::route::clamp_length;
use super::scored::Mask;
use super::stages::{Source, Stage};
use super::{LoadOptions, Model, Route, trial};
use crate::backend::ProgramOptions;
use crate::backend::choose::AUTO;
use crate::model::config::{Messages, SentenceConfig};
use crate::model::dtype::DTypeChoice;
use crate::model::encoder::Built;
use crate::model::heads::Head;
use crate::model::routes::{Listing, Row};
use crate::model::weights::Weights;
use crate::model::{class, shaders};
use crate::settings::Settings;
use crate::text::chat::Chat;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};
pub(super) use graph::with_remedy;
use read::Files;
use spec::Described;

impl Model {
    /// Loads the model in `folder`, and prepares it for texts without a task, or for its first route.
    ///
    /// # Errors
    /// `ModelFormat`, `Weights`, `Unsupported` for faults of the folder; `IndexOutOfRange` and `DeviceUnavailable` for
    /// the device; `InvalidArgument` for a default task that the model does not have.
    pub fn load(folder: &Path, options: &LoadOptions) -> Result<Self> {
        let threads = |count| rayon::ThreadPoolBuilder::new().num_threads(count).build().map(Arc::new);
        let threads = options.num_threads.map(threads).transpose();
        let mut stages = Stages {
            settings: Settings::from_env()?,
            threads: threads.map_err(|e| Error::unsupported("num_threads", e.to_string()))?,
            places: 0,
            automatic: Vec::new(),
        };
        let numerics = options.numerics.or(Some(shaders::read().numerics));
        let options = &LoadOptions { numerics, ..options.clone() };
        let listing = class::read_listing(folder, options.class)?;
        let choices = listing.as_ref().map_or_else(|| Ok(vec![Vec::new()]), Listing::choices)?;
        let routes = choices.into_iter().map(|rows| route(folder, options, rows, &mut stages));
        let routes = routes.collect::<Result<Vec<_>>>()?;
        if options.default_task.is_some() && routes.iter().all(|route| route.spec.adapters.is_none()) {
            return Err(Error::unsupported("default_task", "the model has no adapters for tasks"));
        }
        let (runner, process) = (RwLock::default(), std::process::id());
        let mut model = Model { class: options.class, listing, routes, runner, process };
        let route = model.usual();
        let graph = model.routes.iter().zip(&stages.automatic).find(|(own, _)| std::ptr::eq(*own, route));
        let decide = |choices| match graph {
            Some((_, built)) => trial::decide(choices, route, built, options),
            None => Ok(choices),
        };
        let runner = route.source.open(route.stage(None)?, options, stages.places, decide)?;
        model.runner = RwLock::new(Some(Arc::new(runner)));
        Ok(model)
    }
}

/// One choice of modules, step by step.
fn route(folder: &Path, options: &LoadOptions, rows: Vec<Row>, stages: &mut Stages) -> Result<Route> {
    let mut files = Files::read(folder, options, rows)?;
    let mut described = spec::describe(&files)?;
    scored_words::resolve(&mut files, &described)?;
    let choice = graph::choose_type(&files, &mut described)?;
    let built = graph::build(&files, &described)?;
    stages.route(files, described, built, choice)
}

/// What the stages of all routes share.
struct Stages {
    settings: Settings,
    threads: Option<Arc<rayon::ThreadPool>>,
    /// Number of stages so far.
    places: usize,
    /// Under `"auto"`, of each route the graph with the weights as they are; else none.
    automatic: Vec<Built>,
}

impl Stages {
    /// The place of another stage.
    fn place(&mut self) -> usize {
        self.places += 1;
        self.places - 1
    }

    /// Plans the graphs.
    fn route(
        &mut self,
        files: Files<'_>,
        described: Described,
        built: Vec<Built>,
        choice: DTypeChoice,
    ) -> Result<Route> {
        let filler = expanding::filler(&files, &described)?;
        let Files { folder, options, rows, modules, transformer, config, sentence, .. } = files;
        let Described { model_type, spec, head, tokenizer, weights, max_seq_length } = described;
        let weights: Arc<Weights> = Arc::new(weights);
        let chosen = (choice == DTypeChoice::Integers).then(|| options.numerics.unwrap_or_default());
        let built = graph::in_integers(built, chosen, &spec, &tokenizer, &weights)?;
        let mut shaders = shaders::read();
        if let Some(products) = options.float32_products {
            Arc::make_mut(&mut shaders).float32_products = products;
        }
        if let Some(numerics) = options.numerics {
            Arc::make_mut(&mut shaders).numerics = numerics;
        }
        if options.device == AUTO {
            self.automatic.extend(built.first().cloned());
        }
        let stages = built.into_iter().map(|built| Stage::new(self.place(), built, &model_type, &shaders));
        let encoders: Vec<Stage> = stages.collect::<Result<_>>()?;
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
        let most = options.max_seq_length.or(max_seq_length).unwrap_or(spec.positions.longest_text());
        let chat = chat(&sentence, &tokenizer, &transformer)?;
        let masks = Mask::all(&modules, &tokenizer);
        let include_prompt = modules.heads.iter().all(|h| !matches!(h, Head::Pooling { include_prompt: false, .. }));
        let route = Route {
            folder: folder.to_owned(),
            model_type,
            config_json: Value::Object(config).to_string(),
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
            filler,
            masks,
            tokenizer_threads: self.threads.clone(),
            source,
        };
        // A default task must be one of the tasks.
        route.stage(None)?;
        Ok(route)
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
