//! `grilly._core.EmbeddingModel`.

use std::borrow::Cow;

use pyo3::prelude::*;

use crate::attributes::Options;
use crate::error::PyResult;
use crate::outputs::{Callback, Encoded, Ids, Matrix, Product, Progress, matrices, product, reporting};
use crate::owned::Loaded;
use crate::text::{List, Location, Name, Texts};
use crate::tokenizer::Tokenizer;
use crate::{lock, text};
use grilly::embed::{ExportOptions, LoadOptions};
use grilly::export::Target;
use grilly::text::tokenizer::Tokens;
use grilly::{DecodeOptions, EncodeOptions};

/// A model that computes embeddings, or scores of pairs, ready on a device.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct EmbeddingModel(pub Loaded);

#[pymethods]
impl EmbeddingModel {
    /// Loads the model in `folder`; `options` are those of `grilly::embed::LoadOptions`.
    #[staticmethod]
    fn load(py: Python<'_>, folder: Location, options: Options<LoadOptions>) -> PyResult<Self> {
        let (folder, options) = (folder.0, options.0);
        let model = lock::without_waiting(py, move || grilly::Model::load(&folder, &options))?;
        Ok(EmbeddingModel(Loaded::from(model)))
    }

    /// The outputs of texts; `options` are those of `grilly::EncodeOptions`.
    ///
    /// `progress` is called with the number of texts done after each batch; an exception in it or a signal handler stops the run.
    #[pyo3(signature = (texts, options, progress=None))]
    fn encode(
        &self,
        py: Python<'_>,
        texts: Texts,
        options: Options<EncodeOptions>,
        progress: Callback,
    ) -> PyResult<Encoded> {
        let model = self.0.get()?;
        Ok(Encoded::new(py, reporting(py, progress, |progress| model.encode(&texts.0, &options.0, progress))?))
    }

    /// The outputs of pairs, each of a text and the text at the same place of `seconds`; otherwise as `encode`.
    #[pyo3(signature = (firsts, seconds, options, progress=None))]
    fn encode_pairs(
        &self,
        py: Python<'_>,
        firsts: List<'_, '_>,
        seconds: List<'_, '_>,
        options: Options<EncodeOptions>,
        progress: Callback,
    ) -> PyResult<Encoded> {
        let model = self.0.get()?;
        let pairs = text::pairs(firsts, seconds)?;
        Ok(Encoded::new(py, reporting(py, progress, |progress| model.encode_pairs(&pairs, &options.0, progress))?))
    }

    /// The outputs of rows as they are, given as their token ids and their segments; otherwise as `encode`.
    fn encode_rows(&self, py: Python<'_>, rows: [Ids; 2], options: Options<EncodeOptions>) -> PyResult<Encoded> {
        let [ids, segments] = rows;
        let model = self.0.get()?;
        let rows: Vec<_> = ids.into_iter().zip(segments).map(|(ids, segments)| Tokens::new(ids, segments)).collect();
        Ok(Encoded::new(py, reporting(py, None, |progress| model.encode_rows(&rows, &options.0, progress))?))
    }

    /// Token ids and segments of each pair, special tokens included, truncated to the limit.
    fn tokenize_pairs(&self, py: Python<'_>, firsts: List<'_, '_>, seconds: List<'_, '_>) -> PyResult<(Ids, Ids)> {
        let model = self.0.get()?;
        let pairs = text::pairs(firsts, seconds)?;
        let tokens = lock::without(py, || model.tokenize_pairs(&pairs))?;
        Ok(tokens.into_iter().map(|text| (text.ids, text.type_ids)).unzip())
    }

    /// The decoder's last hidden state of each pair, `[T, H]`; `options` are those of `grilly::DecodeOptions`, `progress` as in
    /// `encode`.
    #[pyo3(signature = (texts, decoder_texts, options, progress=None))]
    fn decode_states(
        &self,
        py: Python<'_>,
        texts: Texts,
        decoder_texts: List<'_, '_>,
        options: Options<DecodeOptions>,
        progress: Callback,
    ) -> PyResult<Vec<Matrix>> {
        let model = self.0.get()?;
        let decoder_texts = text::strings(decoder_texts, "decoder_texts")?;
        let work = |progress: Progress<'_>| model.decode_states(&texts.0, &decoder_texts, &options.0, progress);
        Ok(matrices(py, reporting(py, progress, work)?))
    }

