//! The languages in which kernels are exported.

use super::architectures::STATIC;
use crate::backend::vulkan::{Capabilities, Feature};
use crate::ops::{Attention, Op};
use crate::{Error, Result};

/// A language of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// SPIR-V 1.6 for Vulkan 1.3: the module that grilly runs.
    Spirv,
    /// WebGPU's.
    Wgsl,
    /// Metal's, version 2.1.
    Msl,
    /// Direct3D 12's, shader model 6.0.
    Hlsl,
    /// CUDA C++, for NVRTC or nvcc.
    Cuda,
    /// What NVRTC makes of it, where it is installed: assembly that NVIDIA's driver loads.
    Ptx,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 6] = [Target::Spirv, Target::Wgsl, Target::Msl, Target::Hlsl, Target::Cuda, Target::Ptx];

    /// Its name in arguments and as the ending of files.
    pub fn name(self) -> &'static str {
        match self {
            Target::Spirv => "spirv",
            Target::Wgsl => "wgsl",
            Target::Msl => "msl",
            Target::Hlsl => "hlsl",
            Target::Cuda => "cuda",
            Target::Ptx => "ptx",
        }
    }

    /// The target of this name.
    ///
    /// # Errors
    /// `InvalidArgument` listing the names.
    ///
    /// ```
    /// use grilly::export::Target;
    /// assert_eq!(Target::named("wgsl").unwrap(), Target::Wgsl);
    /// assert!(Target::named("cubin").unwrap_err().to_string().contains("\"spirv\", \"wgsl\""));
    /// ```
    pub fn named(name: &str) -> Result<Target> {
        let known = || Target::ALL.map(|target| format!("{:?}", target.name())).join(", ");
        let found = Target::ALL.into_iter().find(|target| target.name() == name);
        found.ok_or_else(|| Error::InvalidArgument(format!("target is {name:?}, expected one of {}", known())))
    }

    /// Whether kernels are exported for matrix cores.
    pub(super) fn has_matrices(self) -> bool {
        matches!(self, Target::Cuda | Target::Ptx | Target::Msl)
    }

    /// An operation for matrix cores, in CUDA attention with blocks that are faster than the engine's: with 64 keys, heads of
    /// up to 64 columns take 0.89 of the time, 0.88 if causal, that they take with 32 on an H200.
    pub(super) fn in_blocks(self, op: &Op) -> Op {
        match op {
            Op::Attention(own) if self != Target::Msl && own.blocks.is_none() && own.head_dim <= 64 => {
                Op::Attention(Attention { blocks: Some([64, 64]), ..own.clone() })
            }
            op => op.clone(),
        }
    }

    /// A device with matrix cores, and with as much shared memory where it is more than a kernel has without asking for it.
    ///
    /// # Errors
    /// `Unsupported` in a language that has none.
    pub(super) fn matrix_device(self, shared_memory: u32) -> Result<Capabilities> {
        if !self.has_matrices() {
            let reason = "kernels are exported for them in \"cuda\", \"ptx\" and \"msl\" alone";
            return Err(Error::unsupported(format!("matrix cores in {}", self.name()), reason));
        }
        let mut features = vec![
            Feature::SubgroupArithmetic,
            Feature::SubgroupVote,
            Feature::SubgroupShuffle,
            Feature::Float16,
            Feature::Storage16,
            Feature::MatrixF16,
            Feature::MatrixBf16,
        ];
        let usual = if self == Target::Msl { 32 << 10 } else { STATIC };
        if self != Target::Msl {
            features.push(Feature::MatrixRowsInLanes);
        }
        Ok(Capabilities {
            subgroup_size: 32,
            features,
            shared_memory: shared_memory.max(usual),
            // Indices have 32 bits.
            storage_buffer_range: u32::MAX.into(),
            ..Capabilities::floor()
        })
    }

    /// The name of a shader's entry point: in MSL the shader's own, since one library of Metal has many.
    ///
    /// ```
    /// use grilly::export::Target;
    /// assert_eq!(Target::Msl.entry_point("layer-norm-moments"), "layer_norm_moments");
    /// assert_eq!(Target::Wgsl.entry_point("layer-norm-moments"), "main");
    /// ```
    pub fn entry_point(self, shader: &str) -> String {
        match self {
            Target::Msl => shader.replace('-', "_"),
            Target::Cuda | Target::Ptx => "main0".into(),
            _ => "main".into(),
        }
    }

    /// Shared memory of a workgroup that every device of the language has, in bytes: of WebGPU its default limit.
    pub(super) fn shared_memory(self) -> u32 {
        if self == Target::Wgsl { 16 << 10 } else { 32 << 10 }
    }
}
