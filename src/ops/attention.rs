//! Scaled dot-product attention over packed sequences.

use std::ops::Range;

use super::{AttentionBackward, Counts, Coverage, Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// Attention of each query of a text to the keys of the same text that it may see.
///
/// `y[i, h] = sum_j softmax_j(cap(scale * q[i, h] . k[j, g]) + bias[h, clamp(j - p, -R, R) + R]) v[j, g]`,
/// `g = h * kv_heads / heads`, `cap(s) = soft_cap tanh(s / soft_cap)`, or `s` if `soft_cap` is 0. With `distances` the
/// scale is of `q[i, h] . k[j, g] + q[i, h] . a[r, g] + k[j, g] . b[r, g]`, `r = clamp(j - p, -D, D) + D`, as in DeBERTa
/// (He et al. 2021).
///
/// With `dropout`, each weight is divided by `1 - dropout` where `u >= dropout`, else 0: `u` of row `i` of `q`, head `h` and
/// key `j` of the text, counted from 0, is that of [`super::Dropout`] with word `j % 4` at the counter whose lower 64 bits are
/// `j / 4 + offset` and whose upper words are `stream` and `i * heads + h`.
///
/// Operands: `q [T, *]`, `k [S, *]`, `v [S, *]` (floats), `q_offsets [B + 1]`, `kv_offsets [B / shared_by + 1]` (u32);
/// then `bias [N, 2 R + 1]` (f32) if `bias`, of which head `h` of text `t` uses row `(t * heads + h) mod N`, or
/// `distances [2 D + 1, *]` (floats) if `distances`, whose columns hold `a` and `b`, or `key [4]` (u32), the low and the high
/// word of `seed` and then of `offset`, if `dropout`. `q`, `k` and `v` may be the same
/// tensor, and so may the two offsets: head `h` of `q` is columns `q_column + h * head_dim ..` of its operand, likewise
/// for `k`, `v`, `a` and `b`. Result: `[T, heads * head_dim]`.
///
/// Query `i` of a text has position `p = i`, or `p = i + keys - queries` with `align_end`. The result of a query that
/// sees no key is zero, and hidden keys are never read, whatever they contain. Sums over keys run in blocks counted
/// from the start of the text, so a text's result does not depend on its neighbours.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Columns of one head.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Bound that scores approach smoothly; 0 for none.
    #[serde(default)]
    pub soft_cap: f32,
    /// First column of the queries in their operand.
    #[serde(default)]
    pub q_column: usize,
    /// First column of the keys in their operand.
    #[serde(default)]
    pub k_column: usize,
    /// First column of the values in their operand.
    #[serde(default)]
    pub v_column: usize,
    /// Whether a query sees only the keys up to its own position.
    #[serde(default)]
    pub causal: bool,
    /// Largest distance from its position at which a query sees keys; 0 for any distance.
    #[serde(default)]
    pub window: u32,
    /// With a window: the number of leading positions of a text that see all keys and that all queries see. `causal`
    /// still applies.
    #[serde(default)]
    pub global_tokens: u32,
    /// Whether positions align the last query with the last key, instead of the first with the first.
    #[serde(default)]
    pub align_end: bool,
    /// Whether there is a table of biases by distance.
    #[serde(default)]
    pub bias: bool,
    /// First columns of `a` and of `b`, if there are terms by distance; one without a column is left out.
    #[serde(default)]
    pub distances: Option<[Option<usize>; 2]>,
    /// Probability of a weight to become zero, from 0 to below 1; default 0.
    #[serde(default)]
    pub dropout: f32,
    /// With dropout: as [`super::Dropout::stream`].
    #[serde(default)]
    pub stream: u32,
    /// Number of consecutive texts of queries that share one text of keys: heads stored separately are separate texts.
    #[serde(default = "one")]
    pub shared_by: usize,
    /// Block sizes: queries per workgroup and keys processed together; `None` for the engine's choice. Used on GPUs
    /// only. Sums follow the blocks, so another pair changes the result's bits.
    pub blocks: Option<[u32; 2]>,
}

/// The words of dropout's seed and offset.
pub(super) const KEY: Operand = Operand::scalar("key").stored(DType::U32).by_attribute();

fn one() -> usize {
    1
}

