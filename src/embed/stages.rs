//! What a model runs, one plan per stage, and the device that runs all of them.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::LoadOptions;
use crate::array::ByLength;
use crate::backend::choose;
use crate::backend::several::{Member, Several};
#[cfg(feature = "vulkan")]
use crate::backend::vulkan;
use crate::backend::{Backend, BackendKind, Choice, Executable, ProgramOptions, cpu};
use crate::graph::Plan;
use crate::graph::fuse::Fusion;
use crate::graph::shaders::Registry;
use crate::model::encoder::{Built, Input, outputs};
use crate::model::weights::Weights;
use crate::numerics::Numerics;
use crate::ops::Op;
use crate::settings::Settings;
use crate::stats::COUNTERS;
use crate::{Error, Result};

/// A part of a model with a plan of its own: an encoder, the same with other weights, or a decoder.
pub(super) struct Stage {
    /// Its place among the programs of a runner.
    place: usize,
    pub plan: Arc<Plan>,
    /// The contents of the plan's inputs.
    pub inputs: Vec<Input>,
}

impl Stage {
    /// Plans a graph; ops for which users registered shaders under `model_type` stay unfused.
    pub fn new(place: usize, built: Built, model_type: &str, shaders: &Arc<Registry>) -> Result<Self> {
        let unfused = |op: &Op, operands: usize| {
            let (name, row) = shaders.in_place_of(op, operands, model_type)?;
            Some(format!("a shader of the user is registered for {name}, {model_type}: {}", row.file))
        };
        let fusion = Fusion { architecture: model_type, shaders, apart: &unfused, numerics: shaders.numerics };
        let plan = Plan::with(built.graph, &fusion)?;
        Ok(Stage { place, plan: Arc::new(plan), inputs: built.inputs })
    }

    /// The outputs that are columns of the texts' rows, in their order.
    pub fn outputs_of_texts(&self) -> Range<usize> {
        outputs::TEXTS..self.plan.graph.outputs.len()
    }

    /// Columns of a text's row, or of a token's where texts have none.
    pub fn dimension(&self) -> usize {
        if self.outputs_of_texts().is_empty() {
            return self.columns(outputs::TOKENS);
        }
        self.outputs_of_texts().map(|output| self.columns(output)).sum()
    }

    /// The columns of a text's row that an output holds, or all of a token's vector.
    pub fn slice(&self, output: usize) -> Range<usize> {
        let start = (outputs::TEXTS..output).map(|before| self.columns(before)).sum();
        start..start + self.columns(output)
    }

    /// Columns of an output.
    pub fn columns(&self, output: usize) -> usize {
        let graph = &self.plan.graph;
        graph.value(graph.outputs[output]).shape.columns()
    }
}

/// Prepares a stage, on arrays where all texts of a batch must have one length; uploads its weights.
pub(super) fn prepare(
    backend: &dyn Backend,
    stage: &Stage,
    weights: &Arc<Weights>,
    options: ProgramOptions,
) -> Result<Arc<dyn Executable>> {
    match stage.plan.graph.needs_one_length() {
        true => ByLength::prepare(backend, &stage.plan, &**weights, options),
        false => backend.prepare(stage.plan.clone(), weights.clone(), options),
    }
}

/// What a runner is made of.
pub(super) struct Source {
    /// With the weights as they are, then with each adapter.
    pub encoders: Vec<Stage>,
    /// Planned by the first call that decodes.
    pub decoder: OnceLock<Stage>,
    /// Its place among the programs of a runner.
    pub decoder_place: usize,
    pub weights: Arc<Weights>,
    pub options: ProgramOptions,
    pub settings: Settings,
}

