//! Buffers with their memory.

use std::sync::{Arc, Mutex};

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use gpu_allocator::{AllocationError, MemoryLocation};

use super::{Device, WriteOnly, lock};
use crate::backend::faults::{Fault, strikes};
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::budget::{Budget, Charge};
use crate::backend::vulkan::capabilities::DeviceType;
use crate::process::memory::need_many;
use crate::{Error, Result};

/// The use of a buffer, which determines where its memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The model's constants: device-local.
    Weights,
    /// Computed values: device-local.
    Activations,
    /// Users' arrays: device-local.
    Arrays,
    /// Written by the host, read by shaders and indirect dispatches: device-local memory that the host can map.
    Inputs,
    /// Copied to by the device and read by the host.
    Results,
    /// Written or read by the host, and copied from or to: the host's own memory, which its caches hold.
    Staging,
}

impl Kind {
    /// The name in messages, the place of the memory, and the use.
    fn properties(self) -> (&'static str, MemoryLocation, vk::BufferUsageFlags) {
        use MemoryLocation::{CpuToGpu, GpuOnly, GpuToCpu};
        use vk::BufferUsageFlags as Usage;
        let storage = Usage::STORAGE_BUFFER;
        match self {
            Kind::Weights => ("weights", GpuOnly, storage | Usage::TRANSFER_DST),
            Kind::Activations => ("activations", GpuOnly, storage | Usage::TRANSFER_SRC),
            Kind::Arrays => ("arrays", GpuOnly, storage | Usage::TRANSFER_SRC | Usage::TRANSFER_DST),
            Kind::Inputs => ("inputs", CpuToGpu, storage | Usage::INDIRECT_BUFFER),
            Kind::Results => ("results", GpuToCpu, Usage::TRANSFER_DST),
            Kind::Staging => ("staging", GpuToCpu, Usage::TRANSFER_SRC | Usage::TRANSFER_DST),
        }
    }
}

/// A buffer.
pub struct Buffer {
    pub(super) handle: vk::Buffer,
    memory: Mutex<Option<Allocation>>,
    /// Size.
    pub bytes: u64,
    kind: Kind,
    charge: Charge,
    pub(super) device: Arc<Device>,
}

impl Buffer {
    /// A buffer of at least one byte, charged to `budget`.
    ///
    /// # Errors
    /// `OutOfMemory`, or a driver error.
    pub(in crate::backend::vulkan) fn new(
        device: &Arc<Device>,
        kind: Kind,
        bytes: u64,
        budget: &Arc<Budget>,
    ) -> Result<Arc<Self>> {
        device.check("an allocation")?;
        let bytes = bytes.max(4);
        let (name, location, usage) = kind.properties();
        let out_of = |purpose| Error::OutOfMemory { device: device.capabilities.name.clone(), bytes, purpose };
        let exhausted = || out_of(format!("{name}: {}", device.memory_told()));
        if bytes > device.capabilities.allocation {
            return Err(out_of(format!("{name}: at most {} are available at once", device.capabilities.allocation)));
        }
        if strikes(Fault::Allocation) {
            return Err(exhausted());
        }
        // The memory of a software device is the host's, of which the driver promises more than there is.
        if device.capabilities.device_type == DeviceType::Software {
            need_many(bytes.into(), name)?;
        }
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the device is alive.
        let handle = unsafe { device.handle.create_buffer(&info, None) };
        let handle = handle.map_err(|cause| match device.failure("vkCreateBuffer", cause) {
            Error::OutOfMemory { .. } => exhausted(),
            other => other,
        })?;
        // SAFETY: the buffer was just made.
        let requirements = unsafe { device.handle.get_buffer_memory_requirements(handle) };
        let left = || out_of(format!("{name}: {} bytes are available", budget.left()));
        let charged = budget.charge(requirements.size).ok_or_else(left);
        let allocated = charged.and_then(|charge| {
            let scheme = AllocationScheme::GpuAllocatorManaged;
            let wanted = AllocationCreateDesc { name, requirements, location, linear: true, allocation_scheme: scheme };
            let memory = match device.allocate(&wanted) {
                // What engines retain of the device's memory makes way.
                Err(AllocationError::OutOfMemory) => {
                    device.release_retained();
                    device.allocate(&wanted)
                }
                done => done,
            };
            match memory {
                Ok(memory) => Ok((memory, charge)),
                Err(AllocationError::OutOfMemory) => Err(exhausted()),
                Err(cause) => Err(device.misuse("vkAllocateMemory", cause.to_string())),
            }
        });
        let (memory, charge) = allocated.inspect_err(|_| {
            // SAFETY: nothing uses the buffer yet.
            unsafe { device.handle.destroy_buffer(handle, None) };
        })?;
        // SAFETY: the allocation meets the buffer's requirements and lives as long as the buffer.
        let bound = unsafe { device.handle.bind_buffer_memory(handle, memory.memory(), memory.offset()) };
        device.name(handle, name);
        let buffer = Buffer { handle, memory: Mutex::new(Some(memory)), bytes, kind, charge, device: device.clone() };
        bound.map_err(|cause| device.failure("vkBindBufferMemory", cause))?;
        Ok(Arc::new(buffer))
    }

