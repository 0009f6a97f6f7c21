//! Weighted sums of values: the last step of unfused attention.

use super::{Counts, Operand, Operation, Shape, Shapes, Signature};
use crate::{Error, Result};

/// `y[b, i, h] = sum_j weights[b, h, i, j] * v[b, j, h * kv_heads / heads]`
///
/// Operands: `weights [B, H, Sq, Sk]`, `v [B, Sk, G, D]`, `G` divides `H`. Result: `[B, Sq, H, D]`.
///
/// The architecture selects the shader that runs (see `graph::shaders`). One of grilly's shaders with a pattern treats
/// the weights outside of it as zero, on every backend; [`FAMILIES`] lists the patterns.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionOutput {
    /// Architecture or `model_type`, as registered; empty for the generic shader.
    pub architecture: String,
    /// Largest distance from the query's position at which keys count; 0 for any distance.
    pub window: u32,
    /// Number of leading positions of the text that see all keys and are seen by all queries.
    pub global_tokens: u32,
    /// Blocks of keys drawn at random per block of queries.
    pub random_blocks: u32,
    /// Positions per block.
    pub block: u32,
    /// Seed of the random blocks.
    pub seed: u32,
}

impl Default for AttentionOutput {
    fn default() -> Self {
        let architecture = String::new();
        AttentionOutput { architecture, window: 0, global_tokens: 0, random_blocks: 0, block: 64, seed: 0 }
    }
}

/// The sizes of an [`AttentionOutput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionSizes {
    /// Texts.
    pub batch: usize,
    /// Heads of the weights and of the result.
    pub heads: usize,
    /// Heads of the values.
    pub kv_heads: usize,
    /// Queries per text.
    pub q_len: usize,
    /// Keys per text.
    pub kv_len: usize,
    /// Columns per head.
    pub head_dim: usize,
}

impl AttentionOutput {
    /// The sizes of two operand shapes.
    ///
    /// # Errors
    /// `InvalidArgument` naming the operand, its shape and the expected shape.
    pub fn sizes(&self, weights: &Shape, values: &Shape) -> Result<AttentionSizes> {
        let axes = |shape: &Shape| shape.sizes(Counts::default());
        let fault = |text: String| Err(Error::InvalidArgument(format!("attention_output: {text}")));
        let &[batch, heads, q_len, kv_len] = axes(weights).as_slice() else {
            return fault(format!("weights has shape {weights}, expected [B, H, Sq, Sk]"));
        };
        let &[value_batch, value_len, kv_heads, head_dim] = axes(values).as_slice() else {
            return fault(format!("v has shape {values}, expected [{batch}, {kv_len}, G, D]"));
        };
        if (value_batch, value_len) != (batch, kv_len) {
            return fault(format!("v has shape {values}, expected [{batch}, {kv_len}, G, D] (weights {weights})"));
        }
        // A multiple of zero heads is not defined; equal counts of zero are valid.
        if heads != kv_heads && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
            return fault(format!("{heads} heads are not a multiple of {kv_heads} key-value heads"));
        }
        if self.block == 0 {
            return fault("block is 0, expected at least 1".into());
        }
        Ok(AttentionSizes { batch, heads, kv_heads, q_len, kv_len, head_dim })
    }
}

impl Operation for AttentionOutput {
    const EVERYWHERE: super::Coverage = super::Coverage::OF_PARTS;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::PARTS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("weights"), Operand::rows("v")]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (weights, values) = (&of["weights"], &of["v"]);
        self.sizes(weights, values)?;
        Ok(vec![Shape(vec![weights.0[0], weights.0[2], weights.0[1], values.0[3]])])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * (operands[0].elements(counts) * operands[1].columns()) as u64
    }
}

/// One of grilly's shaders for [`AttentionOutput`]. `model::arch` lists the architectures that each serves.
#[derive(Debug)]
pub struct Family {
    /// Its name in an architecture's row.
    pub name: &'static str,
    /// The shader's name.
    pub shader: &'static str,
    /// The weights it uses unchanged.
    pub pattern: Pattern,
}

