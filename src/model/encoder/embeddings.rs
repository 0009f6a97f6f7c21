//! Lookup of the embeddings, before the first layer.

use std::sync::Arc;

use super::{Builder, Input};
use crate::Result;
use crate::graph::ValueId;
use crate::model::spec::{Positions, Product, Table};
use crate::ops::{EmbeddingSum, Shape};
use crate::tensor::{Part, Recipe};

impl Builder<'_> {
    /// The constant of an embedding table, each number times `scale`.
    fn table(&mut self, table: &Table, scale: f32) -> ValueId {
        let mut part = Part::from(table.name.clone());
        part.added = self.adapted(table.name.strip_suffix(".weight").unwrap_or(&table.name), ["lora_A", "lora_B"]);
        part.recipe.extend((scale != 1.0).then(|| Recipe::scaled(scale)));
        let shape = Shape::fixed(&[table.rows, self.spec.embedding]);
        self.graph.weight_as(self.dtype, vec![part], shape)
    }

    /// The constant of an embedding table whose numbers are made of several tensors.
    fn made(&mut self, table: &Table, numbers: &Arc<[u8]>) -> ValueId {
        let axes = [table.rows, self.spec.embedding];
        let part = Part { computed: Some(numbers.clone()), ..Part::new(table.name.clone(), &axes, Vec::new()) };
        self.graph.weight_as(self.dtype, vec![part], Shape::fixed(&axes))
    }

    /// Adds word, segment and position embeddings, in the reference's order.
    pub(super) fn embeddings(&mut self) -> Result<ValueId> {
        let spec = self.spec;
        let mut scale = [spec.word_scale];
        if spec.word_scale_rounded {
            self.dtype.round(&mut scale);
        }
        let words = match &spec.made {
            None => self.table(&spec.words, scale[0]),
            Some(numbers) => self.made(&spec.words, numbers),
        };
        let mut operands = vec![self.input(Input::Words), words];
        if let Some(table) = &spec.token_types {
            operands.extend([self.input(Input::Segments), self.table(table, 1.0)]);
        }
        if let Positions::Learned { table, rows } = &spec.positions {
            operands.extend([self.input(Input::Positions(*rows)), self.table(table, 1.0)]);
        }
        if let Some(table) = &spec.task_types {
            // The first row, whatever the token's segment.
            let segments = spec.token_types.as_ref().map_or(2, |types| types.rows);
            let shape = [table.rows, spec.embedding];
            let part = Part::new(&table.name, &shape, vec![Recipe::Gathered(vec![0; segments])]);
            let repeated = self.graph.weight_as(self.dtype, vec![part], Shape::fixed(&[segments, spec.embedding]));
            operands.extend([self.input(Input::Segments), repeated]);
        }
        let mut x = self.graph.node("embeddings", EmbeddingSum {}, &operands)?;
        if let Some(name) = &spec.embedding_norm {
            x = self.norm("embedding norm", name, x)?;
        }
        x = self.dropout("embeddings", x)?;
        match &spec.embedding_projection {
            None => Ok(x),
            Some(name) => self.linear("embedding projection", &Product::biased([name]), x, &[spec.hidden]),
        }
    }
}
