//! How plans run: the trait that the CPU and Vulkan backends implement, and the choice between them.

pub mod choose;
pub mod cpu;
pub mod faults;
pub mod registry;
#[cfg(feature = "vulkan")]
pub mod vulkan;

use std::any::Any;
use std::sync::Arc;

use crate::graph::{DType, Plan};
use crate::ops::{Counts, Op, Shape};
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

/// How a checkpoint stores an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoredType {
    /// IEEE binary32, little endian.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
}

impl StoredType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            StoredType::F32 => 4,
            StoredType::F16 | StoredType::Bf16 => 2,
        }
    }
}

/// A tensor of a checkpoint as it lies in the mapped file.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type on disk.
    pub stored: StoredType,
    /// What its numbers are rounded to before anything is computed with them; float32 for not at all.
    pub rounded: DType,
    /// Axes, slowest first.
    pub shape: &'a [usize],
    /// The elements, little endian; not necessarily aligned.
    pub bytes: &'a [u8],
}

impl TensorView<'_> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Writes elements from `first` on as `dtype`, as many as `out` has room for.
    pub fn read(&self, first: usize, dtype: DType, out: &mut [u8]) {
        let size = self.stored.size();
        let as_they_are =
            matches!((self.stored, dtype), (StoredType::F16, DType::F16) | (StoredType::Bf16, DType::Bf16))
                && [DType::F32, dtype].contains(&self.rounded);
        if as_they_are {
            return out.copy_from_slice(&self.bytes[first * size..][..out.len()]);
        }
        if let (DType::F32, Ok(values)) = (dtype, bytemuck::try_cast_slice_mut(out)) {
            return self.read_f32(first, values);
        }
        let mut block = [0.0; 1024];
        for (number, out) in out.chunks_mut(block.len() * dtype.size()).enumerate() {
            let values = &mut block[..out.len() / dtype.size()];
            self.read_f32(first + number * 1024, values);
            dtype.encode(values, out);
        }
    }

    /// Writes elements `first..first + out.len()` as f32.
    pub fn read_f32(&self, first: usize, out: &mut [f32]) {
        let size = self.stored.size();
        let bytes = &self.bytes[first * size..(first + out.len()) * size];
        match self.stored {
            StoredType::F32 => bytemuck::cast_slice_mut(out).copy_from_slice(bytes),
            StoredType::F16 => {
                for (value, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *value = half::f16::from_le_bytes([pair[0], pair[1]]).to_f32();
                }
            }
            StoredType::Bf16 => {
                for (value, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *value = half::bf16::from_le_bytes([pair[0], pair[1]]).to_f32();
                }
            }
        }
        self.rounded.round(out);
    }
}

/// Where a plan's constants come from; kept alive by the program, so that a backend may read in place.
pub trait WeightSource: Send + Sync {
    /// The tensor called `name`, already checked for shape by the model.
    ///
    /// # Errors
    /// `Weights` when there is none of that name.
    fn tensor(&self, name: &str) -> Result<TensorView<'_>>;
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

/// A batch under way. Dropped without `wait`, it gives its place back once the device has finished with it.
pub trait Pending: Send {
    /// Waits and returns the wanted outputs, in the order asked for.
    ///
    /// # Errors
    /// A device fault, after which the batch may run elsewhere.
    fn wait(self: Box<Self>) -> Result<Vec<Vec<f32>>>;
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

/// Runs plans on arrays that stay where they are, in place of batches that come and go.
pub trait ArrayEngine: Send + Sync {
    /// Memory that holds `bytes`, which are not empty.
    ///
    /// # Errors
    /// `OutOfMemory` or a device fault.
    fn upload(&self, bytes: &[u8]) -> Result<Memory>;
    /// Makes ready a plan without weights and with one output, by the shaders that are registered now.
    ///
    /// # Errors
    /// `Unsupported`, `OutOfMemory`, or a device fault.
    fn prepare(&self, plan: Plan, counts: Counts) -> Result<Prepared>;
    /// Runs a plan; `inputs` are those of its graph. The result may be still under way when this returns.
    ///
    /// # Errors
    /// `OutOfMemory`, `IndexOutOfRange`, or a device fault.
    fn run(&self, prepared: &Prepared, inputs: &[&Memory]) -> Result<Memory>;
    /// Whether `op` takes float16 operands of these shapes as they are (biases excepted) where the shaders of an
    /// architecture run, so that nothing is converted.
    fn takes_half(&self, op: &Op, operands: &[&Shape], architecture: &str) -> bool {
        let _ = (op, operands, architecture);
        false
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
    /// What arrays live on. Without `own` it is the same for every call, and runs whatever shaders are registered; with it,
    /// one of the caller's own within these options, which runs those that are registered now.
    ///
    /// # Errors
    /// `Unsupported`, or a device fault.
    fn arrays(&self, own: Option<ProgramOptions>) -> Result<Arc<dyn ArrayEngine>>;
}
