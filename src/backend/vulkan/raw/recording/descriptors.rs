//! The descriptor sets of a recording.

use ash::vk;

use super::Recording;
use crate::Result;
use crate::backend::vulkan::raw::Slice;

impl Recording {
    /// One written descriptor set per dispatch.
    pub(super) fn descriptor_sets(&mut self) -> Result<Vec<vk::DescriptorSet>> {
        let device = &self.device;
        let layouts: Vec<_> = self.dispatches().map(|(launch, _)| launch.pipeline.sets).collect();
        let info =
            |s: &Slice| vk::DescriptorBufferInfo::default().buffer(s.buffer.handle).offset(s.offset).range(s.bytes);
        let infos: Vec<Vec<_>> = self.dispatches().map(|(_, buffers)| buffers.iter().map(info).collect()).collect();
        if layouts.is_empty() {
            return Ok(Vec::new());
        }
        device.has_memory("vkCreateDescriptorPool")?;
        let buffers = infos.iter().map(Vec::len).sum::<usize>().max(1) as u32;
        let size = [vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(buffers)];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(layouts.len() as u32).pool_sizes(&size);
        // SAFETY: the device is alive.
        self.descriptors = unsafe { device.handle.create_descriptor_pool(&pool, None) }
            .map_err(|cause| device.failure("vkCreateDescriptorPool", cause))?;
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.descriptors).set_layouts(&layouts);
        // SAFETY: the pool was just created, for exactly these sets and buffers; the layouts are those of their
        // pipelines.
        let sets = unsafe { device.handle.allocate_descriptor_sets(&info) }
            .map_err(|cause| device.failure("vkAllocateDescriptorSets", cause))?;
        let mut writes = Vec::new();
        for ((set, infos), (launch, _)) in sets.iter().zip(&infos).zip(self.dispatches()) {
            for (binding, info) in launch.pipeline.variant.bindings.iter().zip(infos) {
                writes.push(
                    vk::WriteDescriptorSet::default()
                        .dst_set(*set)
                        .dst_binding(binding.index)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .buffer_info(std::slice::from_ref(info)),
                );
            }
        }
        // SAFETY: sets and buffers are alive, the ranges lie in them (`check`), and the sets are not shared yet.
        unsafe { device.handle.update_descriptor_sets(&writes, &[]) };
        Ok(sets)
    }
}
