//! A plan for texts of one length, step by step on arrays: what a batch runs on when an op must see whole texts.
//!
//! A batch's texts stand by length already, so neighbours of one length make a group; each group goes through all steps.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Array, Engine};
use crate::backend::{Backend, BackendKind, BatchLimits, Feed, Pending, Program, ProgramOptions};
use crate::dtype::DType;
use crate::graph::{Plan, Source, Value, ValueId};
use crate::ops::{Counts, Dim, Shape};
use crate::stats::COUNTERS;
use crate::tensor::{Part, WeightSource};
use crate::{Error, Result};

/// Most bytes of one tensor of a group of several texts.
const MOST_BYTES: usize = 64 << 20;
/// Tokens of a batch.
const TOKENS: usize = 8192;

/// A plan with its weights as arrays.
pub struct ByLength {
    engine: Arc<Engine>,
    plan: Arc<Plan>,
    weights: HashMap<ValueId, Array>,
    last_uses: Vec<usize>,
    /// Which input holds the boundaries of texts.
    offsets: usize,
}

/// Neighbouring texts of one length.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    texts: Range<usize>,
    tokens: Range<usize>,
}

impl Group {
    fn counts(&self) -> Counts {
        Counts { tokens: self.tokens.len(), texts: self.texts.len() }
    }
}

impl ByLength {
    /// Puts the weights on a device, as float32, and runs one token, so that what the device cannot do shows now.
    ///
    /// # Errors
    /// `Unsupported`, `PipelineCreationFailed`, `OutOfMemory`, or a device fault.
    pub fn prepare(
        backend: &dyn Backend,
        plan: Arc<Plan>,
        weights: &dyn WeightSource,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Program>> {
        let engine = Engine::own(backend, &plan, options)?;
        let plan = Arc::new(plan.widened());
        let graph = &plan.graph;
        let boundaries = Shape::vector(Dim::Boundaries);
        let offsets = graph.inputs.iter().position(|id| graph.value(*id).shape == boundaries);
        let offsets = offsets.ok_or_else(|| Error::Unsupported {
            what: "texts of one length".into(),
            reason: "no input says where they end".into(),
        })?;
        let mut arrays = HashMap::new();
        for id in graph.nodes.iter().flat_map(|node| &node.operands) {
            if let Source::Weight(weight) = &graph.value(*id).source
                && !arrays.contains_key(id)
            {
                arrays.insert(*id, upload(&engine, graph.value(*id), &weight.parts, weights)?);
            }
        }
        let last_uses = graph.last_uses();
        let program = ByLength { engine, plan, weights: arrays, last_uses, offsets };
        program.try_one()?;
        Ok(Arc::new(program))
    }

    /// A text of one token, of which all inputs are zero.
    fn try_one(&self) -> Result<()> {
        let group = Group { texts: 0..1, tokens: 0..1 };
        let counts = group.counts();
        let zeros = |id: &ValueId| vec![0u32; self.plan.graph.value(*id).shape.elements(counts)];
        let mut inputs: Vec<Vec<u32>> = self.plan.graph.inputs.iter().map(zeros).collect();
        inputs[self.offsets][1] = 1;
        let outputs = (0..self.plan.graph.outputs.len()).collect();
        let feed = Feed { counts, inputs: inputs.iter().map(|input| bytemuck::cast_slice(input)).collect(), outputs };
        self.run(&feed, &group)?.iter().try_for_each(|array| array.read().map(drop))
    }

    /// Bytes of the largest tensor of one text.
    fn bytes(&self, length: usize) -> usize {
        let counts = Counts { tokens: length, texts: 1 };
        let shapes = self.plan.graph.nodes.iter().map(|node| &self.plan.graph.value(node.results[0]).shape);
        4 * shapes.map(|shape| shape.elements(counts)).max().unwrap_or(0)
    }

    /// A value in the shape that it has in a group.
    fn array(&self, arrays: &[Option<Array>], id: ValueId, counts: Counts) -> Result<Array> {
        let graph = &self.plan.graph;
        let viewed = graph.viewed(id);
        let array = arrays[viewed.0].as_ref().or_else(|| self.weights.get(&viewed));
        let array =
            array.ok_or_else(|| Error::InvalidArgument(format!("{}: read before it is made", graph.value(id).name)))?;
        if viewed == id {
            return Ok(array.clone());
        }
        array.reshape(&graph.value(id).shape.sizes(counts))
    }

    /// The wanted outputs of a group.
    fn run(&self, feed: &Feed<'_>, group: &Group) -> Result<Vec<Array>> {
        let graph = &self.plan.graph;
        let counts = group.counts();
        let mut arrays: Vec<Option<Array>> = vec![None; graph.values.len()];
        for (id, bytes) in graph.inputs.iter().zip(&feed.inputs) {
            arrays[id.0] = Some(input(&self.engine, graph.value(*id), bytes, group)?);
        }
        for (step, node) in graph.nodes.iter().enumerate() {
            let operands =
                node.operands.iter().map(|id| self.array(&arrays, *id, counts)).collect::<Result<Vec<_>>>()?;
            let result = self.engine.call(&node.op, &operands.iter().collect::<Vec<_>>())?;
            arrays[node.results[0].0] = Some(result);
            for id in node.operands.iter().map(|id| graph.viewed(*id)) {
                if self.last_uses[id.0] == step {
                    arrays[id.0] = None;
                }
            }
        }
        feed.outputs.iter().map(|output| self.array(&arrays, graph.outputs[*output], counts)).collect()
    }

    fn check(&self, feed: &Feed<'_>) -> Result<()> {
        let graph = &self.plan.graph;
        let fits = |(id, bytes): (&ValueId, &&[u8])| bytes.len() == 4 * graph.value(*id).shape.elements(feed.counts);
        if feed.inputs.len() == graph.inputs.len()
            && graph.inputs.iter().zip(&feed.inputs).all(fits)
            && feed.outputs.iter().all(|output| *output < graph.outputs.len())
        {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("batch: inputs or outputs are not the plan's at {:?}", feed.counts)))
    }
}

