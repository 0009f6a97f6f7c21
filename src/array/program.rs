//! A graph prepared on a device and run repeatedly on arrays, such as a training step or a decoding step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::ready::{Declared, Ready};
use super::{Array, Engine, elements};
use crate::backend::{Memory, Narrow};
use crate::graph::fuse::Fusion;
use crate::graph::{Graph, Node, Plan};
use crate::ops::{Counts, Dim, Op};
use crate::{Error, Result};

/// Maximum number of counts for which a prepared plan is cached.
const MOST_PREPARED: usize = 64;

/// A graph on an engine. Its states stay on the device between runs and are updated in place.
pub struct Program {
    engine: Arc<Engine>,
    pub(super) plan: Plan,
    /// The largest counts of a run.
    most: Counts,
    prepared: Mutex<HashMap<Counts, Arc<Ready>>>,
    /// Those that it shares come first; a program beside it may share more.
    states: Arc<Mutex<Vec<Array>>>,
    /// Its states after the shared ones.
    own: Mutex<Vec<Array>>,
}

fn count(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("program: {found} {what}, expected {expected}")))
}

impl Program {
    /// Prepares a graph for runs of at most `most`; `states` are the initial values of its states.
    ///
    /// # Errors
    /// `InvalidArgument` or `InvalidType` for states that do not match the graph's, `Unsupported` naming op and reason,
    /// `OutOfMemory`, or a device fault.
    ///
    /// ```
    /// use grilly::array::{Engine, Program};
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Counts, SetRows, Shape};
    /// let engine = Engine::of("cpu").unwrap();
    /// let mut graph = Graph::new();
    /// let cache = graph.state("cache", Shape::fixed(&[4, 1]), DType::F32);
    /// let rows = graph.input("rows", Shape::fixed(&[1, 1]), DType::F32);
    /// let at = graph.input("at", Shape::fixed(&[1]), DType::I32);
    /// graph.node("append", SetRows {}, &[cache, rows, at]).unwrap();
    /// let floats = |values: &[f32]| engine.upload(DType::F32, &[values.len(), 1], bytemuck::cast_slice(values)).unwrap();
    /// let program = Program::new(&engine, graph, Counts::default(), &[&floats(&[0.0; 4])]).unwrap();
    /// for place in 0..3i32 {
    ///     let at = engine.upload(DType::I32, &[1], &place.to_le_bytes()).unwrap();
    ///     program.run(&[&floats(&[place as f32 + 1.0]), &at]).unwrap();
    /// }
    /// assert_eq!(program.states()[0].read().unwrap(), bytemuck::cast_slice::<f32, u8>(&[1.0, 2.0, 3.0, 0.0]));
    /// ```
    pub fn new(engine: &Arc<Engine>, graph: Graph, most: Counts, states: &[&Array]) -> Result<Program> {
        let shaders = engine.shaders();
        let (architecture, numerics) = (&*engine.architecture, shaders.numerics);
        let fusion = Fusion { architecture, shaders: &shaders, numerics, ..Fusion::default() };
        let prepared = |graph: Graph| {
            let program = Program::of(engine, Plan::with(graph, &fusion)?, most, states)?;
            program.at(most)?;
            Ok(program)
        };
        // Users' shaders take float32, and in 16 bits products run on matrix cores alone.
        let users =
            |Node { op, operands, .. }: &Node| shaders.in_place_of(op, operands.len(), &engine.architecture).is_some();
        let or_products = |node: &Node| users(node) || matches!(node.op, Op::Matmul(_));
        if !graph.has_narrow(or_products) {
            return prepared(graph);
        }
        let mut found = prepared(graph.clone());
        for wide in [&users as &dyn Fn(&Node) -> bool, &or_products] {
            let Err(Error::Unsupported { what, reason }) = &found else { break };
            if graph.has_narrow(wide) {
                log::info!(target: "grilly", "a part of a program in 16 bits runs in float32: {what}: {reason}");
                found = prepared(graph.clone().with_wide(wide)?);
            }
        }
        found
    }

    /// Prepares another graph over the first states of this program, such as an evaluation beside a training step: each
    /// sees what the other has written.
    ///
    /// # Errors
    /// As [`Program::new`].
    ///
    /// ```
    /// use grilly::array::{Engine, Program};
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Counts, Reduce, ReduceKind, SetRows, Shape};
    /// let engine = Engine::of("cpu").unwrap();
    /// let floats = |values: &[f32]| engine.upload(DType::F32, &[values.len(), 1], bytemuck::cast_slice(values)).unwrap();
    /// let mut graph = Graph::new();
    /// let cache = graph.state("cache", Shape::fixed(&[2, 1]), DType::F32);
    /// let row = graph.input("row", Shape::fixed(&[1, 1]), DType::F32);
    /// let at = graph.input("at", Shape::fixed(&[1]), DType::I32);
    /// graph.node("replace", SetRows {}, &[cache, row, at]).unwrap();
    /// let writer = Program::new(&engine, graph, Counts::default(), &[&floats(&[1.0, 2.0])]).unwrap();
    /// let mut graph = Graph::new();
    /// let cache = graph.state("cache", Shape::fixed(&[2, 1]), DType::F32);
    /// graph.outputs = vec![graph.node("total", Reduce::rows(ReduceKind::Sum), &[cache]).unwrap()];
    /// let reader = writer.beside(graph, Counts::default()).unwrap();
    /// let first = engine.upload(DType::I32, &[1], &[0; 4]).unwrap();
    /// writer.run(&[&floats(&[5.0]), &first]).unwrap();
    /// assert_eq!(reader.run(&[]).unwrap()[0].read().unwrap(), 7f32.to_le_bytes());
    /// ```
    pub fn beside(&self, graph: Graph, most: Counts) -> Result<Program> {
        self.beside_with(graph, most, &[])
    }

    /// As [`Program::beside`], with states of its own after the shared ones, such as the caches of decoding steps; `own` are
    /// their initial values.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn beside_with(&self, graph: Graph, most: Counts, own: &[&Array]) -> Result<Program> {
        let known = self.states.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shared = graph.states.len().saturating_sub(own.len());
        let all: Vec<&Array> = known.iter().take(shared).chain(own.iter().copied()).collect();
        let program = Program::new(&self.engine, graph, most, &all)?;
        let own = own.iter().copied().cloned().collect();
        Ok(Program { states: self.states.clone(), own: Mutex::new(own), ..program })
    }

    /// As [`Program::new`], for a plan without weights, prepared when it runs.
    pub(super) fn of(engine: &Arc<Engine>, plan: Plan, most: Counts, states: &[&Array]) -> Result<Program> {
        let graph = &plan.graph;
        count("states", states.len(), graph.states.len())?;
        let declared = graph.states.iter().map(|id| Declared::of(graph.value(*id), most));
        declared.zip(states).try_for_each(|(state, array)| state.check(engine, array))?;
        let states = Arc::new(Mutex::new(states.iter().copied().cloned().collect()));
        Ok(Program { engine: engine.clone(), plan, most, prepared: Mutex::default(), states, own: Mutex::default() })
    }

    /// The plan prepared for these counts, cached.
    fn at(&self, counts: Counts) -> Result<Arc<Ready>> {
        let lock = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&counts) {
            return Ok(known.clone());
        }
        let graph = &self.plan.graph;
        graph.values.iter().try_for_each(|value| elements(&value.shape.sizes(counts)).map(drop))?;
        let prepared = self.engine.backend.prepare(self.plan.at(counts)?, counts, Narrow::Every)?;
        let made = Arc::new(Ready::of(graph, counts, prepared));
        let mut all = lock();
        if all.len() >= MOST_PREPARED {
            all.clear();
        }
        all.insert(counts, made.clone());
        Ok(made)
    }

    /// The counts of a run: from the shape of the first input that has each; the largest size for a count that none has.
    fn counts(&self, inputs: &[&Array]) -> Result<Counts> {
        let (graph, mut counts) = (&self.plan.graph, self.most);
        for (id, array) in graph.inputs.iter().zip(inputs).rev() {
            let value = graph.value(*id);
            for (axis, size) in value.shape.0.iter().zip(&array.shape) {
                counts.set(*axis, *size);
                if !matches!(axis, Dim::Fixed(_)) && !axis.is_length() && *size > axis.size(self.most) {
                    let (name, most) = (&value.name, axis.size(self.most));
                    let problem = format!("{name} has {size} along {axis}, prepared are at most {most}");
                    return Err(Error::InvalidArgument(problem));
                }
            }
        }
        Ok(counts)
    }

    /// Runs the graph once, with the counts that the inputs' shapes tell and the largest where they tell none, and
    /// returns its outputs, whose computation may still be in flight.
    ///
    /// # Errors
    /// `InvalidArgument` or `InvalidType` for inputs that do not match the graph's, `IndexOutOfRange` for an index
    /// outside its table, `Unsupported` or `InvalidArgument` for sizes that an op does not take, `OutOfMemory` on a Vulkan
    /// device; in these cases nothing has run. `OutOfMemory` on the CPU or a device fault: the states may be partly updated.
    pub fn run(&self, inputs: &[&Array]) -> Result<Vec<Array>> {
        count("inputs", inputs.len(), self.plan.graph.inputs.len())?;
        self.run_at(self.counts(inputs)?, inputs)
    }

    /// As [`Program::run`], with these counts.
    pub(super) fn run_at(&self, counts: Counts, inputs: &[&Array]) -> Result<Vec<Array>> {
        let ready = self.at(counts)?;
        let [mut states, mut own] =
            [&*self.states, &self.own].map(|of| of.lock().unwrap_or_else(PoisonError::into_inner));
        let shared = self.plan.graph.states.len() - own.len();
        let mut all: Vec<&mut Array> = states.iter_mut().take(shared).chain(own.iter_mut()).collect();
        // The memory of the states is taken out of their arrays until the run is over.
        let mut memories: Vec<Memory> =
            all.iter_mut().map(|state| std::mem::replace(&mut state.memory, Memory::empty())).collect();
        let done = ready.run(&self.engine, inputs, &mut memories);
        all.iter_mut().zip(memories).for_each(|(state, memory)| state.memory = memory);
        done
    }

    /// The current states, in the graph's order. While a returned array is alive, the next run copies that state first.
    pub fn states(&self) -> Vec<Array> {
        let [states, own] = [&*self.states, &self.own].map(|of| of.lock().unwrap_or_else(PoisonError::into_inner));
        let shared = self.plan.graph.states.len() - own.len();
        states.iter().take(shared).chain(own.iter()).cloned().collect()
    }

    /// One of [`Program::states`], by its place among them.
    ///
    /// # Errors
    /// `IndexOutOfRange` for a place beyond the last.
    pub fn state(&self, place: usize) -> Result<Array> {
        self.states()
            .into_iter()
            .nth(place)
            .ok_or_else(|| Error::IndexOutOfRange(format!("program: there is no state {place}")))
    }
}
