//! A graph put in order, with a buffer for each value that is computed or given.

use std::sync::Arc;

use super::shaders::Registry;
use super::{Graph, Node, Source, Value, ValueId};
use crate::dtype::DType;
use crate::graph::fuse::{Fusion, Outcome};
use crate::ops::{Counts, Dim, Op, Shape, definition};

/// A piece of memory whose size depends on the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffer {
    /// What the rows count.
    pub rows: Dim,
    /// Bytes a row: the most that any of the values sharing the buffer needs.
    pub row_bytes: usize,
}

impl Buffer {
    /// Bytes needed in a batch, whole words.
    pub fn bytes(&self, counts: Counts) -> usize {
        (self.rows.size(counts) * self.row_bytes).next_multiple_of(4)
    }
}

/// Where a value lives while a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Written by the host before the batch: place among [`Graph::inputs`].
    Input(usize),
    /// Constant.
    Weight,
    /// A place in [`Plan::buffers`].
    Buffer(usize),
}

/// What runs, in order, and where everything lives.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The operations, already fused.
    pub graph: Graph,
    /// Whose shaders run it, an architecture or a `model_type`; empty for the generic ones.
    pub architecture: String,
    /// Which shader serves whom.
    pub shaders: Arc<Registry>,
    /// What each fusion pass did.
    pub outcomes: Vec<Outcome>,
    /// Shared memory of the computed values: values whose lives do not overlap share a buffer. Outputs share none. A plan
    /// for texts of one length has none: it runs step by step on arrays.
    pub buffers: Vec<Buffer>,
    /// Where each value lives, by value id.
    pub storage: Vec<Storage>,
    /// What is computed in terms of ops that are not fused, with the shapes of their operands: flops are counted by them.
    plain: Vec<(Op, Vec<Shape>)>,
}

impl Plan {
    /// Fuses what can be fused, drops nodes no output needs, and gives every value its place.
    pub fn new(graph: Graph) -> Self {
        Plan::with(graph, &Fusion::default())
    }

    /// As [`Plan::new`] for the architecture of `fusion`, leaving alone what it wants apart.
    pub fn with(mut graph: Graph, fusion: &Fusion<'_>) -> Self {
        drop_unused(&mut graph);
        let outcomes = super::fuse::all(&mut graph, fusion);
        let (buffers, storage) = place(&graph);
        let plain = |node: &Node| definition::plain(&node.op, &graph.shapes(&node.operands)).unwrap_or_default();
        let plain = graph.nodes.iter().flat_map(plain).collect();
        let (architecture, shaders) = (fusion.architecture.to_owned(), fusion.shaders.clone());
        Plan { graph, architecture, shaders, outcomes, buffers, storage, plain }
    }

    /// Floating-point operations of a batch.
    pub fn flops(&self, counts: Counts) -> u64 {
        let flops = |(op, shapes): &(Op, Vec<Shape>)| op.flops(&shapes.iter().collect::<Vec<_>>(), counts);
        self.plain.iter().map(flops).sum()
    }

    /// The same plan with all it computes and all weights in float32, for what cannot hold narrower elements.
    pub fn widened(&self) -> Self {
        let mut plan = self.clone();
        let held = |value: &&mut Value| value.dtype.is_narrow() && !matches!(value.source, Source::Input(_));
        plan.graph.values.iter_mut().filter(held).for_each(|value| value.dtype = DType::F32);
        (plan.buffers, plan.storage) = place(&plan.graph);
        plan
    }

    /// The type of 16 bits in which it computes, if there is one.
    pub fn narrow(&self) -> Option<DType> {
        let results = self.graph.nodes.iter().map(|node| self.graph.value(node.result).dtype);
        results.into_iter().find(|dtype| dtype.is_narrow())
    }

    /// Bytes of all buffers in a batch.
    pub fn buffer_bytes(&self, counts: Counts) -> usize {
        self.buffers.iter().map(|b| b.bytes(counts)).sum()
    }

    /// Bytes a row of the widest buffer whose rows are tokens: what a device's storage-buffer range limits.
    pub fn widest_token_row(&self) -> usize {
        let widest = self.buffers.iter().filter(|b| b.rows == Dim::Tokens).map(|b| b.row_bytes).max();
        widest.unwrap_or(4)
    }
}

