//! Arrays on a device, and ops run on them one by one: the basis of `grilly.functional` and `VulkanTensor`.
//!
//! A call is a graph of one op (with casts around it where an operand is float16) that runs on arrays instead of a
//! batch. On Vulkan a call is only recorded; recorded work is submitted when an array is read or when enough has
//! accumulated, so a chain of calls is one submission and moves no data.

mod by_length;
mod call;
mod calls;
#[cfg(feature = "vulkan")]
mod dispatch;
mod program;
mod ready;
mod several;
mod steps;

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

pub use self::{by_length::ByLength, call::Way, calls::Hashed};
#[cfg(feature = "vulkan")]
use crate::backend::vulkan;
use crate::backend::{ArrayEngine, Backend, BackendKind, Memory, ProgramOptions, choose};
use crate::dtype::DType;
use crate::graph::Plan;
use crate::graph::shaders::Registry;
use crate::model::shaders;
use crate::ops::Op;
use crate::settings::Settings;
use crate::{Error, Result};
#[cfg(feature = "vulkan")]
pub(crate) use call::op_graph;
#[cfg(feature = "vulkan")]
pub use dispatch::{Content, Dispatch};
pub use program::Program;

/// A device on which arrays are stored and ops run; one per device string and process.
pub struct Engine {
    backend: Arc<dyn ArrayEngine>,
    kind: BackendKind,
    device: String,
    reason: String,
    /// Architecture whose shaders run; empty for the generic ones.
    architecture: String,
    /// The registry of shaders; `None` for the process' registry as of each call.
    shaders: Option<Arc<Registry>>,
    calls: calls::Calls,
    filled: steps::Filled,
}

static ENGINES: Mutex<Option<HashMap<String, Arc<Engine>>>> = Mutex::new(None);

impl Engine {
    /// The engine of a device string (`"vulkan"`, `"vulkan:N"`, `"cpu"`), opened on first use.
    ///
    /// # Errors
    /// As [`choose::open`].
    ///
    /// ```
    /// let engine = grilly::array::Engine::of("cpu").unwrap();
    /// let x = engine.upload(grilly::dtype::DType::F32, &[2], &[1.0f32.to_le_bytes(), 2.0f32.to_le_bytes()].concat());
    /// assert_eq!(x.unwrap().shape(), [2]);
    /// ```
    pub fn of(device: &str) -> Result<Arc<Engine>> {
        let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        let engines = engines.get_or_insert_default();
        if let Some(engine) = engines.get(device)
            && engine.backend.usable()
        {
            return Ok(engine.clone());
        }
        let choice = choose::open(device.parse()?, &Settings::from_env()?)?;
        let backend = choice.backend.arrays(None)?;
        // Two names of one device share one engine, so that their arrays can be combined.
        let same = |engine: &&Arc<Engine>| std::ptr::addr_eq(Arc::as_ptr(&engine.backend), Arc::as_ptr(&backend));
        if let Some(engine) = engines.values().find(same).cloned() {
            engines.insert(device.to_owned(), engine.clone());
            return Ok(engine);
        }
        let engine = Arc::new(Engine { reason: choice.reason, ..Engine::new(backend, &*choice.backend) });
        engines.insert(device.to_owned(), engine.clone());
        Ok(engine)
    }

    /// The engines opened by [`Engine::of`].
    pub fn opened() -> Vec<Arc<Engine>> {
        let engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        engines.iter().flat_map(HashMap::values).cloned().collect()
    }

    /// A separate engine that runs the shaders of a plan.
    fn own(backend: &dyn Backend, plan: &Plan, options: ProgramOptions) -> Result<Arc<Engine>> {
        let (architecture, shaders) = (plan.architecture.clone(), Some(plan.shaders.clone()));
        Ok(Arc::new(Engine { architecture, shaders, ..Engine::new(backend.arrays(Some(options))?, backend) }))
    }

    fn new(arrays: Arc<dyn ArrayEngine>, backend: &dyn Backend) -> Self {
        Engine {
            backend: arrays,
            kind: backend.kind(),
            device: backend.device_name().to_owned(),
            reason: String::new(),
            architecture: String::new(),
            shaders: None,
            calls: calls::Calls::default(),
            filled: steps::Filled::default(),
        }
    }

    /// The registry used by a call made now.
    fn shaders(&self) -> Arc<Registry> {
        self.shaders.clone().unwrap_or_else(shaders::read)
    }

