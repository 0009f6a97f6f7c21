//! Configurations of flash attention: tuned rows, their shared memory, and the choice for a device.
//!
//! ```
//! use grilly::kernels::flash::{TunedConfigs, required_shared_memory, validate_config};
//! assert_eq!(required_shared_memory(TunedConfigs::RDNA3), 16_384);
//! let error = validate_config(TunedConfigs::HOPPER, 48 << 10).unwrap_err().to_string();
//! assert!(error.contains("131072 bytes of shared memory, the limit is 49152"), "{error}");
//! ```

use super::generated::{Blocks, attention, attention_matrix, attention_registers};
use super::{Capabilities, Feature, Specialization, Variant, shared_bytes};
use crate::{Error, Result};

/// Block sizes of flash attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashAttentionConfig {
    /// Queries per workgroup.
    pub block_q: u32,
    /// Keys processed together.
    pub block_kv: u32,
    /// Columns per head.
    pub head_dim: u32,
    /// Whether operands are float16, on matrix cores where the device has them.
    pub half_precision: bool,
}

impl std::fmt::Display for FlashAttentionConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let precision = if self.half_precision { "float16" } else { "float32" };
        write!(f, "{} x {} x {} in {precision}", self.block_q, self.block_kv, self.head_dim)
    }
}

const fn config(block_q: u32, block_kv: u32, head_dim: u32, half_precision: bool) -> FlashAttentionConfig {
    FlashAttentionConfig { block_q, block_kv, head_dim, half_precision }
}

/// The configuration that every device can run.
pub const DEFAULT_CONFIG: FlashAttentionConfig = config(64, 64, 64, false);

/// The tuned configurations, one per architecture.
pub struct TunedConfigs;

impl TunedConfigs {
    /// A100, RTX 30.
    pub const AMPERE: FlashAttentionConfig = config(128, 128, 64, true);
    /// H100, H200, RTX 40.
    pub const HOPPER: FlashAttentionConfig = config(128, 256, 128, true);
    /// B200, RTX 50.
    pub const BLACKWELL: FlashAttentionConfig = config(128, 256, 128, true);
    /// RX 7000.
    pub const RDNA3: FlashAttentionConfig = config(64, 64, 64, true);
    /// RX 9000.
    pub const RDNA4: FlashAttentionConfig = config(64, 128, 64, true);
    /// Arc and Iris Xe.
    pub const INTEL_XE: FlashAttentionConfig = config(64, 64, 64, true);
    /// M1 and later.
    pub const APPLE: FlashAttentionConfig = config(64, 64, 64, true);
    /// Any other device.
    pub const FALLBACK: FlashAttentionConfig = config(32, 32, 64, false);

    /// All rows, by name.
    pub const ALL: [(&'static str, FlashAttentionConfig); 8] = [
        ("ampere", Self::AMPERE),
        ("apple", Self::APPLE),
        ("blackwell", Self::BLACKWELL),
        ("fallback", Self::FALLBACK),
        ("hopper", Self::HOPPER),
        ("intel_xe", Self::INTEL_XE),
        ("rdna3", Self::RDNA3),
        ("rdna4", Self::RDNA4),
    ];
}

/// Vendors by PCI id.
const VENDORS: [(u32, &str); 4] = [(0x10de, "nvidia"), (0x1002, "amd"), (0x8086, "intel"), (0x106b, "apple")];

/// Words in the names of a vendor's devices, and the row they select; the first word found in the name counts.
const DEVICES: &[(&str, &[&str], &str)] = &[
    ("nvidia", &["B100", "B200", "B300", "RTX 50", "Blackwell"], "blackwell"),
    ("nvidia", &["H100", "H200", "H800", "GH200", "RTX 40", "L40", "RTX 6000 Ada"], "hopper"),
    ("nvidia", &["A100", "A800", "A10", "A30", "A40", "RTX 30", "RTX A"], "ampere"),
    ("amd", &["RX 90", "GFX12", "AI PRO R9"], "rdna4"),
    ("amd", &["RX 7", "PRO W7", "GFX11", "780M", "760M", "880M", "890M"], "rdna3"),
    ("intel", &["Arc", "Xe", "DG2", "LNL", "BMG"], "intel_xe"),
    ("apple", &["Apple M"], "apple"),
];

/// `"nvidia"`, `"amd"`, `"intel"`, `"apple"` or `"unknown"`.
pub fn vendor(device: &Capabilities) -> &'static str {
    VENDORS.iter().find(|(number, _)| *number == device.vendor).map_or("unknown", |(_, name)| name)
}

/// The name of the row for a device's architecture; `"fallback"` if no row matches.
pub fn architecture(device: &Capabilities) -> &'static str {
    let own = |words: &[&str]| words.iter().any(|word| device.name.to_lowercase().contains(&word.to_lowercase()));
    let row = DEVICES.iter().find(|(maker, words, _)| *maker == vendor(device) && own(words));
    row.map_or("fallback", |(_, _, name)| name)
}