/// Buffers for what is computed, and where each value lives.
fn place(graph: &Graph) -> (Vec<Buffer>, Vec<Storage>) {
    let last_use = graph.last_uses();
    let by_length = graph.needs_one_length();
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut storage: Vec<Storage> = graph
        .values
        .iter()
        .map(|value| match value.source {
            Source::Input(place) => Storage::Input(place),
            _ => Storage::Weight,
        })
        .collect();
    for (step, node) in graph.nodes.iter().enumerate().filter(|_| !by_length) {
        let value = graph.value(node.result);
        let shared = last_use[node.result.0] != usize::MAX;
        storage[node.result.0] = Storage::Buffer(take_buffer(&mut buffers, &mut free, value, shared));
        let scratch: Vec<usize> =
            node.scratch.iter().map(|id| take_buffer(&mut buffers, &mut free, graph.value(*id), true)).collect();
        for (id, buffer) in node.scratch.iter().zip(&scratch) {
            storage[id.0] = Storage::Buffer(*buffer);
        }
        free.extend(scratch);
        // A result never overwrites an operand of its own step, so operands are given back only now.
        let operands = node.operands.iter().map(|v| graph.viewed(*v));
        let mut ended: Vec<ValueId> = operands.filter(|v| last_use[v.0] == step).collect();
        ended.sort();
        ended.dedup();
        for value in ended {
            if let Storage::Buffer(buffer) = storage[value.0] {
                free.push(buffer);
            }
        }
    }
    for id in 0..graph.values.len() {
        storage[id] = storage[graph.viewed(ValueId(id)).0];
    }
    (buffers, storage)
}

fn drop_unused(graph: &mut Graph) {
    let mut needed = vec![false; graph.values.len()];
    for output in &graph.outputs {
        needed[graph.viewed(*output).0] = true;
    }
    for node in graph.nodes.iter().rev() {
        if needed[node.result.0] {
            for operand in &node.operands {
                needed[graph.viewed(*operand).0] = true;
            }
        }
    }
    graph.nodes.retain(|node| needed[node.result.0]);
}

/// A free buffer with the same kind of rows (widened if need be), or a new one.
fn take_buffer(buffers: &mut Vec<Buffer>, free: &mut Vec<usize>, value: &Value, shared: bool) -> usize {
    let (rows, row_bytes) = (value.shape.rows(), value.dtype.bytes(value.shape.row_elements()));
    let fitting = free.iter().enumerate().filter(|(_, b)| buffers[**b].rows == rows);
    // The closest in width wastes least.
    let best = fitting.min_by_key(|(_, b)| buffers[**b].row_bytes.abs_diff(row_bytes)).map(|(i, _)| i);
    match best.filter(|_| shared) {
        Some(position) => {
            let buffer = free.swap_remove(position);
            buffers[buffer].row_bytes = buffers[buffer].row_bytes.max(row_bytes);
            buffer
        }
        None => {
            buffers.push(Buffer { rows, row_bytes });
            buffers.len() - 1
        }
    }
}

