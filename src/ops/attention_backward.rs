//! Gradients of attention.

use super::attention::KEY;
use super::definition::{self, Term};
use super::{Attention, Counts, Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// The gradients of [`Attention`] in `q`, `k` and `v`, given that of its result `y`, `g`.
///
/// With `p[i, j, h]` the weights, `c` the derivative of the soft cap at their scores, 1 without one, and
/// `d[i, h] = g[i, h] . y[i, h]`: `s[i, j, h] = p[i, j, h] (g[i, h] . v[j, n] - d[i, h]) c[i, j, h]`,
/// `dq[i, h] = scale sum_j s[i, j, h] k[j, n]`, `dk[j, n] = scale sum_h sum_i s[i, j, h] q[i, h]`,
/// `dv[j, n] = sum_h sum_i p[i, j, h] g[i, h]`, `n = h * kv_heads / heads` (Dao, FlashAttention-2, 2023). With dropout, which
/// divides a weight by `1 - dropout` or makes it 0, so does it `g[i, h] . v[j, n]`, and the weight of `dv`. Weights and random
/// numbers are computed again: nothing but `y` is kept of the forward pass.
///
/// Operands: `g [T, heads * head_dim]` and `y`, like it, then those of [`Attention`], without `distances`. Results: `dq`,
/// `dk` and `dv`, like `q`, `k` and `v`, with zeros in columns of no head and rows of no text; if `packed`, one, like `q`.
///
/// Sums over keys, over the heads that share a key, and over queries run in blocks counted from the start of the text, so a
/// text's gradients do not depend on its neighbours.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionBackward {
    /// The attention; its attributes are attributes of this op.
    #[serde(flatten)]
    pub of: Attention,
    /// Whether `q`, `k` and `v` are one tensor, each of whose columns is that of a head of one of them; default false.
    #[serde(default)]
    pub packed: bool,
}

impl AttentionBackward {
    /// Words of scratch memory that say where a row's text is: the first row and the end of its own rows, of the others
    /// that it meets, the text's number, and how many rows there are.
    pub const PLACES: usize = 6;

    /// The columns of `q`, `k` and `v` that are heads: the first and how many.
    pub fn columns(&self) -> [(usize, usize); 3] {
        let Attention { heads, kv_heads, head_dim, q_column, k_column, v_column, .. } = self.of;
        [(q_column, heads * head_dim), (k_column, kv_heads * head_dim), (v_column, kv_heads * head_dim)]
    }

    /// Whether each of `columns` columns of one tensor is a head's of `q`, `k` or `v`, and of one alone.
    fn covers(&self, columns: usize) -> bool {
        let mut parts = self.columns();
        parts.sort_unstable();
        let end = parts.iter().try_fold(0, |end, (first, count)| (*first == end).then_some(end + count));
        end == Some(columns)
    }

    /// The derivative of attention, where operand `i` is the same value as operand `same[i]`.
    pub(super) fn vjp(of: &Attention, operands: &[&Shape], same: &[usize]) -> Option<Vjp> {
        if of.distances.is_some() {
            return None;
        }
        let op = AttentionBackward { of: of.clone(), packed: false };
        let packed = matches!(same, [0, 0, 0, ..]) && op.covers(operands[0].columns());
        let op = AttentionBackward { packed, ..op };
        let mut vjp = Vjp::new(operands.len());
        let terms = [Vjp::gradient(operands.len()), Vjp::result(operands.len())];
        let terms = terms.into_iter().chain(definition::given(0..operands.len())).map(Term::whole);
        if packed {
            let gradient = vjp.step(op, terms);
            vjp.give(0, gradient);
        } else {
            let gradients: [Term; 3] = vjp.results_of(op, terms);
            gradients.into_iter().enumerate().for_each(|(place, gradient)| vjp.give(place, gradient));
        }
        Some(vjp)
    }
}

impl Operation for AttentionBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[(r#"{"heads": 1, "kv_heads": 1, "head_dim": 1, "scale": 1.0, "bias": true, "dropout": 0.5}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[
            Operand::rows("g").narrow().counted(Dim::Tokens),
            Operand::rows("y").narrow().like("g").counted(Dim::Tokens),
            Operand::rows("q").narrow().counted(Dim::Tokens),
            Operand::rows("k").narrow().counted(Dim::Tokens),
            Operand::rows("v").narrow().counted(Dim::Tokens),
            Operand::offsets_of_all("q_offsets", "q").counted(Dim::Boundaries),
            Operand::offsets_of_all("kv_offsets", "k").counted(Dim::Boundaries),
            Operand::rows("bias").by_attribute(),
            KEY,
        ];
        const WITH_KEY: &[Operand] = &[ALL[0], ALL[1], ALL[2], ALL[3], ALL[4], ALL[5], ALL[6], ALL[8]];
        const RESULTS: &[Operand] =
            &[Operand::rows("dq").narrow(), Operand::rows("dk").narrow(), Operand::rows("dv").narrow()];
        let signature = Signature::of(match (self.of.bias, self.of.dropout > 0.0) {
            (true, true) => ALL,
            (true, false) => &ALL[..8],
            (false, true) => WITH_KEY,
            (false, false) => &ALL[..7],
        });
        signature.gives(if self.packed { &RESULTS[..1] } else { RESULTS }).scratch(&[
            "query_rows",
            "key_rows",
            "query_places",
        ])
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        if self.of.distances.is_some() {
            return Err(of.fault("terms by distance have no derivative"));
        }
        let y = self.of.infer(of)?.remove(0);
        of.expect("g", &y, "that of the result of attention")?;
        if !self.packed {
            return Ok(["q", "k", "v"].map(|name| of[name].clone()).into());
        }
        of.same("k", "q")?;
        of.same("v", "q")?;
        if !self.covers(of["q"].columns()) {
            return Err(of.fault("packed, but not every column of q is one of a head of q, k or v alone"));
        }
        Ok(vec![of["q"].clone()])
    }

    fn check_counts(&self, of: &Shapes<'_>, counts: Counts) -> Result<()> {
        self.of.check_counts(of, counts)
    }

    fn is_separable(&self, operands: &[&Shape]) -> bool {
        self.of.is_separable(&operands[2..])
    }

    /// Three products for `dq`, three for `dk` and two for `dv`, for two of attention.
    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        4 * self.of.flops(&operands[2..], counts)
    }

    /// Of each query where its text and its keys are, and for each head `d` and the logarithm of the sum of the weights
    /// before division; of each key where its text and its queries are; of each query the same once more.
    fn scratch(&self, operands: &[&Shape], _: DType) -> Vec<Shape> {
        let fields = [Self::PLACES + 2 * self.of.heads, Self::PLACES, Self::PLACES];
        [2, 3, 2].iter().zip(fields).map(|(place, fields)| operands[*place].with_columns(fields)).collect()
    }
}
