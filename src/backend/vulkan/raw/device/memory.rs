//! The memory that a device has left for this process, and who gives some of it back.

use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc};
use gpu_allocator::{AllocationError, Result};

use super::{Device, lock};
use crate::stats::COUNTERS;

/// Who retains memory of a device for later.
pub trait Retains: Send + Sync {
    /// Frees of it what no commands use, unless a call is under way.
    fn release(&self);
}

impl Device {
    /// Asks `owner` for memory from now on when some is needed.
    pub fn retained_by(&self, owner: Weak<dyn Retains>) {
        let mut all = lock(&self.retaining);
        all.retain(|other| other.strong_count() > 0);
        all.push(owner);
    }

    /// Frees what is retained for later and no commands use.
    pub fn release_retained(&self) {
        if self.forked() {
            return;
        }
        let all: Vec<_> = lock(&self.retaining).iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|owner| owner.release());
    }

    /// Allocates a part of a block, or a block.
    ///
    /// # Errors
    /// As the allocator.
    pub(in super::super) fn allocate(&self, wanted: &AllocationCreateDesc<'_>) -> Result<Allocation> {
        let mut allocator = lock(&self.allocator);
        let allocator = allocator.as_mut().ok_or(AllocationError::OutOfMemory)?;
        let before = allocator.capacity();
        let memory = allocator.allocate(wanted);
        // A block more is a call of the driver.
        COUNTERS.allocations.fetch_add((allocator.capacity() > before).into(), Relaxed);
        memory
    }

    /// Bytes that a program may take: what is left, except for a part of the device's memory that the driver needs for itself.
    pub fn memory_for_program(&self) -> u64 {
        self.release_retained();
        (self.capabilities.memory / 16 * 15).min(self.memory_left())
    }

    /// Bytes of the largest device-local heap that this process may still allocate: by `VK_EXT_memory_budget`, of which other
    /// processes have their part, or the size of the heap where the device does not tell.
    pub fn memory_left(&self) -> u64 {
        let size = self.capabilities.memory;
        if !self.tells_budgets {
            return size;
        }
        let mut told = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut memory = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut told);
        // SAFETY: the physical device belongs to the instance, which is alive, and has the extension of the last structure.
        unsafe { self.instance.handle.get_physical_device_memory_properties2(self.physical, &mut memory) };
        let heaps = memory.memory_properties;
        let largest = (0..heaps.memory_heap_count as usize)
            .filter(|heap| heaps.memory_heaps[*heap].flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
            .max_by_key(|heap| heaps.memory_heaps[*heap].size);
        // A budget of 0 is that of a driver that does not know it.
        match largest.map(|heap| (told.heap_budget[heap], told.heap_usage[heap])) {
            Some((budget, used)) if budget > 0 => size.min(budget.saturating_sub(used)),
            _ => size,
        }
    }

    /// The memory that is left, in words.
    pub fn memory_told(&self) -> String {
        format!("{} of {} bytes are available", self.memory_left(), self.capabilities.memory)
    }
}
