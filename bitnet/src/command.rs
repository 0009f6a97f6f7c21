//! Devices, buffers, and commands that are encoded, committed and awaited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call::Call;
use super::shaders::ComputePipeline;
use grilly::array::{Array, Engine};
use grilly::compiler::ComputeFunction;
use grilly::dtype::DType;
use grilly::{Error, Result};

/// A device that runs commands; clones are the same device.
#[derive(Clone)]
pub struct Device(Arc<Engine>);

impl Device {
    /// The device of a string, as [`Engine::of`].
    ///
    /// # Errors
    /// As [`Engine::of`].
    pub fn of(device: &str) -> Result<Self> {
        Ok(Device(Engine::of(device)?))
    }

    /// Its engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0
    }

    /// A queue of commands.
    pub fn new_command_queue(&self) -> CommandQueue {
        CommandQueue(self.clone())
    }

    /// A buffer of zeros.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub fn new_buffer(&self, dtype: DType, shape: &[usize]) -> Result<Buffer> {
        self.new_buffer_with_data(dtype, shape, &vec![0; dtype.bytes(shape.iter().product())])
    }

    /// A buffer with these elements, little endian.
    ///
    /// # Errors
    /// As [`Engine::upload`].
    pub fn new_buffer_with_data(&self, dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Buffer> {
        Ok(Buffer::from(self.0.upload(dtype, shape, bytes)?))
    }

    /// The pipeline of a user's compiled function: buffers have the indices of its bindings, numbers are its push constants.
    ///
    /// # Errors
    /// `PipelineCreationFailed` naming the feature that the device lacks, or that the device is the CPU.
    pub fn new_compute_pipeline_state_with_function(&self, function: &ComputeFunction) -> Result<ComputePipeline> {
        let failed = |reason: String| Error::PipelineCreationFailed {
            shader: function.function.clone(),
            reason,
            remedy: "choose another device".into(),
        };
        let device = self.0.opened_device().ok_or_else(|| failed(format!("{} runs no shaders", self.0.device())))?;
        ComputePipeline::of_users(function.clone(), device).map_err(|error| match error {
            Error::PipelineCreationFailed { reason, .. } => failed(reason),
            other => other,
        })
    }
}

/// Memory of a device, which commands read and write; clones are the same memory.
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Mutex<Array>>);

impl From<Array> for Buffer {
    fn from(array: Array) -> Self {
        Buffer(Arc::new(Mutex::new(array)))
    }
}

impl Buffer {
    /// What it contains now.
    pub fn array(&self) -> Array {
        lock(&self.0).clone()
    }

    /// Its elements, little endian, after a wait for the commands that were committed.
    ///
    /// # Errors
    /// A device fault.
    pub fn read(&self) -> Result<Vec<u8>> {
        self.array().read()
    }

    /// Takes a result of its own number of elements and type.
    pub(super) fn take(&self, what: &str, result: &Array) -> Result<()> {
        let held = &mut *lock(&self.0);
        if held.dtype() != result.dtype() || held.elements() != result.elements() {
            let [found, expected] =
                [&*held, result].map(|array| format!("{} {:?}", array.dtype().name(), array.shape()));
            return Err(Error::InvalidArgument(format!("{what} is {found}, expected {expected}")));
        }
        *held = result.reshape(held.shape())?;
        Ok(())
    }
}

/// Where command buffers come from.
pub struct CommandQueue(Device);

impl CommandQueue {
    /// An empty command buffer.
    pub fn new_command_buffer(&self) -> CommandBuffer {
        CommandBuffer { engine: self.0.0.clone(), state: Arc::default() }
    }
}

/// Commands that run in order once committed. An encoder adds to it; what is wrong with one of its commands is the result of
/// [`CommandBuffer::wait_until_completed`], and the commands after it do not run.
#[derive(Clone)]
pub struct CommandBuffer {
    engine: Arc<Engine>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    committed: bool,
    failed: Option<Error>,
}

