//! Configurations of flash attention: tuned rows, their shared memory, and the choice for a device.
//!
//! ```
//! use grilly::kernels::flash::{TunedConfigs, required_shared_memory, validate_config};
//! assert_eq!(required_shared_memory(TunedConfigs::RDNA3), 36_096);
//! let error = validate_config(TunedConfigs::HOPPER, 48 << 10).unwrap_err().to_string();
//! assert!(error.contains("272896 bytes of shared memory, the limit is 49152"), "{error}");
//! ```

use super::generated::{attention, attention_matrix};
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

/// Bytes of shared memory per workgroup: the kernel's arrays with these constants, whether or not a device has that
/// much. Float16: keys and values of a block, or the queries in the same memory, and their scores; no memory for scores
/// on a device known to keep rows in quads of lanes. Float32: 32 columns of the queries and of the keys, or the scores
/// in the same memory, as many columns of the values, and five numbers per query.
pub fn required_shared_memory(config: FlashAttentionConfig) -> u64 {
    let [queries, keys, columns] = [config.block_q, config.block_kv, config.head_dim].map(u64::from);
    if !config.half_precision {
        let (chunks, scores) = ((queries + keys) * 9, queries * (keys / 4 + 1));
        return 16 * (chunks.max(scores) + 8 * keys + queries) + 4 * queries;
    }
    // Row strides in quads of 16 bytes (eight halves or four floats), plus one quad; one factor per query.
    let (quads, scores) = (columns / 8, keys / 4);
    (2 * keys).max(queries) * (quads + 1) * 16 + queries * (scores + 1) * 16 + queries * 4
}

/// As [`required_shared_memory`], read from the compiled shader at its specialization constants.
pub fn reflected_shared_memory(config: FlashAttentionConfig) -> u32 {
    let (variant, values) = shader(config);
    shared_bytes(variant, &values)
}

/// The shader of a configuration and its specialization constants.
pub(crate) fn shader(config: FlashAttentionConfig) -> (&'static Variant, Vec<u32>) {
    if config.half_precision {
        let constants = attention_matrix::Constants {
            head_dim: config.head_dim,
            keys: config.block_kv,
            subgroups: config.block_q / 16,
            ..attention_matrix::Constants::default()
        };
        // The variant for any device with matrix cores.
        let variant = &attention_matrix::KERNEL.variants[1];
        (variant, constants.values(variant))
    } else {
        let FlashAttentionConfig { block_q, block_kv, head_dim, .. } = config;
        let invocations = 4 * block_q;
        let constants =
            attention::Constants { head_dim, block_q, block_kv, invocations, ..attention::Constants::default() };
        let variant = &attention::KERNEL.variants[0];
        (variant, constants.values(variant))
    }
}

/// The features that a configuration's kernel requires; for float16 those of the variant for any device with matrix
/// cores.
pub(crate) fn features(half_precision: bool) -> Vec<Feature> {
    if half_precision { attention_matrix::KERNEL.variants[1].needs.to_vec() } else { Vec::new() }
}

/// Smallest block size: one matrix.
const LEAST: u32 = 16;

/// The nearest configuration within the limit: halves `block_kv` down to the minimum, then `block_q`; `None` if none
/// fits.
pub fn nearest_config(config: FlashAttentionConfig, max_shared_memory: u64) -> Option<FlashAttentionConfig> {
    let mut nearest = config;
    while required_shared_memory(nearest) > max_shared_memory {
        if nearest.block_kv > LEAST {
            nearest.block_kv = (nearest.block_kv / 2).next_multiple_of(LEAST);
        } else if nearest.block_q > LEAST {
            nearest.block_q = (nearest.block_q / 2).next_multiple_of(LEAST);
        } else {
            return None;
        }
    }
    Some(nearest)
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
        [("block_q", config.block_q, 1 << 16), ("block_kv", config.block_kv, config.block_q.saturating_mul(16))]
    {
        let whole = size > 0 && size.is_multiple_of(LEAST);
        match config.half_precision {
            true if !whole || size > 1 << 16 => return fault(name, size, "a multiple of 16 up to 65536"),
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

/// The row of the device's architecture for heads of `head_dim` columns, or the nearest that the device can run:
/// float16 only on matrix cores, at most as many queries as its subgroups can process, and no more shared memory than
/// available.
///
/// # Errors
/// `InvalidArgument` for heads of zero columns, `SharedMemory` where even the smallest blocks do not fit.
pub fn select_config(device: &Capabilities, head_dim: u32) -> Result<FlashAttentionConfig> {
    let name = architecture(device);
    let tuned = TunedConfigs::ALL.iter().find(|(known, _)| *known == name).map_or(TunedConfigs::FALLBACK, |row| row.1);
    let subgroups = 128u32.checked_div(device.subgroup_size).unwrap_or(0);
    let half = tuned.half_precision
        && device.has(Feature::CooperativeMatrixF16)
        && matches!(subgroups, 2 | 4 | 8)
        && head_dim.is_multiple_of(LEAST)
        && head_dim <= 128;
    let row = if half {
        FlashAttentionConfig { head_dim, block_q: tuned.block_q.min(LEAST * subgroups), ..tuned }
    } else {
        let most = (device.invocations / 4).max(LEAST);
        FlashAttentionConfig { head_dim, block_q: TunedConfigs::FALLBACK.block_q.min(most), ..TunedConfigs::FALLBACK }
    };
    let limit = u64::from(device.shared_memory);
    let found = nearest_config(row, limit).unwrap_or(row);
    validate_config(found, limit).map(|()| found)
}

#[cfg(test)]
mod tests;
