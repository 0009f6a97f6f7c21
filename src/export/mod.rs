//! Kernels as code for other engines: their SPIR-V, and WGSL, MSL, HLSL, CUDA and PTX made from it.
//!
//! ```text
//! GLSL ── glsl.rs, unoptimised ─▶ SPIR-V ── portable.rs: constants baked, parameters in a uniform block ─▶
//!     views.rs, arithmetic.rs, matrices.rs: what a language lacks ── wgsl.rs (naga) or cross.rs (SPIRV-Cross) ─▶ text
//!                                                                                           └─ cuda.rs ── nvrtc.rs
//! ```
//!
//! The interface beside the code has all that a launch needs: `launch.rs`.

mod architectures;
#[cfg(feature = "export")]
mod arithmetic;
#[cfg(feature = "export")]
mod builtins;
#[cfg(feature = "export")]
mod cross;
#[cfg(feature = "export")]
mod cuda;
mod files;
mod launch;
mod limits;
#[cfg(feature = "export")]
mod matrices;
#[cfg(feature = "export")]
mod matrix_calls;
#[cfg(feature = "export")]
mod matrix_text;
#[cfg(feature = "export")]
mod nvrtc;
mod plan;
#[cfg(feature = "export")]
mod portable;
#[cfg(feature = "export")]
mod rewriter;
mod target;
#[cfg(test)]
mod tests;
#[cfg(feature = "export")]
mod text;
#[cfg(feature = "export")]
mod views;
#[cfg(feature = "export")]
mod wgsl;

pub use architectures::{ARCHITECTURES, Architecture};
pub use files::shaders;
#[cfg(feature = "export")]
pub use nvrtc::ptx;
pub(crate) use plan::{CompiledPlan, compile_plan};
pub use target::Target;

use std::sync::Arc;

use architectures::Limit;

use crate::array::op_graph;
use crate::backend::vulkan::flash::FlashAttentionConfig;
use crate::backend::vulkan::{Capabilities, Dispatch, lower};
use crate::dtype::DType;
use crate::graph::Plan;
use crate::graph::fuse::Fusion;
use crate::graph::shaders::Float32Products;
use crate::kernels::{Kernel, Operand, describe};
use crate::model::shaders::shipped;
use crate::ops::signature::Role;
use crate::ops::{Op, Shape};
use crate::{Error, Result, exit};

/// The code of one shader.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// The shader's name, with a number where a kernel has several builds of it.
    pub name: String,
    /// SPIR-V in the byte order of this machine, or text.
    pub bytes: Vec<u8>,
}

/// A kernel in one language.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The shaders in the order of their first dispatch.
    pub code: Vec<Code>,
    /// What a launch needs:
    ///
    /// - `target`, and `entry_point` of the first shader, which all others have, too, but in MSL;
    /// - of CUDA and PTX `compute_capability`, the least, as two numbers;
    /// - of WGSL `limits`: what a device must allow beyond WebGPU's defaults, each with `name`, `needed`, `default` and `reason`;
    /// - `buffers`: `name`, `kind` (`"operand"`, `"result"`, `"scratch"` or `"counts"`), `bytes`; of an operand or a result
    ///   its `place`, `dtype` and `shape`; of counts the `words` that it has to hold;
    /// - of flash attention with a configuration `configuration`: its blocks, the `shared_memory` that they need, the `limit`
    ///   and the `architecture` that it is of, and of blocks that were chosen the `row` and the `reason`;
    /// - `dispatches`, to run one after the other: `shader`, its `entry_point`, `workgroup_size`, `workgroup_memory` in bytes, of
    ///   CUDA as `dynamic_memory` where it is more than may be static, and the launch has to allow and give so many; `grid` in
    ///   workgroups, `bindings` (`binding` in set 0, `name`, `access`, `buffer`: its place in `buffers`, `offset` and
    ///   `bytes`), `parameters` (`kind`: `"push_constants"`, `"uniform"` with its `binding`, or `"argument"`, the last of a
    ///   CUDA kernel after a pointer per binding; `bytes`, and `members`:
    ///   `offset`, `name`, `type`, `value`), `constants` with their values, which other languages than SPIR-V have baked in.
    pub interface: serde_json::Value,
}