impl CommandBuffer {
    /// An encoder without a pipeline.
    pub fn new_compute_command_encoder(&self) -> ComputeEncoder {
        ComputeEncoder { commands: self.clone(), bound: Mutex::default() }
    }

    /// Runs the commands, on a Vulkan device in the background.
    pub fn commit(&self) {
        let state = &mut *lock(&self.state);
        if std::mem::replace(&mut state.committed, true) {
            state.failed = Some(Error::InvalidArgument("the command buffer is committed already".into()));
        }
        for call in std::mem::take(&mut state.calls) {
            if state.failed.is_none() {
                state.failed = call.run(&self.engine).err();
            }
        }
    }

    /// Waits for the commands.
    ///
    /// # Errors
    /// The first fault of its commands: `InvalidArgument` naming function and buffer, or as [`Engine::call`] and
    /// [`Engine::dispatch`]; also where it was not committed.
    pub fn wait_until_completed(&self) -> Result<()> {
        let state = &mut *lock(&self.state);
        match state.failed.take() {
            Some(error) => Err(error),
            None if !state.committed => Err(Error::InvalidArgument("the command buffer is not committed".into())),
            None => self.engine.synchronize(),
        }
    }

    fn fail(&self, problem: String) {
        lock(&self.state).failed.get_or_insert(Error::InvalidArgument(problem));
    }
}

/// Adds commands to a command buffer: a pipeline, buffers and numbers, then a dispatch, which takes them as they are.
pub struct ComputeEncoder {
    commands: CommandBuffer,
    bound: Mutex<Bound>,
}

#[derive(Default)]
struct Bound {
    pipeline: Option<ComputePipeline>,
    buffers: BTreeMap<usize, (Buffer, Option<Vec<usize>>)>,
    numbers: BTreeMap<String, f64>,
    ended: bool,
}

impl ComputeEncoder {
    /// Sets the pipeline of the next dispatches.
    pub fn set_compute_pipeline_state(&self, pipeline: &ComputePipeline) {
        lock(&self.bound).pipeline = Some(pipeline.clone());
    }

    /// Sets the buffer at an index, or none. A buffer is bound as a whole, so `offset` must be 0.
    pub fn set_buffer(&self, index: usize, buffer: Option<&Buffer>, offset: u64) {
        if offset != 0 {
            self.commands
                .fail(format!("buffer {index} has the offset {offset}, expected 0: buffers are bound as a whole"));
        }
        match buffer {
            Some(buffer) => self.set_buffer_as(index, buffer, None),
            None => _ = lock(&self.bound).buffers.remove(&index),
        }
    }

    /// Sets a buffer in another shape.
    pub(super) fn set_buffer_as(&self, index: usize, buffer: &Buffer, shape: Option<Vec<usize>>) {
        lock(&self.bound).buffers.insert(index, (buffer.clone(), shape));
    }

    /// Sets a number of the function.
    pub fn set_number(&self, name: &str, number: f64) {
        lock(&self.bound).numbers.insert(name.to_owned(), number);
    }

    /// Adds a command with at least so many threads, in groups of the pipeline's size.
    pub fn dispatch_threads(&self, threads: [u32; 3], threadgroup: [u32; 3]) {
        let bound = lock(&self.bound);
        match &bound.pipeline {
            _ if bound.ended => self.commands.fail("a dispatch after the end of the encoding".into()),
            None => self.commands.fail("a dispatch without a pipeline".into()),
            Some(pipeline) => lock(&self.commands.state).calls.push(Call {
                pipeline: pipeline.clone(),
                buffers: bound.buffers.clone(),
                numbers: bound.numbers.clone(),
                threads,
                threadgroup,
            }),
        }
    }

    /// Ends the encoding; no dispatch follows.
    pub fn end_encoding(&self) {
        lock(&self.bound).ended = true;
    }
}

/// Adds a command, as [`ComputeEncoder::dispatch_threads`].
pub fn dispatch_compute(encoder: &ComputeEncoder, threads: [u32; 3], threadgroup: [u32; 3]) {
    encoder.dispatch_threads(threads, threadgroup);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
