//! Modules that replace the tokens' vectors.

use super::Builder;
use crate::graph::ValueId;
use crate::ops::{Binary, BinaryKind, Linear, Shape};
use crate::tensor::{Part, Recipe};
use crate::{Error, Result};

impl Builder<'_> {
    /// Products of one operand side by side, an even number of columns, as rows of 16 bits need.
    pub(super) fn side_by_side(&mut self, products: &[(String, usize)], x: ValueId) -> Result<ValueId> {
        let (input, dtype) = (self.graph.value(x).shape.columns(), self.graph.value(x).dtype);
        let stated: usize = products.iter().map(|(_, columns)| columns).sum();
        let last = products.len().saturating_sub(1);
        let parts = |end: &str, axes: &dyn Fn(usize) -> Vec<usize>| -> Vec<Part> {
            let part = |(number, (file, columns)): (usize, &(String, usize))| {
                let repeated = (number == last && stated % 2 == 1).then(|| {
                    let all = 0..*columns;
                    Recipe::Gathered(all.clone().chain(all.last()).collect())
                });
                Part::new(format!("{file}/{end}"), &axes(*columns), repeated.into_iter().collect())
            };
            products.iter().enumerate().map(part).collect()
        };
        let columns = stated.next_multiple_of(2);
        let matrix = parts("weight", &|columns| vec![columns, input]);
        let bias = parts("bias", &|columns| vec![columns]);
        let matrix = self.graph.weight_as(dtype, matrix, Shape::fixed(&[columns, input]));
        let bias = self.graph.weight(bias, Shape::fixed(&[columns]));
        self.graph.node("products of tokens", Linear { bias: true, ..Linear::default() }, &[x, matrix, bias])
    }

    /// `sum_s w_s h_s / sum_s w_s` over the states from `first` on.
    pub(super) fn weighted_layers(
        &mut self,
        path: &str,
        layers: usize,
        first: usize,
        states: &[ValueId],
    ) -> Result<ValueId> {
        if states.len() != layers + 1 {
            let found = states.len() - 1;
            let problem = format!("{path}: num_hidden_layers is {layers}, but the encoder has {found}");
            return Err(Error::InvalidArgument(problem));
        }
        let count = states.len() - first;
        let mut sum: Option<ValueId> = None;
        for (number, state) in states[first..].iter().enumerate() {
            let node = |part: &str| format!("{path} {part} {}", first + number);
            let (columns, dtype) = (self.graph.value(*state).shape.columns(), self.graph.value(*state).dtype);
            // One number for each column, as a product of 16-bit rows needs.
            let recipe = vec![Recipe::Shares, Recipe::Gathered(vec![number; columns])];
            let part = Part::new(format!("{path}/layer_weights"), &[count], recipe);
            let weight = self.graph.weight_as(dtype, vec![part], Shape::fixed(&[columns]));
            let x = self.graph.node(&node("share of state"), Binary::from(BinaryKind::Multiply), &[*state, weight])?;
            sum = Some(match sum {
                None => x,
                Some(sum) => self.graph.node(&node("sum to state"), Binary::from(BinaryKind::Add), &[x, sum])?,
            });
        }
        sum.ok_or_else(|| Error::InvalidArgument(format!("{path}: no states")))
    }
}
