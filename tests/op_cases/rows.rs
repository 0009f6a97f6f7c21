//! Rows of the op-case table as `tests/export_cases.py` writes them, and the plan of one node that each makes.

use std::collections::HashMap;
use std::sync::Arc;

use grilly::backend::{Backend, Executable, ProgramOptions};
use grilly::dtype::DType;
use grilly::graph::fuse::Fusion;
use grilly::graph::{Graph, Plan, ValueId};
use grilly::model::shaders;
use grilly::ops::signature::{Axis, Role};
use grilly::ops::{Counts, Dim, Op, Shape};
use grilly::tensor::{TensorView, WeightSource};
use safetensors::SafeTensors;

/// One op with operands, and what it has to give.
pub struct Row {
    pub name: String,
    pub op: Op,
    pub operands: Vec<Operand>,
    pub results: Vec<Expected>,
    /// Whether rows that are no text's tokens have a count of their own; a number of every other row of the table.
    others: bool,
}

/// The count of rows beside tokens, and that of the keys of another sequence.
pub const ROWS: usize = 1;
pub const KEYS: usize = 4;

/// An operand as a plan has it.
pub struct Operand {
    pub dtype: DType,
    /// Whether the plan keeps it, as it keeps a model's weights.
    pub constant: bool,
    pub axes: Vec<usize>,
    /// Floats of 32 bits, or integers.
    words: Vec<u32>,
}

/// A result in float64, and how far from it one may be that is stored as `dtype`.
pub struct Expected {
    y: Vec<f64>,
    bounds: Vec<f32>,
    dtype: DType,
}

#[derive(serde::Deserialize)]
struct Listed {
    name: String,
    op: String,
    attributes: serde_json::Value,
    types: Vec<String>,
}

/// The rows that `wanted` names, or all, as far as a plan of batches can express them: its outputs are floats, its inputs
/// not of 8 bits, what it holds in 16 bits is of one type and in whole quads of elements, as kernels read them, and it
/// converts nothing.
pub fn read(bytes: &[u8], wanted: &[&str]) -> Vec<Row> {
    let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
    let listed = &header.metadata().as_ref().unwrap()["rows"];
    let listed: Vec<Listed> = serde_json::from_str(listed).unwrap();
    let listed = listed.into_iter().enumerate();
    let listed = listed.filter(|(_, row)| wanted.is_empty() || wanted.contains(&row.name.as_str()));
    let file = SafeTensors::deserialize(bytes).unwrap();
    listed
        .filter_map(|(place, row)| Row::read(&file, row, place % 2 == 1))
        .filter(|row| row.has_quads() && row.has_finite_weights())
        .collect()
}

impl Row {
    fn read(file: &SafeTensors<'_>, listed: Listed, others: bool) -> Option<Row> {
        let op = Op::from_attributes(&listed.op, listed.attributes).unwrap();
        let types = listed.types.iter().enumerate();
        let mut narrow =
            types.filter(|(place, _)| has_16_bits(&op, *place)).map(|(_, name)| name.as_str()).collect::<Vec<_>>();
        narrow.dedup();
        let is_narrow = listed.types.iter().any(|name| name.ends_with("float16"));
        if is_narrow && (narrow.len() != 1 || narrow[0] == "float32") {
            return None;
        }
        let operand = |(place, stored): (usize, &String)| {
            let view = file.tensor(&format!("{}/{place}", listed.name)).unwrap();
            let of = op.operand(place);
            let stored = stored.parse().ok().filter(|_| has_16_bits(&op, place)).unwrap_or(DType::F32);
            Operand {
                dtype: of.stored.unwrap_or(if of.is_integer() { DType::U32 } else { stored }),
                constant: matches!(of.role, Role::Matrix | Role::Vector | Role::Table),
                axes: view.shape().to_vec(),
                words: view.data().chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            }
        };
        let operands: Vec<Operand> = listed.types.iter().enumerate().map(operand).collect();
        let types: Vec<DType> = operands.iter().map(|operand| operand.dtype).collect();
        let data = |part: &str, place: usize| file.tensor(&format!("{}/{part} {place}", listed.name)).unwrap().data();
        let result = |(place, dtype): (usize, DType)| {
            let bounds = data(if dtype.is_narrow() { "narrow" } else { "bound" }, place);
            let y = data("y", place).chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
            Expected { y, bounds: DType::F32.decode(bounds), dtype }
        };
        let types = op.result_types(&types);
        let converts = op.operand(0).role == Role::Any && (is_narrow || types[0].is_narrow());
        let bytes = operands.iter().any(|operand| matches!(operand.dtype, DType::I8 | DType::U8));
        if converts || bytes || !types.iter().all(|dtype| dtype.is_float()) {
            return None;
        }
        let results = types.into_iter().enumerate().map(result).collect();
        Some(Row { name: listed.name, op, operands, results, others })
    }

