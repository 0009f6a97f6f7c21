//! A graph in execution order, with a buffer for each computed value.

mod places;
mod shown;

use std::sync::{Arc, OnceLock};

use places::Shelves;

use super::shaders::Registry;
use super::{Graph, Node, Source, Value, ValueId, everywhere};
use crate::dtype::DType;
use crate::graph::fuse::{Fusion, Outcome};
use crate::numerics::Numerics;
use crate::ops::{Counts, Dim, Op, Shape, definition};
use crate::{Error, Result};

/// A block of memory whose size depends on the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// The count of its rows.
    pub rows: Dim,
    /// Bytes per row: the maximum over the values that share the buffer.
    pub row_bytes: usize,
}

impl Buffer {
    /// Bytes needed in a batch, rounded up to whole words.
    pub fn bytes(&self, counts: Counts) -> usize {
        (self.rows.size(counts) * self.row_bytes).next_multiple_of(4)
    }
}

/// Location of a value while a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Written by the host before the batch: index in [`Graph::inputs`].
    Input(usize),
    /// Persistent between runs: index in [`Graph::states`].
    State(usize),
    /// Constant.
    Weight,
    /// Index in [`Plan::buffers`].
    Buffer(usize),
}

/// The operations in execution order, and the memory of their values.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The operations after fusion.
    pub graph: Graph,
    /// Architecture or `model_type` whose shaders run; empty for the generic ones.
    pub architecture: String,
    /// What its numbers mean.
    pub numerics: Numerics,
    /// The registry of shaders.
    pub shaders: Arc<Registry>,
    /// The outcomes of the fusion passes.
    pub outcomes: Vec<Outcome>,
    /// Memory of the computed values: values whose lifetimes do not overlap share a buffer, outputs share none. A plan
    /// for texts of one length has no buffers: each group of texts has its own.
    pub buffers: Vec<Buffer>,
    /// Location of each value, by value id.
    pub storage: Vec<Storage>,
    /// The first byte of each value there, by value id: 0 but for slices.
    pub offsets: Vec<usize>,
    /// The computation as unfused ops, with the shapes of their operands, from which flops of batches are
    /// counted; made by the first batch.
    plain: OnceLock<Vec<(Op, Vec<Shape>)>>,
}

impl Plan {
    /// Fuses nodes where possible, drops those that no output or state needs, and assigns memory to every value.
    pub fn new(graph: Graph) -> Self {
        Plan::of(graph, &Fusion::default())
    }

    /// As [`Plan::new`] for the architecture and the numerics of `fusion`, without fusing the ops that it requires unfused.
    ///
    /// # Errors
    /// `Unsupported` naming the op or the type that [`Numerics::Everywhere`] does not cover, and the reason.
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::fuse::Fusion;
    /// use grilly::graph::{Graph, Plan};
    /// use grilly::numerics::Numerics;
    /// use grilly::ops::{ActivationBackward, ActivationKind, Shape};
    /// let mut graph = Graph::new();
    /// let [g, x] = ["g", "x"].map(|name| graph.input(name, Shape::fixed(&[3]), DType::F32));
    /// graph.node("slope", ActivationBackward(ActivationKind::Silu.into()), &[g, x]).unwrap();
    /// let fusion = Fusion { numerics: Numerics::Everywhere, ..Fusion::default() };
    /// let refused = Plan::with(graph, &fusion).unwrap_err().to_string();
    /// assert!(refused.starts_with("activation_backward: numerics=\"everywhere\": "));
    /// ```
    pub fn with(graph: Graph, fusion: &Fusion<'_>) -> Result<Self> {
        if fusion.numerics == Numerics::Run {
            return Ok(Plan::of(graph, fusion));
        }
        everywhere::check(&graph, fusion)?;
        let plan = Plan::of(graph.defined(&everywhere::stays), fusion);
        everywhere::check(&plan.graph, fusion)?;
        Ok(plan)
    }

    fn of(mut graph: Graph, fusion: &Fusion<'_>) -> Self {
        graph = graph.defined(&|op| !op.is_composed());
        graph.compute_constants();
        graph.drop_unneeded();
        let mut outcomes = super::split::all(&mut graph, fusion);
        outcomes.extend(super::fuse::all(&mut graph, fusion));
        let (buffers, storage) = place(&graph, None);
        let offsets = offsets(&graph);
        let (architecture, shaders) = (fusion.architecture.to_owned(), fusion.shaders.clone());
        let (numerics, plain) = (fusion.numerics, OnceLock::new());
        Plan { graph, architecture, numerics, shaders, outcomes, buffers, storage, offsets, plain }
    }