impl std::fmt::Display for Plan {
    /// One line a step, then the buffers and what fusion did.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (step, node) in self.graph.nodes.iter().enumerate() {
            let operands: Vec<String> = node
                .operands
                .iter()
                .map(|v| format!("{}{}", self.graph.value(*v).name, self.graph.value(*v).shape))
                .collect();
            let result = self.graph.value(node.result);
            let dtype = Some(result.dtype).filter(|dtype| dtype.is_narrow()).map_or_else(Default::default, DType::name);
            write!(f, "{step:3} {} ({}) -> {dtype}{}", node.op.name(), operands.join(", "), result.shape)?;
            match self.storage[node.result.0] {
                Storage::Weight => writeln!(f)?,
                storage => writeln!(f, " {storage:?}")?,
            }
        }
        if self.graph.needs_one_length() {
            writeln!(f, "step by step on arrays, texts of one length S at a time")?;
        }
        for (i, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "buffer {i}: [{}] of {} bytes", buffer.rows, buffer.row_bytes)?;
        }
        for outcome in &self.outcomes {
            writeln!(f, "{outcome}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{
        Activation, ActivationKind, Binary, BinaryKind, EmbeddingSum, LayerNorm, LayerNormLinear, Linear, Normalize,
    };

    #[test]
    fn a_buffer_is_as_large_as_its_value() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::vector(Dim::Fixed(40_000)), DType::F32);
        let y = graph.node("sum", Binary::from(BinaryKind::Add), &[x, x]).unwrap();
        graph.outputs = vec![y];
        assert_eq!(Plan::new(graph).buffer_bytes(Counts::default()), 160_000);
    }

    #[test]
    fn values_whose_lives_overlap_never_share_a_buffer() {
        let mut graph = Graph::new();
        let mut x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
        for layer in 0..4 {
            let y = graph.node(&format!("product {layer}"), Linear::default(), &[x, weight]).unwrap();
            x = graph.node(&format!("norm {layer}"), Normalize::default(), &[y]).unwrap();
        }
        graph.outputs = vec![x];
        let plan = Plan::new(graph);
        // Two buffers to alternate between, and the output's own.
        assert_eq!(plan.buffers.len(), 3);
        assert_eq!(plan.narrow(), None);
        for node in &plan.graph.nodes {
            for operand in &node.operands {
                let (from, to) = (plan.storage[operand.0], plan.storage[node.result.0]);
                assert_ne!(from, to, "{} overwrites its operand", node.name);
            }
        }
    }

    #[test]
    fn scratch_memory_is_no_value_that_lives() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
        let vector = graph.weight(vec!["v".into()], Shape::fixed(&[8]));
        let layer = |graph: &mut Graph, x| {
            graph.node("layer", LayerNormLinear::default(), &[x, vector, vector, weight]).unwrap()
        };
        let first = layer(&mut graph, x);
        let second = layer(&mut graph, first);
        let sum = graph.node("sum", Binary::from(BinaryKind::Multiply), &[first, second]).unwrap();
        graph.outputs = vec![sum];
        let plan = Plan::new(graph);
        for (node, id) in plan.graph.nodes.iter().flat_map(|node| node.scratch.iter().map(move |id| (node, id))) {
            let scratch = plan.storage[id.0];
            let own = |id: &ValueId| plan.storage[id.0] == scratch;
            assert!(matches!(scratch, Storage::Buffer(_)) && !node.operands.iter().chain([&node.result]).any(own));
        }
        // Two results, one memory of two numbers a row for both, and the output's own.
        let counts = Counts { tokens: 10, texts: 1 };
        assert_eq!((plan.buffers.len(), plan.buffer_bytes(counts)), (4, 4 * 10 * (8 + 8 + 2 + 8)));
        assert_eq!(plan.graph.work(&plan.graph.nodes[0], counts).bytes, 4 * (2 * 80 + 8 + 64 + 2 * 20));
        let flops: u64 = plan.graph.nodes.iter().map(|node| plan.graph.work(node, counts).flops).sum();
        assert_eq!(plan.flops(counts), flops);
    }

    #[test]
    fn a_narrow_plan_takes_half_the_memory_and_can_be_widened() {
        let mut graph = Graph::new();
        let ids = graph.input("ids", Shape::vector(Dim::Tokens), DType::U32);
        let table = graph.weight_as(DType::F16, vec!["t".into()], Shape::fixed(&[9, 8]));
        let rows = graph.node("rows", EmbeddingSum {}, &[ids, table]).unwrap();
        let weight = graph.weight_as(DType::F16, vec!["w".into()], Shape::fixed(&[8, 8]));
        let y = graph.node("product", Linear::default(), &[rows, weight]).unwrap();
        let y = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
        let y = graph.node("sum", Binary::from(BinaryKind::Add), &[y, rows]).unwrap();
        let vector = graph.weight(vec!["v".into()], Shape::fixed(&[8]));
        let norm = graph.node("norm", LayerNorm { eps: 1e-5 }, &[y, vector, vector]).unwrap();
        graph.outputs = vec![norm];
        let plan = Plan::new(graph);
        assert!(plan.to_string().contains("linear (rows[T, 8], w[8, 8], rows[T, 8]) -> float16[T, 8]"), "{plan}");
        let wide = plan.widened();
        assert_eq!((plan.narrow(), wide.narrow()), (Some(DType::F16), None));
        let counts = Counts { tokens: 10, texts: 1 };
        assert_eq!((plan.buffer_bytes(counts), wide.buffer_bytes(counts)), (3 * 160, 3 * 320));
        assert!(wide.graph.values.iter().all(|value| !value.dtype.is_narrow()));
        assert_eq!(wide.storage, plan.storage);
    }
}