impl Source {
    /// Chooses a device, or several, of which `decide` may make another choice, and uploads the weights of a stage, the first of
    /// `places`; if it cannot run, the CPU does.
    pub fn open(
        &self,
        stage: &Stage,
        options: &LoadOptions,
        places: usize,
        decide: impl FnOnce(Vec<Choice>) -> Result<Vec<Choice>>,
    ) -> Result<Runner> {
        #[cfg(feature = "vulkan")]
        if options.device != "cpu" {
            vulkan::check_process()?;
        }
        let mixed = options.mixed || options.numerics == Some(Numerics::Everywhere);
        let runner = match choose::open_each(&options.device, mixed, &self.settings) {
            Err(error @ (Error::OutOfMemory { .. } | Error::DeviceLost { .. })) => self.take_over(places, &error)?,
            choices => Runner::new(decide(choices?)?, places),
        };
        let runner = match runner.program(self, stage) {
            Err(error) if runner.may_move(&error) => self.take_over(places, &error)?,
            prepared => return prepared.map(|_| runner),
        };
        runner.program(self, stage)?;
        Ok(runner)
    }

    /// The CPU in place of a device that failed with `error`, for so many programs.
    pub fn take_over(&self, places: usize, error: &Error) -> Result<Runner> {
        let reason = format!("the CPU took over: {error}");
        if self.settings.strict {
            return Err(Error::DeviceUnavailable(format!("{error} (GRILLY_STRICT forbids the CPU instead)")));
        }
        log::warn!(target: "grilly", "{reason}");
        COUNTERS.fallbacks.fetch_add(1, Relaxed);
        Ok(Runner::new(vec![Choice { backend: cpu::backend(), reason }], places))
    }
}

/// A device, or several that share the batches, and the programs there.
pub(super) struct Runner {
    pub kind: BackendKind,
    pub device: String,
    pub reason: String,
    /// Not empty.
    devices: Vec<(Arc<Member>, Arc<dyn Backend>)>,
    /// By the places of their stages, each prepared on first use.
    programs: Vec<Mutex<Option<Arc<dyn Executable>>>>,
}

impl Runner {
    fn new(choices: Vec<Choice>, places: usize) -> Self {
        let names: Vec<&str> = choices.iter().map(|choice| choice.backend.device_name()).collect();
        let reasons: Vec<&str> = choices.iter().map(|choice| choice.reason.as_str()).collect();
        let (kind, device, reason) = (choices[0].backend.kind(), names.join(", "), reasons.join(", "));
        let member = |choice: Choice| (Member::new(choice.backend.device_name().to_owned()), choice.backend);
        let devices = choices.into_iter().map(member).collect();
        Runner { kind, device, reason, devices, programs: (0..places).map(|_| Mutex::default()).collect() }
    }

    /// The program of a stage; uploads its weights on first use.
    pub fn program(&self, source: &Source, stage: &Stage) -> Result<Arc<dyn Executable>> {
        let mut program = self.programs[stage.place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*program {
            return Ok(known.clone());
        }
        Ok(program.insert(self.prepare(source, stage)?).clone())
    }

    /// A program of a stage that is not among the source's; of several devices one that fails here takes no part.
    pub fn prepare(&self, source: &Source, stage: &Stage) -> Result<Arc<dyn Executable>> {
        let prepare = |backend: &dyn Backend| prepare(backend, stage, &source.weights, source.options);
        if let [(_, backend)] = &self.devices[..] {
            return prepare(&**backend);
        }
        let (mut programs, mut failed) = (Vec::new(), None);
        for (member, backend) in &self.devices {
            match prepare(&**backend) {
                Ok(program) => programs.push((member.clone(), program)),
                Err(error) if error.is_device_fault() => {
                    member.note(&error);
                    failed = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) if programs.is_empty() => Err(error),
            _ => Ok(Arc::new(Several::new(programs))),
        }
    }

    /// As [`Backend::builds`], of the first device.
    pub fn builds(&self, plan: &Plan) -> String {
        self.devices[0].1.builds(plan)
    }

    /// The number of its programs.
    pub fn places(&self) -> usize {
        self.programs.len()
    }

    /// Whether the CPU may run the work after this error of the device.
    pub fn may_move(&self, error: &Error) -> bool {
        let refused = matches!(error, Error::Unsupported { .. } | Error::PipelineCreationFailed { .. });
        self.kind == BackendKind::Vulkan && (refused || error.is_device_fault())
    }
}