    /// Floating-point operations of a batch: [`Graph::flops`] for a plan that runs many of them.
    pub fn flops(&self, counts: Counts) -> u64 {
        let plain = |node: &Node| definition::plain(&node.op, &self.graph.shapes(&node.operands)).unwrap_or_default();
        let plain = self.plain.get_or_init(|| self.graph.nodes.iter().flat_map(plain).collect());
        let flops = |(op, shapes): &(Op, Vec<Shape>)| op.flops(&shapes.iter().collect::<Vec<_>>(), counts);
        plain.iter().map(flops).sum()
    }

    /// The same plan with all computed values and all weights in float32, for devices without narrower elements.
    pub fn widened(&self) -> Self {
        let mut plan = self.clone();
        let held = |value: &&mut Value| value.dtype.is_narrow() && !matches!(value.source, Source::Input(_));
        plan.graph.values.iter_mut().filter(held).for_each(|value| value.dtype = DType::F32);
        let Graph { nodes, values, .. } = &mut plan.graph;
        for node in nodes {
            if let Op::Cast(cast) = &mut node.op {
                cast.to = values[node.results[0].0].dtype;
            }
        }
        plan.place(None);
        plan
    }

    /// The plan for a device that runs the ops for which `runs` is true, and the definitions of the others.
    pub fn defined(mut self: Arc<Self>, runs: &dyn Fn(&Op) -> bool) -> Arc<Self> {
        if !self.graph.nodes.iter().all(|node| runs(&node.op)) {
            let plan = Arc::make_mut(&mut self);
            plan.graph = std::mem::take(&mut plan.graph).defined(runs);
            plan.place(None);
        }
        self
    }

    /// The plan for batches with exactly these counts: constants, values of which the length of texts is an axis, and
    /// operands of the ops that take known axes alone get their sizes.
    ///
    /// # Errors
    /// As [`Graph::apply`], for sizes that such an op refuses.
    pub fn at(&self, counts: Counts) -> Result<Self> {
        let mut plan = self.clone();
        let graph = &mut plan.graph;
        graph.lengths.clear();
        for place in 0..graph.values.len() {
            let Value { shape, source, .. } = &graph.values[place];
            let sizes = Shape::fixed(&shape.sizes(counts));
            match *source {
                _ if shape.0.iter().any(|dim| dim.is_length()) => graph.values[place].shape = sizes,
                Source::Filled(bits) if *shape != sizes => {
                    graph.values[place].source = Source::View(graph.filled(f32::from_bits(bits), sizes));
                }
                _ => {}
            }
        }
        for node in std::mem::take(&mut graph.nodes) {
            let sized = |id: &ValueId| Shape::fixed(&graph.value(*id).shape.sizes(counts));
            let sizes: Vec<Shape> = node.operands.iter().map(sized).collect();
            if !node.op.signature().sized || graph.shapes(&node.operands).into_iter().eq(&sizes) {
                graph.push_node(node);
                continue;
            }
            let seen = node.operands.iter().zip(sizes).map(|(id, shape)| graph.view(&node.name, *id, shape));
            let operands: Vec<ValueId> = seen.collect();
            let results = graph.apply(&node.name, node.op, &operands)?;
            graph.replace_values(&node.results, results);
        }
        plan.place(Some(counts));
        Ok(plan)
    }

    /// Assigns memory to every value again.
    pub(super) fn place(&mut self, counts: Option<Counts>) {
        (self.buffers, self.storage) = place(&self.graph, counts);
        self.offsets = offsets(&self.graph);
    }

    /// The buffers of the outputs, in order.
    ///
    /// # Errors
    /// `InvalidArgument` for an output that no step computes, such as an input or a state.
    pub fn output_buffers(&self) -> Result<Vec<usize>> {
        let place = |id: &ValueId| match self.storage[id.0] {
            Storage::Buffer(place) => Ok(place),
            _ => Err(Error::InvalidArgument(format!("no step computes the output {}", self.graph.value(*id).name))),
        };
        self.graph.outputs.iter().map(place).collect()
    }