    /// The backend.
    pub fn kind(&self) -> BackendKind {
        self.kind
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Limits and features of its Vulkan device; `None` of the CPU.
    #[cfg(feature = "vulkan")]
    pub fn capabilities(&self) -> Option<&vulkan::Capabilities> {
        self.opened_device().map(|device| device.capabilities())
    }

    /// Its Vulkan device, for pipelines and command buffers of one's own; `None` of the CPU.
    #[cfg(feature = "vulkan")]
    pub fn opened_device(&self) -> Option<&Arc<vulkan::OpenDevice>> {
        self.backend.device()
    }

    /// The reason why this device was chosen.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Uploads an array of `shape` with the given elements, little endian.
    ///
    /// # Errors
    /// `InvalidArgument` when the number of bytes does not match the shape, `OutOfMemory`, or a device fault.
    pub fn upload(self: &Arc<Self>, dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Array> {
        let elements = elements(shape)?;
        if bytes.len() != dtype.bytes(elements) {
            return Err(Error::InvalidArgument(format!(
                "array: {} bytes, expected {} for {} {shape:?}",
                bytes.len(),
                dtype.bytes(elements),
                dtype.name()
            )));
        }
        let memory = if elements == 0 { Memory::empty() } else { self.backend.upload(bytes)? };
        let integers = ready::Integers::of(dtype, bytes);
        Ok(Array { engine: self.clone(), memory, shape: shape.to_vec(), dtype, integers })
    }

    /// Runs an op and returns its result.
    ///
    /// # Errors
    /// `InvalidArgument` for operands that do not fit the op, `IndexOutOfRange` for ids outside a table, `Unsupported`
    /// naming the limit that the device does not meet, `OutOfMemory`, or a device fault.
    pub fn call(self: &Arc<Self>, op: &Op, operands: &[&Array]) -> Result<Array> {
        self.call_as(&self.architecture, op, operands)
    }

    /// As [`Engine::call`], with the shaders registered for an architecture (empty for the generic ones).
    ///
    /// # Errors
    /// As [`Engine::call`].
    pub fn call_as(self: &Arc<Self>, architecture: &str, op: &Op, operands: &[&Array]) -> Result<Array> {
        Ok(self.call_all(architecture.into(), &Hashed::from(op.clone()), operands)?.swap_remove(0))
    }

    /// Runs an op and returns all its results, in order. An operand that the op updates is unchanged; the result is a
    /// copy.
    ///
    /// # Errors
    /// As [`Engine::call`].
    pub fn call_all(self: &Arc<Self>, way: Way<'_>, op: &Hashed, operands: &[&Array]) -> Result<Vec<Array>> {
        let name = op.op().name();
        operands.iter().try_for_each(|array| self.check_owns(array, format_args!("{name}: an operand")))?;
        call::run(self, way, op, operands)
    }

    /// Checks that an array, called `what` in the message, is on this engine.
    ///
    /// # Errors
    /// `InvalidArgument` naming both devices.
    fn check_owns(self: &Arc<Self>, array: &Array, what: impl Display) -> Result<()> {
        if Arc::ptr_eq(&array.engine, self) {
            return Ok(());
        }
        let (found, expected) = (&array.engine.device, &self.device);
        Err(Error::InvalidArgument(format!("{what} is on {found:?} and not on {expected:?}")))
    }

    /// Writes the elements of several arrays, little endian, to a list each, after one wait for the work that computes them.
    ///
    /// # Errors
    /// `InvalidArgument` for an array of another device, or a device fault.
    pub fn read(self: &Arc<Self>, arrays: &[&Array], to: &mut [Vec<u8>]) -> Result<()> {
        arrays.iter().try_for_each(|array| self.check_owns(array, "an array to read"))?;
        let parts: Vec<_> = arrays.iter().map(|array| (&array.memory, array.dtype.bytes(array.elements()))).collect();
        self.backend.download(&parts, to)
    }

    /// Waits until all recorded work is done.
    ///
    /// # Errors
    /// A device fault.
    pub fn synchronize(&self) -> Result<()> {
        self.backend.synchronize()
    }
}

/// The number of elements of a shape.
///
/// # Errors
/// `InvalidArgument` when the number of elements, or of bytes, does not fit 64 bits.
fn elements(shape: &[usize]) -> Result<usize> {
    let product = shape.iter().try_fold(1usize, |product, n| product.checked_mul(*n));
    product.filter(|n| n.checked_mul(4).is_some_and(|bytes| bytes <= isize::MAX as usize)).ok_or_else(|| {
        Error::InvalidArgument(format!("array: shape {shape:?} has more elements than memory has bytes"))
    })
}

/// A contiguous, immutable tensor on a device. Clones share its memory, which is freed with the last one.
#[derive(Clone)]
pub struct Array {
    engine: Arc<Engine>,
    memory: Memory,
    shape: Vec<usize>,
    dtype: DType,
    integers: Option<ready::Integers>,
}

impl Array {
    fn computed(engine: &Arc<Engine>, memory: Memory, shape: Vec<usize>, dtype: DType) -> Array {
        Array { engine: engine.clone(), memory, shape, dtype, integers: None }
    }

    /// Axes, slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The engine that owns it.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The least and the largest element of a non-empty int32 or uint32 array.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        self.integers.map(|integers| integers.bounds)
    }

    /// The same elements in another shape; the memory is shared.
    ///
    /// # Errors
    /// `InvalidArgument` when the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Array> {
        if elements(shape)? != self.elements() {
            return Err(Error::InvalidArgument(format!(
                "reshape: {:?} cannot become {shape:?}: the sizes differ",
                self.shape
            )));
        }
        Ok(Array { shape: shape.to_vec(), ..self.clone() })
    }

    /// Returns the elements, little endian; waits for pending work that computes them.
    ///
    /// # Errors
    /// A device fault.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut found = [Vec::new()];
        self.engine.read(&[self], &mut found).map(|()| std::mem::take(&mut found[0]))
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} on {}", self.dtype.name(), self.shape, self.engine.device)
    }
}
