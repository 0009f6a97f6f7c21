//! Mixtures of experts in place of a layer's feed-forward part.

use super::parts::{Order, Product};
use crate::tensor::{Part, Recipe};

/// What stands for the number of the expert in the name of a tensor of its own.
pub const NUMBER: &str = "{}";

/// A mixture of experts (Shazeer et al. 2017): each row goes through the feed-forward parts of the `top_k` experts to
/// which the router gives the largest scores, and their results are added, weighted by the softmax of the scores. Each
/// tensor of the layer's two products has the blocks of all experts, stacked along its first axis, or is an expert's own
/// where its name has [`NUMBER`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixture {
    /// Experts.
    pub experts: usize,
    /// Experts of a row.
    pub top_k: usize,
    /// Columns between the two products of an expert.
    pub intermediate: usize,
    /// Whether the weights of a row add up to one.
    pub normalized: bool,
    /// The product that scores the experts, `[experts, hidden]`, or `[experts, units]` with a cell.
    pub router: Product,
    /// The cell whose state the router reads in place of the row, if there is one.
    pub cell: Option<LiquidCell>,
    /// Name of the bias of the weighted sum, if there is one.
    pub bias: Option<String>,
}

/// A liquid time-constant cell (Hasani et al. 2021), which reads one row `x`:
///
/// `dh/dt = -(rate + f) h + f target`, `f = sigmoid(input x + recurrent h)`, from `h = 0` for a time of 1.
///
/// It takes `steps` steps of the paper's fused solver, `h = (h + f target / steps) / (1 + (rate + f) / steps)`. The time
/// constant `1 / (rate + f)` depends on row and state; it is positive because `rate` and `f` are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiquidCell {
    /// Columns of the state.
    pub units: usize,
    /// Steps of the solver.
    pub steps: usize,
    /// The product of the row, `[units, hidden]`.
    pub input: Product,
    /// The product of the state, `[units, units]`.
    pub recurrent: Product,
    /// Name of the rates of decay, `[units]`.
    pub rate: String,
    /// Name of the values that the state approaches where `f` is large, `[units]`.
    pub target: String,
}

impl Mixture {
    /// The matrices of a product, `[experts, columns of the result, columns of x]`, or its biases, without the last axis if
    /// `input` is `None`: the result has so many `columns` of each tensor. All are multiplied by `scale`.
    pub fn parts(&self, product: &Product, columns: &[usize], input: Option<usize>, scale: f32) -> Vec<Part> {
        let total: usize = columns.iter().sum();
        let each = if product.names.len() == 1 { &[total][..] } else { columns };
        let part = |expert: usize, name: &String, rows: usize| {
            // The place among the experts of the tensor, and their number.
            let (place, experts) = if name.contains(NUMBER) { (0, 1) } else { (expert, self.experts) };
            let name = name.replace(NUMBER, &expert.to_string());
            let block = |rows: usize| Recipe::Rows(place * rows..(place + 1) * rows);
            let mut part = match (input, product.order) {
                (None, _) => Part::new(format!("{name}.bias"), &[experts * rows], vec![block(rows)]),
                (Some(input), Order::ByOperand) => {
                    let recipe = vec![block(input), Recipe::Transposed];
                    Part::new(format!("{name}.weight"), &[experts * input, rows], recipe)
                }
                (Some(input), _) => Part::new(format!("{name}.weight"), &[experts * rows, input], vec![block(rows)]),
            };
            part.recipe.extend((scale != 1.0).then(|| Recipe::scaled(scale)));
            part
        };
        let of = |expert: usize| product.names.iter().zip(each).map(move |(name, rows)| (expert, name, *rows));
        (0..self.experts).flat_map(of).map(|(expert, name, rows)| part(expert, name, rows)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expert_has_its_blocks_of_every_tensor() {
        let router = Product::plain(["router"]);
        let mixture =
            Mixture { experts: 2, top_k: 1, intermediate: 3, normalized: false, router, cell: None, bias: None };
        let gated = Product::biased(["up", "gate"]);
        let parts = mixture.parts(&gated, &[3, 3], Some(5), 1.0);
        let part = |name: &str, rows| Part::new(name, &[6, 5], vec![Recipe::Rows(rows)]);
        assert_eq!(
            parts,
            [part("up.weight", 0..3), part("gate.weight", 0..3), part("up.weight", 3..6), part("gate.weight", 3..6)]
        );
        let biases = mixture.parts(&gated, &[3, 3], None, 2.0);
        assert_eq!(biases[3], Part::new("gate.bias", &[6], vec![Recipe::Rows(3..6), Recipe::scaled(2.0)]));
        let turned = Product { order: Order::ByOperand, ..Product::plain(["down"]) };
        let parts = mixture.parts(&turned, &[5], Some(3), 1.0);
        assert_eq!(parts[1], Part::new("down.weight", &[6, 5], vec![Recipe::Rows(3..6), Recipe::Transposed]));
        let own = mixture.parts(&Product::plain(["{}.up", "{}.gate"]), &[3, 3], Some(5), 1.0);
        assert_eq!(own[3], Part::new("1.gate.weight", &[3, 5], vec![Recipe::Rows(0..3)]));
    }
}
