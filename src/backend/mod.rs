//! How plans run: the trait that the CPU and Vulkan backends implement, and the choice between them.

pub mod choose;
pub mod cpu;
pub mod faults;
#[cfg(feature = "vulkan")]
pub mod vulkan;

use std::any::Any;
use std::sync::Arc;

use crate::graph::Plan;
use crate::ops::Counts;
use crate::tensor::WeightSource;
use crate::{Error, Result};

/// Which backend something runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// A Vulkan device.
    Vulkan,
    /// The host's processor.
    Cpu,
}

impl BackendKind {
    /// `"vulkan"` or `"cpu"`.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::Vulkan => "vulkan",
            BackendKind::Cpu => "cpu",
        }
    }
}

/// What limits a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Most tokens of one batch; one longer text still runs alone up to `longest_text`.
    pub tokens: usize,
    /// Most tokens the device can take at all.
    pub longest_text: usize,
    /// How many batches may be under way at once.
    pub in_flight: usize,
}

/// One batch's inputs, in the order of `Graph::inputs`, as raw bytes of 4-byte elements.
#[derive(Debug, Clone)]
pub struct Feed<'a> {
    /// Sizes of this batch.
    pub counts: Counts,
    /// The inputs' elements.
    pub inputs: Vec<&'a [u8]>,
    /// Which of `Graph::outputs` are wanted, by position.
    pub outputs: Vec<usize>,
}

/// What reads an output where it lies: its place among those asked for, and its elements.
pub type Reader<'a> = &'a mut dyn FnMut(usize, &[f32]) -> Result<()>;

/// A batch under way. Dropped without being waited for, it gives its place back once the device has finished with it.
pub trait Pending: Send {
    /// Waits and gives the wanted outputs to `reader`, in the order asked for.
    ///
    /// # Errors
    /// A device fault, after which the batch may run elsewhere, or what `reader` says.
    fn read(self: Box<Self>, reader: Reader<'_>) -> Result<()>;
    /// Waits and returns copies of the wanted outputs, in the order asked for.
    ///
    /// # Errors
    /// As [`Pending::read`].
    fn wait(self: Box<Self>) -> Result<Vec<Vec<f32>>> {
        let mut outputs = Vec::new();
        self.read(&mut |_, elements| {
            outputs.push(elements.to_vec());
            Ok(())
        })?;
        Ok(outputs)
    }
}

/// A plan made ready on a backend, with its weights in place. Dropping it frees them.
pub trait Program: Send + Sync {
    /// What a batch may hold.
    fn limits(&self) -> BatchLimits;
    /// Starts a batch. With `in_flight` batches under way it waits for the device, never for another caller.
    ///
    /// # Errors
    /// A device fault, or `OutOfMemory`.
    fn submit(&self, feed: &Feed<'_>) -> Result<Box<dyn Pending>>;
}

/// What a caller may ask of a program.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProgramOptions {
    /// CPU threads; `None` for as many as the process may use.
    pub num_threads: Option<usize>,
    /// Most bytes of device memory, weights included; `None` for what the device has.
    pub memory_limit: Option<u64>,
}

/// An array's bytes on a backend; the last clone frees them.
#[derive(Clone)]
pub struct Memory(Arc<dyn Any + Send + Sync>);

impl Memory {
    /// Memory that only the backend which made it looks into.
    pub fn new(content: impl Any + Send + Sync) -> Self {
        Memory(Arc::new(content))
    }

    /// That of an array without elements.
    pub fn empty() -> Self {
        Memory::new(())
    }

    /// Whether it is that of an array without elements.
    pub fn is_empty(&self) -> bool {
        self.content::<()>().is_some()
    }

    /// What the backend put in, to be changed; `None` also where another clone sees it.
    pub fn content_mut<T: Any>(&mut self) -> Option<&mut T> {
        Arc::get_mut(&mut self.0)?.downcast_mut()
    }

