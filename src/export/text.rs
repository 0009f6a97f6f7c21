//! One build of a shader in the language of a target, checked for what translations are known to lose.

use std::collections::{BTreeMap, HashMap};

use super::portable::{self, Rules};
use super::{Target, cross, cuda, matrix_text, wgsl};
use crate::backend::vulkan::{Access, Variant, sizes};
use crate::compiler::glsl::Request;
use crate::kernels::describe::source;

const METAL_BARRIER: &str = "threadgroup_barrier(mem_flags::mem_threadgroup)";
/// SPIRV-Cross's name of every kernel.
const KERNEL: &str = "main0";

/// The text of a variant at values of its specialization constants, as the shader of this name in this language.
///
/// # Errors
/// The feature that stops it.
pub(super) fn of(variant: &Variant, constants: &[u32], (name, target): (&str, Target)) -> Result<String, String> {
    let matrices = target.has_matrices() && variant.matrix().is_some();
    if let Some(feature) = variant.needs.first().filter(|_| !matrices) {
        return Err(format!("it needs {}", feature.name()));
    }
    let text = source(variant);
    let request = Request {
        text: &text,
        file: variant.name,
        defines: &BTreeMap::new(),
        target: (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6),
        named: true,
        strict: false,
    };
    let (named, _) = request.compile(|name, _, _| Err(format!("{name} is not in place")))?;
    let (size, shared) = sizes(variant, constants);
    let values: HashMap<u32, u32> = variant.constants.iter().map(|c| c.id).zip(constants.iter().copied()).collect();
    let words = portable::specialise(&named, &values, size)?;
    let bindings = variant.bindings.len() as u32;
    let read_only = variant.bindings.iter().filter(|b| b.access == Access::Read).map(|b| b.index).collect();
    let rules = match target {
        Target::Wgsl => Rules { one_view: true, finite: true, simple: true, short: true, ..Rules::default() },
        Target::Hlsl => Rules { one_view: true, simple: true, short: true, ..Rules::default() },
        Target::Cuda => Rules { simple: true, no_matrices: matrices, ..Rules::default() },
        Target::Spirv | Target::Msl | Target::Ptx => Rules { no_matrices: matrices, ..Rules::default() },
    };
    let (words, barriers, declared) = portable::portable(&words, &read_only, bindings, rules)?;
    let (text, barrier, shape) = match target {
        Target::Spirv | Target::Ptx => return Err("it is no text of its own".into()),
        Target::Wgsl => (wgsl::wgsl(&words)?, "workgroupBarrier()", "@workgroup_size"),
        Target::Hlsl => (cross::hlsl(&words, bindings)?, "GroupMemoryBarrierWithGroupSync()", "[numthreads"),
        Target::Msl => {
            let msl = matrix_text::with_bodies(cross::msl(&words, bindings, matrices)?, &declared)?;
            let msl = renamed(&msl, &target.entry_point(name))?;
            (if matrices { matrix_text::with_header(&msl) } else { msl }, METAL_BARRIER, "")
        }
        Target::Cuda => {
            let msl = matrix_text::with_bodies(cross::msl(&words, bindings, matrices)?, &declared)?;
            let blocks = matrices.then(|| blocks(variant, constants));
            let cuda = cuda::cuda(&msl, bindings, size.iter().product(), blocks, shared)?;
            let is_product = variant.constants.iter().any(|constant| constant.name == "tile_m");
            (if is_product { matrix_text::with_unknown_start(&cuda) } else { cuda }, METAL_BARRIER, "")
        }
    };
    let size = format!("{shape}({}, {}, {})", size[0], size[1], size[2]);
    check(&text, barrier, barriers, if shape.is_empty() { "" } else { &size })?;
    Ok(text)
}

/// MSL whose kernel has another name than SPIRV-Cross's, which is the same in all.
///
/// # Errors
/// A name that the text has already.
fn renamed(msl: &str, name: &str) -> Result<String, String> {
    let words = |text: &str, word: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|other| *other == word).count()
    };
    match (words(msl, KERNEL), words(msl, name)) {
        (1, 0) => Ok(msl.replace(&format!("kernel void {KERNEL}("), &format!("kernel void {name}("))),
        (kernels, others) => Err(format!("the translation has {KERNEL} {kernels} times and {name} {others} times")),
    }
}

