//! Models whose products of tokens and weights are of 8-bit integers: which columns are balanced before both are rounded, and
//! what each product reads and computes.

use std::sync::Arc;

use ndarray::Array2;
use rayon::prelude::*;

use super::encode::Given;
use super::session::{Session, Work, matrix};
use super::stages::{Stage, prepare};
use super::{Encoded, Model};
use crate::backend::{Executable, ProgramOptions, cpu};
use crate::graph::shaders::Registry;
use crate::graph::{Graph, Node, Rounding, Source, TokenProducts, ValueId};
use crate::model::encoder::{Built, Input};
use crate::model::weights::Weights;
use crate::numerics::Numerics;
use crate::ops::{Op, QuantizeKind, QuantizedLinear, Residual};
use crate::process::threads;
use crate::quant::balance::{RoundedRows, balanced, relative_error};
use crate::quant::outliers::outlier;
use crate::tensor::{Recipe, WeightSource};
use crate::text::packing::Batch;
use crate::text::tokenizer::{Tokenizer, Tokens};
use crate::{Result, exit};

/// What is encoded once, in float32 on the CPU, to see which columns are large: texts of several kinds and languages.
const TEXTS: &str = include_str!("integers.txt");
/// Tokens of each at most.
const MOST_TOKENS: usize = 48;
/// Rows of matrices that are looked at, from all parts of them.
const MOST_ROWS: usize = 1024;

/// Expected relative error of a column of the result from which on a product stays in floating point; trained models have 0.03.
const MOST_ERROR: f32 = 0.1;
/// Rows that a thread looks at together.
const ROWS: usize = 16;

/// The graph with its products of tokens and weights in integers, but for those that would lose numbers: of a model with an
/// [`outlier`] all, since what follows reads little but its product, and what comes before is multiplied by it. Which and by what
/// factors follows from numbers of this meaning.
///
/// # Errors
/// Those of tokenizing, of a batch on the CPU, and of weights that cannot be read.
pub(super) fn in_integers(
    built: Built,
    weights: &Arc<Weights>,
    (tokenizer, most): (&Tokenizer, usize),
    numerics: Numerics,
) -> Result<Built> {
    if let Some(found) = outlier_of(&built.graph, &**weights)? {
        log::warn!(target: "grilly", "{found}: no product is of integers");
        return Ok(built);
    }
    let texts: Vec<String> = TEXTS.lines().map(str::to_owned).collect();
    let tokens = tokenizer.encode(&texts, most.min(MOST_TOKENS))?;
    let rounding = rounding(&built, weights, tokens, numerics)?;
    Ok(Built { graph: built.graph.with_integer_products(&rounding)?, ..built })
}

/// A weight that nodes read and that is an outlier of its row, in words.
fn outlier_of(graph: &Graph, weights: &dyn WeightSource) -> Result<Option<String>> {
    let mut read: Vec<ValueId> =
        graph.nodes.iter().flat_map(|node| &node.operands).map(|id| graph.viewed(*id)).collect();
    read.sort_unstable();
    read.dedup();
    let of_value = |id: ValueId| -> Result<Option<String>> {
        let value = graph.value(id);
        let Source::Weight(weight) = &value.source else { return Ok(None) };
        for part in weight.parts.iter().filter(|part| part.computed.is_none()) {
            let view = part.view(weights)?;
            // Of a vector of several parts each is a row.
            let columns = value.shape.columns().min(view.elements()).max(1);
            let rows = view.elements() / columns;
            let some = |first: usize| {
                let mut numbers = vec![0.0; columns * ROWS.min(rows - first)];
                view.read_f32(first * columns, &mut numbers)?;
                let found = numbers.chunks_exact(columns).find_map(|row| outlier(row).map(|place| row[place]));
                Ok(found.map(|number| format!("{} holds {number} in a row of small numbers", part.name)))
            };
            exit::check()?;
            let all = || (0..rows).into_par_iter().step_by(ROWS).map(some);
            let found = threads::run(|| all().find_first(|found| !matches!(found, Ok(None))))?;
            if let Some(found) = found {
                return found;
            }
        }
        Ok(None)
    };
    read.into_iter().map(of_value).find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
}

fn rounding(built: &Built, weights: &Arc<Weights>, tokens: Vec<Tokens>, numerics: Numerics) -> Result<Rounding> {
    let graph = &built.graph;
    let products = graph.token_products();
    let read: Vec<ValueId> = products.iter().map(|product| product.x).collect();
    let on_cpu = |stage: &Stage| prepare(&*cpu::backend(), stage, weights, ProgramOptions::default());
    let found = values((graph.clone(), numerics), &built.inputs, &read, tokens, on_cpu)?;
    let round = |(product, numbers): (&TokenProducts, &Vec<f32>)| {
        let columns = graph.value(product.x).shape.columns();
        let mut rows = Vec::new();
        for id in &product.matrices {
            rows.extend(some_rows(graph, *id, &**weights, columns, MOST_ROWS / product.matrices.len())?);
        }
        let x = RoundedRows { numbers, affine: product.kind == QuantizeKind::Affine };
        let weight = RoundedRows { numbers: &rows, affine: false };
        let factors = balanced(x, weight, columns, numerics);
        let ones = || vec![1.0; columns];
        let lost = relative_error(x, weight, factors.as_ref().unwrap_or(&ones())) > MOST_ERROR;
        Ok((product.x, factors, lost))
    };
    let mut rounding = Rounding::default();
    for (x, factors, lost) in threads::run(|| products.par_iter().zip(&found).map(round).collect::<Result<Vec<_>>>())??
    {
        if lost {
            rounding.kept.insert(x);
        } else if let Some(factors) = factors {
            rounding.factors.insert(x, factors);
        }
    }
    Ok(rounding)
}

