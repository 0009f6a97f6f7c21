//! How plans run: the trait that the CPU and Vulkan backends implement, and the choice between them.

pub mod choose;
pub(crate) mod chunk;
pub mod cpu;
pub mod faster;
pub mod faults;
pub mod several;
#[cfg(feature = "vulkan")]
pub mod vulkan;

use std::any::Any;
use std::sync::Arc;

pub use choose::{BackendKind, Choice};

use crate::graph::{Plan, Value};
use crate::ops::Counts;
use crate::tensor::WeightSource;
use crate::{Error, Result};

/// The limits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Most tokens per batch; a single longer text still runs alone, up to `longest_text`.
    pub tokens: usize,
    /// Most tokens the device can process at all.
    pub longest_text: usize,
    /// Most batches in flight at once.
    pub in_flight: usize,
}

/// One batch's inputs, in the order of `Graph::inputs`, as raw bytes of 4-byte elements.
#[derive(Debug, Clone)]
pub struct Feed<'a> {
    /// Sizes of this batch.
    pub counts: Counts,
    /// The inputs' elements.
    pub inputs: Vec<&'a [u8]>,
    /// The requested entries of `Graph::outputs`, by position.
    pub outputs: Vec<usize>,
}

impl Feed<'_> {
    /// Checks that it has these inputs, of as many bytes as they need, and asks for some of `outputs` outputs.
    ///
    /// # Errors
    /// `InvalidArgument` naming the first that does not fit.
    pub fn check<'v>(&self, inputs: impl ExactSizeIterator<Item = &'v Value>, outputs: usize) -> Result<()> {
        if self.inputs.len() != inputs.len() {
            let (given, expected) = (self.inputs.len(), inputs.len());
            return Err(Error::InvalidArgument(format!("batch: {given} inputs, expected {expected}")));
        }
        for (value, bytes) in inputs.zip(&self.inputs) {
            let (name, found, expected) = (&value.name, bytes.len(), value.bytes(self.counts));
            if found != expected {
                let problem = format!("batch: {name} has {found} bytes, expected {expected} for shape {}", value.shape);
                return Err(Error::InvalidArgument(problem));
            }
        }
        let unknown = self.outputs.iter().find(|place| **place >= outputs);
        unknown.map_or(Ok(()), |place| Err(Error::InvalidArgument(format!("batch: there is no output {place}"))))
    }
}

/// Reads an output in place: its position among the requested outputs, and its elements.
pub type Reader<'a> = &'a mut dyn FnMut(usize, &[f32]) -> Result<()>;

