//! One layer: attention, in a decoder attention to another sequence, then the feed-forward part, each added to the
//! hidden state.

use super::{Builder, Input, Shared};
use crate::Result;
use crate::graph::ValueId;
use crate::model::decoder::CrossAttention;
use crate::model::spec::{Layer, Normed, Norms, Product};
use crate::ops::{Attention, Binary, BinaryKind, Dim, Rope, Shape};

/// What the parts of a layer read.
struct Read {
    /// What the attention part is added to.
    onto: ValueId,
    /// What queries and keys are made of.
    attended: ValueId,
    /// What values are made of; `None` for the same.
    values: Option<ValueId>,
}

impl Builder<'_> {
    pub(super) fn layer(&mut self, number: usize, layer: &Layer, x: ValueId, shared: &Shared) -> Result<ValueId> {
        let node = |part: &str| format!("layer {number} {part}");
        let Some(narrow) = &layer.narrow else {
            return self.parts(&node, layer, &Read { onto: x, attended: x, values: None }, shared);
        };
        let onto = self.normed(&node("narrow input"), &narrow.input, x, narrow.columns)?;
        let attended = match &narrow.attended {
            None => onto,
            Some(own) => self.normed(&node("narrow attended"), own, x, narrow.columns)?,
        };
        let values = if narrow.whole_values { x } else { onto };
        let y = self.parts(&node, layer, &Read { onto, attended, values: Some(values) }, shared)?;
        self.residual(&node("narrow output"), &narrow.norms, [y, x], |builder, y| {
            builder.linear(&node("narrow output"), &narrow.output, y, &[builder.spec.hidden])
        })
    }

    fn normed(&mut self, node: &str, of: &Normed, x: ValueId, columns: usize) -> Result<ValueId> {
        let y = self.linear(node, &of.product, x, &[columns])?;
        self.norm(&format!("{node} norm"), &of.norm, y)
    }

    fn parts(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        read: &Read,
        shared: &Shared,
    ) -> Result<ValueId> {
        let spec = self.spec;
        let (x, columns) = (read.onto, self.graph.value(read.onto).shape.columns());
        let attended =
            self.residual(&node("attention"), &layer.attention_norms, [read.attended, x], |builder, x| {
                let y = builder.mixed(node, layer, [x, read.values.unwrap_or(x)], shared)?;
                builder.dropout(&node("attention output"), y)
            })?;
        let attended = match &layer.cross_attention {
            None => attended,
            Some(cross) => self.residual(&node("cross-attention"), &cross.norms, [attended; 2], |builder, x| {
                let mixed = builder.cross_attention(node, cross, x)?;
                let scale = spec.residual_scale;
                builder.scaled(&node("cross-attention output"), &cross.output, mixed, &[columns], scale)
            })?,
        };
        let attended = self.first_feed_forwards(node, layer, attended)?;
        let read = if spec.parallel { x } else { attended };
        let y = self.residual(&node("feed-forward"), &layer.feed_forward_norms, [read, attended], |builder, x| {
            if let Some(mixture) = &layer.mixture {
                return builder.mixture(node, layer, mixture, x);
            }
            let wide = builder.feed_forward_in(node, layer, x)?;
            let scale = spec.residual_scale;
            let name = node("feed-forward out");
            let y = builder.scaled(&name, &layer.feed_forward_out, wide, &[columns], scale)?;
            builder.dropout(&name, y)
        })?;
        match &layer.bottleneck {
            None => Ok(y),
            Some(part) => self.residual(&node("bottleneck"), &part.norms, [y, y], |builder, x| {
                let narrow = builder.linear(&node("bottleneck down"), &part.down, x, &[part.columns])?;
                let narrow = builder.own_activation(&node("bottleneck activation"), narrow)?;
                builder.linear(&node("bottleneck up"), &part.up, narrow, &[columns])
            }),
        }
    }

    /// One part of a layer, computed from the first value and added to the second, with its norms.
    pub(super) fn residual(
        &mut self,
        node: &str,
        norms: &Norms,
        [x, onto]: [ValueId; 2],
        part: impl FnOnce(&mut Self, ValueId) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let norm = format!("{node} norm");
        let mut y = match &norms.before {
            Some(name) => self.norm(&norm, name, x)?,
            None => x,
        };
        y = self.as_type(&format!("{node} operand"), y, self.dtype)?;
        y = part(self, y)?;
        if let Some(name) = &norms.after {
            y = self.norm(&format!("{node} norm after"), name, y)?;
        }
        y = self.as_type(&format!("{node} result"), y, self.stream)?;
        let sum = self.graph.node(&format!("{node} residual"), Binary::from(BinaryKind::Add), &[y, onto])?;
        match &norms.sum {
            Some(name) => self.norm(&norm, name, sum),
            None => Ok(sum),
        }
    }

    /// The first part of a layer: attention, a convolution in its place, or both side by side.
    fn mixed(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        [x, values]: [ValueId; 2],
        shared: &Shared,
    ) -> Result<ValueId> {
        let (name, spec, columns) = (node("attention output"), self.spec, self.graph.value(x).shape.columns());
        let [mixed, queries] = match &layer.short_convolution {
            Some(of) => [self.short_convolution(node, of, &layer.query_key_value, x)?, x],
            None => self.attention(node, layer, [x, values], shared)?,
        };
        let y = self.scaled(&name, &layer.attention_output, mixed, &[columns], spec.residual_scale)?;
        match &layer.span_convolution {
            None => Ok(y),
            Some(of) => {
                let span = self.span_convolution(node, of, [x, queries])?;
                self.graph.node(&node("span sum"), Binary::from(BinaryKind::Add), &[span, y])
            }
        }
    }

    /// The results of all heads, and the queries.
    fn attention(
        &mut self,
        node: &impl Fn(&str) -> String,
        layer: &Layer,
        [x, values]: [ValueId; 2],
        shared: &Shared,
    ) -> Result<[ValueId; 2]> {
        let spec = self.spec;
        let (query, key) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let biases = match (&layer.relative_biases, &spec.relative_biases) {
            (Some(name), Some(of)) => Some(self.biases_by_distance(&of.named(name))),
            _ => shared.biases,
        };
        let mut attention =
            Attention { causal: spec.causal, window: layer.window, bias: biases.is_some(), ..self.plain_attention() };
        let angles = layer.rotary.map(|kind| shared.rotary[kind]);
        let turned = if layer.rotary.is_some_and(|kind| spec.rotary[kind].values) { 3 } else { 2 };
        let norms = layer.head_norms.is_some();
        let apart = norms || layer.span_convolution.is_some() || layer.query_key_value.is_apart() || values != x;
        let qkv = match apart {
            false => {
                let columns = [query, key, key];
                let qkv = self.linear(&node("query key value"), &layer.query_key_value, x, &columns)?;
                (attention.k_column, attention.v_column) = (query, query + key);
                match angles {
                    None => [qkv; 3],
                    Some(angles) => {
                        let heads = spec.heads + 2 * spec.kv_heads;
                        let rotated = spec.heads + (turned - 1) * spec.kv_heads;
                        let both = self.rotated(&node("rotary"), qkv, heads, rotated, angles)?;
                        [both, both, if turned == 3 { both } else { qkv }]
                    }
                }
            }
            true => {
                let mut parts = Vec::new();
                for (part, columns) in [query, key, key].into_iter().enumerate() {
                    let label = node(["query", "key", "value"][part]);
                    let x = if part == 2 { values } else { x };
                    let mut y = self.linear(&label, &layer.query_key_value.part(part), x, &[columns])?;
                    let heads = columns / spec.head_dim;
                    if let Some(norm) = layer.head_norms.as_ref().and_then(|norms| norms.get(part)) {
                        if !layer.joint_head_norms {
                            y = self.heads_of(&label, y, heads);
                        }
                        y = self.norm(&format!("{label} norm"), norm, y)?;
                    }
                    if let Some(angles) = angles.filter(|_| part < turned) {
                        y = self.rotated(&format!("{label} rotary"), y, heads, heads, angles)?;
                    }
                    parts.push(if part < turned { self.rows_of(&label, y) } else { y });
                }
                [parts[0], parts[1], parts[2]]
            }
        };
        let mut met = None;
        if let Some(x) = shared.distances {
            let product = Product::joined(layer.by_distance.iter().flatten());
            let columns = vec![key; product.names.len()];
            met = Some(self.linear(&node("distances"), &product, x, &columns)?);
            let [a, b] = &layer.by_distance;
            let second = if a.is_some() { key } else { 0 };
            attention.distances = Some([a.as_ref().map(|_| 0), b.as_ref().map(|_| second)]);
        }
        let offsets = self.input(Input::Offsets);
        let [q, k, v] = qkv;
        let ([k, v], key_offsets) = match self.cache {
            None if spec.unseen_expansion => self.seen(&node("attention"), [k, v])?,
            // The tokens of a text are its last.
            None if spec.shared_beginning => {
                attention.align_end = true;
                self.seen(&node("attention"), [k, v])?
            }
            None => ([k, v], offsets),
            // A step's tokens are the last of their text.
            Some(rows) => {
                attention.align_end = true;
                self.cached(rows, &node("attention"), [k, v])?
            }
        };
        let key = self.dropout_key().map(|(stream, key)| {
            (attention.dropout, attention.stream) = (spec.dropout, stream);
            key
        });
        let operands: Vec<ValueId> =
            [q, k, v, offsets, key_offsets].into_iter().chain(biases).chain(met).chain(key).collect();
        Ok([self.graph.node(&node("attention"), attention, &operands)?, q])
    }

    /// Attention of each token to all states of the other sequence.
    fn cross_attention(
        &mut self,
        node: &impl Fn(&str) -> String,
        cross: &CrossAttention,
        x: ValueId,
    ) -> Result<ValueId> {
        let spec = self.spec;
        let (query, key) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
        let q = self.linear(&node("cross-attention query"), &cross.query, x, &[query])?;
        let states = self.input(Input::States);
        let kv = self.linear(&node("cross-attention key value"), &cross.key_value, states, &[key, key])?;
        let offsets = [Input::Offsets, Input::StateOffsets].map(|input| self.input(input));
        let attention = Attention { v_column: key, ..self.plain_attention() };
        self.graph.node(&node("cross-attention"), attention, &[q, kv, kv, offsets[0], offsets[1]])
    }

    /// Attention with the model's sizes, to all keys.
    fn plain_attention(&self) -> Attention {
        let spec = self.spec;
        Attention {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: spec.score_scale.unwrap_or_else(|| 1.0 / (spec.head_dim as f32).sqrt()),
            soft_cap: spec.score_cap,
            ..Attention::default()
        }
    }

    /// `[T, heads * head_dim]` as `[T, heads, head_dim]`.
    fn heads_of(&mut self, name: &str, x: ValueId, heads: usize) -> ValueId {
        let rows = self.graph.value(x).shape.rows();
        self.graph.view(name, x, Shape(vec![rows, Dim::Fixed(heads), Dim::Fixed(self.spec.head_dim)]))
    }

    /// `[T, ...]` as `[T, all other axes]`.
    pub(super) fn rows_of(&mut self, name: &str, x: ValueId) -> ValueId {
        let shape = &self.graph.value(x).shape;
        let shape = Shape::matrix(shape.rows(), shape.row_elements());
        self.graph.view(name, x, shape)
    }

    /// The first `rotated` of so many heads, turned by the angles of their positions.
    fn rotated(
        &mut self,
        node: &str,
        x: ValueId,
        heads: usize,
        rotated: usize,
        [cosines, sines]: [ValueId; 2],
    ) -> Result<ValueId> {
        let x = self.heads_of(node, x, heads);
        let y = self.graph.node(node, Rope { heads: Some(rotated) }, &[x, cosines, sines])?;
        Ok(self.rows_of(node, y))
    }
}
