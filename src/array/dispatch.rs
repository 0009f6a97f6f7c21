//! Dispatch of a user's compiled function on arrays.

use std::sync::Arc;

use super::{Array, Engine};
use crate::backend::vulkan::{Access, Binding};
use crate::backend::{Memory, UserDispatch};
use crate::compiler::{BufferName, ComputeFunction};
use crate::{Error, Result};

/// What a buffer holds.
#[derive(Debug, Clone)]
pub enum Content {
    /// Numbers of the kind that the shader reads, side by side.
    Numbers(Array),
    /// The memory of its block, as [`Block::pack`](crate::compiler::Block::pack) makes it, in bytes.
    Block(Array),
}

impl From<Array> for Content {
    fn from(array: Array) -> Self {
        Content::Numbers(array)
    }
}

impl Content {
    fn array(&self) -> &Array {
        let (Content::Numbers(array) | Content::Block(array)) = self;
        array
    }

    fn into_array(self) -> Array {
        let (Content::Numbers(array) | Content::Block(array)) = self;
        array
    }
}

/// A dispatch of one function; buffers and numbers are identified by their names in the shader, buffers also by their
/// places.
#[derive(Debug, Clone)]
pub struct Dispatch<'a> {
    /// The function.
    pub function: &'a ComputeFunction,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// All storage buffers and uniform blocks.
    pub buffers: Vec<(BufferName, Content)>,
    /// All members of the push-constant block.
    pub push: Vec<(String, f64)>,
    /// Specialization constants; omitted ones have their defaults.
    pub constants: Vec<(String, f64)>,
}

impl Engine {
    /// Dispatches a function. Returns, by the names given and with their new contents, the buffers that it does not declare
    /// `readonly`. An array that is also referenced elsewhere is not changed: a copy is written instead.
    ///
    /// # Errors
    /// `InvalidType` for an array of another kind of number than the shader reads; `InvalidArgument` for a buffer, member or
    /// constant that is unknown or missing, a number outside the range of its type, or a buffer smaller than its block; `Unsupported` on the CPU and for more workgroups than the device allows; `PipelineCreationFailed`
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
    /// let (buffers, push) = (vec![("x".into(), x.into())], vec![("factor".into(), 2.0)]);
    /// let dispatch = Dispatch { function, groups: [1, 1, 1], buffers, push, constants: Vec::new() };
    /// # if engine.kind().name() == "vulkan" {
    /// let written = engine.dispatch(dispatch).unwrap();
    /// assert_eq!(written[0].1.read().unwrap(), bytemuck::cast_slice::<f32, u8>(&[3.0, -4.0]));
    /// # }}
    /// ```
    pub fn dispatch(self: &Arc<Self>, dispatch: Dispatch<'_>) -> Result<Vec<(BufferName, Array)>> {
        let Dispatch { function, groups, buffers, push, constants } = dispatch;
        let variant = function.variant;
        let mut places: Vec<Option<(BufferName, Content)>> = variant.bindings.iter().map(|_| None).collect();
        for (name, content) in buffers {
            let place = &mut places[function.place(&name)?];
            if place.is_some() {
                return Err(fault(function, format!("the buffer {name} is given twice")));
            }
            *place = Some((name, content));
        }
        let missing = |number| fault(function, format!("the buffer {} is missing", function.named(number)));
        let given = places.into_iter().enumerate().map(|(number, given)| given.ok_or_else(|| missing(number)));
        let (names, contents): (Vec<_>, Vec<_>) = given.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let what = format!("{}: a buffer", variant.name);
        contents.iter().try_for_each(|content| self.check_owns(content.array(), &what))?;
        let (push, constants) = (function.push(&push)?, function.constants(&constants)?);
        let blocks = function.layouts(&constants)?;
        function.fits(&blocks)?;
        let bytes = blocks.iter().zip(variant.bindings).zip(names.iter().zip(&contents));
        let bytes = bytes.map(|((block, binding), (name, content))| {
            let (array, least) = (content.array(), block.as_ref().map_or(0, |block| block.bytes));
            let bytes = match content {
                Content::Numbers(array) => bytes_of(function, binding, name, array)?,
                Content::Block(array) => array.dtype.bytes(array.elements()) as u64,
            };
            if bytes < least {
                let found = array.dtype.bytes(array.elements());
                return Err(fault(function, format!("{name} has {found} bytes, and its block at least {least}")));
            }
            Ok(bytes)
        });
        let call = UserDispatch { variant, groups, push, constants, bytes: bytes.collect::<Result<_>>()? };
        let mut arrays: Vec<Array> = contents.into_iter().map(Content::into_array).collect();
        let mut memories: Vec<Memory> =
            arrays.iter_mut().map(|array| std::mem::replace(&mut array.memory, Memory::empty())).collect();
        self.backend.dispatch(&call, &mut memories)?;
        let rows = variant.bindings.iter().zip(names).zip(arrays.into_iter().zip(memories));
        let written = rows.filter(|((binding, _), _)| binding.access != Access::Read);
        let array = |array: Array, memory| Array::computed(self, memory, array.shape, array.dtype);
        Ok(written.map(|((_, name), (given, memory))| (name, array(given, memory))).collect())
    }
}

/// The bytes of an array that a shader sees: all, and of narrower numbers packed into integers the whole last one.
///
/// # Errors
/// `InvalidType` for another kind of number than the shader reads.
fn bytes_of(function: &ComputeFunction, binding: &Binding, name: &BufferName, array: &Array) -> Result<u64> {
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
        name.to_string().trim_matches('"'),
        array.dtype.name(),
        read.bits
    )))
}

fn fault(function: &ComputeFunction, problem: String) -> Error {
    Error::InvalidArgument(format!("{}: {problem}", function.variant.name))
}
