//! The choice of `"auto"` between a GPU inside the processor and the processor itself, by the times of a model's own first
//! layers on both.
//!
//! Of its own, because times depend on its ops, type and numerics; the first layers, because few of them tell as much as all, take
//! a fraction of a second, and need little memory beside the model's.

use super::session::Work;
use super::stages::{Stage, prepare};
use super::{Encoded, LoadOptions, Route};
use crate::backend::faster::{Known, Subject, Times, When};
use crate::backend::{Backend, Choice, cpu};
use crate::model::encoder::{self, Built};
use crate::ops::Counts;
use crate::process::processor;
use crate::text::packing::Batch;
use crate::text::tokenizer::Tokens;
use crate::{Error, Result};

/// Tokens of a text, and texts of a batch, at most.
const TOKENS: usize = 64;
const TEXTS: usize = 16;
/// Texts of a batch of a model whose layers are large.
const FEW_TEXTS: usize = 4;
/// Operations of a batch that are enough to tell: a layer at least, whatever it takes.
const WORK: u64 = 8_000_000_000;

/// A batch through the first layers.
struct Trial {
    stage: Stage,
    tokens: Vec<Tokens>,
    layers: usize,
}

impl Trial {
    /// A batch for the model of `route`, whose graph is `built`.
    fn new(route: &Route, built: &Built) -> Result<Self> {
        let most = built.states.len() - 1;
        let stage = |layers| {
            let first = encoder::first_layers(built, &route.spec, layers)?;
            Stage::new(0, first, &route.model_type, &route.source.encoders[0].plan.shaders)
        };
        let one = stage(most.min(1))?;
        let length = TOKENS.min(route.spec.positions.longest_text()).max(1);
        let work = one.plan.flops(Counts::new(length, 1)).max(1);
        let texts = ((WORK / work) as usize).clamp(FEW_TEXTS, TEXTS);
        let layers = ((WORK / (work * texts as u64)) as usize).clamp(1, most.max(1)).min(most);
        let words = route.spec.words.rows.max(1);
        // Ids all over the vocabulary.
        let text = |text| {
            let ids = (0..length).map(|place| ((text * length + place) * 7919 % words) as u32).collect();
            Tokens::new(ids, vec![0; length])
        };
        let stage = if layers > 1 { stage(layers)? } else { one };
        Ok(Trial { stage, tokens: (0..texts).map(text).collect(), layers })
    }

    /// Times of the batch, or of so many texts of it as both take at once.
    fn times(&self, route: &Route, gpu: &dyn Backend) -> Result<Times> {
        let on = |backend: &dyn Backend| prepare(backend, &self.stage, &route.source.weights, route.source.options);
        let (gpu, cpu) = (on(gpu)?, on(&*cpu::backend())?);
        let length = self.tokens[0].ids.len();
        let fitting = gpu.limits().tokens.min(cpu.limits().tokens) / length;
        let texts = self.tokens.len().min(fitting.max(1));
        let batch = Batch { texts: (0..texts).collect(), tokens: texts * length, shared: 0 };
        let work = Work { tokens: self.tokens.clone(), ..Work::new(&self.stage, texts, Encoded::default()) };
        let run = |program| work.start(program, &batch)?.read(&mut |_, _| Ok(()));
        Times::measure(|| run(&*gpu), || run(&*cpu))
    }
}

/// The CPU in place of an integrated GPU that is slower for the model of `route`, whose graph is `built`; another choice as it is,
/// and a GPU that was named by `VK_GPU_INDEX`.
///
/// # Errors
/// `Interrupted`. After another error the choice stays, and loading meets it again.
pub(super) fn decide(choices: Vec<Choice>, route: &Route, built: &Built, options: &LoadOptions) -> Result<Vec<Choice>> {
    let [Choice { backend: gpu, reason }] = &choices[..] else { return Ok(choices) };
    if !gpu.integrated() || route.source.settings.gpu_index.is_some() {
        return Ok(choices);
    }
    let subject = Subject {
        version: env!("CARGO_PKG_VERSION").into(),
        device: gpu.device_name().into(),
        driver: gpu.driver().into(),
        processor: processor::name(),
        threads: options.num_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        hidden: route.spec.hidden,
        layers: route.spec.layers.len(),
        intermediate: route.spec.intermediate,
        dtype: route.dtype().name().into(),
        numerics: route.numerics().name().into(),
    };
    let measure = || {
        let trial = Trial::new(route, built)?;
        let times = trial.times(route, &**gpu)?;
        let (texts, layers, all) = (trial.tokens.len(), trial.layers, subject.layers);
        log::debug!(target: "grilly", "measured: {texts} texts, {layers} of {all} layers, {times:?}");
        Ok(times)
    };
    let (times, when) = match Known::of_user().times(&subject, measure) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            log::info!(target: "grilly", "device=\"auto\": {} stays, as nothing was measured: {error}", gpu.device_name());
            return Ok(choices);
        }
        Ok(found) => found,
    };
    let [on_gpu, on_cpu] = [times.gpu, times.cpu].map(|seconds| format!("{:.2} ms", 1e3 * seconds));
    let when = match when {
        When::Now => "measured now",
        When::Earlier => "measured earlier",
    };
    let choice = match times.cpu_is_faster() {
        true => Choice {
            backend: cpu::backend(),
            reason: format!(
                "the CPU is faster for a model of this size than {}, an integrated GPU: {on_cpu} beside {on_gpu}, {when}",
                gpu.device_name()
            ),
        },
        false => Choice {
            backend: gpu.clone(),
            reason: format!("{reason}, faster than the CPU for a model of this size: {on_gpu} beside {on_cpu}, {when}"),
        },
    };
    log::info!(target: "grilly", "device=\"auto\" means {}: {}", choice.backend.device_name(), choice.reason);
    Ok(vec![choice])
}
