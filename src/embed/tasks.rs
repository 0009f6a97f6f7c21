//! What a task chooses: the modules of a route, and the weights with an adapter.

use std::iter::once;
use std::sync::atomic::Ordering::Relaxed;

use super::EmbeddingModel;
use super::load::clamp_length;
use super::stages::Stage;
use crate::dtype::DType;
use crate::graph::shaders::Float32Products;
use crate::model::routes::Listing;
use crate::{Error, Result};

impl EmbeddingModel {
    /// The models of all choices of modules, this one first.
    pub(super) fn all(&self) -> impl Iterator<Item = &EmbeddingModel> {
        once(self).chain(&self.others)
    }

    /// The model and the weights of texts without a task; of the first route if there is no default one.
    pub(super) fn first_used(&self) -> (&EmbeddingModel, &Stage) {
        self.chosen(None).unwrap_or((self, &self.source.encoders[0]))
    }

    /// The model of the modules that a task chooses, and the stage of the weights that it chooses.
    ///
    /// # Errors
    /// `InvalidArgument` for a task that chooses none, listing those that do.
    pub(super) fn chosen(&self, task: Option<&str>) -> Result<(&EmbeddingModel, &Stage)> {
        let model = self.for_task(task)?;
        Ok((model, &model.source.encoders[model.adapter(task)?]))
    }

    /// The model of the modules that a task chooses.
    ///
    /// # Errors
    /// `InvalidArgument` for a task without a route, listing those that have one.
    pub fn for_task(&self, task: Option<&str>) -> Result<&EmbeddingModel> {
        let Some(listing) = &self.listing else { return Ok(self) };
        let rows = listing.choose(task)?;
        let found = self.all().find(|model| model.rows == rows);
        found.ok_or_else(|| Error::InvalidArgument(format!("task {task:?} chooses modules that are not loaded")))
    }

    /// Place among the encoders of the weights for a task: as they are, or with its adapter.
    pub(super) fn adapter(&self, task: Option<&str>) -> Result<usize> {
        let Some(adapters) = &self.spec.adapters else { return Ok(0) };
        // A module that does not take the task has the model's default.
        let given = task.filter(|task| self.modules.takes_task && !task.is_empty());
        let Some(task) = given.or(self.default_task.as_deref()) else { return Ok(0) };
        let place = adapters.tasks.iter().position(|known| known == task);
        place.map(|place| 1 + place).ok_or_else(|| {
            let known = &adapters.tasks;
            Error::InvalidArgument(format!("task is {task:?}, expected one of {known:?}, or none for no adapter"))
        })
    }

    /// Names of what the modules take beside the texts: the task, and a Router the modality too.
    pub fn call_options(&self) -> &'static [&'static str] {
        let routes = self.listing.as_ref().is_some_and(Listing::has_routes);
        let adapters = self.modules.takes_task && self.spec.adapters.is_some();
        match (routes, adapters) {
            (true, _) => &["task", "modality"],
            (false, true) => &["task"],
            (false, false) => &[],
        }
    }

    /// Whether the first module is a Router.
    pub fn starts_with_routes(&self) -> bool {
        self.listing.as_ref().is_some_and(Listing::starts_with_routes)
    }

    /// Maximum tokens of a text, by the route with the highest limit.
    pub fn max_seq_length(&self) -> usize {
        self.all().map(|model| model.max_seq_length.load(Relaxed)).max().unwrap_or(0)
    }

    /// Changes the limit of all routes; a value above the limit of the position table is reduced to it with a warning.
    pub fn set_max_seq_length(&self, most: usize) {
        for model in self.all() {
            model.max_seq_length.store(clamp_length(most, &model.spec), Relaxed);
        }
    }

    /// Changes whether a prompt's tokens are pooled.
    pub fn set_pooling_include_prompt(&self, include: bool) {
        self.all().for_each(|model| model.include_prompt.store(include, Relaxed));
    }

    /// The plan for texts without a task as text, one line per step, how float32 products run, and which products of a model
    /// in integers are none.
    pub fn plan_text(&self) -> String {
        let (model, stage) = self.first_used();
        let runner = self.runner().ok();
        let products = runner.filter(|_| model.source.weights.rounded == DType::F32).map(|runner| {
            let able = runner.splits_float32();
            let (products, why) = match stage.plan.shaders.float32_products {
                Float32Products::Split if able => (Float32Products::Split, "on matrix cores"),
                Float32Products::Plain if able => (Float32Products::Plain, "as chosen"),
                _ => (Float32Products::Plain, "without matrix cores for float16"),
            };
            format!("float32 products: {}, {why}\n", products.name())
        });
        format!("{}{}{}", stage.plan, products.unwrap_or_default(), stage.plan.other_products(model.integers))
    }
}
