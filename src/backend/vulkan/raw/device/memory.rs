//! The memory that a device has left for this process.

use ash::vk;

use super::Device;

impl Device {
    /// Bytes that a program may take: what is left, except for a part of the device's memory that the driver needs for itself.
    pub fn memory_for_program(&self) -> u64 {
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