/// Bytes of shared memory per workgroup: the arrays of the kernel that every device can run, whether or not a device has
/// that much. Float16: the keys and the values of a block, as they are stored; queries, scores and results are in registers.
/// Float32: 32 columns of the queries and of the keys, or the scores in the same memory, as many columns of the values, and
/// five numbers per query. Matrix cores need more, [`matrix_shared_memory`]; where a device has less, the other kernel runs.
pub fn required_shared_memory(config: FlashAttentionConfig) -> u64 {
    let [queries, keys, columns] = [config.block_q, config.block_kv, config.head_dim].map(u64::from);
    if config.half_precision {
        return 4 * keys * columns;
    }
    let (chunks, scores) = ((queries + keys) * 9, queries * (keys / 4 + 1));
    16 * (chunks.max(scores) + 8 * keys + queries) + 4 * queries
}

/// The queries and results of heads of so many columns fill the registers of a subgroup: two that share their rows take 0.94 of the
/// time at 256 columns on an H200, and more than one subgroup does at 192.
const SHARED_HEAD: usize = 209;

/// Subgroups that share the rows of a head on matrix cores, if it is known which lane holds which element of a matrix.
pub(super) fn sharing(head_dim: usize, in_lanes: bool) -> u32 {
    if in_lanes && head_dim >= SHARED_HEAD { 2 } else { 1 }
}

/// The same in float16 on the matrix cores of a device: keys and values of a block, or the queries in the same memory; where
/// it is unknown which lane holds which element of a matrix, the scores, too.
pub fn matrix_shared_memory(config: FlashAttentionConfig, device: &Capabilities) -> u64 {
    let FlashAttentionConfig { block_q, block_kv: keys, head_dim, .. } = config;
    let (shape, rows) = (device.matrices("f16_f32").and_then(Feature::matrix), Feature::MatrixRowsInLanes);
    let of = |variant: &&Variant| variant.matrix() == shape && variant.needs.contains(&rows) == device.has(rows);
    let [first, ..] = attention_matrix::KERNEL.variants else { return 0 };
    let variant = attention_matrix::KERNEL.variants.iter().find(of).unwrap_or(first);
    let sharing = sharing(head_dim as usize, device.has(rows));
    let blocks = Blocks { head_dim, keys, sharing, unit: 1, ..Blocks::default() }.on_cores(variant, device);
    let subgroups = block_q / blocks.matrix_m * sharing;
    let constants = attention_matrix::Constants::from(Blocks { subgroups, ..blocks });
    u64::from(shared_bytes(variant, &constants.values(variant)))
}

/// As [`required_shared_memory`], read from the compiled shader at its specialization constants.
pub fn reflected_shared_memory(config: FlashAttentionConfig) -> u32 {
    let (variant, values) = shader(config);
    shared_bytes(variant, &values)
}

/// The shader of a configuration and its specialization constants.
pub(crate) fn shader(config: FlashAttentionConfig) -> (&'static Variant, Vec<u32>) {
    let FlashAttentionConfig { block_q, block_kv, head_dim, .. } = config;
    if config.half_precision {
        let constants =
            attention_registers::Constants { head_dim, block_q, block_kv, ..attention_registers::Constants::default() };
        let variant = &attention_registers::KERNEL.variants[0];
        (variant, constants.values(variant))
    } else {
        let invocations = 4 * block_q;
        let constants =
            attention::Constants { head_dim, block_q, block_kv, invocations, ..attention::Constants::default() };
        let variant = &attention::KERNEL.variants[0];
        (variant, constants.values(variant))
    }
}

/// Smallest block size: one matrix. Larger blocks than the largest are beyond any device.
const LEAST: u32 = 16;
pub(super) const MOST_BLOCK: u32 = 1 << 16;

/// The nearest configuration within the limit: halves `block_kv` down to the minimum, then `block_q`; `None` if none
/// fits.
pub fn nearest_config(config: FlashAttentionConfig, max_shared_memory: u64) -> Option<FlashAttentionConfig> {
    nearest(config, max_shared_memory, required_shared_memory)
}

fn nearest(
    mut config: FlashAttentionConfig,
    limit: u64,
    need: impl Fn(FlashAttentionConfig) -> u64,
) -> Option<FlashAttentionConfig> {
    while need(config) > limit {
        if config.block_kv > LEAST {
            config.block_kv = (config.block_kv / 2).next_multiple_of(LEAST);
        } else if config.block_q > LEAST {
            config.block_q = (config.block_q / 2).next_multiple_of(LEAST);
        } else {
            return None;
        }
    }
    Some(config)
}

