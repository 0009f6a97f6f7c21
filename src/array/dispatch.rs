//! Dispatch of a user's compiled function on arrays.

use std::sync::Arc;

use super::{Array, Engine};
use crate::backend::vulkan::{Access, Binding, Scalar, Variant};
use crate::backend::{Memory, UserDispatch};
use crate::compiler::ComputeFunction;
use crate::{Error, Result};

/// A dispatch of one function; buffers and numbers are identified by their names in the shader.
#[derive(Debug, Clone)]
pub struct Dispatch<'a> {
    /// The function.
    pub function: &'a ComputeFunction,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// All storage buffers, by name.
    pub buffers: Vec<(String, Array)>,
    /// All members of the push-constant block.
    pub push: Vec<(String, f64)>,
    /// Specialization constants; omitted ones have their defaults.
    pub constants: Vec<(String, f64)>,
}

impl Engine {
    /// Dispatches a function. Returns, by name and with their new contents, the buffers that it does not declare
    /// `readonly`. An array that is also referenced elsewhere is not changed: a copy is written instead.
    ///
    /// # Errors
    /// `InvalidType` for an array of another kind of number than the shader reads; `InvalidArgument` for a buffer, member or constant that is unknown or missing, or a number outside the range of
    /// its type; `Unsupported` on the CPU and for more workgroups than the device allows; `PipelineCreationFailed`
    /// naming the missing device feature; `OutOfMemory` or a device fault.
    ///
    /// ```
    /// use grilly::array::{Dispatch, Engine};
    /// use grilly::compiler::{ShaderCompilerConfig, ShaderCompiler};
    /// use grilly::dtype::DType;
    /// # let folder = std::env::temp_dir().join(format!("grilly-dispatch-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// let text = "#version 460\nlayout(local_size_x = 64) in;\n\
    ///             layout(std430, binding = 0) buffer X { float x[]; };\n\
    ///             layout(push_constant) uniform Push { float factor; } push;\n\
    ///             void main() { if (gl_GlobalInvocationID.x < x.length()) x[gl_GlobalInvocationID.x] *= push.factor; }\n";
    /// std::fs::write(folder.join("times.glsl"), text).unwrap();
    /// let config = ShaderCompilerConfig { shader_directory: folder, enable_caching: false, ..ShaderCompilerConfig::release() };
    /// let function = &ShaderCompiler::new(config).get_compute_function("times", "main").unwrap();
    /// # if let Ok(engine) = Engine::of("vulkan") {
    /// let x = engine.upload(DType::F32, &[2], bytemuck::cast_slice(&[1.5f32, -2.0])).unwrap();
    /// let (buffers, push) = (vec![("x".into(), x)], vec![("factor".into(), 2.0)]);
    /// let dispatch = Dispatch { function, groups: [1, 1, 1], buffers, push, constants: Vec::new() };
    /// # if engine.kind().name() == "vulkan" {
    /// let written = engine.dispatch(dispatch).unwrap();
    /// assert_eq!(written[0].1.read().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0, -4.0]));
    /// # }}
    /// ```
    pub fn dispatch(self: &Arc<Self>, dispatch: Dispatch<'_>) -> Result<Vec<(&'static str, Array)>> {
        let Dispatch { function, groups, mut buffers, push, constants } = dispatch;
        let variant = function.variant;
        let bindings = variant.bindings.iter().map(|b| b.name);
        known(variant, "buffer", buffers.iter().map(|(name, _)| &**name), bindings.clone().collect())?;
        let mut arrays = Vec::with_capacity(buffers.len());
        for name in bindings {
            let place = buffers.iter().position(|(given, _)| given == name);
            arrays.push(buffers.swap_remove(place.ok_or_else(|| missing(variant, "buffer", name))?).1);
        }
        let what = format!("{}: a buffer", variant.name);
        arrays.iter().try_for_each(|array| self.check_owns(array, &what))?;
        let members: Vec<_> = variant.push.iter().map(|m| (m.name, m.scalar, None)).collect();
        let defaults: Vec<_> = variant.constants.iter().map(|c| (c.name, c.scalar, Some(c.default))).collect();
        let push = numbers(variant, "push constant", &push, &members)?;
        let constants = numbers(variant, "specialization constant", &constants, &defaults)?;
        let bytes = variant.bindings.iter().zip(&arrays).map(|(binding, array)| bytes_of(function, binding, array));
        let bytes = bytes.collect::<Result<_>>()?;
        let call = UserDispatch { variant, groups, push, constants, bytes };
        let mut memories: Vec<Memory> =
            arrays.iter_mut().map(|array| std::mem::replace(&mut array.memory, Memory::empty())).collect();
        self.backend.dispatch(&call, &mut memories)?;
        let written = variant.bindings.iter().zip(arrays).zip(memories).filter(|((b, _), _)| b.access != Access::Read);
        let array = |array: Array, memory| Array::computed(self, memory, array.shape, array.dtype);
        Ok(written.map(|((binding, given), memory)| (binding.name, array(given, memory))).collect())
    }
}

