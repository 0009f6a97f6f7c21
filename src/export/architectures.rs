//! Shared memory of a workgroup, by GPU architecture and language.
//!
//! | number | source |
//! |---|---|
//! | CUDA, compute capability 7.5 to 12.0 | "Maximum amount of shared memory per thread block" of NVIDIA's CUDA Programming Guide, table of technical specifications per compute capability: 64 KiB (7.5), 163 (8.0, 8.7), 99 (8.6, 8.9, 12.0), 227 (9.0, 10.0), of which 48 may be static, more must be dynamic |
//! | Vulkan, `any` | `maxComputeSharedMemorySize` is at least 16,384 (Vulkan specification, Required Limits) |
//! | Vulkan, NVIDIA | 49,152: what NVIDIA's driver reports for every architecture |
//! | Vulkan, RDNA | 65,536 by Mesa (RADV); AMD's own driver reports 32,768 |
//! | Vulkan, Intel | 32,768 by Intel's own driver; Mesa (ANV) reports 65,536 and more |
//! | Vulkan and Metal, Apple | 32,768 ("Maximum total threadgroup memory allocation" of Apple's Metal Feature Set Tables, family Apple4 and later); `any` 16,384 of Apple3 |
//! | Direct3D 12 | 32,768 of `groupshared` variables (Direct3D 11.3 functional specification, compute shaders of model 5 and later) |
//! | WebGPU, `any` | 16,384, the default of `maxComputeWorkgroupStorageSize` (WebGPU specification, Limits) |
//! | WebGPU, a GPU | at most 32,768 by Metal and Direct3D 12; Chromium's tiers are 16,384, 32,768, 49,152 and 65,536 (Dawn, Limits.cpp) |

use serde_json::{Value, json};

use super::Target;
use crate::backend::vulkan::flash::{FlashAttentionConfig, nearest_config, required_shared_memory, tuned};
use crate::{Error, Result};

/// Shared memory that CUDA C++ may declare with a size; more is dynamic, in bytes.
pub(super) const STATIC: u32 = 48 << 10;

/// Bytes of dynamic shared memory that a launch gives a CUDA kernel with arrays of so many, rounded to the alignment of the
/// widest vectors; `None` where they are static.
pub(super) fn dynamic_memory(bytes: u32) -> Option<u32> {
    (bytes > STATIC).then(|| bytes.next_multiple_of(16))
}

/// A GPU architecture, or what every device has.
#[derive(Debug)]
pub struct Architecture {
    /// Its name in arguments.
    pub name: &'static str,
    /// GPUs of it.
    pub gpus: &'static str,
    /// The tuned row that is for it, if there is one.
    pub row: Option<&'static str>,
    /// KiB of CUDA, Vulkan, Metal, Direct3D 12 and WebGPU; 0 where it does not have the language.
    kib: [u32; 5],
}

const fn of(name: &'static str, gpus: &'static str, row: &'static str, kib: [u32; 5]) -> Architecture {
    Architecture { name, gpus, row: Some(row), kib }
}

/// Every architecture.
pub static ARCHITECTURES: [Architecture; 13] = [
    Architecture { name: "any", gpus: "every device", row: None, kib: [48, 16, 16, 32, 16] },
    Architecture { name: "sm_75", gpus: "RTX 20, T4", row: None, kib: [64, 48, 0, 32, 32] },
    of("sm_80", "A100, A30", "ampere", [163, 48, 0, 32, 32]),
    of("sm_86", "RTX 30, A10, A40", "ampere", [99, 48, 0, 32, 32]),
    of("sm_87", "Jetson Orin", "ampere", [163, 48, 0, 32, 32]),
    of("sm_89", "RTX 40, L4, L40", "hopper", [99, 48, 0, 32, 32]),
    of("sm_90", "H100, H200", "hopper", [227, 48, 0, 32, 32]),
    of("sm_100", "B200", "blackwell", [227, 48, 0, 32, 32]),
    of("sm_120", "RTX 50", "blackwell", [99, 48, 0, 32, 32]),
    of("rdna3", "RX 7000", "rdna3", [0, 64, 0, 32, 32]),
    of("rdna4", "RX 9000", "rdna4", [0, 64, 0, 32, 32]),
    of("intel_xe", "Arc, Iris Xe", "intel_xe", [0, 32, 0, 32, 32]),
    of("apple", "M1 and later", "apple", [0, 32, 32, 0, 32]),
];

impl Architecture {
    /// Bytes of a workgroup in a language; `None` where the architecture does not have it.
    pub fn shared_memory(&self, target: Target) -> Option<u32> {
        let column = match target {
            Target::Cuda | Target::Ptx => 0,
            Target::Spirv => 1,
            Target::Msl => 2,
            Target::Hlsl => 3,
            Target::Wgsl => 4,
        };
        Some(self.kib[column] << 10).filter(|bytes| *bytes > 0)
    }
}

/// The shared memory that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// Of the architecture; `None` for the target's usual limit.
    pub architecture: Option<&'static str>,
    pub bytes: u32,
}

impl Limit {
    /// What a target usually has.
    pub fn usual(target: Target) -> Self {
        Limit { architecture: None, bytes: target.shared_memory() }
    }

