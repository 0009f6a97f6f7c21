//! A plan for texts of one length, run on arrays: used for batches when an op requires whole texts.
//!
//! A batch's texts are already sorted by length, so adjacent texts of one length form a group, and each group is one
//! run of the plan.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Array, Engine, program};
use crate::backend::chunk::{Chunk, aligned};
use crate::backend::{Backend, BackendKind, BatchLimits, Feed, Pending, Program, ProgramOptions, Reader};
use crate::dtype::DType;
use crate::graph::{Plan, Value};
use crate::ops::{Counts, Dim, Shape};
use crate::stats::COUNTERS;
use crate::tensor::{Part, WeightSource};
use crate::{Error, Result};

/// Maximum bytes of one tensor of a group with several texts.
const MOST_BYTES: usize = 64 << 20;
/// Maximum tokens per batch.
const TOKENS: usize = 8192;

/// A plan with its weights as arrays.
pub struct ByLength {
    engine: Arc<Engine>,
    /// The weights are inputs, after those of a batch.
    program: program::Program,
    weights: Vec<Array>,
    /// Index of the input that holds the boundaries of texts.
    offsets: usize,
}

impl ByLength {
    /// Uploads the weights as float32 and runs one token, so that unsupported features of the device are reported
    /// early.
    ///
    /// # Errors
    /// `Unsupported`, `PipelineCreationFailed`, `OutOfMemory`, or a device fault.
    pub fn prepare(
        backend: &dyn Backend,
        plan: &Plan,
        weights: &dyn WeightSource,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Program>> {
        let engine = Engine::own(backend, plan, options)?;
        let mut plan = plan.widened();
        let graph = &mut plan.graph;
        let boundaries = Shape::vector(Dim::Boundaries);
        let offsets = graph.inputs.iter().position(|id| graph.value(*id).shape == boundaries);
        let offsets =
            offsets.ok_or_else(|| Error::unsupported("texts of one length", "no input says where they end"))?;
        let given = graph.weights_as_inputs();
        let upload = |(id, parts): &(_, Vec<Part>)| upload(&engine, graph.value(*id), parts, weights);
        let weights = given.iter().map(upload).collect::<Result<Vec<_>>>()?;
        let program = program::Program::of(&engine, plan, Counts::default(), &[])?;
        let program = ByLength { engine, program, weights, offsets };
        program.try_one()?;
        Ok(Arc::new(program))
    }

    /// Inputs of a batch.
    fn inputs(&self) -> impl ExactSizeIterator<Item = &Value> {
        let graph = &self.program.plan.graph;
        graph.inputs[..graph.inputs.len() - self.weights.len()].iter().map(|id| graph.value(*id))
    }

    /// Runs a text of one token with all inputs zero, but for the last boundary.
    fn try_one(&self) -> Result<()> {
        let group = Chunk { texts: 0..1, tokens: 0..1 };
        let counts = group.counts(Counts::default());
        let mut inputs: Vec<Vec<u32>> = self.inputs().map(|value| vec![0; value.shape.elements(counts)]).collect();
        inputs[self.offsets][1] = 1;
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
        self.run(&inputs, &group)?.iter().try_for_each(|array| array.read().map(drop))
    }

    /// Bytes of the largest tensor for one text.
    fn bytes(&self, length: usize) -> usize {
        let counts = Counts::new(length, 1);
        let graph = &self.program.plan.graph;
        let shapes = graph.nodes.iter().map(|node| &graph.value(node.results[0]).shape);
        4 * shapes.map(|shape| shape.elements(counts)).max().unwrap_or(0)
    }

    /// Runs a group and returns its outputs.
    fn run(&self, inputs: &[&[u8]], group: &Chunk) -> Result<Vec<Array>> {
        let given = self.inputs().zip(inputs).map(|(value, bytes)| input(&self.engine, value, bytes, group));
        let given = given.collect::<Result<Vec<_>>>()?;
        let given: Vec<&Array> = given.iter().chain(&self.weights).collect();
        self.program.run_at(group.counts(Counts::default()), &given)
    }
}

/// Uploads a weight: its tensors stacked along the first axis.
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

/// A group's rows of an input; boundaries count from the group's first token.
fn input(engine: &Arc<Engine>, value: &Value, bytes: &[u8], group: &Chunk) -> Result<Array> {
    let rows = match value.shape.rows() {
        dim @ Dim::Counted(_) => {
            let reason = "texts that run by their length count tokens and texts alone";
            return Err(Error::unsupported(format!("{} with {dim} rows", value.name), reason));
        }
        dim => group.rows(dim).unwrap_or_else(|| 0..dim.size(group.counts(Counts::default()))),
    };
    let width = value.dtype.bytes(value.shape.row_elements());
    let shape = value.shape.sizes(group.counts(Counts::default()));
    let bytes = &bytes[rows.start * width..rows.end * width];
    match (value.dtype, value.shape.rows()) {
        (DType::U32, Dim::Boundaries) => {
            let first = group.tokens.start as u32;
            let counted: Vec<u32> = aligned::<u32>(bytes).iter().map(|offset| offset - first).collect();
            engine.upload(DType::U32, &shape, bytemuck::cast_slice(&counted))
        }
        (dtype, _) => engine.upload(dtype, &shape, bytes),
    }
}

/// Splits a batch into groups of adjacent texts of one length, at most `most(length)` texts each.
///
/// # Errors
/// `InvalidArgument` for offsets that decrease, or do not run from 0 to the number of tokens.
fn groups(offsets: &[u32], tokens: usize, most: impl Fn(usize) -> usize) -> Result<Vec<Chunk>> {
    let ends = (offsets.first(), offsets.last().map(|last| *last as usize));
    if ends != (Some(&0), Some(tokens)) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::InvalidArgument(format!("offsets do not rise from 0 to {tokens}")));
    }
    let mut groups: Vec<Chunk> = Vec::new();
    for (text, pair) in offsets.windows(2).enumerate() {
        let rows = pair[0] as usize..pair[1] as usize;
        match groups.last_mut() {
            Some(group)
                if group.tokens.len() == rows.len() * group.texts.len() && group.texts.len() < most(rows.len()) =>
            {
                group.texts.end = text + 1;
                group.tokens.end = rows.end;
            }
            _ => groups.push(Chunk { texts: text..text + 1, tokens: rows }),
        }
    }
    Ok(groups)
}

impl Program for ByLength {
    fn limits(&self) -> BatchLimits {
        BatchLimits { tokens: TOKENS, longest_text: usize::MAX, in_flight: 2 }
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Box<dyn Pending>> {
        feed.check(self.inputs(), self.program.plan.graph.outputs.len())?;
        let offsets = aligned::<u32>(feed.inputs[self.offsets]);
        let groups = groups(&offsets, feed.counts.tokens, |length| MOST_BYTES / self.bytes(length).max(1))?;
        let mut results: Vec<Vec<Array>> = vec![Vec::new(); feed.outputs.len()];
        for group in groups {
            let outputs = self.run(&feed.inputs, &group)?;
            for (arrays, output) in results.iter_mut().zip(&feed.outputs) {
                arrays.push(outputs[*output].clone());
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

/// The arrays of all groups, by output.
struct UnderWay(Vec<Vec<Array>>);

impl Pending for UnderWay {
    fn read(self: Box<Self>, reader: Reader<'_>) -> Result<()> {
        self.0.iter().enumerate().try_for_each(|(place, groups)| {
            let mut all = Vec::new();
            for array in groups {
                all.extend(&*aligned::<f32>(&array.read()?));
            }
            reader(place, &all)
        })
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