/// A batch in flight. If it is dropped without a wait, its slot is freed once the device has finished with it.
pub struct Pending(Box<dyn FnOnce(Reader<'_>) -> Result<()> + Send>);

impl Pending {
    /// A batch that `read` waits for, and passes to its reader.
    pub fn new(read: impl FnOnce(Reader<'_>) -> Result<()> + Send + 'static) -> Self {
        Pending(Box::new(read))
    }

    /// Waits, then passes the requested outputs to `reader` in the order requested.
    ///
    /// # Errors
    /// A device fault, after which the batch may run elsewhere, or the error that `reader` returns.
    pub fn read(self, reader: Reader<'_>) -> Result<()> {
        (self.0)(reader)
    }

    /// Waits and returns copies of the requested outputs, in the order requested.
    ///
    /// # Errors
    /// As [`Pending::read`].
    pub fn wait(self) -> Result<Vec<Vec<f32>>> {
        copies(self.0)
    }
}

/// Returns copies of the outputs that `read` passes to its reader.
///
/// # Errors
/// As `read`.
fn copies(read: impl FnOnce(Reader<'_>) -> Result<()>) -> Result<Vec<Vec<f32>>> {
    let mut outputs = Vec::new();
    read(&mut |_, elements| {
        outputs.push(elements.to_vec());
        Ok(())
    })?;
    Ok(outputs)
}

/// A plan prepared on a backend, with its weights loaded. Dropping it frees them.
pub trait Executable: Send + Sync {
    /// Returns the limits of a batch.
    fn limits(&self) -> BatchLimits;
    /// Starts a batch. With `in_flight` batches already in flight it waits for the device, never for another caller.
    ///
    /// # Errors
    /// A device fault, or `OutOfMemory`.
    fn submit(&self, feed: &Feed<'_>) -> Result<Pending>;
    /// Whether batches can still run after a device fault: on other devices.
    fn goes_on(&self) -> bool {
        false
    }
}

/// Options a caller may set for a program.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgramOptions {
    /// CPU threads; `None` for all that the process may use.
    pub num_threads: Option<usize>,
    /// Most bytes of device memory, weights included; `None` for no limit but the device's own.
    pub memory_limit: Option<u64>,
}

/// Which 16-bit builds may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrow {
    /// All: a plan stores its computed values in 16 bits.
    Every,
    /// For `linear` and `attention` only those on matrix cores: a single call without matrix cores computes in float32.
    OnMatrixCores,
}

/// An array's bytes on a backend; the last clone frees them.
#[derive(Clone)]
pub struct Memory(Arc<dyn Any + Send + Sync>);

impl Memory {
    /// Wraps memory whose content only the creating backend reads.
    pub fn new(content: impl Any + Send + Sync) -> Self {
        Memory(Arc::new(content))
    }

    /// The memory of an array without elements.
    pub fn empty() -> Self {
        Memory::new(())
    }

    /// Whether this is [`Memory::empty`].
    pub fn is_empty(&self) -> bool {
        self.content::<()>().is_some()
    }

    /// The backend's own content, for mutation; `None` also where another clone shares it.
    pub fn content_mut<T: Any>(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.0)?.downcast_mut()
    }

    /// The backend's own content; `None` for another backend's memory, and for [`Memory::empty`].
    pub fn content<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// A plan that a backend has prepared to run on its arrays.
pub struct Prepared(Box<dyn Any + Send + Sync>);

impl Prepared {
    /// Wraps content that only the creating backend reads.
    pub fn new(content: impl Any + Send + Sync) -> Self {
        Prepared(Box::new(content))
    }

    /// The backend's own content.
    ///
    /// # Errors
    /// `InvalidArgument` when another backend created it.
    pub fn content<T: Any>(&self) -> Result<&T> {
        self.0.downcast_ref().ok_or_else(|| Error::InvalidArgument("another backend's plan".into()))
    }
}

/// A dispatch of a user's shader, without its buffers.
#[cfg(feature = "vulkan")]
#[derive(Debug, Clone)]
pub struct UserDispatch {
    /// The shader variant.
    pub variant: &'static vulkan::Variant,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// Bits of the push block's members.
    pub push: Vec<u32>,
    /// Bits of the specialization constants, in the variant's order.
    pub constants: Vec<u32>,
    /// Bytes of each array, in the order of the bindings.
    pub bytes: Vec<u64>,
}

/// Runs plans on arrays that stay in place, instead of on separate batches.
pub trait ArrayEngine: Send + Sync {
    /// Allocates memory with the content `bytes`, which is not empty.
    ///
    /// # Errors
    /// `OutOfMemory` or a device fault.
    fn upload(&self, bytes: &[u8]) -> Result<Memory>;
    /// Prepares a plan without weights, with the 16-bit builds that `narrow` allows.
    ///
    /// # Errors
    /// `Unsupported`, also for 16-bit operands that must be widened first; `OutOfMemory`, or a device fault.
    fn prepare(&self, plan: Plan, counts: Counts, narrow: Narrow) -> Result<Prepared>;
    /// Runs a plan; `inputs` and `states` are in the order of its graph. A state is updated in place, or copied first
    /// if a clone of it exists. The outputs may still be in flight on return.
    ///
    /// # Errors
    /// `IndexOutOfRange`, `OutOfMemory` (on Vulkan nothing has run then), or a device fault; else states then contain
    /// whatever had been written.
    fn run(&self, prepared: &Prepared, inputs: &[&Memory], states: &mut [Memory]) -> Result<Vec<Memory>>;
    /// Runs a user's shader on buffers in the order of its bindings. A buffer that it writes is updated in place, or
    /// copied first if a clone of it exists.
    ///
    /// # Errors
    /// `Unsupported`, `PipelineCreationFailed`, `OutOfMemory`, or a device fault.
    #[cfg(feature = "vulkan")]
    fn dispatch(&self, call: &UserDispatch, buffers: &mut [Memory]) -> Result<()> {
        let _ = buffers;
        Err(Error::unsupported(call.variant.name, "a shader runs only on Vulkan devices"))
    }
    /// The Vulkan device, if it is one.
    #[cfg(feature = "vulkan")]
    fn device(&self) -> Option<&Arc<vulkan::OpenDevice>> {
        None
    }
    /// Writes the first bytes of each memory, so many, to a list each, after one wait for the work that computes them.
    ///
    /// # Errors
    /// A device fault.
    fn download(&self, parts: &[(&Memory, usize)], to: &mut [Vec<u8>]) -> Result<()>;
    /// Waits until all work is done.
    ///
    /// # Errors
    /// A device fault.
    fn synchronize(&self) -> Result<()>;
    /// `false` once the device is lost.
    fn usable(&self) -> bool;
}

/// A device that plans run on.
pub trait Backend: Send + Sync {
    /// The kind of this backend.
    fn kind(&self) -> BackendKind;
    /// The device's name, for display.
    fn device_name(&self) -> &str;
    /// Name and version of its driver; empty for the host's processor.
    fn driver(&self) -> &str {
        ""
    }
    /// Whether it is a GPU inside the processor, which the processor itself may outrun.
    fn integrated(&self) -> bool {
        false
    }
    /// The builds that run a plan's products and attention, a line each, with what those before them lack.
    fn builds(&self, _plan: &Plan) -> String {
        String::new()
    }
    /// Loads the weights and prepares everything that does not depend on a batch.
    ///
    /// # Errors
    /// `Unsupported` naming op and reason, `OutOfMemory`, or a device fault.
    fn prepare(
        &self,
        plan: Arc<Plan>,
        weights: Arc<dyn WeightSource>,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Executable>>;
    /// Returns the engine for arrays: one shared by all calls without `own`, or a private one with these options.
    ///
    /// # Errors
    /// `Unsupported`, or a device fault.
    fn arrays(&self, own: Option<ProgramOptions>) -> Result<Arc<dyn ArrayEngine>>;
}