/// Workgroups of a kernel on matrix cores that a multiprocessor of CUDA is to have registers for: attention with narrow heads
/// takes 0.79 of the time, with 64 keys 0.81, on an H100.
fn blocks(variant: &Variant, constants: &[u32]) -> u32 {
    let of =
        |name| variant.constants.iter().zip(constants).find(|(constant, _)| constant.name == name).map(|(_, n)| *n);
    match (of("head_dim"), of("keys"), of("invocations")) {
        (Some(..=64), Some(..=32), Some(128)) => 5,
        (Some(..=64), Some(..=64), Some(128)) => 4,
        _ => 1,
    }
}

/// Checks that a translation has all barriers and the workgroup size: naga and others have lost them without an error.
fn check(text: &str, barrier: &str, barriers: usize, size: &str) -> Result<(), String> {
    let found = text.matches(barrier).count();
    if found != barriers {
        return Err(format!("the translation has {found} barriers, expected {barriers}"));
    }
    if !text.contains(size) {
        return Err(format!("the translation lacks the workgroup size {size}"));
    }
    Ok(())
}

/// Checks that PTX has the kernel, its workgroup size and, where CUDA C++ has any, barriers: what is inlined twice has its own
/// twice.
pub(super) fn check_ptx(ptx: &str, cuda: &str) -> Result<(), String> {
    let bounds = cuda.split_once("__launch_bounds__(").and_then(|(_, rest)| rest.split_once([',', ')']));
    let (invocations, _) = bounds.ok_or("it has no workgroup size")?;
    for part in [".entry main0(", &format!(".maxntid {invocations}")] {
        if !ptx.contains(part) {
            return Err(format!("the PTX lacks {part}"));
        }
    }
    if ptx.contains("bar.sync") != cuda.contains(METAL_BARRIER) {
        return Err("the PTX does not have the barriers of the CUDA C++".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{METAL_BARRIER, check, check_ptx, renamed};

    #[test]
    fn a_kernel_of_metal_takes_no_name_that_is_used() {
        let text = "void softmax_of() {}\nkernel void main0(device X& x [[buffer(0)]])";
        assert_eq!(renamed(text, "softmax").unwrap(), text.replace("main0", "softmax"));
        assert!(renamed(text, "softmax_of").unwrap_err().contains("softmax_of 1 times"));
        assert!(renamed("void f() {}", "softmax").unwrap_err().contains("main0 0 times"));
    }

    #[test]
    fn what_ptx_loses_is_found() {
        let cuda = format!("void __launch_bounds__(64) main0() {{ {METAL_BARRIER}; }}");
        let ptx = ".visible .entry main0(\n.maxntid 64, 1, 1\nbar.sync 0;";
        assert_eq!(check_ptx(ptx, &cuda), Ok(()));
        assert!(check_ptx(&ptx.replace("bar.sync", "ret"), &cuda).unwrap_err().contains("barriers"));
        assert!(check_ptx(&ptx.replace("64", "1"), &cuda).unwrap_err().contains(".maxntid 64"));
        assert!(check_ptx(&ptx.replace(".entry", ".func"), &cuda).unwrap_err().contains(".entry"));
    }

    #[test]
    fn what_a_translation_loses_is_found() {
        let text = "@compute @workgroup_size(64, 4, 1) fn main() { workgroupBarrier(); }";
        let of = |text: &str, size| check(text, "workgroupBarrier()", 1, size);
        assert_eq!(of(text, "@workgroup_size(64, 4, 1)"), Ok(()));
        assert_eq!(of(text, ""), Ok(()));
        assert!(of(text, "@workgroup_size(1, 1, 1)").unwrap_err().contains("workgroup size"));
        assert!(of(&text.replace("workgroupBarrier();", ""), "").unwrap_err().contains("0 barriers, expected 1"));
    }
}