impl Default for Attention {
    fn default() -> Self {
        Attention {
            heads: 1,
            kv_heads: 1,
            head_dim: 1,
            scale: 1.0,
            soft_cap: 0.0,
            q_column: 0,
            k_column: 0,
            v_column: 0,
            causal: false,
            window: 0,
            global_tokens: 0,
            align_end: false,
            bias: false,
            distances: None,
            dropout: 0.0,
            stream: 0,
            shared_by: 1,
            blocks: None,
        }
    }
}

/// The keys of a text that a query sees: those before `leading` and those in `near`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// Number of visible keys counted from the first.
    pub leading: usize,
    /// Keys around the query's position.
    pub near: Range<usize>,
}

impl Sight {
    /// Whether no key is seen.
    pub fn is_empty(&self) -> bool {
        self.leading == 0 && self.near.is_empty()
    }
}

impl Attention {
    /// Whether some query may see only part of the keys of its text.
    pub fn hides(&self) -> bool {
        self.causal || self.window > 0
    }

    /// Position of query `query` of `queries` relative to `keys` keys.
    pub fn place(&self, query: usize, queries: usize, keys: usize) -> i64 {
        query as i64 + if self.align_end { keys as i64 - queries as i64 } else { 0 }
    }

    /// The keys, out of `keys`, that a query at position `place` sees.
    pub fn sight(&self, place: i64, keys: usize) -> Sight {
        let within = |key: i64| key.clamp(0, keys as i64) as usize;
        let last = if self.causal { within(place + 1) } else { keys };
        let (window, global) = (i64::from(self.window), i64::from(self.global_tokens));
        if window == 0 || (0..global).contains(&place) {
            return Sight { leading: 0, near: 0..last };
        }
        let (first, end) = (within(place - window), within(place + window + 1).min(last));
        Sight { leading: within(global).min(last), near: first.min(end)..end }
    }
}

