//! Arrays in host memory, and plans that run on them synchronously.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use super::constants::Constants;
use super::floats::Floats;
use super::kernels;
use super::simd::Arch;
use super::step::Step;
use super::threads::{Team, Threads};
use super::written::Written;
use crate::backend::{ArrayEngine, Memory, Narrow, Prepared, ProgramOptions};
use crate::graph::{Plan, ValueId};
use crate::ops::Counts;
use crate::ops::signature::Role;
use crate::process::memory::emptied;
use crate::stats::COUNTERS;
use crate::tensor::NoWeights;
use crate::{Error, Result};

/// With fewer elements than this, waking other threads does not pay.
const FEW_ELEMENTS: usize = 1 << 14;

pub(super) struct CpuArrays {
    threads: Threads,
    arch: Arch,
}

/// The engine of the process, shared by all device strings of the CPU.
static SHARED: Mutex<Option<Arc<CpuArrays>>> = Mutex::new(None);

impl CpuArrays {
    /// Returns the process' engine, or with `own` a private one with its own settings.
    pub(super) fn open(own: Option<ProgramOptions>) -> Result<Arc<dyn ArrayEngine>> {
        if own.is_some() {
            return Ok(Arc::new(CpuArrays::new(own)?));
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some(arrays) if arrays.usable() => Ok(arrays.clone()),
            _ => Ok(shared.insert(Arc::new(CpuArrays::new(None)?)).clone()),
        }
    }

    fn new(options: Option<ProgramOptions>) -> Result<Self> {
        let threads = Threads::new(options.and_then(|options| options.num_threads))?;
        Ok(CpuArrays { threads, arch: Arch::new() })
    }
}

/// A plan with everything that does not depend on its inputs.
struct Ready {
    plan: Arc<Plan>,
    counts: Counts,
    flops: u64,
    team: Team,
    constants: Constants,
    /// Which buffers contain the outputs.
    outputs: Vec<usize>,
}

fn copy(memory: &Memory) -> Result<Memory> {
    let shared = floats(memory);
    let mut copy = Floats::zeros(shared.len(), "a state")?;
    copy.copy_from_slice(shared);
    Ok(Memory::new(copy))
}

fn floats(memory: &Memory) -> &[f32] {
    memory.content::<Floats>().map_or(&[], |floats| floats)
}

impl ArrayEngine for CpuArrays {
    fn upload(&self, bytes: &[u8]) -> Result<Memory> {
        let mut floats = Floats::zeros(bytes.len().div_ceil(4), "an array")?;
        bytemuck::cast_slice_mut(&mut floats)[..bytes.len()].copy_from_slice(bytes);
        Ok(Memory::new(floats))
    }

    fn prepare(&self, plan: Plan, counts: Counts, narrow: Narrow) -> Result<Prepared> {
        let plan = Arc::new(plan);
        // Before definitions, whose steps would otherwise round what a kernel does not.
        let plan = if narrow == Narrow::Every { plan.in_float32()? } else { plan };
        let plan = plan.defined(&kernels::has);
        let graph = &plan.graph;
        let narrow = |id: &&ValueId| graph.value(**id).dtype.is_narrow();
        for node in graph.nodes.iter().filter(|node| node.op.operand(0).role != Role::Any) {
            if let Some(id) = node.operands.iter().find(narrow) {
                let reason = format!("the CPU takes float32, not {}", graph.value(*id).dtype.name());
                return Err(Error::unsupported(&node.name, reason));
            }
        }
        let most = graph.values.iter().map(|value| value.shape.elements(counts)).max().unwrap_or(0);
        let flops = plan.graph.flops(counts);
        let alone = most < FEW_ELEMENTS && flops < 16 * FEW_ELEMENTS as u64;
        let team = if alone || self.threads.count() == 1 { Team::Alone } else { Team::All(self.threads.count()) };
        let constants = Constants::new(&plan, Arc::new(NoWeights), self.arch)?;
        let outputs = plan.output_buffers()?;
        Ok(Prepared::new(Ready { plan, counts, flops, team, constants, outputs }))
    }

    fn run(&self, prepared: &Prepared, inputs: &[&Memory], states: &mut [Memory]) -> Result<Vec<Memory>> {
        let Ready { plan, counts, flops, team, constants, outputs: places } = prepared.content()?;
        let (graph, counts, team) = (&plan.graph, *counts, *team);
        let given = graph.inputs.iter().zip(inputs).map(|(id, memory)| {
            let value = graph.value(*id);
            let words = floats(memory).get(..value.bytes(counts).div_ceil(4)).map(Cow::Borrowed);
            let problem = || format!("{}: fewer elements than {}", value.name, value.shape);
            words.ok_or_else(|| Error::InvalidArgument(problem()))
        });
        let given = given.collect::<Result<Vec<_>>>()?;
        let mut written = Written::default();
        for memory in states.iter_mut() {
            if memory.content_mut::<Floats>().is_none() {
                *memory = copy(memory)?;
            }
        }
        written.states = states.iter_mut().filter_map(|memory| memory.content_mut().map(std::mem::take)).collect();
        let (arch, inputs, nothing) = (self.arch, &given[..], Written::NONE);
        let step = Step { plan, arch, team, operands: &[], counts, constants, inputs, written: nothing };
        let mut run = || written.run(step, |_| true);
        let done = match team {
            Team::Alone => run(),
            Team::All(_) => self.threads.run(run).and_then(|done| done),
        };
        // Also after a failed step: the states go back to the caller with whatever was written.
        for (memory, floats) in states.iter_mut().zip(std::mem::take(&mut written.states)) {
            *memory = Memory::new(floats);
        }
        done?;
        COUNTERS.ops_cpu.fetch_add(graph.nodes.len() as u64, Relaxed);
        COUNTERS.kiloflops_cpu.fetch_add(flops.div_ceil(1000), Relaxed);
        let mut outputs: HashMap<usize, Memory> = HashMap::new();
        let mut output = |place: &usize| {
            let buffer = &mut written.buffers[*place];
            outputs.entry(*place).or_insert_with(|| Memory::new(std::mem::take(buffer))).clone()
        };
        Ok(places.iter().map(&mut output).collect())
    }

    fn download(&self, parts: &[(&Memory, usize)], to: &mut [Vec<u8>]) -> Result<()> {
        for ((memory, bytes), to) in parts.iter().zip(to) {
            let all: &[u8] = bytemuck::cast_slice(floats(memory));
            let own = all.get(..*bytes).ok_or_else(|| Error::Unusable("another device's array".into()))?;
            emptied(to, *bytes, "an array on the host")?;
            to.extend_from_slice(own);
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn usable(&self) -> bool {
        self.threads.owned()
    }
}