    /// The decoder's plan as text, one line per step.
    #[getter]
    fn decoder_plan_text(&self, py: Python<'_>) -> PyResult<String> {
        let model = self.0.get()?;
        lock::without(py, || model.decoder_plan_text())
    }

    /// Token ids of each text, special tokens included, truncated to the limit.
    fn tokenize(&self, py: Python<'_>, texts: Texts) -> PyResult<Ids> {
        let model = self.0.get()?;
        lock::without(py, || model.tokenize(&texts.0))
    }

    /// Every product of integers: name, activation or None, whether x is rounded by its range, and arrays by name.
    fn integer_products(&self, py: Python<'_>, texts: Texts) -> PyResult<Vec<Product>> {
        let model = self.0.get()?;
        let found = lock::without(py, || model.integer_products(&texts.0))?;
        Ok(found.into_iter().map(|found| product(py, found)).collect())
    }

    /// Writes the encoder of texts without a task in another language, over files if `overwrite`; returns the files' names.
    fn export(
        &self,
        py: Python<'_>,
        target: Name,
        folder: Location,
        prompt: &Bound<'_, PyAny>,
        truncate_dim: Option<usize>,
        overwrite: bool,
    ) -> PyResult<Vec<String>> {
        let model = self.0.get()?;
        let target = Target::named(&target.0)?;
        let prompt = text::string(prompt, || "prompt".into())?;
        let options = ExportOptions { prompt: &prompt, truncate_dim, existing: overwrite.into() };
        lock::without(py, || model.export(target, &folder.0, &options))
    }

    /// The tokenizer, of the first of several routes.
    #[getter]
    fn tokenizer(slf: Py<Self>) -> Tokenizer {
        Tokenizer { model: slf }
    }

    /// The token with each id; None for an id that no token has.
    fn tokens_of(&self, py: Python<'_>, ids: Vec<u32>) -> PyResult<Vec<Option<String>>> {
        self.0.briefly(py, |model| ids.iter().map(|id| model.first().tokenizer().token(*id)).collect())
    }

    /// The number of leading tokens of `prompt` and a text of a task that belong to the prompt.
    #[pyo3(signature = (prompt, task=None))]
    fn prompt_length(&self, py: Python<'_>, prompt: &Bound<'_, PyAny>, task: Option<Name>) -> PyResult<usize> {
        let route = self.0.route(task.as_ref())?;
        let prompt = text::string(prompt, || "prompt".into())?;
        Ok(lock::briefly_without(py, || route.prompt_length(&prompt))?)
    }