    /// The type of 16 bits in which it is computed, if it is.
    pub fn stored(&self) -> DType {
        self.operands.iter().map(|operand| operand.dtype).find(|dtype| dtype.is_narrow()).unwrap_or_default()
    }

    /// Whether a plan can keep its weights: others are refused while they are read.
    fn has_finite_weights(&self) -> bool {
        let mut weights = self.operands.iter().filter(|operand| operand.constant && operand.dtype.is_float());
        weights.all(|operand| operand.words.iter().all(|word| f32::from_bits(*word).is_finite()))
    }

    fn has_quads(&self) -> bool {
        let (shapes, _) = self.shapes();
        let results = self.op.infer(&shapes.iter().collect::<Vec<_>>()).unwrap();
        let types = self.operands.iter().map(|x| x.dtype).chain(self.results.iter().map(|y| y.dtype));
        let mut values = types.zip(shapes.iter().chain(&results));
        values.all(|(dtype, shape)| !dtype.is_narrow() || shape.columns().is_multiple_of(4))
    }

    /// What the batch counts the operands' first axes by.
    ///
    /// Where the signature counts nothing, tokens or another count are the rows of the first matrix of activations, or index,
    /// and of all that have as many. A parameter's and a cache's axes, which are written in place, are known.
    fn dims(&self) -> Vec<Option<Dim>> {
        let places = 0..self.operands.len();
        let signature: Vec<_> = places.clone().map(|place| self.op.operand(place).counted).collect();
        let in_place = self.op.results().iter().any(|result| self.op.place_of(result.name, 0).is_some());
        // Batches take no counted axes of some ops: programs on arrays do.
        if in_place || self.op.signature().sized || signature.iter().any(Option::is_some) {
            return signature;
        }
        let experts = matches!(self.op, Op::ExpertLinear(_));
        let given = |x: &&Operand| !x.constant && x.axes.len() == if x.dtype == DType::U32 && !experts { 1 } else { 2 };
        let rows = self.operands.iter().find(given).map(|x| x.axes[0]);
        // Rows of one axis, but for those that are split into heads, or into the places of experts.
        let most = if matches!(self.op, Op::Rope(_) | Op::ExpertLinear(_) | Op::WeightedSum(_)) { 3 } else { 2 };
        let counted =
            |x: &Operand| rows.is_some() && !x.constant && x.axes.len() <= most && x.axes.first().copied() == rows;
        let dim = if self.others { Dim::Counted(ROWS) } else { Dim::Tokens };
        self.operands.iter().map(|x| counted(x).then_some(dim)).collect()
    }

    /// Shapes of the operands, and what the batch counts; an op that does not take them so has axes of known size.
    pub fn shapes(&self) -> (Vec<Shape>, Counts) {
        let dims = self.dims();
        let rows = |place: usize| self.operands[place].axes.first().copied();
        let size = |dim: Dim| dims.iter().position(|found| *found == Some(dim)).and_then(rows);
        let texts = size(Dim::Texts).or(size(Dim::Boundaries).map(|rows| rows - 1));
        let counts = Counts::new(size(Dim::Tokens).unwrap_or(1), texts.unwrap_or(1));
        let counts = counts.with(ROWS, size(Dim::Counted(ROWS)).unwrap_or(1));
        // Tokens of another number are those of another sequence, where the op has two.
        let other = |place: &usize| dims[*place] == Some(Dim::Tokens) && rows(*place) != Some(counts.tokens);
        let sequences = dims.iter().filter(|dim| **dim == Some(Dim::Boundaries)).count();
        let keys = (0..dims.len()).find(other).and_then(rows).filter(|_| self.others && sequences > 1);
        let counts = counts.with(KEYS, keys.unwrap_or(0));
        let fits = |place: usize| match dims[place] {
            Some(Dim::Tokens) if keys.is_some() && rows(place) == keys => Some(Dim::Counted(KEYS)),
            dim => dim.filter(|dim| rows(place) == Some(dim.size(counts))),
        };
        let shape = |place: usize| {
            let mut shape = Shape::fixed(&self.operands[place].axes);
            // Boundaries between rows of known number are no batch's.
            let of = match self.op.operand(place).role {
                Role::Offsets { of, .. } => self.op.place_of(of, place).unwrap(),
                _ => place,
            };
            if let (Some(dim), Some(_)) = (fits(place), fits(of)) {
                shape.0[0] = dim;
            }
            shape
        };
        let shapes: Vec<Shape> = (0..dims.len()).map(shape).collect();
        match self.op.infer(&shapes.iter().collect::<Vec<_>>()) {
            Ok(_) => (shapes, counts),
            Err(_) => (self.operands.iter().map(|x| Shape::fixed(&x.axes)).collect(), Counts::new(1, 1)),
        }
    }

