//! A prepared plan: how a batch is split into chunks of whole texts, and how a chunk runs through all steps.
//!
//! With enough texts, each thread runs its own chunks through the whole plan: no waiting between steps, and a chunk's
//! activations stay in that thread's cache. With few texts, all threads share every step. Either way a row's result is
//! the same, bit for bit.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::chunks::{self, Texts};
use super::constants::Constants;
use super::kernels;
use super::simd::Arch;
use super::step::Step;
use super::threads::{Team, Threads};
use super::written::Written;
use crate::backend::chunk::{Chunk, aligned, from_first};
use crate::backend::{BatchLimits, Executable, Feed, Pending, ProgramOptions};
use crate::dtype::DType;
use crate::exit::Request;
use crate::graph::{Node, Plan};
use crate::ops::Dim;
use crate::ops::signature::Role;
use crate::process::memory::filled;
use crate::stats::COUNTERS;
use crate::tensor::WeightSource;
use crate::{Error, Result};

/// A plan on the host's processor.
pub struct CpuProgram {
    plan: Arc<Plan>,
    texts: Texts,
    constants: Constants,
    threads: Threads,
    arch: Arch,
    /// Which buffers contain the outputs.
    outputs: Vec<usize>,
    /// For each output, the steps it needs.
    needs: Vec<Vec<bool>>,
    limits: BatchLimits,
    /// Memory of finished chunks, for reuse.
    arenas: Mutex<Vec<Written>>,
}

impl CpuProgram {
    /// Packs the weights. Values that a plan computes in 16 bits are stored as float32.
    ///
    /// # Errors
    /// As [`Constants::new`] and [`Threads::new`].
    pub fn new(plan: Arc<Plan>, weights: Arc<dyn WeightSource>, options: ProgramOptions, arch: Arch) -> Result<Self> {
        plan.check_batches()?;
        // Widened last: a step takes its type from its operands, and inputs keep theirs.
        let plan = plan.defined(&kernels::has);
        let plan = if plan.narrow().is_some() { Arc::new(plan.widened()) } else { plan };
        let value = |id| plan.graph.value(id);
        let narrow = |node: &&Node| node.operands.iter().chain(&node.results).any(|id| value(*id).dtype.is_narrow());
        // The op would read 16-bit elements, while every other value is stored as float32.
        if let Some(node) = plan.graph.nodes.iter().filter(narrow).find(|node| node.op.operand(0).role == Role::Any) {
            let what = format!("{} in 16 bits", node.name);
            return Err(Error::unsupported(what, "a batch on the CPU is stored as float32"));
        }
        let threads = Threads::new(options.num_threads)?;
        let constants = threads.run(|| Constants::new(&plan, weights, arch))??;
        let needs = plan.graph.outputs.iter().map(|output| plan.graph.needed_for([output].into_iter())).collect();
        let limits = chunks::limits(&plan, threads.count());
        let (texts, outputs) = (Texts::of(&plan), plan.output_buffers()?);
        Ok(CpuProgram { plan, texts, constants, threads, arch, outputs, needs, limits, arenas: Mutex::default() })
    }