    /// That of the architecture of this name; without one, that of the architecture whose tuned row the configuration is, of
    /// several the one with most; else the usual one, for a configuration with what may be static in CUDA.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, and for an architecture without the language.
    pub fn of(target: Target, architecture: Option<&str>, config: Option<FlashAttentionConfig>) -> Result<Self> {
        let known = ARCHITECTURES.iter().filter_map(|row| Some((row, row.shared_memory(target)?)));
        let limit = |(row, bytes): (&Architecture, u32)| Limit { architecture: Some(row.name), bytes };
        let Some(name) = architecture else {
            let own = known.filter(|(row, _)| config.is_some() && row.row.and_then(tuned) == config);
            let most = own.rev().max_by_key(|(_, bytes)| *bytes).map(limit);
            let usual = Limit::usual(target);
            let any = ARCHITECTURES[0].shared_memory(target).filter(|_| config.is_some()).unwrap_or(0);
            let usual = Limit { bytes: usual.bytes.max(any), ..usual };
            return Ok(most.filter(|most| most.bytes >= usual.bytes).unwrap_or(usual));
        };
        known.clone().find(|(row, _)| row.name == name).map(limit).ok_or_else(|| {
            let names = known.map(|(row, _)| format!("{:?}", row.name)).collect::<Vec<_>>().join(", ");
            let target = target.name();
            Error::InvalidArgument(format!("architecture is {name:?}, expected one of {names} for the target {target}"))
        })
    }

    /// Names the limit in the error of a configuration that exceeds it.
    pub fn named(self, target: Target, error: Error) -> Error {
        match error {
            Error::SharedMemory { config, need, limit, nearest } => {
                let on = self.architecture.map(|name| format!(" on {name}")).unwrap_or_default();
                let config = format!("{config} as {}{on}", target.name());
                Error::SharedMemory { config, need, limit, nearest }
            }
            other => other,
        }
    }

    /// The tuned row of the architecture in float16, for heads of so many columns, or the nearest that fits; `None` without an
    /// architecture, or for heads that the kernel does not take.
    pub fn tuned(self, head_dim: usize) -> Option<FlashAttentionConfig> {
        let row = self.row()?;
        let head_dim = u32::try_from(head_dim).ok().filter(|size| size.is_multiple_of(16) && *size <= 256)?;
        nearest_config(FlashAttentionConfig { head_dim, half_precision: true, ..tuned(row)? }, self.bytes.into())
    }

    fn row(self) -> Option<&'static str> {
        ARCHITECTURES.iter().find(|row| Some(row.name) == self.architecture)?.row
    }

    /// Blocks, limit and architecture for an interface; of blocks that were chosen the row, and why they differ from it.
    pub fn interface(self, config: FlashAttentionConfig, chosen: bool) -> Value {
        let mut told = json!({
            "block_q": config.block_q, "block_kv": config.block_kv, "head_dim": config.head_dim,
            "half_precision": config.half_precision, "shared_memory": required_shared_memory(config),
            "limit": self.bytes, "architecture": self.architecture,
        });
        if let Some(row) = self.row().filter(|_| chosen)
            && let Some(blocks) = tuned(row)
        {
            let wanted = FlashAttentionConfig { head_dim: config.head_dim, half_precision: true, ..blocks };
            let need = required_shared_memory(wanted);
            told["row"] = json!(row);
            told["reason"] = json!(match wanted == config {
                true => format!("the row {row}"),
                false => format!("the nearest to the row {row}, {wanted}, which needs {need} bytes of {}", self.bytes),
            });
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::flash::TunedConfigs;

    fn limit(target: Target, architecture: &str) -> u32 {
        Limit::of(target, Some(architecture), None).unwrap().bytes
    }

    #[test]
    fn limits_are_those_of_the_published_tables() {
        for (name, kib) in [
            ("sm_75", 64),
            ("sm_80", 163),
            ("sm_86", 99),
            ("sm_87", 163),
            ("sm_89", 99),
            ("sm_90", 227),
            ("sm_100", 227),
            ("sm_120", 99),
        ] {
            assert_eq!(limit(Target::Cuda, name), kib << 10, "{name}");
        }
        assert_eq!(
            ["sm_90", "rdna3", "apple", "any"].map(|name| limit(Target::Spirv, name)),
            [49_152, 65_536, 32_768, 16_384]
        );
        assert_eq!((limit(Target::Msl, "apple"), limit(Target::Hlsl, "rdna3")), (32_768, 32_768));
        assert_eq!((limit(Target::Wgsl, "any"), limit(Target::Wgsl, "apple")), (16_384, 32_768));
        for row in &ARCHITECTURES {
            assert!(row.row.is_none_or(|name| tuned(name).is_some()), "{}", row.name);
        }
        let error = Limit::of(Target::Msl, Some("sm_80"), None).unwrap_err().to_string();
        assert_eq!(error, r#"architecture is "sm_80", expected one of "any", "apple" for the target msl"#);
    }

    #[test]
    fn a_configuration_knows_its_architecture_and_an_architecture_its_configuration() {
        let own = |config| Limit::of(Target::Cuda, None, Some(config)).unwrap();
        assert_eq!(own(TunedConfigs::HOPPER), Limit { architecture: Some("sm_90"), bytes: 232_448 });
        assert_eq!(own(TunedConfigs::AMPERE), Limit { architecture: Some("sm_80"), bytes: 166_912 });
        assert_eq!(own(TunedConfigs::APPLE), Limit { architecture: None, bytes: 49_152 });
        assert_eq!(Limit::of(Target::Cuda, None, None).unwrap().bytes, 32_768, "that of models' kernels");
        let of = |name| Limit::of(Target::Cuda, Some(name), None).unwrap();
        assert_eq!(of("sm_90").tuned(128), Some(TunedConfigs::HOPPER));
        let ada = of("sm_89").tuned(128).unwrap();
        assert_eq!(ada, FlashAttentionConfig { block_kv: 128, ..TunedConfigs::HOPPER });
        let told = of("sm_89").interface(ada, true);
        assert_eq!(
            told["reason"],
            "the nearest to the row hopper, 128 x 256 x 128 in float16, which needs 131072 bytes of 101376"
        );
        assert_eq!((of("any").tuned(64), of("sm_90").tuned(40)), (None, None));
    }
}