    /// Bytes that are reserved for it.
    pub(in crate::backend::vulkan) fn reserved(&self) -> u64 {
        self.charge.bytes()
    }

    /// The capabilities of its device.
    pub fn limits(&self) -> &Capabilities {
        &self.device.capabilities
    }

    /// Passes the bytes `offset..offset + length` of a host-visible buffer to `write_it`. The caller ensures that the device
    /// is not accessing these bytes; otherwise they contain a mixture of both sides' writes.
    ///
    /// # Errors
    /// `Unusable` after a fork; `Device` when the range is out of bounds or the buffer is not host-visible.
    pub fn map<R>(&self, offset: u64, length: u64, write_it: impl FnOnce(WriteOnly<'_>) -> R) -> Result<R> {
        self.mapped(offset, length, |bytes| write_it(WriteOnly::new(bytes)))
    }

    /// As [`Buffer::map`], to read what the device wrote to host memory.
    ///
    /// # Errors
    /// As [`Buffer::map`]; `Device` for a kind other than results and staging, whose memory the host's caches do not hold.
    pub fn read<R>(&self, offset: u64, length: u64, read_it: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if !matches!(self.kind, Kind::Results | Kind::Staging) {
            return Err(self.device.misuse("reading", format!("{:?}, which the host only writes", self.kind)));
        }
        self.mapped(offset, length, |bytes| read_it(bytes))
    }

    fn mapped<R>(&self, offset: u64, length: u64, use_it: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.device.check("a copy")?;
        let outside = || {
            let range =
                format!("bytes {offset}..{} of {} ({:?})", offset.saturating_add(length), self.bytes, self.kind);
            self.device.misuse("mapping", range)
        };
        if offset.checked_add(length).is_none_or(|end| end > self.bytes) {
            return Err(outside());
        }
        let mut memory = lock(&self.memory);
        let mapped = memory.as_mut().and_then(Allocation::mapped_slice_mut).ok_or_else(outside)?;
        let range = mapped.get_mut(offset as usize..(offset + length) as usize).ok_or_else(outside)?;
        Ok(use_it(range))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // The submitter keeps the buffer alive until its work is done, so there is nothing to wait for here.
        if self.device.forked() {
            return;
        }
        // SAFETY: this is the last owner; recordings own the buffers they use, and settle before they release them.
        unsafe { self.device.handle.destroy_buffer(self.handle, None) };
        if let Some(memory) = lock(&self.memory).take()
            && let Some(allocator) = lock(&self.device.allocator).as_mut()
            && let Err(cause) = allocator.free(memory)
        {
            log::warn!(target: "grilly", "{}: freeing memory failed: {cause}", self.device.capabilities.name);
        }
    }
}

/// A part of a buffer.
#[derive(Clone)]
pub struct Slice {
    /// The buffer.
    pub buffer: Arc<Buffer>,
    /// First byte.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
}

impl From<&Arc<Buffer>> for Slice {
    /// All of a buffer.
    fn from(buffer: &Arc<Buffer>) -> Self {
        Slice::whole(buffer.clone())
    }
}

impl Slice {
    /// The first bytes of a buffer.
    #[inline]
    pub fn start(buffer: &Arc<Buffer>, bytes: u64) -> Self {
        Slice { buffer: buffer.clone(), offset: 0, bytes }
    }

    /// All of a buffer.
    #[inline]
    pub fn whole(buffer: Arc<Buffer>) -> Self {
        Slice { offset: 0, bytes: buffer.bytes, buffer }
    }

    /// Whether the slice lies in its buffer.
    pub(super) fn fits(&self) -> bool {
        self.bytes > 0 && self.offset.checked_add(self.bytes).is_some_and(|end| end <= self.buffer.bytes)
    }
}