/// All families; the first serves every architecture that names none.
pub const FAMILIES: &[Family] = &[
    Family { name: "full", shader: "attention-output", pattern: Pattern::Full },
    Family { name: "causal", shader: "attention-output-gpt", pattern: Pattern::Causal },
    Family { name: "cross", shader: "attention-output-t5", pattern: Pattern::Full },
    Family { name: "grouped", shader: "attention-output-llama", pattern: Pattern::Full },
    Family { name: "windowed", shader: "attention-output-windowed", pattern: Pattern::Windowed },
    Family { name: "global-window", shader: "attention-output-global-window", pattern: Pattern::GlobalWindow },
    Family { name: "random-blocks", shader: "attention-output-bigbird", pattern: Pattern::RandomBlocks },
];

/// The weights that a shader uses unchanged; all others count as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All.
    Full,
    /// Keys up to the query's own position.
    Causal,
    /// Keys at a distance of at most `window`.
    Windowed,
    /// As `Windowed`, and every pair in which the query or the key has a global position.
    GlobalWindow,
    /// As `GlobalWindow`, and the blocks drawn at random.
    RandomBlocks,
}

impl Pattern {
    /// The attributes of [`AttentionOutput`] that the pattern depends on.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Pattern::Full | Pattern::Causal => &[],
            Pattern::Windowed => &["window"],
            Pattern::GlobalWindow => &["window", "global_tokens"],
            Pattern::RandomBlocks => &["window", "global_tokens", "random_blocks", "block", "seed"],
        }
    }

    /// Whether query `row` may see `key` of `kv_len` keys.
    pub fn allows(self, op: &AttentionOutput, row: usize, key: usize, kv_len: usize) -> bool {
        let near = op.window == 0 || row.abs_diff(key) <= op.window as usize;
        let global = row.min(key) < op.global_tokens as usize;
        match self {
            Pattern::Full => true,
            Pattern::Causal => key <= row,
            Pattern::Windowed => near,
            Pattern::GlobalWindow => near || global,
            Pattern::RandomBlocks => {
                let block = op.block as usize;
                let is_drawn = |draw| op.drawn((row / block) as u32, draw, kv_len.div_ceil(block)) == key / block;
                near || global || (0..op.random_blocks).any(is_drawn)
            }
        }
    }
}

impl AttentionOutput {
    /// The block of keys, one of `blocks`, selected for a block of queries by the draw numbered `draw`:
    /// `scatter(seed + scatter(block * random_blocks + draw)) mod blocks`.
    pub fn drawn(&self, block: u32, draw: u32, blocks: usize) -> usize {
        let place = block.wrapping_mul(self.random_blocks).wrapping_add(draw);
        scatter(self.seed.wrapping_add(scatter(place))) as usize % blocks
    }
}

/// Wellons' lowbias32: each bit of `x` affects every bit of the result.
fn scatter(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;

    #[test]
    fn shapes_are_checked_by_name() {
        let op = Op::from(AttentionOutput::default());
        let infer = |w: &[usize], v: &[usize]| op.infer(&[&Shape::fixed(w), &Shape::fixed(v)]);
        assert_eq!(infer(&[2, 6, 5, 7], &[2, 7, 3, 4]).unwrap(), [Shape::fixed(&[2, 5, 6, 4])]);
        assert_eq!(infer(&[0, 6, 5, 0], &[0, 0, 3, 4]).unwrap(), [Shape::fixed(&[0, 5, 6, 4])]);
        for (weights, values, part) in [
            (&[2, 6, 5][..], &[2, 7, 3, 4][..], "weights has shape [2, 6, 5]"),
            (&[2, 6, 5, 7], &[2, 8, 3, 4], "v has shape [2, 8, 3, 4], expected [2, 7, G, D]"),
            (&[2, 6, 5, 7], &[2, 7, 4, 4], "6 heads are not a multiple of 4"),
        ] {
            let error = infer(weights, values).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_draw_is_the_written_formula() {
        // scatter(0) = 0; scatter(1) was computed independently of this code.
        assert_eq!((scatter(0), scatter(1)), (0, 1_753_845_952));
        let op = AttentionOutput { random_blocks: 2, seed: 7, ..AttentionOutput::default() };
        let drawn: Vec<usize> =
            (0..2).flat_map(|b| (0..2).map(move |d| (b, d))).map(|(b, d)| op.drawn(b, d, 10)).collect();
        assert_eq!(drawn, [8, 0, 4, 0]);
    }
}
