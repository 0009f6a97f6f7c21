//! The table of kernels: one row per kernel, with its options and operands.

use super::flash::{FlashAttentionConfig, validate_config};
use crate::dtype::DType;
use crate::ops::{
    ActivationKind, Approximate, Attention, BiasGelu, GatedLinear, LayerNorm, LayerNormLinear, Op, ResidualLayerNorm,
    ResidualRmsNorm, RmsNorm, RmsNormRope, SoftmaxDropout,
};
use crate::{Error, Result};

/// Options of kernels.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Columns per row; default 1024.
    pub hidden_dim: usize,
    /// Columns between two products; 0, the default, for `hidden_dim`.
    pub intermediate_dim: usize,
    /// Columns per head; default 64.
    pub head_dim: usize,
    /// Maximum positions of a text; default 512.
    pub max_seq_len: usize,
    /// Whether activations and matrices are stored as float16; default false.
    pub use_half: bool,
    /// Whether they are stored as bfloat16, for other engines: arrays have none; default false.
    pub use_bfloat16: bool,
    /// Added under the square root; 0, the default, for 1e-5 in layer norms and 1e-6 in RMS norms.
    pub eps: f32,
    /// The variant of GELU; default tanh.
    pub approximate: Approximate,
    /// Probability with which dropout sets an element to zero; default 0.1.
    pub p: f32,
    /// Key of dropout's random numbers; default 0.
    pub seed: u64,
    /// Counter of the first random number; default 0.
    pub offset: u64,
    /// Whether a position sees only itself and earlier ones; default false.
    pub causal: bool,
    /// Blocks, head and element type of flash attention, replacing `head_dim` and `use_half`; `None`, the default, for
    /// the engine's choice of blocks.
    pub config: Option<FlashAttentionConfig>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            hidden_dim: 1024,
            intermediate_dim: 0,
            head_dim: 64,
            max_seq_len: 512,
            use_half: false,
            use_bfloat16: false,
            eps: 0.0,
            approximate: Approximate::default(),
            p: 0.1,
            seed: 0,
            offset: 0,
            causal: false,
            config: None,
        }
    }
}

impl Options {
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let fault = |what: String| Err(Error::InvalidArgument(format!("{name}: {what}")));
        let sizes = [("hidden_dim", self.hidden_dim), ("head_dim", self.head_dim), ("max_seq_len", self.max_seq_len)];
        if let Some((option, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return fault(format!("{option} is 0, expected at least 1"));
        }
        if self.use_half && self.use_bfloat16 {
            return fault("use_half and use_bfloat16 are both given, expected one of them".into());
        }
        let heads = matches!(name, "rms_norm_rope" | "flash_attention");
        if heads && !self.hidden_dim.is_multiple_of(self.head_dim) {
            return fault(format!("hidden_dim {} is not a multiple of head_dim {}", self.hidden_dim, self.head_dim));
        }
        if let Some(config) = self.config {
            validate_config(config, u64::MAX)?;
        }
        if !self.eps.is_finite() || self.eps < 0.0 {
            return fault(format!("eps is {}, expected 0 or more", self.eps));
        }
        Ok(())
    }

    /// The type of activations and matrices.
    pub(super) fn stored(&self) -> DType {
        match (self.use_half, self.use_bfloat16) {
            (true, _) => DType::F16,
            (_, true) => DType::Bf16,
            _ => DType::F32,
        }
    }

    fn inner(&self) -> usize {
        if self.intermediate_dim == 0 { self.hidden_dim } else { self.intermediate_dim }
    }

    fn layer_norm(&self) -> LayerNorm {
        LayerNorm { eps: if self.eps == 0.0 { 1e-5 } else { self.eps } }
    }

    fn rms_norm(&self) -> RmsNorm {
        RmsNorm { eps: if self.eps == 0.0 { 1e-6 } else { self.eps } }
    }

    fn attention(&self) -> Attention {
        let heads = self.hidden_dim / self.head_dim;
        Attention {
            heads,
            kv_heads: heads,
            head_dim: self.head_dim,
            scale: 1.0 / (self.head_dim as f32).sqrt(),
            causal: self.causal,
            blocks: self.config.map(|config| [config.block_q, config.block_kv]),
            ..Attention::default()
        }
    }
}

/// A row of the table of kernels.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The formula it computes.
    pub formula: &'static str,
    /// Names of its options.
    pub options: &'static [&'static str],
    /// The op with given options.
    pub op: fn(&Options) -> Op,
    /// Axes of its operands for given options and a number of rows.
    pub operands: fn(&Options, usize) -> Vec<Vec<usize>>,
    /// Index of the axis of rows in the first operand, counted from the last axis.
    pub row_axis: usize,
}

