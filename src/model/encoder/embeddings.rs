//! Lookup of the embeddings, before the first layer.

use super::{Builder, Input};
use crate::Result;
use crate::graph::ValueId;
use crate::model::spec::{Positions, Product, Table, WordProjection};
use crate::ops::{Binary, BinaryKind, EmbeddingSum, Shape};
use crate::tensor::{Part, Recipe};

impl Builder<'_> {
    /// The constant of an embedding table.
    fn table(&mut self, table: &Table, columns: usize) -> ValueId {
        let part = self.part(table, 1.0);
        self.graph.weight_as(self.dtype, vec![part], Shape::fixed(&[table.rows, columns]))
    }

    /// An embedding table, each number times `scale`.
    fn part(&self, table: &Table, scale: f32) -> Part {
        let mut part = Part::from(table.name.clone());
        part.added = self.adapted(table.name.strip_suffix(".weight").unwrap_or(&table.name), ["lora_A", "lora_B"]);
        part.recipe.extend((scale != 1.0).then(|| Recipe::scaled(scale)));
        part
    }

    /// The constant of the words' table, with so many rows of zeros after its own.
    fn words(&mut self, zeros: usize) -> ValueId {
        let (spec, columns) = (self.spec, self.spec.embedding);
        let mut scale = [spec.word_scale];
        if spec.word_scale_rounded {
            self.dtype.round(&mut scale);
        }
        let mut words = self.part(&spec.words, scale[0]);
        // Numbers that are made of several tensors.
        words.computed.clone_from(&spec.made);
        words.shape = (zeros > 0 || spec.made.is_some()).then(|| vec![spec.words.rows, columns]);
        let none = || Part::computed("no words", &[zeros, columns], std::iter::repeat_n(0.0, zeros * columns));
        let parts = std::iter::once(words).chain((zeros > 0).then(none)).collect();
        self.graph.weight_as(self.dtype, parts, Shape::fixed(&[spec.words.rows + zeros, columns]))
    }

    /// The words' vectors in the columns of the hidden state.
    fn projected(&mut self, projection: &WordProjection) -> Result<ValueId> {
        let (zeros, ids) = match projection.neighbours {
            true => (1, Input::Neighbours(self.spec.words.rows as u32)),
            false => (0, Input::Words),
        };
        let operands = [self.input(ids), self.words(zeros)];
        let x = self.graph.node("words", EmbeddingSum {}, &operands)?;
        let x = self.rows_of("words side by side", x);
        self.linear("word projection", &Product::biased([&projection.name]), x, &[self.spec.hidden])
    }

    /// Adds word, segment and position embeddings, in the reference's order.
    pub(super) fn embeddings(&mut self) -> Result<ValueId> {
        let spec = self.spec;
        let projected = spec.word_projection.as_ref().map(|projection| self.projected(projection)).transpose()?;
        let columns = if projected.is_some() { spec.hidden } else { spec.embedding };
        let mut operands = Vec::new();
        if projected.is_none() {
            operands.extend([self.input(Input::Words), self.words(0)]);
        }
        if let Some(table) = &spec.token_types {
            operands.extend([self.input(Input::Segments), self.table(table, columns)]);
        }
        if let Positions::Learned { table, rows } = &spec.positions {
            operands.extend([self.input(Input::Positions(*rows)), self.table(table, columns)]);
        }
        if let Some(table) = &spec.task_types {
            // The first row, whatever the token's segment.
            let segments = spec.token_types.as_ref().map_or(2, |types| types.rows);
            let part = Part::new(&table.name, &[table.rows, columns], vec![Recipe::Gathered(vec![0; segments])]);
            let repeated = self.graph.weight_as(self.dtype, vec![part], Shape::fixed(&[segments, columns]));
            operands.extend([self.input(Input::Segments), repeated]);
        }
        let mut x = self.graph.node("embeddings", EmbeddingSum {}, &operands)?;
        if let Some(words) = projected {
            x = self.graph.node("embeddings of words", Binary::from(BinaryKind::Add), &[words, x])?;
        }
        if let Some(name) = &spec.embedding_norm {
            x = self.norm("embedding norm", name, x)?;
        }
        x = self.dropout("embeddings", x)?;
        if let Some(name) = &spec.embedding_projection {
            x = self.linear("embedding projection", &Product::biased([name]), x, &[spec.hidden])?;
        }
        self.as_type("hidden state", x, self.stream)
    }
}