impl Kernel {
    /// Its code in another language, for a number of rows.
    ///
    /// # Errors
    /// `Unsupported` naming the feature that the language lacks, for sizes that no device supports, and for PTX where NVRTC
    /// is not installed.
    ///
    /// ```
    /// use grilly::{export::Target, kernels::Kernel};
    /// let kernel = Kernel::get("bias_gelu", serde_json::json!({"hidden_dim": 8})).unwrap();
    /// let compiled = kernel.compile(Target::Spirv, 3).unwrap();
    /// assert_eq!(compiled.code[0].bytes[..4], 0x0723_0203u32.to_ne_bytes());
    /// assert_eq!(compiled.interface["dispatches"][0]["workgroup_size"], serde_json::json!([256, 1, 1]));
    /// ```
    pub fn compile(&self, target: Target, rows: usize) -> Result<Compiled> {
        self.compile_for(target, rows, None, false)
    }

    /// As [`Kernel::compile`], for a GPU architecture, one of [`ARCHITECTURES`]: its shared memory is the limit, and flash
    /// attention in float16 without a configuration has its tuned row, or the nearest that fits. `None` is the architecture of
    /// a configuration that is a tuned row, else what is usual for the target. With `matrix_cores`, in CUDA and PTX of compute
    /// capability 8.0 and in MSL, products and attention in 16 bits run on them.
    ///
    /// # Errors
    /// `InvalidArgument` for an architecture that is unknown or does not have the language, `SharedMemory` for a
    /// configuration that exceeds the limit, else as [`Kernel::compile`].
    ///
    /// ```
    /// use grilly::{export::Target, kernels::{Kernel, flash::TunedConfigs}};
    /// let options = serde_json::json!({"hidden_dim": 128, "config": TunedConfigs::HOPPER});
    /// let kernel = Kernel::get("flash_attention", options).unwrap();
    /// let error = kernel.compile_for(Target::Cuda, 1, Some("sm_89"), false).unwrap_err().to_string();
    /// assert!(error.contains("as cuda on sm_89: it needs 131072 bytes of shared memory, the limit is 101376"), "{error}");
    /// ```
    pub fn compile_for(
        &self,
        target: Target,
        rows: usize,
        architecture: Option<&str>,
        matrix_cores: bool,
    ) -> Result<Compiled> {
        if rows == 0 {
            return Err(self.fault("rows is 0, expected at least 1".into()));
        }
        let limit = Limit::of(target, architecture, self.options().config)?;
        let flash = self.row().name == "flash_attention" && self.options().config.is_none();
        let chosen = limit.tuned(self.options().head_dim).filter(|_| flash && self.options().use_half);
        let tuned = chosen.map(|config| self.with_config(config));
        let kernel = tuned.as_ref().unwrap_or(self);
        let config = kernel.options().config;
        let mut compiled = build(&kernel.op(), &kernel.operands(rows), config, (target, matrix_cores), limit)?;
        if let Some(config) = config {
            let used = compiled.interface["dispatches"][0]["workgroup_memory"].clone();
            compiled.interface["configuration"] = limit.interface(config, chosen.is_some());
            compiled.interface["configuration"]["shared_memory"] = used;
        }
        Ok(compiled)
    }
}

/// The code of any op in another language, for operands of these types and shapes; `matrix_cores` as in [`Kernel::compile`].
///
/// # Errors
/// `InvalidArgument` and `InvalidType` for operands that do not fit the op, else as [`Kernel::compile`].
///
/// ```
/// use grilly::{dtype::DType, export::{Target, compile_op}, ops::Op};
/// let op = Op::from_attributes("activation", serde_json::json!({"kind": "silu"})).unwrap();
/// let compiled = compile_op(&op, &[(DType::F32, vec![3, 5])], Target::Spirv, false).unwrap();
/// assert_eq!(compiled.interface["buffers"].as_array().unwrap().len(), 3);
/// ```
pub fn compile_op(op: &Op, operands: &[Operand], target: Target, matrix_cores: bool) -> Result<Compiled> {
    op.check_number(operands.len())?;
    let shapes: Vec<Shape> = operands.iter().map(|(_, axes)| Shape::fixed(axes)).collect();
    // A launch knows no numbers that a graph fills in.
    let filled = op.filled(&shapes.iter().collect::<Vec<_>>()).len();
    if filled > 0 {
        let (name, given) = (op.name(), operands.len());
        return Err(Error::InvalidArgument(format!(
            "{name}: {given} operands, expected {}: all of them",
            given + filled
        )));
    }
    build(op, operands, None, (target, matrix_cores), Limit::usual(target))
}