    /// The first text, or half the rows, where these are a batch of their own and their results the first of the whole's.
    pub fn alone(&self) -> Option<Counts> {
        let (shapes, whole) = self.shapes();
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let ends = self.operands.iter().zip(&shapes).filter(|(_, shape)| shape.rows() == Dim::Boundaries);
        let ends: Vec<usize> = ends.map(|(operand, _)| operand.words[1] as usize).collect();
        let tokens = ends.first().copied().unwrap_or(whole.tokens / 2);
        let rows = whole.others[ROWS] / 2;
        let results = self.op.infer(&shapes).ok()?;
        let counted = results.iter().all(|shape| !matches!(shape.rows(), Dim::Fixed(_)));
        let fixed = |place: usize| match self.op.operand(place).role {
            Role::Index { into, axis: Axis::Rows | Axis::Elements, .. } => {
                matches!(shapes[self.op.place_of(into, place).unwrap()].rows(), Dim::Fixed(_))
            }
            _ => true,
        };
        let apart = self.op.is_separable(&shapes) && counted && (0..shapes.len()).all(fixed);
        let apart = apart && ends.iter().all(|end| *end == tokens);
        (apart && tokens.max(rows) > 0).then_some(Counts::new(tokens, 1).with(ROWS, rows))
    }

    /// The row as a plan, ready to run.
    pub fn prepare(&self, backend: &dyn Backend) -> grilly::Result<Arc<dyn Executable>> {
        let (mut graph, mut weights) = (Graph::new(), HashMap::new());
        let (shapes, _) = self.shapes();
        let value = |(place, (operand, shape)): (usize, (&Operand, Shape))| -> ValueId {
            let name = self.op.operand(place).name;
            if !operand.constant {
                return graph.input(name, shape, operand.dtype);
            }
            let key = format!("{name} {place}");
            weights.insert(key.clone(), (operand.axes.clone(), bytemuck::cast_slice(&operand.words).to_vec()));
            graph.weight_as(operand.dtype, vec![key.into()], shape)
        };
        let operands: Vec<ValueId> = self.operands.iter().zip(shapes).enumerate().map(value).collect();
        let shaders = shaders::read();
        let fusion = Fusion { shaders: &shaders, ..Fusion::default() };
        graph.outputs = graph.apply(&self.name, self.op.clone(), &operands)?;
        backend.prepare(Arc::new(Plan::with(graph, &fusion)?), Arc::new(Weights(weights)), ProgramOptions::default())
    }

    /// The first elements of the inputs, as many as the batch counts.
    pub fn inputs(&self, counts: Counts) -> Vec<Vec<u8>> {
        let (shapes, _) = self.shapes();
        let given = self.operands.iter().zip(&shapes).filter(|(operand, _)| !operand.constant);
        let bytes = |(operand, shape): (&Operand, &Shape)| {
            let words = &operand.words[..shape.elements(counts)];
            if !operand.dtype.is_float() {
                return bytemuck::cast_slice(words).to_vec();
            }
            let mut bytes = vec![0; operand.dtype.bytes(words.len())];
            operand.dtype.encode(bytemuck::cast_slice(words), &mut bytes);
            bytes
        };
        given.map(bytes).collect()
    }
}

impl Expected {
    /// What is wrong with a result. What cannot hold 16 bits computes in float32, which has no infinity where float16 does.
    pub fn fault(&self, found: &[f32]) -> Option<String> {
        if found.len() != self.y.len() {
            return Some(format!("{} elements, expected {}", found.len(), self.y.len()));
        }
        let most = if self.dtype == DType::F16 { f64::from(half::f16::MAX) } else { f64::from(f32::MAX) };
        let agrees = |place: usize| {
            let (y, expected) = (f64::from(found[place]), self.y[place]);
            let beyond = expected.abs() > most && y == f64::INFINITY.copysign(expected);
            let near = expected.is_finite() && (y - expected).abs() <= f64::from(self.bounds[place]);
            near || beyond || y == expected || y.is_nan() && expected.is_nan()
        };
        let place = (0..found.len()).find(|place| !agrees(*place))?;
        let (y, expected, bound) = (found[place], self.y[place], self.bounds[place]);
        Some(format!("element {place} is {y}, expected {expected} within {bound:e}"))
    }
}

/// What plans read in 16 bits: what kernels take so, and of a model its tables and the activations of its tokens.
fn has_16_bits(op: &Op, place: usize) -> bool {
    let operand = op.operand(place);
    // Derivatives have kernels of float32 alone.
    let of_tokens = operand.counted == Some(Dim::Tokens) && !op.name().ends_with("_backward");
    operand.narrow || operand.role == Role::Table || of_tokens
}

/// The operands that a plan keeps, by name.
struct Weights(HashMap<String, (Vec<usize>, Vec<u8>)>);

impl WeightSource for Weights {
    fn tensor(&self, name: &str) -> grilly::Result<TensorView<'_>> {
        let (axes, bytes) = &self.0[name];
        Ok(TensorView::new(DType::F32, DType::F32, axes, bytes))
    }
}
