//! The logical device with the extensions and features that the physical one was found to support.

use ash::{khr, vk};

use crate::backend::vulkan::Feature;
use crate::backend::vulkan::raw::bfloat16::{BFLOAT16, Bfloat16Features};
use crate::backend::vulkan::raw::{Instance, Physical};

/// Creates it.
///
/// # Errors
/// The driver's.
pub fn create(instance: &Instance, physical: &Physical) -> Result<ash::Device, vk::Result> {
    let has = |feature: Feature| physical.capabilities.has(feature);
    let priorities = [1.0];
    let queues =
        [vk::DeviceQueueCreateInfo::default().queue_family_index(physical.queue_family).queue_priorities(&priorities)];
    let extensions: Vec<_> = physical.extensions.iter().map(|name| name.as_ptr()).collect();
    let matrices = physical.extensions.contains(&khr::cooperative_matrix::NAME);
    // Of a device that only compiles (statistics.rs), which may have no timelines.
    let only_compiles = physical.extensions.contains(&khr::pipeline_executable_properties::NAME);
    let f10 = vk::PhysicalDeviceFeatures::default()
        .shader_float64(has(Feature::Float64))
        .shader_int64(has(Feature::Int64))
        .shader_int16(has(Feature::Int16));
    let mut f11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(has(Feature::Storage16));
    let mut f12 = vk::PhysicalDeviceVulkan12Features::default()
        .timeline_semaphore(!only_compiles)
        .shader_float16(has(Feature::Float16))
        .shader_int8(has(Feature::Int8))
        .storage_buffer8_bit_access(has(Feature::Storage8))
        .buffer_device_address(has(Feature::BufferDeviceAddress))
        .vulkan_memory_model(matrices)
        .vulkan_memory_model_device_scope(matrices);
    let mut f13 = vk::PhysicalDeviceVulkan13Features::default()
        .synchronization2(true)
        .maintenance4(true)
        .subgroup_size_control(only_compiles || has(Feature::SubgroupSizeControl))
        .compute_full_subgroups(has(Feature::SubgroupSizeControl))
        .shader_integer_dot_product(has(Feature::IntegerDotProduct));
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
    let mut statistics =
        vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
    let mut bfloat16 = Bfloat16Features { numbers: vk::TRUE, matrices: vk::TRUE, ..Bfloat16Features::default() };
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .enabled_features(&f10)
        .push_next(&mut f11)
        .push_next(&mut f12)
        .push_next(&mut f13);
    if matrices {
        info = info.push_next(&mut matrix);
    }
    if physical.extensions.contains(&BFLOAT16) {
        info = info.push_next(&mut bfloat16);
    }
    if only_compiles {
        info = info.push_next(&mut statistics);
    }
    // SAFETY: the device belongs to the instance; extensions and features are those it was found to support, and every
    // pointer of `info` outlives the call.
    unsafe { instance.handle.create_device(physical.handle, &info, None) }
}