fn build(
    op: &Op,
    operands: &[Operand],
    config: Option<FlashAttentionConfig>,
    (target, matrix_cores): (Target, bool),
    limit: Limit,
) -> Result<Compiled> {
    for (place, (dtype, axes)) in operands.iter().enumerate() {
        // Arrays have no bfloat16, which kernels take wherever they take float16.
        let as_array = if *dtype == DType::Bf16 { DType::F16 } else { *dtype };
        let operand = op.operand(place);
        operand.check_type(op.name(), as_array)?;
        // Arrays are widened for a call.
        if dtype.is_narrow() && operand.role != Role::Any && operand.dtype(*dtype) != *dtype {
            let (name, found) = (operand.name, dtype.name());
            return Err(Error::InvalidType(format!("{}: {name} is {found}, expected float32", op.name())));
        }
        if axes.contains(&0) {
            let name = operand.name;
            return Err(Error::InvalidArgument(format!("{}: {name} has shape {axes:?}, without elements", op.name())));
        }
    }
    let narrow = operands.first().is_some_and(|(dtype, _)| dtype.is_narrow());
    let op = if matrix_cores && narrow { target.in_blocks(op) } else { op.clone() };
    let (graph, counts) = op_graph(&op, operands)?;
    // Those of users are not grilly's to export. Float32 stays off matrix cores.
    let mut shaders = shipped();
    shaders.float32_products = Float32Products::Plain;
    let shaders = Arc::new(shaders);
    let plan = Plan::with(graph, &Fusion { shaders: &shaders, ..Fusion::default() })?;
    let capabilities = match matrix_cores {
        true => target.matrix_device(limit.bytes)?,
        false => Capabilities { shared_memory: limit.bytes, ..describe::device(config) },
    };
    let mut dispatches = lower(&plan, &capabilities).map_err(|error| limit.named(target, error))?;
    dispatches.retain(|dispatch| !dispatch.grid.map(|extent| extent.groups(counts)).contains(&0));
    let (code, names) = shaders_of(&dispatches, target)?;
    let interface = launch::interface(&plan, Some(counts), &dispatches, &names, target)?;
    Ok(Compiled { code, interface })
}

/// The shaders of some dispatches, and which of them each runs.
fn shaders_of(dispatches: &[Dispatch], target: Target) -> Result<(Vec<Code>, Vec<String>)> {
    let (mut code, mut names): (Vec<Code>, Vec<String>) = Default::default();
    let mut known: Vec<(&Dispatch, usize)> = Vec::new();
    for dispatch in dispatches {
        exit::check()?;
        let same = |(other, _): &&(&Dispatch, usize)| {
            let alike = std::ptr::eq(other.variant, dispatch.variant);
            alike && (target == Target::Spirv || other.constants == dispatch.constants)
        };
        if let Some((_, place)) = known.iter().find(same).copied() {
            names.push(code[place].name.clone());
            continue;
        }
        let builds = known.iter().filter(|(other, _)| std::ptr::eq(other.variant, dispatch.variant)).count();
        let name =
            dispatch.variant.name.to_owned() + &if builds > 0 { format!("-{}", builds + 1) } else { String::new() };
        code.push(Code { bytes: translate(dispatch, &name, target)?, name: name.clone() });
        known.push((dispatch, code.len() - 1));
        names.push(name);
    }
    Ok((code, names))
}

#[cfg(feature = "export")]
fn translate(dispatch: &Dispatch, name: &str, target: Target) -> Result<Vec<u8>> {
    if target == Target::Spirv {
        return Ok(bytemuck::cast_slice(&dispatch.variant.spirv).to_vec());
    }
    let refused =
        |reason| Error::Unsupported { what: format!("{} in {}", dispatch.variant.name, target.name()), reason };
    if target == Target::Ptx {
        let text = text::of(dispatch.variant, &dispatch.constants, (name, Target::Cuda)).map_err(refused)?;
        let code = ptx(&text)?;
        text::check_ptx(&String::from_utf8_lossy(&code), &text).map_err(refused)?;
        return Ok(code);
    }
    text::of(dispatch.variant, &dispatch.constants, (name, target)).map(String::into_bytes).map_err(refused)
}

#[cfg(not(feature = "export"))]
fn translate(dispatch: &Dispatch, _: &str, target: Target) -> Result<Vec<u8>> {
    match target {
        Target::Spirv => Ok(bytemuck::cast_slice(&dispatch.variant.spirv).to_vec()),
        other => Err(Error::unsupported(other.name(), "this build of grilly has no feature `export`")),
    }
}
