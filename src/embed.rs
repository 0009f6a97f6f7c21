//! The complete path from texts to embeddings.

mod decode;
mod described;
mod encode;
mod expansion;
#[cfg(feature = "vulkan")]
mod export;
mod feed;
mod integers;
mod load;
mod options;
mod parts;
mod route;
mod scored;
mod session;
mod stages;
mod tokens;
mod trial;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use ndarray::Array2;
use serde_json::{Map, Value, json};

use crate::backend::BackendKind;
use crate::model::class::Class;
use crate::model::config::SentenceConfig;
use crate::model::routes::Listing;
use crate::{Error, Result};
#[cfg(feature = "vulkan")]
pub use export::ExportOptions;
pub use integers::IntegerProduct;
pub use options::{DecodeOptions, EncodeOptions, LoadOptions, read_options};
pub use route::Route;
use route::clamp_length;
use stages::Runner;

/// The result of [`Model::encode`] and [`Model::encode_pairs`], in the order of the texts.
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    /// One row per text or pair, as computed by the model's modules (normalised only if the model has such a module); without
    /// columns where the tokens' vectors are the model's result.
    pub texts: Array2<f32>,
    /// The token vectors of each text, `[tokens, columns]`; empty unless [`EncodeOptions::tokens`] is set.
    pub tokens: Vec<Array2<f32>>,
    /// Token ids of each text; empty unless [`EncodeOptions::tokens`] is set.
    pub ids: Vec<Vec<u32>>,
    /// Of each text, which token vectors are scored; empty unless they are the model's result.
    pub scored: Vec<Vec<bool>>,
}

/// A model that computes embeddings, or scores of pairs, ready on a device.
///
/// Texts take one of its routes, which their task chooses where the model has several. What a call says of no task is of the
/// first. The weights of a task take memory on the device when they are first used, those for texts without a task at loading.
///
/// ```no_run
/// use grilly::{EncodeOptions, Model};
/// let model = Model::load("all-MiniLM-L6-v2".as_ref(), &Default::default())?;
/// let encoded = model.encode(&["A text.".to_owned()], &EncodeOptions::default(), &mut |_| Ok(()))?;
/// assert_eq!(encoded.texts.dim(), (1, model.first().dimension()));
/// # Ok::<(), grilly::Error>(())
/// ```
pub struct Model {
    class: &'static Class,
    /// What tasks choose from; `None` without `modules.json`.
    listing: Option<Listing>,
    /// What they choose; not empty.
    routes: Vec<Route>,
    /// Of all routes; `None` once closed.
    runner: RwLock<Option<Arc<Runner>>>,
    /// The process that loaded the model: device and threads do not survive a fork.
    process: u32,
}

impl Model {
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(Error::Unusable(
            "the model was loaded before a fork; load it inside the function that workers run, or start them with \"spawn\"".into(),
        ))
    }

    fn runner(&self) -> Result<Arc<Runner>> {
        self.check_process()?;
        let runner = self.runner.read().unwrap_or_else(PoisonError::into_inner);
        runner.clone().ok_or_else(|| Error::Unusable("the model is closed".into()))
    }

    /// The first route.
    pub fn first(&self) -> &Route {
        &self.routes[0]
    }

    /// The route that a task chooses.
    ///
    /// # Errors
    /// `InvalidArgument` for a task without a route, listing those that have one.
    pub fn route(&self, task: Option<&str>) -> Result<&Route> {
        let Some(listing) = &self.listing else { return Ok(self.first()) };
        let rows = listing.choose(task)?;
        let found = self.routes.iter().find(|route| route.rows == rows);
        found.ok_or_else(|| Error::InvalidArgument(format!("task {task:?} chooses modules that are not loaded")))
    }

    /// The route of texts without a task; the first if there is no default one.
    pub fn usual(&self) -> &Route {
        self.route(None).unwrap_or(self.first())
    }

    /// Names of what the modules take beside the texts: the task, and a Router the modality too.
    pub fn call_options(&self) -> &'static [&'static str] {
        match self.listing.as_ref().is_some_and(Listing::has_routes) {
            true => &["task", "modality"],
            false if self.first().chooses_adapters() => &["task"],
            false => &[],
        }
    }

    /// Whether the first module is a Router.
    pub fn starts_with_routes(&self) -> bool {
        self.listing.as_ref().is_some_and(Listing::starts_with_routes)
    }

    /// Maximum tokens of a text, by the route with the highest limit.
    pub fn max_seq_length(&self) -> usize {
        self.routes.iter().map(Route::max_seq_length).max().unwrap_or(0)
    }

    /// Changes the limit of all routes; a value above the limit of the position table is reduced to it with a warning.
    pub fn set_max_seq_length(&self, most: usize) {
        for route in &self.routes {
            route.max_seq_length.store(clamp_length(most, &route.spec), Relaxed);
        }
    }

    /// Changes whether a prompt's tokens are pooled.
    pub fn set_pooling_include_prompt(&self, include: bool) {
        self.routes.iter().for_each(|route| route.include_prompt.store(include, Relaxed));
    }

    /// The backend that runs batches now; it changes to the CPU after a device fault.
    pub fn backend(&self) -> BackendKind {
        self.runner().map_or(BackendKind::Cpu, |runner| runner.kind)
    }

    /// Name of that device, and the reason for its choice.
    pub fn device(&self) -> (String, String) {
        self.runner().map_or_else(
            |error| ("none".to_owned(), error.to_string()),
            |runner| (runner.device.clone(), runner.reason.clone()),
        )
    }

    /// The model's folder.
    pub fn folder(&self) -> &Path {
        &self.first().folder
    }

    /// What the folder configures: prompts as pairs of name and text, in its order, the name of the default one, the similarity,
    /// and each setting of the class; null for what it does not state.
    pub fn settings(&self) -> Map<String, Value> {
        let SentenceConfig { prompts, default_prompt_name, similarity_fn_name, settings, .. } = &self.first().sentence;
        let common = [
            ("prompts", json!(prompts)),
            ("default_prompt_name", json!(default_prompt_name)),
            ("similarity_fn_name", json!(similarity_fn_name)),
        ];
        let own = self.class.settings.iter().map(|(key, _)| (*key, json!(settings.get(*key))));
        common.into_iter().chain(own).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Checks that the model can be used.
    ///
    /// # Errors
    /// `Unusable` after `close` or a fork.
    pub fn require_open(&self) -> Result<()> {
        self.runner().map(drop)
    }

    /// Frees the device memory; later calls fail with `Unusable`.
    pub fn close(&self) {
        *self.runner.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