impl Operation for Attention {
    const EVERYWHERE: Coverage = Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (
            r#"{"heads": 2, "kv_heads": 1, "head_dim": 4, "scale": 0.5}"#,
            &[&[7, 8], &[7, 4], &[7, 4], &[3], &[3]],
            &[0, 1, 2],
        ),
        (r#"{"heads": 1, "kv_heads": 1, "head_dim": 1, "scale": 1.0, "bias": true}"#, &[], &[]),
        (r#"{"heads": 1, "kv_heads": 1, "head_dim": 1, "scale": 1.0, "distances": [0, 0]}"#, &[], &[]),
        (
            r#"{"heads": 2, "kv_heads": 1, "head_dim": 4, "scale": 0.5, "dropout": 0.1}"#,
            &[&[7, 8], &[7, 4], &[7, 4], &[3], &[3], &[4]],
            &[0, 1, 2],
        ),
    ];
    fn everywhere(&self) -> Coverage {
        if self.dropout > 0.0 { Coverage::OF_TRAINING } else { Self::EVERYWHERE }
    }
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[
            Operand::rows("q").narrow().counted(Dim::Tokens),
            Operand::rows("k").narrow().counted(Dim::Tokens),
            Operand::rows("v").narrow().counted(Dim::Tokens),
            Operand::offsets_of_all("q_offsets", "q").counted(Dim::Boundaries),
            Operand::offsets_of_all("kv_offsets", "k").counted(Dim::Boundaries),
            Operand::rows("bias").by_attribute(),
            Operand::rows("distances").narrow().by_attribute(),
            KEY,
        ];
        const WITH_DISTANCES: &[Operand] = &[ALL[0], ALL[1], ALL[2], ALL[3], ALL[4], ALL[6]];
        const WITH_KEY: &[Operand] = &[ALL[0], ALL[1], ALL[2], ALL[3], ALL[4], ALL[7]];
        // They exclude each other; that of several is for the documentation.
        Signature::of(match (self.bias, self.distances.is_some(), self.dropout > 0.0) {
            (true, true, true) => ALL,
            (_, _, true) => WITH_KEY,
            (true, true, false) => &ALL[..7],
            (true, false, false) => &ALL[..6],
            (false, true, false) => WITH_DISTANCES,
            (false, false, false) => &ALL[..5],
        })
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, kv_heads) = (self.heads, self.kv_heads);
            return Err(of.fault(format!("{heads} heads are not a multiple of {kv_heads} key-value heads")));
        }
        if !(self.soft_cap >= 0.0 && self.soft_cap.is_finite()) {
            return Err(of.fault(format!("soft_cap is {}, expected a finite number from 0", self.soft_cap)));
        }
        // Keys and values are those of the same tokens, or a fixed number, or rows of another sequence.
        let keys = if matches!(of["k"].rows(), Dim::Fixed(_) | Dim::Counted(_)) { of["k"].rows() } else { Dim::Tokens };
        let needs = [
            ("q", Dim::Tokens, self.q_column + self.heads * self.head_dim),
            ("k", keys, self.k_column + self.kv_heads * self.head_dim),
            ("v", keys, self.v_column + self.kv_heads * self.head_dim),
        ];
        for (name, rows, columns) in needs {
            let shape = &of[name];
            if shape.0.len() != 2 || shape.columns() < columns || shape.rows() != rows {
                return Err(of.wrong(name, format!("[{rows}, at least {columns}]")));
            }
        }
        if self.shared_by == 0 {
            return Err(of.fault("shared_by is 0, expected at least 1"));
        }
        let apart = keys != Dim::Tokens || self.shared_by > 1;
        let fixed = apart && matches!(of["kv_offsets"].0[..], [Dim::Fixed(_)]);
        for (name, fits) in [("q_offsets", false), ("kv_offsets", fixed)] {
            if !fits && of[name] != Shape::vector(Dim::Boundaries) {
                return Err(of.wrong(name, "[B+1]"));
            }
        }
        if let Some(bias) = of.get("bias") {
            let whole = |rows: &usize| *rows > 0 && rows.is_multiple_of(self.heads);
            if !matches!(&bias.0[..], [Dim::Fixed(rows), Dim::Fixed(columns)] if whole(rows) && columns % 2 == 1) {
                let expected = format!("a multiple of {} rows and an odd number of columns", self.heads);
                return Err(of.wrong("bias", expected));
            }
        }
        if [self.bias, self.distances.is_some(), self.dropout > 0.0].into_iter().filter(|has| *has).count() > 1 {
            return Err(of.fault("bias, distances and dropout exclude each other"));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(of.fault(format!("dropout is {}, expected a number from 0 to below 1", self.dropout)));
        }
        of.expect("key", &Shape::fixed(&[4]), "the words of seed and offset")?;
        if let (Some(columns), Some(found)) = (self.distances, of.get("distances")) {
            let least = columns.iter().flatten().max().map_or(0, |column| column + self.kv_heads * self.head_dim);
            if !matches!(found.0[..], [Dim::Fixed(rows), Dim::Fixed(columns)] if rows % 2 == 1 && columns >= least) {
                return Err(of.wrong("distances", format!("an odd number of rows and at least {least} columns")));
            }
        }
        Ok(vec![Shape::matrix(Dim::Tokens, self.heads * self.head_dim)])
    }

    fn check_counts(&self, of: &Shapes<'_>, counts: Counts) -> Result<()> {
        let texts = counts.texts;
        if !texts.is_multiple_of(self.shared_by) {
            return Err(of.fault(format!("{texts} texts are not a multiple of {}", self.shared_by)));
        }
        let boundaries = texts / self.shared_by + 1;
        if of["kv_offsets"].elements(counts) != boundaries {
            return Err(of.wrong("kv_offsets", format!("[{boundaries}], one more than there are texts")));
        }
        Ok(())
    }

    /// False if texts share keys, if the number of keys is not the batch's number of tokens, since texts then have
    /// separate key offsets, and if biases depend on the number of the text, or dropout on that of the row.
    fn is_separable(&self, operands: &[&Shape]) -> bool {
        self.shared_by == 1
            && self.dropout == 0.0
            && operands[1].rows() == Dim::Tokens
            && (!self.bias || operands[5].rows() == Dim::Fixed(self.heads))
    }

    /// Counts all texts at the mean length of the batch.
    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        let keys = (operands[1].rows().size(counts) * self.shared_by).div_ceil(counts.texts.max(1));
        let near = match self.window as usize {
            0 => keys,
            window => keys.min(2 * window + 1 + self.global_tokens as usize),
        };
        let products = 2 + self.distances.iter().flatten().flatten().count();
        let all = 2 * (counts.tokens * near * self.heads * self.head_dim * products) as u64;
        if self.causal { all / 2 } else { all }
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        self.vjp_of(operands, &(0..operands.len()).collect::<Vec<_>>())
    }

    /// That of biases is not known, nor any where there are terms by distance.
    fn vjp_of(&self, operands: &[&Shape], same: &[usize]) -> Option<Vjp> {
        AttentionBackward::vjp(self, operands, same)
    }
}

#[cfg(test)]
mod tests;
