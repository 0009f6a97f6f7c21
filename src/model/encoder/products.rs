//! Products and activations.

use super::Builder;
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::model::spec::{Matrix, NormKind, Order, Product};
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, Cast, Levels, Linear, QuantizeKind, QuantizeRows, QuantizedLinear,
    Scope, Shape,
};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

/// The tensors of a product.
struct Stored {
    /// Those of its matrix, as numbers.
    matrix: Vec<Part>,
    /// Those of its bias, times the factor.
    bias: Option<Vec<Part>>,
    /// A factor on the product.
    scale: f32,
}

/// The biases that a product names, times `scale`, of blocks of so many results.
fn own_biases(product: &Product, columns: &[usize], scale: f32) -> Vec<Part> {
    let part = |(name, columns): (&Option<String>, &usize)| match name {
        Some(name) => Part::new(name, &[*columns], (scale != 1.0).then(|| Recipe::scaled(scale)).into_iter().collect()),
        None => Part::computed("no bias", &[*columns], std::iter::repeat_n(0.0, *columns)),
    };
    product.biases.iter().zip(columns).map(part).collect()
}

impl Builder<'_> {
    /// `x W^T + b` with the tensors of a product, whose results have so many columns each.
    pub(super) fn linear(&mut self, node: &str, product: &Product, x: ValueId, columns: &[usize]) -> Result<ValueId> {
        self.scaled(node, product, x, columns, 1.0)
    }

    /// As [`Builder::linear`], times `scale`, which the constants contain.
    pub(super) fn scaled(
        &mut self,
        node: &str,
        product: &Product,
        x: ValueId,
        columns: &[usize],
        scale: f32,
    ) -> Result<ValueId> {
        let x = self.own_norm(node, product, x)?;
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let total: usize = columns.iter().sum();
        let head = self.spec.head_dim;
        let each = if product.names.len() == 1 { vec![total] } else { columns.to_vec() };
        let stored = |end: &str, vector: bool| -> Vec<Part> {
            let parts = product.names.iter().zip(&each).flat_map(|(name, rows)| {
                let part = |shape: &[usize], recipe| Part::new(format!("{name}.{end}"), shape, recipe);
                let shape = if vector { vec![*rows] } else { vec![*rows, input] };
                match product.order {
                    Order::Grouped(groups) if !vector => {
                        vec![part(&[*rows, input / groups, 1], vec![Recipe::Diagonal(groups)])]
                    }
                    Order::GroupedByOperand(groups) if !vector => {
                        let each = rows / groups;
                        let recipe = vec![Recipe::Folded(each), Recipe::Diagonal(groups), Recipe::Transposed];
                        vec![part(&[groups, input / groups, each], recipe)]
                    }
                    Order::Columns { first, of } if !vector => {
                        let recipe = vec![Recipe::Transposed, Recipe::Rows(first..first + input), Recipe::Transposed];
                        vec![part(&[*rows, of], recipe)]
                    }
                    Order::ByOperand if !vector => vec![part(&[input, *rows], vec![Recipe::Transposed])],
                    Order::OfNeighbours if !vector => {
                        let columns = Recipe::halves(input / head, head);
                        vec![part(&shape, vec![Recipe::Transposed, columns, Recipe::Transposed])]
                    }
                    Order::ByResult
                    | Order::ByOperand
                    | Order::OfNeighbours
                    | Order::Grouped(_)
                    | Order::GroupedByOperand(_)
                    | Order::Columns { .. } => vec![part(&shape, vec![])],
                    // Kernels turn columns that are half a head apart.
                    Order::Neighbours => vec![part(&shape, vec![Recipe::halves(rows / head, head)])],
                    Order::ByHead => {
                        let by_part = Recipe::part_by_part(self.spec.heads, 3, head);
                        vec![part(&shape, vec![by_part])]
                    }
                    Order::GateFirst => {
                        [rows / 2..*rows, 0..rows / 2].map(|half| part(&shape, vec![Recipe::Rows(half)])).into()
                    }
                }
            });
            let scaled = parts.map(|mut part| {
                if !vector {
                    let name = part.name.strip_suffix(".weight").unwrap_or(&part.name);
                    part.added = self.adapted(name, ["lora_B", "lora_A"]);
                }
                let apart = scale == 1.0 || !vector && !matches!(product.matrix, Matrix::Numbers | Matrix::Trained);
                part.recipe.extend((!apart).then(|| Recipe::scaled(scale)));
                part
            });
            scaled.collect()
        };
        let matrix = stored("weight", false);
        let vector = if product.biases.is_empty() { stored("bias", true) } else { own_biases(product, columns, scale) };
        if product.matrix == Matrix::Trained {
            let weight = self.graph.weight(matrix, Shape::fixed(&[total, input]));
            let bias = product.bias.then(|| self.graph.weight(vector, Shape::fixed(&[total])));
            return self.ternary(node, x, weight, bias);
        }
        if product.matrix != Matrix::Numbers {
            let bias = product.bias.then_some(vector);
            return self.integer_product(node, product.matrix, x, &Stored { matrix, bias, scale });
        }
        let mut operands = vec![x, self.graph.weight_as(dtype, matrix, Shape::fixed(&[total, input]))];
        if product.bias {
            operands.push(self.graph.weight(vector, Shape::fixed(&[total])));
        }
        self.graph.node(node, Linear { bias: product.bias, ..Linear::default() }, &operands)
    }

    /// The product of rows rounded to int8 and a matrix rounded to -1, 0 and 1, as W1.58A8 has it; between casts where `x` has
    /// 16 bits.
    fn ternary(&mut self, node: &str, x: ValueId, weight: ValueId, bias: Option<ValueId>) -> Result<ValueId> {
        let dtype = self.graph.value(x).dtype;
        let x = self.as_type(&format!("{node} rows"), x, DType::F32)?;
        let rows = self.graph.apply(&format!("{node} rows rounded"), QuantizeRows::default(), &[x])?;
        let (kind, scope) = (QuantizeKind::Ternary, Scope::Tensor);
        let round = QuantizeRows { kind, scope, unpacked: true, ..QuantizeRows::default() };
        let matrix = self.graph.apply(&format!("{node} weight rounded"), round, &[weight])?;
        let operands: Vec<ValueId> = rows.into_iter().chain(matrix).chain(bias).collect();
        let product = QuantizedLinear { scope, bias: bias.is_some(), ..QuantizedLinear::default() };
        let y = self.graph.node(node, product, &operands)?;
        self.as_type(&format!("{node} result"), y, dtype)
    }

    /// The value in a type: of a product that was just added, its sums before they are rounded; any other is cast.
    pub(super) fn as_type(&mut self, node: &str, x: ValueId, to: DType) -> Result<ValueId> {
        if self.graph.value(x).dtype == to || to == DType::F32 && self.graph.held_wide(x) {
            return Ok(x);
        }
        self.graph.node(node, Cast { to }, &[x])
    }

    /// The encoder's activation, squared if its result is.
    pub(super) fn own_activation(&mut self, node: &str, x: ValueId) -> Result<ValueId> {
        let y = self.activation(node, self.spec.activation, x)?;
        match self.spec.activation_squared {
            true => self.graph.node(&format!("{node} squared"), Binary::from(BinaryKind::Multiply), &[y, y]),
            false => Ok(y),
        }
    }

    pub(super) fn activation(&mut self, node: &str, kind: ActivationKind, x: ValueId) -> Result<ValueId> {
        match kind {
            ActivationKind::Identity => Ok(x),
            _ => self.graph.node(node, Activation::from(kind), &[x]),
        }
    }

    /// What a product multiplies: the norm of `x` that it has of its own, or `x`.
    fn own_norm(&mut self, node: &str, product: &Product, x: ValueId) -> Result<ValueId> {
        match &product.norms[..] {
            [] => Ok(x),
            [norm] => self.norm_as(NormKind::Rms, self.spec.norm_eps, &format!("{node} norm"), norm, x),
            several => {
                let problem = format!("{node}: {} norms of one product, expected one", several.len());
                Err(Error::InvalidArgument(problem))
            }
        }
    }

    /// Rows as 8-bit integers, and their scales, computed once.
    fn in_integers(&mut self, x: ValueId) -> Result<[ValueId; 2]> {
        if let Some(known) = self.integers.get(&x) {
            return Ok(*known);
        }
        let rounded = self.graph.in_integers(x, QuantizeKind::Absmax, None)?;
        self.integers.insert(x, rounded);
        Ok(rounded)
    }

    /// The product of the rows of `x`, rounded to 8 bits, with a matrix of integers.
    fn integer_product(&mut self, node: &str, kind: Matrix, x: ValueId, stored: &Stored) -> Result<ValueId> {
        let input = self.graph.value(x).shape.columns();
        let levels = if let Matrix::Rounded(levels) = kind { levels } else { Levels::Ternary };
        let rows_of = |part: &Part| part.rows().unwrap_or_default();
        let [q, scale] = self.in_integers(x)?;
        let (mut matrix, mut divisors) = (Vec::new(), Vec::new());
        for part in &stored.matrix {
            // Of the whole tensor, before rows are chosen or moved.
            let (first, shape) = match (kind, part.shape.as_deref()) {
                (Matrix::Packed(_), Some([rows, columns])) => (Recipe::Unpacked, Some(vec![rows / 4, *columns])),
                _ => (Recipe::Rounded(levels), part.shape.clone()),
            };
            let recipe = [&[first], &part.recipe[..], &[Recipe::Packed(levels)]].concat();
            matrix.push(Part { recipe, shape, ..part.clone() });
            let repeated = Recipe::Gathered(vec![0; rows_of(part)]);
            let mut divisor = match kind {
                Matrix::Packed(applied) => {
                    let recipe = vec![Recipe::Divisor(applied), repeated];
                    Part::new(format!("{}_scale", part.name), &[1], recipe)
                }
                _ if levels == Levels::Ternary => {
                    Part { recipe: vec![Recipe::Divisors(levels), repeated], ..part.clone() }
                }
                _ => Part { recipe: [&part.recipe[..], &[Recipe::Divisors(levels)]].concat(), ..part.clone() },
            };
            divisor.recipe.extend((stored.scale != 1.0).then(|| Recipe::scaled(1.0 / stored.scale)));
            divisors.push(divisor);
        }
        let rows = stored.matrix.iter().map(rows_of).sum();
        let shape = Shape::fixed(&[rows, levels.bytes(input)]);
        let matrix = self.graph.weight_as(levels.dtype(), matrix, shape);
        let mut operands = vec![q, scale, matrix, self.graph.weight(divisors, Shape::fixed(&[rows]))];
        if let Some(bias) = &stored.bias {
            operands.push(self.graph.weight(bias.clone(), Shape::fixed(&[rows])));
        }
        let op = QuantizedLinear { levels, bias: stored.bias.is_some(), ..QuantizedLinear::default() };
        let (y, dtype) = (self.graph.node(node, op, &operands)?, self.graph.value(x).dtype);
        Ok(self.graph.held_as(y, dtype))
    }
}