    /// The type to which the weights are rounded, of the first of several routes.
    #[getter]
    fn dtype(&self) -> PyResult<Cow<'static, str>> {
        Ok(self.0.get()?.first().dtype().name())
    }

    /// What the model's numbers mean: `"run"` or `"everywhere-1"`.
    #[getter]
    fn numerics(&self) -> PyResult<&'static str> {
        Ok(self.0.get()?.first().numerics().name())
    }

    /// The type to which the weights for a task are rounded.
    #[pyo3(signature = (task=None))]
    fn dtype_for(&self, task: Option<Name>) -> PyResult<Cow<'static, str>> {
        Ok(self.0.route(task.as_ref())?.dtype().name())
    }

    /// Names of what the modules take beside the texts: `task`, and `modality` of a Router.
    #[getter]
    fn call_options(&self) -> PyResult<&'static [&'static str]> {
        Ok(self.0.get()?.call_options())
    }

    /// Whether the first module is a Router, so that texts may also come as dicts from their task's name.
    #[getter]
    fn starts_with_routes(&self) -> PyResult<bool> {
        Ok(self.0.get()?.starts_with_routes())
    }

    /// Token ids and segments of each text as it is encoded, for a task and with a prompt.
    #[pyo3(signature = (texts, task=None, prompt=Name::default()))]
    fn tokenize_with_segments(
        &self,
        py: Python<'_>,
        texts: Texts,
        task: Option<Name>,
        prompt: Name,
    ) -> PyResult<(Ids, Ids)> {
        let model = self.0.get()?;
        let task = task.as_ref().map(|task| task.0.as_str());
        let tokens = lock::without(py, || model.tokenize_with_segments(&texts.0, &prompt.0, task))?;
        Ok(tokens.into_iter().map(|text| (text.ids, text.type_ids)).unzip())
    }

    /// Of a task's tokenizer: the id of the padding token, if it has one, and the side on which it pads, `"right"` or
    /// `"left"`.
    #[pyo3(signature = (task=None))]
    fn padding(&self, task: Option<Name>) -> PyResult<(Option<u32>, &'static str)> {
        let tokenizer = self.0.route(task.as_ref())?.tokenizer();
        Ok((tokenizer.pad_id(), tokenizer.padding_side().name()))
    }

    /// The form of the messages that a task's texts become, `"flat"` or `"structured"`; None for texts as they are.
    #[pyo3(signature = (task=None))]
    fn messages(&self, task: Option<Name>) -> PyResult<Option<&'static str>> {
        Ok(self.0.route(task.as_ref())?.messages())
    }

    /// Whether a task's tokenizer passes segments to the model; if not, all are 0.
    #[pyo3(signature = (task=None))]
    fn gives_segments(&self, task: Option<Name>) -> PyResult<bool> {
        Ok(self.0.route(task.as_ref())?.tokenizer().gives_segments())
    }

    /// The backend that runs batches now: `"vulkan"` or `"cpu"`.
    #[getter]
    fn backend(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.0.briefly(py, |model| model.backend())?.name())
    }

    /// Name of that device, and the reason for its choice.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<(String, String)> {
        self.0.briefly(py, |model| model.device())
    }

    /// Columns of an embedding, or scores of a pair.
    #[getter]
    fn dimension(&self) -> PyResult<usize> {
        Ok(self.0.get()?.first().dimension())
    }

    /// Maximum tokens of a text.
    #[getter]
    fn max_seq_length(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.briefly(py, |model| model.max_seq_length())
    }

    /// Changes the limit; a value above the limit of the position table is reduced to it with a warning.
    fn set_max_seq_length(&self, py: Python<'_>, most: usize) -> PyResult<()> {
        self.0.briefly(py, |model| model.set_max_seq_length(most))
    }

    /// Changes whether a prompt's tokens are pooled.
    fn set_pooling_include_prompt(&self, py: Python<'_>, include: bool) -> PyResult<()> {
        self.0.briefly(py, |model| model.set_pooling_include_prompt(include))
    }

    /// `config.json` as text.
    #[getter]
    fn config_json(&self) -> PyResult<&str> {
        Ok(self.0.get()?.first().config_json())
    }

    /// `model_type` of config.json.
    #[getter]
    fn model_type(&self) -> PyResult<&str> {
        Ok(self.0.get()?.first().model_type())
    }

    /// What the folder configures: prompts as pairs of name and text, in its order, the name of the default one, the
    /// similarity, and each setting of the class; None for what it does not state.
    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::Value::Object(self.0.get()?.settings()).to_string();
        Ok(py.import("json")?.call_method1("loads", (text,))?)
    }

    /// Raises `UnusableError` for a closed model and after a fork.
    fn require_open(&self) -> PyResult<()> {
        Ok(self.0.get()?.require_open()?)
    }

    /// Names of the modules in order, each with one line of its settings.
    #[getter]
    fn modules(&self) -> PyResult<Vec<(String, String)>> {
        Ok(self.0.get()?.modules())
    }

    /// The modules in order with their settings, as a JSON list of objects.
    #[getter]
    fn module_settings(&self) -> PyResult<String> {
        Ok(serde_json::Value::Array(self.0.get()?.module_settings()).to_string())
    }

    /// The plan as text, one line per step.
    #[getter]
    fn plan_text(&self) -> PyResult<String> {
        Ok(self.0.get()?.plan_text())
    }

    /// Frees the device memory; later calls fail with `UnusableError`. In a forked process it only forgets the memory.
    fn close(&self, py: Python<'_>) {
        if let Ok(model) = self.0.get() {
            lock::briefly_without(py, || model.close());
        }
    }
}