/// Rejects a configuration that needs more shared memory than available, or for which there is no kernel.
///
/// # Errors
/// `SharedMemory` with the required bytes, the limit and the nearest configuration that fits; `InvalidArgument` for a
/// head of zero columns or, in float16, not a multiple of 16, and for blocks that are not multiples of 16 or, in
/// float32, not powers of two.
pub fn validate_config(config: FlashAttentionConfig, max_shared_memory: u64) -> Result<()> {
    let fault = |name: &str, size: u32, expected: &str| {
        Err(Error::InvalidArgument(format!("flash attention, {config}: {name} is {size}, expected {expected}")))
    };
    let step = if config.half_precision { LEAST } else { 1 };
    if config.head_dim == 0 || !config.head_dim.is_multiple_of(step) || config.head_dim > 1 << 16 {
        return fault("head_dim", config.head_dim, &format!("a multiple of {step} up to 65536"));
    }
    for (name, size, most) in
        [("block_q", config.block_q, MOST_BLOCK), ("block_kv", config.block_kv, config.block_q.saturating_mul(16))]
    {
        let whole = size > 0 && size.is_multiple_of(LEAST);
        match config.half_precision {
            true if !whole || size > MOST_BLOCK => return fault(name, size, "a multiple of 16 up to 65536"),
            false if !whole || !size.is_power_of_two() || size > most => {
                return fault(name, size, &format!("a power of two from 16 to {most}"));
            }
            _ => (),
        }
    }
    let need = required_shared_memory(config);
    if need <= max_shared_memory {
        return Ok(());
    }
    Err(Error::SharedMemory {
        config: config.to_string(),
        need,
        limit: max_shared_memory,
        nearest: nearest_config(config, max_shared_memory).map(|nearest| [nearest.block_q, nearest.block_kv]),
    })
}

/// The configuration for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The tuned row of its architecture.
    pub row: &'static str,
    /// That row, or the nearest that the device can run.
    pub config: FlashAttentionConfig,
    /// In what it differs from the row, and why; empty if it is the row.
    pub reason: String,
}

/// The tuned configuration of this name.
pub fn tuned(name: &str) -> Option<FlashAttentionConfig> {
    TunedConfigs::ALL.iter().find(|(known, _)| *known == name).map(|row| row.1)
}

/// The row of the device's architecture for heads of `head_dim` columns, or the nearest that the device can run:
/// float16 only on matrix cores, at most as many queries as its subgroups can process, and no more shared memory than
/// available.
///
/// # Errors
/// `InvalidArgument` for heads of zero columns, `SharedMemory` where even the smallest blocks do not fit.
pub fn select(device: &Capabilities, head_dim: u32) -> Result<Selection> {
    let name = architecture(device);
    let row = FlashAttentionConfig { head_dim, ..tuned(name).unwrap_or(TunedConfigs::FALLBACK) };
    let subgroups = 128u32.checked_div(device.subgroup_size).unwrap_or(0);
    let matrices = device.matrices("f16_f32").and_then(Feature::matrix);
    let half = row.half_precision
        && matrices.is_some()
        && matches!(subgroups, 2 | 4 | 8 | 16)
        && head_dim.is_multiple_of(LEAST)
        && head_dim <= 128;
    let mut reasons = Vec::new();
    let mut tried = row;
    if row.half_precision && !half {
        tried = FlashAttentionConfig { head_dim, ..TunedConfigs::FALLBACK };
        reasons.push(format!("its matrix cores, if it has any, do not take heads of {head_dim} columns in float16"));
    }
    let most =
        if half { matrices.map_or(LEAST, |[rows, ..]| rows) * subgroups } else { (device.invocations / 4).max(LEAST) };
    if tried.block_q > most {
        tried.block_q = most;
        reasons.push(format!("its workgroups have rows for {most} queries"));
    }
    let limit = u64::from(device.shared_memory);
    let need = |config| if half { matrix_shared_memory(config, device) } else { required_shared_memory(config) };
    let config = nearest(tried, limit, need).unwrap_or(tried);
    validate_config(config, limit)?;
    if config != tried {
        reasons.push(format!("{tried} needs {} bytes of shared memory, the limit is {limit}", need(tried)));
    }
    let reason = match config == row {
        true => String::new(),
        false => format!("{name} is {row}; on {}, {}", device.name, reasons.join("; ")),
    };
    Ok(Selection { row: name, config, reason })
}

/// The configuration of [`select`]; the log, at the level of information, has the reason.
///
/// # Errors
/// As [`select`].
pub fn select_config(device: &Capabilities, head_dim: u32) -> Result<FlashAttentionConfig> {
    let Selection { config, reason, .. } = select(device, head_dim)?;
    if !reason.is_empty() {
        log::info!(target: "grilly", "flash attention takes {config}: {reason}");
    }
    Ok(config)
}

#[cfg(test)]
mod tests;