/// Up to `most` rows of a matrix, evenly distributed.
fn some_rows(graph: &Graph, id: ValueId, weights: &dyn WeightSource, columns: usize, most: usize) -> Result<Vec<f32>> {
    let matrix = graph.value(id);
    let step = matrix.shape.sizes(Default::default())[0].div_ceil(most.max(1)).max(1);
    let mut rows = Vec::new();
    for view in matrix.tensors(weights)? {
        for row in (0..view.elements() / columns).step_by(step) {
            let first = rows.len();
            rows.resize(first + columns, 0.0);
            view.read_f32(row * columns, &mut rows[first..])?;
        }
    }
    Ok(rows)
}

/// Values of a graph with numbers of a meaning, a row per token each, for texts in one batch.
fn values(
    (mut graph, numerics): (Graph, Numerics),
    inputs: &[Input],
    wanted: &[ValueId],
    tokens: Vec<Tokens>,
    prepare: impl FnOnce(&Stage) -> Result<Arc<dyn Executable>>,
) -> Result<Vec<Vec<f32>>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    graph.outputs = wanted.to_vec();
    let mut shaders = Registry::generic().clone();
    Arc::make_mut(&mut shaders).numerics = numerics;
    let stage = Stage::new(0, Built { graph, inputs: inputs.to_vec(), states: Vec::new() }, "", &shaders)?;
    let all = tokens.iter().map(|text| text.ids.len()).sum();
    let batch = Batch { texts: (0..tokens.len()).collect(), tokens: all, shared: 0 };
    let wanted = (0..wanted.len()).collect();
    let work = Work { tokens, wanted, ..Work::new(&stage, batch.texts.len(), Encoded::default()) };
    work.start(&*prepare(&stage)?, &batch)?.wait()
}

/// A product of integers in a model: what it reads, and its result on the model's device.
#[derive(Debug, Clone)]
pub struct IntegerProduct {
    /// Its name in the plan.
    pub name: String,
    /// Its op.
    pub op: QuantizedLinear,
    /// What is rounded by row `[tokens, K]`.
    pub x: Array2<f32>,
    /// What multiplies the columns of `x` first `[K]`; empty for ones.
    pub factors: Vec<f32>,
    /// The matrix before its rows are rounded `[N, K]`.
    pub matrix: Array2<f32>,
    /// What is added to the sums `[N]`; empty for zeros.
    pub bias: Vec<f32>,
    /// What is added in the end `[tokens, N]`.
    pub residual: Option<Array2<f32>>,
    /// The result `[tokens, N]`.
    pub y: Array2<f32>,
}

impl Model {
    /// Every product of integers for texts without a task, in the order of the plan, for those who compute it again.
    ///
    /// # Errors
    /// As [`Model::encode`].
    pub fn integer_products(&self, texts: &[String]) -> Result<Vec<IntegerProduct>> {
        let route = self.usual();
        let stage = route.stage(None)?;
        let tokens = route.tokens_of(Given::Texts(texts), 0..texts.len(), route.call("", None))?;
        let rows = tokens.iter().map(|text| text.ids.len()).sum();
        let (graph, weights) = (stage.plan.graph.clone().with_normed_rows(), &*route.source.weights);
        let products = || {
            graph.nodes.iter().filter_map(|node| match &node.op {
                Op::QuantizedLinear(op) => Some((node, op)),
                _ => None,
            })
        };
        let rounding = |node: &Node| {
            let (place, _) = graph.producer(node.operands[0]).expect("a node computes what is multiplied");
            Graph::rounded_by(&graph.nodes[place]).expect("it rounds rows")
        };
        let residual = |(node, op): (&Node, &QuantizedLinear)| {
            (op.residual == Residual::Added).then(|| node.operands[4 + usize::from(op.bias)])
        };
        let wanted: Vec<ValueId> = products()
            .flat_map(|product| [rounding(product.0).0, product.0.results[0]].into_iter().chain(residual(product)))
            .collect();
        let session = Session::new(self, route)?;
        let of = (graph.clone(), stage.plan.numerics);
        let found = values(of, &stage.inputs, &wanted, tokens, |stage| session.prepare(stage))?;
        let mut found = wanted.iter().zip(&found).map(|(id, values)| {
            let columns = graph.value(*id).shape.columns();
            Ok(matrix(values, rows, columns)?.to_owned())
        });
        let mut next = || found.next().expect("as many as were wanted");
        let constant = |id: Option<ValueId>| -> Result<Vec<f32>> {
            let Some(Source::Weight(weight)) = id.map(|id| &graph.value(id).source) else { return Ok(Vec::new()) };
            let mut floats = Vec::new();
            for mut part in weight.parts.iter().cloned() {
                part.recipe.retain(|step| !matches!(step, Recipe::Integers | Recipe::Packed(_)));
                let view = part.view(weights)?;
                let first = floats.len();
                floats.resize(first + view.elements(), 0.0);
                view.read_f32(0, &mut floats[first..])?;
            }
            Ok(floats)
        };
        let product = |product: (&Node, &QuantizedLinear)| {
            let (node, op) = product;
            let (x, y) = (next()?, next()?);
            let residual = residual(product).map(|_| next()).transpose()?;
            let rows = constant(Some(node.operands[2]))?;
            Ok(IntegerProduct {
                name: node.name.clone(),
                op: op.clone(),
                factors: constant(rounding(node).1)?,
                matrix: matrix(&rows, y.ncols(), x.ncols())?.to_owned(),
                bias: constant(op.bias.then(|| node.operands[4]))?,
                residual,
                x,
                y,
            })
        };
        products().map(product).collect()
    }
}