impl PartialEq for Row {
    /// Names are unique.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

fn gated_operands(options: &Options, rows: usize) -> Vec<Vec<usize>> {
    let weight = vec![options.inner(), options.hidden_dim];
    vec![vec![rows, options.hidden_dim], weight.clone(), weight]
}

/// Every kernel, by name.
pub static ROWS: &[Row] = &[
    Row {
        name: "bias_gelu",
        formula: "gelu(x + bias)",
        options: &["hidden_dim", "use_half", "use_bfloat16", "approximate"],
        op: |options| BiasGelu { approximate: options.approximate }.into(),
        operands: |options, rows| vec![vec![rows, options.hidden_dim], vec![options.hidden_dim]],
        row_axis: 1,
    },
    Row {
        name: "flash_attention",
        formula: "softmax(q k^T / sqrt(head_dim)) v, text by text of packed tokens, head by head",
        options: &["hidden_dim", "head_dim", "use_half", "use_bfloat16", "causal", "config"],
        op: |options| options.attention().into(),
        operands: |options, rows| {
            let tokens = vec![rows, options.hidden_dim];
            vec![tokens.clone(), tokens.clone(), tokens, vec![2], vec![2]]
        },
        row_axis: 1,
    },
    Row {
        name: "geglu",
        formula: "gelu(x gate^T) (x up^T)",
        options: &["hidden_dim", "intermediate_dim", "use_half", "use_bfloat16", "approximate"],
        op: |options| GatedLinear { kind: options.approximate.kind() }.into(),
        operands: gated_operands,
        row_axis: 1,
    },
    Row {
        name: "layer_norm_linear",
        formula: "(layer_norm(x) norm_weight + norm_bias) weight^T + bias",
        options: &["hidden_dim", "intermediate_dim", "use_half", "use_bfloat16", "eps"],
        op: |options| LayerNormLinear { eps: options.layer_norm().eps, bias: true, activation: None }.into(),
        operands: |options, rows| {
            let (columns, inner) = (vec![options.hidden_dim], options.inner());
            let weight = vec![inner, options.hidden_dim];
            vec![vec![rows, options.hidden_dim], columns.clone(), columns, weight, vec![inner]]
        },
        row_axis: 1,
    },
    Row {
        name: "residual_layer_norm",
        formula: "layer_norm(x + residual) weight + bias",
        options: &["hidden_dim", "use_half", "use_bfloat16", "eps"],
        op: |options| ResidualLayerNorm(options.layer_norm()).into(),
        operands: |options, rows| {
            let (row, columns) = (vec![rows, options.hidden_dim], vec![options.hidden_dim]);
            vec![row.clone(), row, columns.clone(), columns]
        },
        row_axis: 1,
    },
    Row {
        name: "residual_rms_norm",
        formula: "rms_norm(x + residual) weight",
        options: &["hidden_dim", "use_half", "use_bfloat16", "eps"],
        op: |options| ResidualRmsNorm(options.rms_norm()).into(),
        operands: |options, rows| {
            let row = vec![rows, options.hidden_dim];
            vec![row.clone(), row, vec![options.hidden_dim]]
        },
        row_axis: 1,
    },
    Row {
        name: "rms_norm_rope",
        formula: "rope(rms_norm(x) weight)",
        options: &["hidden_dim", "head_dim", "max_seq_len", "use_half", "use_bfloat16", "eps"],
        op: |options| RmsNormRope(options.rms_norm()).into(),
        operands: |options, rows| {
            let heads = vec![1, rows, options.hidden_dim / options.head_dim, options.head_dim];
            let angles = vec![rows, options.head_dim / 2];
            vec![heads, vec![options.hidden_dim], angles.clone(), angles]
        },
        row_axis: 2,
    },
    Row {
        name: "softmax_dropout",
        formula: "dropout(softmax(x))",
        options: &["hidden_dim", "use_half", "use_bfloat16", "p", "seed", "offset", "causal"],
        op: |options| {
            let Options { causal, p, seed, offset, .. } = *options;
            SoftmaxDropout { causal, p, seed, offset }.into()
        },
        operands: |options, rows| vec![vec![rows, options.hidden_dim]],
        row_axis: 1,
    },
    Row {
        name: "swiglu",
        formula: "silu(x gate^T) (x up^T)",
        options: &["hidden_dim", "intermediate_dim", "use_half", "use_bfloat16"],
        op: |_| GatedLinear { kind: ActivationKind::Silu }.into(),
        operands: gated_operands,
        row_axis: 1,
    },
];