/// A weight's tensors, one below the other.
fn upload(engine: &Arc<Engine>, value: &Value, parts: &[Part], weights: &dyn WeightSource) -> Result<Array> {
    let shape = value.shape.sizes(Counts::default());
    let mut floats = vec![0.0f32; shape.iter().product()];
    let mut rest = &mut floats[..];
    for part in parts {
        let view = part.view(weights)?;
        let wrong = || Error::InvalidArgument(format!("{} does not have the shape {}", value.name, value.shape));
        let (own, others) = rest.split_at_mut_checked(view.elements()).ok_or_else(wrong)?;
        view.read_f32(0, own);
        rest = others;
    }
    engine.upload(DType::F32, &shape, bytemuck::cast_slice(&floats))
}

/// A group's rows of an input; boundaries are counted from the group's first token.
fn input(engine: &Arc<Engine>, value: &Value, bytes: &[u8], group: &Group) -> Result<Array> {
    let rows = match value.shape.rows() {
        Dim::Tokens => group.tokens.clone(),
        Dim::Texts => group.texts.clone(),
        Dim::Boundaries => group.texts.start..group.texts.end + 1,
        dim @ (Dim::Fixed(_) | Dim::Length) => 0..dim.size(group.counts()),
    };
    let width = 4 * value.shape.row_elements();
    let shape = value.shape.sizes(group.counts());
    let bytes = &bytes[rows.start * width..rows.end * width];
    match (value.dtype, value.shape.rows()) {
        (DType::U32, Dim::Boundaries) => {
            let first = group.tokens.start as u32;
            let counted: Vec<u32> = numbers::<u32>(bytes).into_iter().map(|offset| offset - first).collect();
            engine.upload(DType::U32, &shape, bytemuck::cast_slice(&counted))
        }
        (DType::F16 | DType::Bf16, _) => engine.upload(DType::F32, &shape, bytes),
        (dtype, _) => engine.upload(dtype, &shape, bytes),
    }
}

