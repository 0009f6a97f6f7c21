//! Products with weights as 8-bit integers.

use std::collections::{HashMap, HashSet};

use super::{Graph, Node, Source, Value, ValueId};
use crate::Result;
use crate::dtype::DType;
use crate::ops::{Dim, Linear, Op, QuantizeKind, QuantizeRows, QuantizedLinear, Shape, norm_quantize_rows};
use crate::tensor::{Part, Recipe};

/// How products of tokens and weights are rounded.
#[derive(Debug, Default)]
pub struct Rounding {
    /// Factors of the columns of values; those of the matrices that multiply a value are divided by them.
    pub factors: HashMap<ValueId, Vec<f32>>,
    /// Values whose products stay in floating point.
    pub kept: HashSet<ValueId>,
}

/// A value whose rows are rounded to integers.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenProducts {
    /// The value.
    pub x: ValueId,
    /// How: results of activations, which reach further to one side of 0, by their range, others by their largest magnitude.
    pub kind: QuantizeKind,
    /// The matrices that multiply it.
    pub matrices: Vec<ValueId>,
}

impl Graph {
    /// The values that [`Graph::with_integer_products`] rounds, each once.
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Dim, Linear, Shape};
    /// let mut graph = Graph::new();
    /// let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    /// let [a, b] = ["a", "b"].map(|name| graph.weight(vec![name.into()], Shape::fixed(&[8, 8])));
    /// for matrix in [a, b] {
    ///     graph.node("y", Linear::default(), &[x, matrix]).unwrap();
    /// }
    /// assert_eq!(graph.token_products()[0].matrices, [a, b]);
    /// ```
    pub fn token_products(&self) -> Vec<TokenProducts> {
        let mut products: Vec<TokenProducts> = Vec::new();
        let routers = self.routers();
        for node in self.nodes.iter().filter(|node| !routers.contains(&node.results[0])) {
            let Some((x, ..)) = self.token_product(node) else { continue };
            let matrix = node.operands[1];
            match products.iter_mut().find(|known| known.x == x) {
                Some(known) => known.matrices.push(matrix),
                None => products.push(TokenProducts { x, kind: self.rounded_as(x), matrices: vec![matrix] }),
            }
        }
        products
    }

    /// The value, which a product of integers computes in float32, held in the type of what was rounded.
    pub(crate) fn held_as(&mut self, y: ValueId, dtype: DType) -> ValueId {
        self.values[y.0].dtype = dtype;
        y
    }

    /// Whether the last node gives this value and can give it in float32, in which it is held from then on.
    pub(crate) fn held_wide(&mut self, y: ValueId) -> bool {
        let last = self.nodes.last().filter(|node| node.results == [y]);
        let wide = last.is_some_and(|node| node.op.results()[0].wide);
        if wide {
            self.held_as(y, DType::F32);
        }
        wide
    }

    /// What nodes compute for `route` alone: a rounded score may choose another expert.
    fn routers(&self) -> HashSet<ValueId> {
        let mut apart = self.clone();
        apart.nodes.iter_mut().filter(|node| matches!(node.op, Op::Route(_))).for_each(|node| node.operands.clear());
        let needed = [self, &apart].map(|graph| graph.needed_for(self.outputs.iter()));
        let alone = (0..self.nodes.len()).filter(|place| needed[0][*place] && !needed[1][*place]);
        alone.flat_map(|place| self.nodes[place].results.iter().copied()).collect()
    }

    fn rounded_as(&self, x: ValueId) -> QuantizeKind {
        let producer = self.producer(x).map(|(place, _)| &self.nodes[place].op);
        if let Some(Op::Activation(_)) = producer { QuantizeKind::Affine } else { QuantizeKind::Absmax }
    }

    /// The same graph with each product of tokens and a matrix of the weights in 8-bit integers: rows of the matrix are
    /// rounded when it is read ([`Recipe::Integers`]), tokens by `quantize_rows`, once where several products read them.
    /// Columns are first multiplied by their factors, those of the matrix divided (Xiao et al. 2023, SmoothQuant). Products with
    /// computed matrices, of anything but a row per token, those that only decide a route, and those to be kept stay as they are.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Dim, Linear, Shape};
    /// let mut graph = Graph::new();
    /// let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    /// let w = graph.weight(vec!["w".into()], Shape::fixed(&[4, 8]));
    /// graph.outputs = vec![graph.node("y", Linear::default(), &[x, w]).unwrap()];
    /// let graph = graph.with_integer_products(&Default::default()).unwrap();
    /// let names: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
    /// assert_eq!(names, ["quantize_rows", "quantized_linear"]);
    /// ```
    pub fn with_integer_products(mut self, rounding: &Rounding) -> Result<Self> {
        let mut rounded: HashMap<ValueId, [ValueId; 2]> = HashMap::new();
        let routers = self.routers();
        for node in std::mem::take(&mut self.nodes) {
            let stays = |x: &ValueId| routers.contains(&node.results[0]) || rounding.kept.contains(x);
            let product = self.token_product(&node).filter(|(x, ..)| !stays(x));
            let Some((x, product, parts)) = product else {
                self.push_node(node);
                continue;
            };
            let (kind, factors) = (self.rounded_as(x), rounding.factors.get(&x));
            let [q, scale] = match rounded.get(&x) {
                Some(known) => *known,
                None => *rounded.entry(x).or_insert(self.in_integers(x, kind, factors)?),
            };
            let shape = self.value(node.operands[1]).shape.clone();
            let ending = |last: Recipe| -> Vec<Part> {
                let inverse = |factors: &Vec<f32>| factors.iter().map(|factor| 1.0 / factor).collect::<Vec<_>>();
                let steps: Vec<Recipe> =
                    factors.map(|factors| Recipe::columns(&inverse(factors))).into_iter().chain([last]).collect();
                parts.iter().map(|part| Part { recipe: [&part.recipe[..], &steps].concat(), ..part.clone() }).collect()
            };
            let rows = Shape(shape.0[..1].to_vec());
            let matrix = self.weight_as(DType::I8, ending(Recipe::Integers), shape);
            let scales = self.weight(ending(Recipe::Scales), rows);
            let operands = [&[q, scale, matrix, scales], &node.operands[2..]].concat();
            let Linear { bias, activation, residual } = product;
            let pairs = kind == QuantizeKind::Affine;
            let op = QuantizedLinear { pairs, bias, activation, residual, ..QuantizedLinear::default() };
            self.push_node(Node { op: op.into(), operands, ..node });
        }
        Ok(self)
    }

    /// Integers and scales of the rows of a value; with the zeros of an affine kind.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub(crate) fn in_integers(
        &mut self,
        x: ValueId,
        kind: QuantizeKind,
        factors: Option<&Vec<f32>>,
    ) -> Result<[ValueId; 2]> {
        let name = format!("{} in integers", self.value(x).name);
        let factors = factors.map(|factors| {
            let part = Part::computed(format!("{name} factors"), &[factors.len()], factors.iter().copied());
            self.weight(vec![part], Shape::fixed(&[factors.len()]))
        });
        let pairs = kind == QuantizeKind::Affine;
        let op = QuantizeRows { kind, pairs, factors: factors.is_some(), ..QuantizeRows::default() };
        let operands: Vec<ValueId> = [x].into_iter().chain(factors).collect();
        let results = self.apply(&name, op, &operands)?;
        Ok([results[0], results[1]])
    }

    /// The same graph where every norm that gives integers gives its own result, too.
    pub(crate) fn with_normed_rows(mut self) -> Self {
        let mut nodes = std::mem::take(&mut self.nodes);
        for node in &mut nodes {
            let Some(kept) = norm_quantize_rows::kept(&mut node.op).filter(|kept| !**kept) else { continue };
            *kept = true;
            let Value { shape, dtype, .. } = self.value(node.operands[0]).clone();
            node.results.push(self.push(Value {
                name: format!("{} y", node.name),
                shape,
                dtype,
                source: Source::Node,
            }));
        }
        self.nodes = nodes;
        self.producers.forget();
        self
    }

    /// What a node of such a graph rounds by row, and the factors of its columns; `None` for one that rounds nothing.
    pub(crate) fn rounded_by(node: &Node) -> Option<(ValueId, Option<ValueId>)> {
        let factors = |given: bool| node.operands.last().copied().filter(|_| given);
        match &node.op {
            Op::QuantizeRows(op) => Some((node.operands[0], factors(op.factors))),
            Op::LayerNormQuantizeRows(op) => Some((*node.results.get(2)?, factors(op.factors))),
            Op::RmsNormQuantizeRows(op) => Some((*node.results.get(2)?, factors(op.factors))),
            _ => None,
        }
    }

    /// The product of a row per token and a matrix of the weights: what is to be rounded, the op, and the tensors of the matrix
    /// with their axes.
    fn token_product(&self, node: &Node) -> Option<(ValueId, Linear, Vec<Part>)> {
        let Op::Linear(product) = &node.op else { return None };
        let [x, matrix] = [node.operands[0], node.operands[1]].map(|id| self.value(id));
        let Source::Weight(weight) = &matrix.source else { return None };
        let tokens = matches!(x.shape.0[..], [Dim::Tokens, Dim::Fixed(_)]);
        let stored = weight.parts.iter().all(|part| part.computed.is_none());
        let axes = || Some(matrix.shape.sizes(Default::default()));
        let parts = weight.parts.iter().map(|part| Part { shape: part.shape.clone().or_else(axes), ..part.clone() });
        (tokens && stored).then(|| (self.before_cast(node.operands[0]), product.clone(), parts.collect()))
    }

    /// The float32 value that a value in 16 bits was cast from, which need not be rounded twice, or the value.
    fn before_cast(&self, x: ValueId) -> ValueId {
        let cast = self.producer(x).map(|(place, _)| &self.nodes[place]).filter(|node| matches!(node.op, Op::Cast(_)));
        let before = cast.map(|node| node.operands[0]);
        let same = |id: &ValueId| self.value(*id).dtype == DType::F32 && self.value(*id).shape == self.value(x).shape;
        before.filter(same).unwrap_or(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Plan;

    #[test]
    fn rows_are_rounded_once_and_computed_matrices_stay() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let of_texts = graph.input("texts", Shape::matrix(Dim::Texts, 8), DType::F32);
        let [a, b] = ["a", "b"].map(|name| graph.weight(vec![name.into()], Shape::fixed(&[8, 8])));
        let table = graph.weight(vec![Part::computed("table", &[8, 8], [0.5; 64].into_iter())], Shape::fixed(&[8, 8]));
        let bias = graph.weight(vec!["bias".into()], Shape::fixed(&[8]));
        let biased = Linear { bias: true, ..Linear::default() };
        let y = graph.node("y", biased, &[x, a, bias]).unwrap();
        let z = graph.node("z", Linear::default(), &[x, b]).unwrap();
        let others = [(of_texts, a), (x, table)];
        let others = others.map(|(x, matrix)| graph.node("other", Linear::default(), &[x, matrix]).unwrap());
        graph.outputs = vec![y, z, others[0], others[1]];
        let kind = QuantizeKind::Absmax;
        assert_eq!(graph.token_products(), [TokenProducts { x, kind, matrices: vec![a, b] }]);
        let factors = vec![0.5, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.25];
        let of_floats = graph.clone();
        let rounding = Rounding { factors: [(x, factors.clone())].into(), ..Rounding::default() };
        let graph = graph.with_integer_products(&rounding).unwrap();
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
        assert_eq!(names, ["quantize_rows", "quantized_linear", "quantized_linear", "linear", "linear"]);
        assert_eq!((graph.outputs[0], graph.nodes[1].results[0]), (y, y));
        assert_eq!(graph.nodes[1].operands[..2], graph.nodes[2].operands[..2]);
        assert_eq!(graph.nodes[1].operands[4], bias);
        let parts = |id| match &graph.value(id).source {
            Source::Weight(weight) => &weight.parts[..],
            other => panic!("{other:?} is no weight"),
        };
        let factors: Vec<u8> = factors.into_iter().flat_map(f32::to_le_bytes).collect();
        assert_eq!(parts(graph.nodes[0].operands[1])[0].computed.as_deref(), Some(&factors[..]));
        let [matrix, scales] = [2, 3].map(|place| graph.nodes[1].operands[place]);
        assert_eq!((graph.value(matrix).dtype, graph.value(scales).dtype), (DType::I8, DType::F32));
        let columns = Recipe::columns(&[2.0, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 4.0]);
        assert_eq!(parts(matrix), [Part::new("a", &[8, 8], vec![columns.clone(), Recipe::Integers])]);
        assert_eq!(parts(scales), [Part::new("a", &[8, 8], vec![columns, Recipe::Scales])]);
        assert_eq!(Plan::new(graph).graph.nodes.len(), 5);
        let rounding = Rounding { kept: [x].into(), ..Rounding::default() };
        assert!(
            of_floats.with_integer_products(&rounding).unwrap().nodes.iter().all(|node| node.op.name() == "linear")
        );
    }
}