/// The bytes of an array that a shader sees: all, and of narrower numbers packed into integers the whole last one.
///
/// # Errors
/// `InvalidType` for another kind of number than the shader reads.
fn bytes_of(function: &ComputeFunction, binding: &Binding, array: &Array) -> Result<u64> {
    let (float, bits) = (array.dtype.is_float(), 8 * array.dtype.bytes(1) as u32);
    let bytes = array.dtype.bytes(array.elements()) as u64;
    let Some((_, read)) = function.elements.iter().find(|(index, _)| *index == binding.index) else {
        return Ok(bytes.next_multiple_of(4));
    };
    let fits = if read.float {
        float && bits == read.bits
    } else {
        bits < read.bits || (bits == read.bits && !(float && bits == 32))
    };
    if fits {
        return Ok(bytes.next_multiple_of(u64::from(read.bits / 8).max(1)));
    }
    let kind = if read.float { "floating-point numbers" } else { "integers" };
    Err(Error::InvalidType(format!(
        "{}: {} is {}, and the shader reads {kind} of {} bits; convert the array, or view its bits as integers",
        function.shader,
        binding.name,
        array.dtype.name(),
        read.bits
    )))
}

fn missing(variant: &Variant, what: &str, name: &str) -> Error {
    Error::InvalidArgument(format!("{}: the {what} {name:?} is missing", variant.name))
}

/// Rejects names that the function does not have, and duplicates.
fn known<'a>(variant: &Variant, what: &str, given: impl Iterator<Item = &'a str>, mut names: Vec<&str>) -> Result<()> {
    let all = names.clone();
    for name in given {
        let Some(place) = names.iter().position(|known| *known == name) else {
            let problem = format!("{}: no {what} is called {name:?}, or it is given twice; there are", variant.name);
            return Err(Error::InvalidArgument(format!("{problem} {all:?}")));
        };
        names.swap_remove(place);
    }
    Ok(())
}

/// Converts numbers to bits, in the order of `expected`, which holds names, types and defaults.
fn numbers(
    variant: &Variant,
    what: &str,
    given: &[(String, f64)],
    expected: &[(&str, Scalar, Option<u32>)],
) -> Result<Vec<u32>> {
    known(variant, what, given.iter().map(|(name, _)| &**name), expected.iter().map(|(name, ..)| *name).collect())?;
    let bits = |(name, scalar, default): &(&str, Scalar, Option<u32>)| {
        let Some((_, number)) = given.iter().find(|(given, _)| given == name) else {
            return default.ok_or_else(|| missing(variant, what, name));
        };
        let wrong = || {
            let kind = scalar.glsl();
            Error::InvalidArgument(format!("{}: {number} is not a value of the {what} {name:?}, {kind}", variant.name))
        };
        let whole = |least: f64, most: f64| number.fract() == 0.0 && (least..=most).contains(number);
        match scalar {
            Scalar::F32 => Ok((*number as f32).to_bits()),
            Scalar::I32 if whole(i32::MIN.into(), i32::MAX.into()) => Ok((*number as i32).cast_unsigned()),
            Scalar::U32 if whole(0.0, u32::MAX.into()) => Ok(*number as u32),
            Scalar::Bool if whole(0.0, 1.0) => Ok(*number as u32),
            _ => Err(wrong()),
        }
    };
    expected.iter().map(bits).collect()
}
