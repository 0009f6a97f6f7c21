//! A plan for texts of one length, run on arrays: used for batches when an op requires whole texts.
//!
//! A batch's texts are already sorted by length, so adjacent texts of one length form a group, and each group is one
//! run of the plan. With a second sequence, texts of one length have equally many rows of each.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Array, Engine, program};
use crate::backend::chunk::{Chunk, aligned, from_first};
use crate::backend::{Backend, BackendKind, BatchLimits, Executable, Feed, Pending, ProgramOptions};
use crate::dtype::DType;
use crate::graph::{Plan, Value, ValueId};
use crate::ops::{Counts, Dim};
use crate::process::memory::filled;
use crate::stats::COUNTERS;
use crate::tensor::WeightSource;
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
    /// Rows of which all texts of a group have equally many, and the input that holds their boundaries.
    sequences: Vec<(Dim, usize)>,
}

impl ByLength {
    /// Uploads the weights as float32 and runs one token, so that unsupported features of the device are reported
    /// early.
    ///
    /// # Errors
    /// `Unsupported`, `PipelineCreationFailed`, `OutOfMemory`, a device fault, or `NotFinite` naming a weight.
    pub fn prepare(
        backend: &dyn Backend,
        plan: &Plan,
        weights: &dyn WeightSource,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Executable>> {
        let engine = Engine::own(backend, plan, options)?;
        let mut wide = plan.widened();
        let graph = &mut wide.graph;
        let sequence = |(rows, id): &(Dim, ValueId)| {
            let offsets = graph.inputs.iter().position(|input| input == id);
            let missing = || Error::unsupported("texts of one length", "no input says where they end");
            Ok((*rows, offsets.ok_or_else(missing)?))
        };
        let sequences = graph.lengths.iter().map(sequence).collect::<Result<Vec<_>>>()?;
        let given = graph.weights_as_inputs();
        let upload = |(id, _): &(ValueId, _)| upload(&engine, plan.graph.value(*id), weights);
        let weights = given.iter().map(upload).collect::<Result<Vec<_>>>()?;
        let program = program::Program::of(&engine, wide, Counts::default(), &[])?;
        let program = ByLength { engine, program, weights, sequences };
        program.try_one()?;
        Ok(Arc::new(program))
    }

    /// Inputs of a batch.
    fn inputs(&self) -> impl ExactSizeIterator<Item = &Value> {
        let graph = &self.program.plan.graph;
        graph.inputs[..graph.inputs.len() - self.weights.len()].iter().map(|id| graph.value(*id))
    }

    /// A text with so many rows of each sequence.
    fn text(&self, lengths: &[usize]) -> Chunk {
        let rows = self.sequences.iter().zip(lengths).map(|((rows, _), length)| (*rows, 0..*length));
        Chunk { texts: 0..1, rows: rows.collect() }
    }

    /// Runs a text of one row of each sequence with all inputs zero, but for the last boundaries.
    fn try_one(&self) -> Result<()> {
        let text = self.text(&vec![1; self.sequences.len()]);
        let counts = text.counts(Counts::default());
        let mut inputs: Vec<Vec<u32>> = self.inputs().map(|value| vec![0; value.shape.elements(counts)]).collect();
        self.sequences.iter().for_each(|(_, offsets)| inputs[*offsets][1] = 1);
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
        self.run(&inputs, &text)?.iter().try_for_each(|array| array.read().map(drop))
    }

    /// Bytes of the largest tensor for one text with so many rows of each sequence.
    fn bytes(&self, lengths: &[usize]) -> usize {
        let counts = self.text(lengths).counts(Counts::default());
        let graph = &self.program.plan.graph;
        let shapes = graph.nodes.iter().map(|node| &graph.value(node.results[0]).shape);
        4 * shapes.map(|shape| shape.elements(counts)).max().unwrap_or(0)
    }

    /// A group's rows of an input; boundaries count from the group's first row.
    fn input(&self, value: &Value, bytes: &[u8], group: &Chunk) -> Result<Array> {
        let (dim, shape) = (value.shape.rows(), value.shape.sizes(group.counts(Counts::default())));
        if group.rows(dim).is_none() && !matches!(dim, Dim::Fixed(_)) {
            let reason = "texts that run by their length count no other rows";
            return Err(Error::unsupported(format!("{} with {dim} rows", value.name), reason));
        }
        let bytes = group.bytes(value, bytes);
        if (value.dtype, dim) == (DType::U32, Dim::Boundaries) {
            return self.engine.upload(DType::U32, &shape, bytemuck::cast_slice(&from_first::<u32>(bytes)));
        }
        self.engine.upload(value.dtype, &shape, bytes)
    }

    /// Runs a group and returns its outputs.
    fn run(&self, inputs: &[&[u8]], group: &Chunk) -> Result<Vec<Array>> {
        let given = self.inputs().zip(inputs).map(|(value, bytes)| self.input(value, bytes, group));
        let given = given.collect::<Result<Vec<_>>>()?;
        let given: Vec<&Array> = given.iter().chain(&self.weights).collect();
        self.program.run_at(group.counts(Counts::default()), &given)
    }
}

/// Uploads a weight as float32: its tensors, one after the other.
fn upload(engine: &Arc<Engine>, value: &Value, weights: &dyn WeightSource) -> Result<Array> {
    let shape = value.shape.sizes(Counts::default());
    let mut floats = filled(shape.iter().product(), 0.0f32, &value.name)?;
    let mut rest = &mut floats[..];
    for view in value.tensors(weights)? {
        let (own, others) = rest.split_at_mut(view.elements());
        view.read_f32(0, own)?;
        rest = others;
    }
    engine.upload(DType::F32, &shape, bytemuck::cast_slice(&floats))
}

/// Splits a batch into groups of adjacent texts of one length, at most `most(lengths)` texts each: the boundaries of texts
/// in each sequence, and the rows of each.
///
/// # Errors
/// `InvalidArgument` for offsets that decrease, or do not run from 0 to the number of rows.
fn groups(sequences: &[(Dim, &[u32], usize)], most: impl Fn(&[usize]) -> usize) -> Result<Vec<Chunk>> {
    for (_, offsets, rows) in sequences {
        let ends = (offsets.first(), offsets.last().map(|last| *last as usize));
        if ends != (Some(&0), Some(*rows)) || !offsets.is_sorted() {
            return Err(Error::InvalidArgument(format!("offsets do not rise from 0 to {rows}")));
        }
    }
    let mut groups: Vec<Chunk> = Vec::new();
    let mut common: Vec<usize> = Vec::new();
    let texts = sequences.iter().map(|(_, offsets, _)| offsets.len() - 1).min().unwrap_or(0);
    for text in 0..texts {
        let own = |(dim, offsets, _): &(Dim, &[u32], usize)| (*dim, offsets[text] as usize..offsets[text + 1] as usize);
        let rows: Vec<(Dim, Range<usize>)> = sequences.iter().map(own).collect();
        let lengths: Vec<usize> = rows.iter().map(|(_, rows)| rows.len()).collect();
        match groups.last_mut() {
            Some(group) if common == lengths && group.texts.len() < most(&lengths) => {
                group.texts.end = text + 1;
                group.rows.iter_mut().zip(rows).for_each(|((_, all), (_, own))| all.end = own.end);
            }
            _ => groups.push(Chunk { texts: text..text + 1, rows }),
        }
        common = lengths;
    }
    Ok(groups)
}

impl Executable for ByLength {
    fn limits(&self) -> BatchLimits {
        BatchLimits { tokens: TOKENS, longest_text: usize::MAX, in_flight: 2 }
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Pending> {
        feed.check(self.inputs(), self.program.plan.graph.outputs.len())?;
        let offsets: Vec<_> = self.sequences.iter().map(|(_, offsets)| aligned(feed.inputs[*offsets])).collect();
        let sequences = self.sequences.iter().zip(&offsets);
        let sequences = sequences.map(|((rows, _), offsets)| (*rows, &**offsets, rows.size(feed.counts)));
        let groups = groups(&sequences.collect::<Vec<_>>(), |lengths| MOST_BYTES / self.bytes(lengths).max(1))?;
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
        Ok(Pending::new(move |reader| {
            results.iter().enumerate().try_for_each(|(place, groups)| {
                let mut all = Vec::new();
                for array in groups {
                    all.extend(&*aligned::<f32>(&array.read()?));
                }
                reader(place, &all)
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(lengths: &[u32]) -> Vec<u32> {
        crate::text::packing::offsets(lengths.iter().map(|n| *n as usize))
    }

    #[test]
    fn neighbours_of_one_length_go_together() {
        let cut = |lengths: &[u32], most: usize| {
            let rows = lengths.iter().sum::<u32>() as usize;
            let groups = groups(&[(Dim::Tokens, &offsets(lengths), rows)], |_| most).unwrap();
            groups.into_iter().map(|group| (group.texts.clone(), group.tokens())).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[7, 7, 5, 0, 0], 9), [(0..2, 0..14), (2..3, 14..19), (3..5, 19..19)]);
        assert_eq!(cut(&[4, 4, 4], 2), [(0..2, 0..8), (2..3, 8..12)]);
        assert_eq!(cut(&[3, 6], 9).len(), 2, "twice as long is not the same");
        assert_eq!(cut(&[4], 0), [(0..1, 0..4)], "one text always goes");
        assert_eq!(cut(&[], 3), []);
        for wrong in [&[1, 3][..], &[0, 2, 1, 3], &[0, 2], &[]] {
            assert!(matches!(groups(&[(Dim::Tokens, wrong, 3)], |_| 9), Err(Error::InvalidArgument(_))), "{wrong:?}");
        }
    }

    #[test]
    fn with_a_second_sequence_both_lengths_are_alike() {
        let (first, second) = (offsets(&[3, 3, 3, 2, 2]), offsets(&[5, 5, 4, 4, 4]));
        let sequences = |rows| [(Dim::Tokens, &first[..], 13), (Dim::Counted(0), &second[..], rows)];
        let found = groups(&sequences(22), |lengths| 9 - lengths[0]).unwrap();
        let expected = [(0..2, 0..6, 0..10), (2..3, 6..9, 10..14), (3..5, 9..13, 14..22)];
        assert_eq!(
            found,
            expected.map(|(texts, a, b)| Chunk { texts, rows: vec![(Dim::Tokens, a), (Dim::Counted(0), b)] })
        );
        assert!(groups(&sequences(21), |_| 9).is_err());
    }
}