    /// What the backend put in; `None` for another backend's memory, and for [`Memory::empty`].
    pub fn content<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// A plan that a backend has made ready to run on its arrays.
pub struct Prepared(Box<dyn Any + Send + Sync>);

impl Prepared {
    /// What only the backend that made it looks into.
    pub fn new(content: impl Any + Send + Sync) -> Self {
        Prepared(Box::new(content))
    }

    /// What the backend put in.
    ///
    /// # Errors
    /// `InvalidArgument` when another backend did.
    pub fn content<T: Any>(&self) -> Result<&T> {
        self.0.downcast_ref().ok_or_else(|| Error::InvalidArgument("another backend's plan".into()))
    }
}

/// A user's shader with all that it runs with but its buffers.
#[cfg(feature = "vulkan")]
#[derive(Debug, Clone)]
pub struct UserDispatch {
    /// What runs.
    pub variant: &'static vulkan::Variant,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// Bits of the push block's members.
    pub push: Vec<u32>,
    /// Bits of the specialization constants, in the variant's order.
    pub constants: Vec<u32>,
}

/// Runs plans on arrays that stay where they are, in place of batches that come and go.
pub trait ArrayEngine: Send + Sync {
    /// Memory that holds `bytes`, which are not empty.
    ///
    /// # Errors
    /// `OutOfMemory` or a device fault.
    fn upload(&self, bytes: &[u8]) -> Result<Memory>;
    /// Makes ready a plan without weights.
    ///
    /// # Errors
    /// `Unsupported`, also for operands of 16 bits that are to be widened before; `OutOfMemory`, or a device fault.
    fn prepare(&self, plan: Plan, counts: Counts) -> Result<Prepared>;
    /// Runs a plan; `inputs` and `states` are those of its graph. A state is written where it is, or first copied if a clone of
    /// it is held elsewhere. The outputs may be still under way when this returns.
    ///
    /// # Errors
    /// `OutOfMemory`, `IndexOutOfRange`, or a device fault; states then hold what was written before.
    fn run(&self, prepared: &Prepared, inputs: &[&Memory], states: &mut [Memory]) -> Result<Vec<Memory>>;
    /// Runs a user's shader on buffers in the order of its bindings. One that it writes is written where it is, or first copied
    /// if a clone of it is held elsewhere.
    ///
    /// # Errors
    /// `Unsupported`, `PipelineCreationFailed`, `OutOfMemory`, or a device fault.
    #[cfg(feature = "vulkan")]
    fn dispatch(&self, call: &UserDispatch, buffers: &mut [Memory]) -> Result<()> {
        let _ = buffers;
        Err(Error::Unsupported {
            what: call.variant.name.into(),
            reason: "a shader runs on Vulkan devices alone".into(),
        })
    }
    /// Copies the first bytes of `memory` to the host, waiting for what computes them.
    ///
    /// # Errors
    /// A device fault.
    fn download(&self, memory: &Memory, bytes: &mut [u8]) -> Result<()>;
    /// Waits until all work is done.
    ///
    /// # Errors
    /// A device fault.
    fn synchronize(&self) -> Result<()>;
    /// `false` once the device is lost.
    fn usable(&self) -> bool;
}

/// Something plans run on.
pub trait Backend: Send + Sync {
    /// Which kind it is.
    fn kind(&self) -> BackendKind;
    /// The device's name, for people.
    fn device_name(&self) -> &str;
    /// Puts the weights in place and makes everything that does not depend on a batch.
    ///
    /// # Errors
    /// `Unsupported` naming op and reason, `OutOfMemory`, or a device fault.
    fn prepare(
        &self,
        plan: Arc<Plan>,
        weights: Arc<dyn WeightSource>,
        options: ProgramOptions,
    ) -> Result<Arc<dyn Program>>;
    /// What arrays live on: without `own` the same for every call, with it one of the caller's own within these options.
    ///
    /// # Errors
    /// `Unsupported`, or a device fault.
    fn arrays(&self, own: Option<ProgramOptions>) -> Result<Arc<dyn ArrayEngine>>;
}