    /// The inputs of one chunk, aligned and counted from its own first token.
    fn inputs<'a>(&self, feed: &Feed<'a>, chunk: &Chunk) -> Result<Vec<Cow<'a, [f32]>>> {
        let values = self.plan.graph.inputs.iter().map(|id| self.plan.graph.value(*id));
        let mut inputs = Vec::with_capacity(feed.inputs.len());
        for (value, &bytes) in values.zip(&feed.inputs) {
            let bytes = chunk.bytes(value, bytes);
            inputs.push(match value.dtype {
                DType::F16 | DType::Bf16 => value.dtype.decode(bytes).into(),
                DType::I32 | DType::U32 if value.shape.rows() == Dim::Boundaries => from_first(bytes),
                DType::F32 | DType::I32 | DType::U32 => aligned(bytes),
                other => {
                    let reason = format!("no kernel of the CPU reads {}", other.name());
                    return Err(Error::unsupported(&value.name, reason));
                }
            });
        }
        Ok(inputs)
    }

    /// Runs one chunk and copies the requested outputs' rows into `outputs`.
    fn run_chunk(&self, feed: &Feed<'_>, chunk: &Chunk, team: Team, outputs: Vec<&mut [f32]>) -> Result<()> {
        let inputs = self.inputs(feed, chunk)?;
        let counts = chunk.counts(feed.counts);
        let mut arena = self.arenas.lock().expect("no panic while held").pop().unwrap_or_default();
        let step = Step {
            plan: &self.plan,
            arch: self.arch,
            team,
            operands: &[],
            counts,
            constants: &self.constants,
            inputs: &inputs,
            written: Written::NONE,
        };
        arena.run(step, |number| feed.outputs.iter().any(|output| self.needs[*output][number]))?;
        for (output, rows) in feed.outputs.iter().zip(outputs) {
            rows.copy_from_slice(&arena.buffers[self.outputs[*output]][..rows.len()]);
        }
        self.arenas.lock().expect("no panic while held").push(arena);
        Ok(())
    }

    fn run(&self, feed: &Feed<'_>) -> Result<Vec<Vec<f32>>> {
        let shapes: Vec<_> =
            feed.outputs.iter().map(|o| &self.plan.graph.value(self.plan.graph.outputs[*o]).shape).collect();
        let outputs = shapes.iter().map(|shape| filled(shape.elements(feed.counts), 0.0, "results"));
        let mut outputs = outputs.collect::<Result<Vec<Vec<f32>>>>()?;
        let split = shapes.iter().all(|s| matches!(s.rows(), Dim::Tokens | Dim::Texts));
        let cut = chunks::cut(&self.plan, &self.texts, feed, if split { self.threads.count() } else { 0 })?;
        // Each chunk gets its rows of every output.
        let mut rest: Vec<&mut [f32]> = outputs.iter_mut().map(|o| &mut o[..]).collect();
        let mut work: Vec<(&Chunk, Vec<&mut [f32]>)> = Vec::with_capacity(cut.chunks.len());
        for chunk in &cut.chunks {
            let own = rest.iter_mut().zip(&shapes).map(|(rows, shape)| {
                let count = if cut.chunks.len() == 1 { rows.len() } else { shape.elements(chunk.counts(feed.counts)) };
                let (own, others) = std::mem::take(rows).split_at_mut(count);
                *rows = others;
                own
            });
            work.push((chunk, own.collect()));
        }
        self.threads.run(|| match cut.team {
            Team::Alone if self.threads.count() > 1 => {
                let request = Request::current();
                work.into_par_iter().with_max_len(1).try_for_each(|(chunk, outputs)| {
                    request.serve(|| self.run_chunk(feed, chunk, Team::Alone, outputs))
                })
            }
            team => work.into_iter().try_for_each(|(chunk, outputs)| self.run_chunk(feed, chunk, team, outputs)),
        })??;
        Ok(outputs)
    }
}

impl Executable for CpuProgram {
    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Pending> {
        let graph = &self.plan.graph;
        feed.check(graph.inputs.iter().map(|id| graph.value(*id)), graph.outputs.len())?;
        let outputs = self.run(feed)?;
        COUNTERS.batches_cpu.fetch_add(1, Relaxed);
        COUNTERS.kiloflops_cpu.fetch_add(self.plan.flops(feed.counts).div_ceil(1000), Relaxed);
        Ok(Pending::new(move |reader| outputs.iter().enumerate().try_for_each(|(place, output)| reader(place, output))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu;
    use crate::graph::Graph;
    use crate::ops::{Cast, Shape};
    use crate::tensor::NoWeights;

    #[test]
    fn a_conversion_of_an_input_in_16_bits_is_refused_and_one_to_16_bits_copies() {
        let prepared = |from, to| {
            let mut graph = Graph::new();
            let x = graph.input("x", Shape::fixed(&[8]), from);
            graph.outputs = vec![graph.node("convert", Cast { to }, &[x]).unwrap()];
            cpu::backend().prepare(Arc::new(Plan::new(graph)), Arc::new(NoWeights), ProgramOptions::default())
        };
        let error = prepared(DType::F16, DType::F32).err().unwrap();
        assert!(matches!(&error, Error::Unsupported { what, .. } if what == "convert in 16 bits"), "{error}");
        prepared(DType::F32, DType::F16).unwrap();
    }
}