    /// Rejects state that persists between runs, and sums over counted axes, for a program of independent batches.
    ///
    /// # Errors
    /// `Unsupported` naming the first state or node.
    pub fn check_batches(&self) -> Result<()> {
        let counts = |node: &&Node| {
            let mut axes = self.graph.shapes(&node.operands).into_iter().flat_map(|shape| &shape.0);
            node.op.signature().sized && axes.any(|dim| !matches!(dim, Dim::Fixed(_)))
        };
        let state = self.graph.states.first().map(|id| (&self.graph.value(*id).name, "has no state"));
        let node = || self.graph.nodes.iter().find(counts).map(|node| (&node.name, "knows no sizes of counted axes"));
        state.or_else(node).map_or(Ok(()), |(name, reason)| {
            Err(Error::unsupported(name, format!("a plan of batches {reason}; run it on arrays")))
        })
    }

    /// The 16-bit type in which it computes, if there is one.
    pub fn narrow(&self) -> Option<DType> {
        let results = self.graph.nodes.iter().flat_map(|node| &node.results).map(|id| self.graph.value(*id).dtype);
        results.into_iter().find(|dtype| dtype.is_narrow())
    }

    /// Bytes of all buffers in a batch.
    pub fn buffer_bytes(&self, counts: Counts) -> usize {
        self.buffers.iter().map(|b| b.bytes(counts)).sum()
    }

    /// Bytes per row of the widest buffer whose rows are tokens; limited by a device's storage-buffer range.
    pub fn widest_token_row(&self) -> usize {
        let widest = self.buffers.iter().filter(|b| b.rows == Dim::Tokens).map(|b| b.row_bytes).max();
        widest.unwrap_or(4)
    }
}

/// The first byte of every value in its storage.
fn offsets(graph: &Graph) -> Vec<usize> {
    (0..graph.values.len()).map(|id| graph.offset(ValueId(id))).collect()
}

/// What a computed value needs: its size, and the steps between which it lives, both included.
struct Need {
    id: ValueId,
    buffer: Buffer,
    life: (usize, usize),
}

/// Assigns buffers to the computed values, of batches with exactly these counts or, for `None`, of any; returns the buffers
/// and the location of each value. The largest values come first, each in the smallest buffer with room in its time (Pisarchyk
/// and Lee 2020), so that no buffer is larger than its first value. A step's results lie in none of its operands.
fn place(graph: &Graph, counts: Option<Counts>) -> (Vec<Buffer>, Vec<Storage>) {
    let last_use = graph.last_uses();
    let mut storage: Vec<Storage> = graph
        .values
        .iter()
        .map(|value| match value.source {
            Source::Input(place) => Storage::Input(place),
            Source::State(place) => Storage::State(place),
            _ => Storage::Weight,
        })
        .collect();
    let need = |id: &ValueId, life| {
        let value = graph.value(*id);
        let (rows, row_bytes) = match counts {
            Some(counts) => (Dim::Fixed(1), value.bytes(counts)),
            None => (value.shape.rows(), value.dtype.bytes(value.shape.row_elements())),
        };
        Need { id: *id, buffer: Buffer { rows, row_bytes }, life }
    };
    let mut needs = Vec::new();
    for (step, node) in graph.nodes.iter().enumerate().filter(|_| !graph.needs_one_length()) {
        let made = node.results.iter().filter(|id| graph.owner(**id) == **id);
        needs.extend(made.map(|id| need(id, (step, last_use[id.0]))));
        needs.extend(node.scratch.iter().map(|id| need(id, (step, step))));
    }
    needs.sort_by_key(|need| std::cmp::Reverse(need.buffer.row_bytes));
    let (mut buffers, mut shelves) = (Vec::new(), Shelves::default());
    for Need { id, buffer, life: (first, last) } in needs {
        // Outputs go to the caller and share none.
        let known = if last == usize::MAX { None } else { shelves.take(buffer.rows, (first, last)) };
        let place = known.unwrap_or_else(|| {
            let start = if last == usize::MAX { 0 } else { first };
            shelves.add(buffers.len(), buffer.rows, (start, last));
            buffers.push(buffer);
            buffers.len() - 1
        });
        storage[id.0] = Storage::Buffer(place);
    }
    for id in 0..graph.values.len() {
        storage[id] = storage[graph.owner(ValueId(id)).0];
    }
    (buffers, storage)
}

#[cfg(test)]
mod tests;
