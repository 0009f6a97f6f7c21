//! A plan for texts of one length, run on arrays: used for batches when an op requires whole texts.
//!
//! A batch's texts are already sorted by length, so adjacent texts of one length form a group, and each group is one
//! run of the plan. With a second sequence, texts of one length have equally many rows of each.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Array, Engine, program};
use crate::backend::chunk::aligned;
use crate::backend::{Backend, BackendKind, BatchLimits, Feed, Pending, Program, ProgramOptions, Reader};
use crate::dtype::DType;
use crate::graph::{Plan, Value, ValueId};
use crate::ops::{Counts, Dim};
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
    sequences: Vec<Sequence>,
}

/// Rows of which all texts of a group have equally many.
struct Sequence {
    rows: Dim,
    /// Index of the input that holds the boundaries of texts.
    offsets: usize,
}

/// Adjacent texts of one length.
#[derive(Debug, PartialEq)]
struct Group {
    texts: Range<usize>,
    /// Their rows of each sequence.
    rows: Vec<Range<usize>>,
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
    ) -> Result<Arc<dyn Program>> {
        let engine = Engine::own(backend, plan, options)?;
        let mut plan = plan.widened();
        let graph = &mut plan.graph;
        let sequence = |(rows, id): &(Dim, ValueId)| {
            let offsets = graph.inputs.iter().position(|input| input == id);
            let missing = || Error::unsupported("texts of one length", "no input says where they end");
            Ok(Sequence { rows: *rows, offsets: offsets.ok_or_else(missing)? })
        };
        let sequences = graph.lengths.iter().map(sequence).collect::<Result<Vec<_>>>()?;
        let given = graph.weights_as_inputs();
        let upload = |(id, parts): &(_, Vec<Part>)| upload(&engine, graph.value(*id), parts, weights);
        let weights = given.iter().map(upload).collect::<Result<Vec<_>>>()?;
        let program = program::Program::of(&engine, plan, Counts::default(), &[])?;
        let program = ByLength { engine, program, weights, sequences };
        program.try_one()?;
        Ok(Arc::new(program))
    }

    /// Inputs of a batch.
    fn inputs(&self) -> impl ExactSizeIterator<Item = &Value> {
        let graph = &self.program.plan.graph;
        graph.inputs[..graph.inputs.len() - self.weights.len()].iter().map(|id| graph.value(*id))
    }

    /// The counts of so many texts with so many rows of each sequence.
    fn counts(&self, texts: usize, rows: impl Iterator<Item = usize>) -> Counts {
        let mut counts = Counts::new(0, texts);
        self.sequences.iter().zip(rows).for_each(|(sequence, rows)| counts.set(sequence.rows, rows));
        counts
    }

    /// Runs a text of one row of each sequence with all inputs zero, but for the last boundaries.
    fn try_one(&self) -> Result<()> {
        let group = Group { texts: 0..1, rows: vec![0..1; self.sequences.len()] };
        let counts = self.counts(1, self.sequences.iter().map(|_| 1));
        let mut inputs: Vec<Vec<u32>> = self.inputs().map(|value| vec![0; value.shape.elements(counts)]).collect();
        self.sequences.iter().for_each(|sequence| inputs[sequence.offsets][1] = 1);
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
        self.run(&inputs, &group)?.iter().try_for_each(|array| array.read().map(drop))
    }

    /// Bytes of the largest tensor for one text with so many rows of each sequence.
    fn bytes(&self, lengths: &[usize]) -> usize {
        let counts = self.counts(1, lengths.iter().copied());
        let graph = &self.program.plan.graph;
        let shapes = graph.nodes.iter().map(|node| &graph.value(node.results[0]).shape);
        4 * shapes.map(|shape| shape.elements(counts)).max().unwrap_or(0)
    }

    /// A group's rows of an input; boundaries count from the group's first row.
    fn input(&self, value: &Value, bytes: &[u8], group: &Group) -> Result<Array> {
        let counts = self.counts(group.texts.len(), group.rows.iter().map(Range::len));
        let dim = value.shape.rows();
        let rows = match dim {
            Dim::Texts => group.texts.clone(),
            Dim::Boundaries => group.texts.start..group.texts.end + 1,
            Dim::Fixed(rows) => 0..rows,
            _ => {
                let found = self.sequences.iter().zip(&group.rows).find(|(sequence, _)| sequence.rows == dim);
                let reason = "texts that run by their length count no other rows";
                let missing = || Error::unsupported(format!("{} with {dim} rows", value.name), reason);
                found.ok_or_else(missing)?.1.clone()
            }
        };
        let width = value.dtype.bytes(value.shape.row_elements());
        let shape = value.shape.sizes(counts);
        let bytes = &bytes[rows.start * width..rows.end * width];
        if (value.dtype, dim) != (DType::U32, Dim::Boundaries) {
            return self.engine.upload(value.dtype, &shape, bytes);
        }
        let offsets = aligned::<u32>(bytes);
        let counted: Vec<u32> = offsets.iter().map(|offset| offset - offsets[0]).collect();
        self.engine.upload(DType::U32, &shape, bytemuck::cast_slice(&counted))
    }

    /// Runs a group and returns its outputs.
    fn run(&self, inputs: &[&[u8]], group: &Group) -> Result<Vec<Array>> {
        let given = self.inputs().zip(inputs).map(|(value, bytes)| self.input(value, bytes, group));
        let given = given.collect::<Result<Vec<_>>>()?;
        let given: Vec<&Array> = given.iter().chain(&self.weights).collect();
        self.program.run_at(self.counts(group.texts.len(), group.rows.iter().map(Range::len)), &given)
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
fn groups(sequences: &[(&[u32], usize)], most: impl Fn(&[usize]) -> usize) -> Result<Vec<Group>> {
    for (offsets, rows) in sequences {
        let ends = (offsets.first(), offsets.last().map(|last| *last as usize));
        if ends != (Some(&0), Some(*rows)) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(Error::InvalidArgument(format!("offsets do not rise from 0 to {rows}")));
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    let mut common: Vec<usize> = Vec::new();
    let texts = sequences.iter().map(|(offsets, _)| offsets.len() - 1).min().unwrap_or(0);
    for text in 0..texts {
        let own = |(offsets, _): &(&[u32], usize)| offsets[text] as usize..offsets[text + 1] as usize;
        let rows: Vec<Range<usize>> = sequences.iter().map(own).collect();
        let lengths: Vec<usize> = rows.iter().map(Range::len).collect();
        match groups.last_mut() {
            Some(group) if common == lengths && group.texts.len() < most(&lengths) => {
                group.texts.end = text + 1;
                group.rows.iter_mut().zip(rows).for_each(|(all, own)| all.end = own.end);
            }
            _ => groups.push(Group { texts: text..text + 1, rows }),
        }
        common = lengths;
    }
    Ok(groups)
}

impl Program for ByLength {
    fn limits(&self) -> BatchLimits {
        BatchLimits { tokens: TOKENS, longest_text: usize::MAX, in_flight: 2 }
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Box<dyn Pending>> {
        feed.check(self.inputs(), self.program.plan.graph.outputs.len())?;
        let offsets: Vec<_> = self.sequences.iter().map(|own| aligned::<u32>(feed.inputs[own.offsets])).collect();
        let sizes = self.sequences.iter().map(|sequence| sequence.rows.size(feed.counts));
        let sequences: Vec<(&[u32], usize)> = offsets.iter().map(|offsets| &**offsets).zip(sizes).collect();
        let groups = groups(&sequences, |lengths| MOST_BYTES / self.bytes(lengths).max(1))?;
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

    fn offsets(lengths: &[u32]) -> Vec<u32> {
        crate::text::packing::offsets(lengths.iter().map(|n| *n as usize))
    }

    #[test]
    fn neighbours_of_one_length_go_together() {
        let cut = |lengths: &[u32], most: usize| {
            let groups = groups(&[(&offsets(lengths), lengths.iter().sum::<u32>() as usize)], |_| most).unwrap();
            groups.into_iter().map(|group| (group.texts, group.rows[0].clone())).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[7, 7, 5, 0, 0], 9), [(0..2, 0..14), (2..3, 14..19), (3..5, 19..19)]);
        assert_eq!(cut(&[4, 4, 4], 2), [(0..2, 0..8), (2..3, 8..12)]);
        assert_eq!(cut(&[3, 6], 9).len(), 2, "twice as long is not the same");
        assert_eq!(cut(&[4], 0), [(0..1, 0..4)], "one text always goes");
        assert_eq!(cut(&[], 3), []);
        for wrong in [&[1, 3][..], &[0, 2, 1, 3], &[0, 2], &[]] {
            assert!(matches!(groups(&[(wrong, 3)], |_| 9), Err(Error::InvalidArgument(_))), "{wrong:?}");
        }
    }

    #[test]
    fn with_a_second_sequence_both_lengths_are_alike() {
        let (first, second) = (offsets(&[3, 3, 3, 2, 2]), offsets(&[5, 5, 4, 4, 4]));
        let found = groups(&[(&first, 13), (&second, 22)], |lengths| 9 - lengths[0]).unwrap();
        let expected = [(0..2, 0..6, 0..10), (2..3, 6..9, 10..14), (3..5, 9..13, 14..22)];
        assert_eq!(found, expected.map(|(texts, a, b)| Group { texts, rows: vec![a, b] }));
        assert!(groups(&[(&first, 13), (&second, 21)], |_| 9).is_err());
    }
}