fn numbers<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    let mut numbers = vec![T::zeroed(); bytes.len() / size_of::<T>()];
    bytemuck::cast_slice_mut(&mut numbers).copy_from_slice(bytes);
    numbers
}

/// Cuts a batch into neighbours of one length, of which `most(length)` texts may go together.
///
/// # Errors
/// `InvalidArgument` for offsets that do not rise from 0 to the number of tokens.
fn groups(offsets: &[u32], tokens: usize, most: impl Fn(usize) -> usize) -> Result<Vec<Group>> {
    let ends = (offsets.first(), offsets.last().map(|last| *last as usize));
    if ends != (Some(&0), Some(tokens)) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::InvalidArgument(format!("offsets do not rise from 0 to {tokens}")));
    }
    let mut groups: Vec<Group> = Vec::new();
    for (text, pair) in offsets.windows(2).enumerate() {
        let rows = pair[0] as usize..pair[1] as usize;
        match groups.last_mut() {
            Some(group)
                if group.tokens.len() == rows.len() * group.texts.len() && group.texts.len() < most(rows.len()) =>
            {
                group.texts.end = text + 1;
                group.tokens.end = rows.end;
            }
            _ => groups.push(Group { texts: text..text + 1, tokens: rows }),
        }
    }
    Ok(groups)
}

impl Program for ByLength {
    fn limits(&self) -> BatchLimits {
        BatchLimits { tokens: TOKENS, longest_text: usize::MAX, in_flight: 2 }
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Box<dyn Pending>> {
        self.check(feed)?;
        let offsets = numbers::<u32>(feed.inputs[self.offsets]);
        let groups = groups(&offsets, feed.counts.tokens, |length| MOST_BYTES / self.bytes(length).max(1))?;
        let mut results: Vec<Vec<Array>> = vec![Vec::new(); feed.outputs.len()];
        for group in groups {
            for (arrays, array) in results.iter_mut().zip(self.run(feed, &group)?) {
                arrays.push(array);
            }
        }
        let batches = match self.engine.kind() {
            BackendKind::Vulkan => &COUNTERS.batches_vulkan,
            BackendKind::Cpu => &COUNTERS.batches_cpu,
        };
        batches.fetch_add(1, Relaxed);
        Ok(Box::new(UnderWay(results)))
    }
}

/// By output, the arrays of all groups.
struct UnderWay(Vec<Vec<Array>>);

impl Pending for UnderWay {
    fn wait(self: Box<Self>) -> Result<Vec<Vec<f32>>> {
        let read = |arrays: Vec<Array>| -> Result<Vec<f32>> {
            let mut all = Vec::new();
            for array in arrays {
                all.extend(numbers::<f32>(&array.read()?));
            }
            Ok(all)
        };
        self.0.into_iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_length_go_together() {
        let cut = |lengths: &[u32], most: usize| {
            let offsets = crate::text::packing::offsets(lengths.iter().map(|n| *n as usize));
            let groups = groups(&offsets, lengths.iter().sum::<u32>() as usize, |_| most).unwrap();
            groups.into_iter().map(|group| (group.texts, group.tokens)).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[7, 7, 5, 0, 0], 9), [(0..2, 0..14), (2..3, 14..19), (3..5, 19..19)]);
        assert_eq!(cut(&[4, 4, 4], 2), [(0..2, 0..8), (2..3, 8..12)]);
        assert_eq!(cut(&[3, 6], 9).len(), 2, "twice as long is not the same");
        assert_eq!(cut(&[4], 0), [(0..1, 0..4)], "one text always goes");
        assert_eq!(cut(&[], 3), []);
        for wrong in [&[1, 3][..], &[0, 2, 1, 3], &[0, 2], &[]] {
            assert!(matches!(groups(wrong, 3, |_| 9), Err(Error::InvalidArgument(_))), "{wrong:?}");
        }
    }
}
