//! Queries a physical device's properties and features into [`Capabilities`].

use std::ffi::CStr;

use ash::{ext, khr, vk};

use super::Instance;
use super::bfloat16::{BFLOAT16, BFLOAT16_COMPONENT, Bfloat16Features};
use crate::backend::vulkan::{Capabilities, DeviceType, Feature, MatrixRows};

/// A device that can be opened.
#[derive(Clone)]
pub struct Physical {
    pub(super) handle: vk::PhysicalDevice,
    pub(super) queue_family: u32,
    pub(super) timestamp_bits: u32,
    /// Optional extensions to enable.
    pub(super) extensions: Vec<&'static CStr>,
    /// Whether it has `VK_EXT_memory_budget`, which is not enabled: only the physical device is asked.
    pub(super) tells_budgets: bool,
    /// Its capabilities, with what it lacks.
    pub capabilities: Capabilities,
    /// What a pipeline cache on disk depends on: PCI vendor and device, driver version in the vendor's encoding, and the
    /// driver's UUID for compatible caches.
    pub identity: String,
}

/// What a device needs besides Vulkan 1.3. A kernel that needs more shared memory than a device has is refused by name; those of
/// models have tiles for Vulkan's least, which V3DV has.
const LEAST_SHARED_MEMORY: u32 = 16 << 10;
const LEAST_INVOCATIONS: u32 = 256;
const LEAST_STORAGE_BUFFERS: u32 = 8;

pub(super) fn physical(instance: &Instance, handle: vk::PhysicalDevice) -> Physical {
    // SAFETY: `handle` was enumerated from `instance`, which is alive.
    let basic = unsafe { instance.handle.get_physical_device_properties(handle) };
    let api = version(basic.api_version);
    let limits = &basic.limits;
    let mut missing = Vec::new();
    let mut p11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut p12 = vk::PhysicalDeviceVulkan12Properties::default();
    let mut p13 = vk::PhysicalDeviceVulkan13Properties::default();
    let (mut features, mut extensions, mut tells_budgets) = (Vec::new(), Vec::new(), false);
    if api < (1, 3, 0) {
        missing.push(format!("Vulkan 1.3 (has {}.{}.{})", api.0, api.1, api.2));
    } else {
        let mut properties =
            vk::PhysicalDeviceProperties2::default().push_next(&mut p11).push_next(&mut p12).push_next(&mut p13);
        // SAFETY: the device is of version 1.3, which defines every structure of the chain.
        unsafe { instance.handle.get_physical_device_properties2(handle, &mut properties) };
        // SAFETY: `handle` was enumerated from `instance`, which is alive.
        let offered = unsafe { instance.handle.enumerate_device_extension_properties(handle) }.unwrap_or_default();
        let offers = |name: &CStr| offered.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
        (features, extensions) = optional(instance, (handle, &offers), (&p11, &p12, &p13), &mut missing);
        tells_budgets = offers(ext::memory_budget::NAME);
    }
    let least = [
        ("bytes of shared memory", limits.max_compute_shared_memory_size, LEAST_SHARED_MEMORY),
        ("invocations a workgroup", limits.max_compute_work_group_invocations, LEAST_INVOCATIONS),
        ("storage buffers a shader", limits.max_per_stage_descriptor_storage_buffers, LEAST_STORAGE_BUFFERS),
    ];
    for (what, has, needs) in least {
        if has < needs {
            missing.push(format!("{needs} {what} (has {has})"));
        }
    }
    let family = compute_family(instance, handle);
    if family.is_none() {
        missing.push("a queue for compute".into());
    }
    let (queue_family, timestamp_bits) = family.unwrap_or_default();
    let largest = |n: u64| if n == 0 { 1 << 30 } else { n };
    let capabilities = Capabilities {
        name: text(basic.device_name_as_c_str()),
        vendor: basic.vendor_id,
        driver: format!("{} {}", text(p12.driver_name_as_c_str()), text(p12.driver_info_as_c_str())).trim().to_owned(),
        api,
        device_type: match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceType::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceType::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceType::Virtual,
            vk::PhysicalDeviceType::CPU => DeviceType::Software,
            _ => DeviceType::Other,
        },
        memory: device_memory(instance, handle),
        storage_buffer_range: limits.max_storage_buffer_range.into(),
        storage_buffer_alignment: limits.min_storage_buffer_offset_alignment,
        allocation: largest(p11.max_memory_allocation_size).min(largest(p13.max_buffer_size)),
        shared_memory: limits.max_compute_shared_memory_size,
        invocations: limits.max_compute_work_group_invocations,
        workgroup_size: limits.max_compute_work_group_size,
        workgroup_count: limits.max_compute_work_group_count,
        push_constants: limits.max_push_constants_size,
        storage_buffers: limits.max_per_stage_descriptor_storage_buffers,
        subgroup_size: p11.subgroup_size,
        least_subgroup_size: p13.min_subgroup_size,
        workgroup_subgroups: p13.max_compute_workgroup_subgroups,
        timestamp_period: if timestamp_bits > 0 { limits.timestamp_period } else { 0.0 },
        features,
        matrix_rows: MatrixRows::default(),
        missing,
    };
    let uuid: String = basic.pipeline_cache_uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let identity = format!("{:04x}-{:04x}-{:08x}-{uuid}", basic.vendor_id, basic.device_id, basic.driver_version);
    Physical { handle, queue_family, timestamp_bits, extensions, tells_budgets, capabilities, identity }
}

/// The features of a device of version 1.3, and the extensions to enable; adds to `missing` what it lacks.
fn optional(
    instance: &Instance,
    (handle, offers): (vk::PhysicalDevice, &dyn Fn(&CStr) -> bool),
    (properties, floats, sizes): (
        &vk::PhysicalDeviceVulkan11Properties<'_>,
        &vk::PhysicalDeviceVulkan12Properties<'_>,
        &vk::PhysicalDeviceVulkan13Properties<'_>,
    ),
    missing: &mut Vec<String>,
) -> (Vec<Feature>, Vec<&'static CStr>) {
    let mut f11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut f12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut f13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut bfloat16 = Bfloat16Features::default();
    let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut f11).push_next(&mut f12).push_next(&mut f13);
    if offers(khr::cooperative_matrix::NAME) {
        all = all.push_next(&mut matrix);
    }
    if offers(BFLOAT16) {
        all = all.push_next(&mut bfloat16);
    }
    // SAFETY: the device is of version 1.3, and the last structures are there only with their extensions.
    unsafe { instance.handle.get_physical_device_features2(handle, &mut all) };
    let f10 = all.features;
    // Matrices need the memory model; with it enabled, atomics of other shaders need its device scope.
    let memory_model = f12.vulkan_memory_model == vk::TRUE && f12.vulkan_memory_model_device_scope == vk::TRUE;
    let matrices = matrix.cooperative_matrix == vk::TRUE && memory_model && f12.shader_float16 == vk::TRUE;
    let subgroups = |operations| {
        properties.subgroup_supported_operations.contains(operations)
            && properties.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE)
    };
    let multiplies = |feature: &Feature, of| matrices && multiplies(instance, handle, *feature, of);
    let own_size = sizes.min_subgroup_size..=sizes.max_subgroup_size;
    let requires_sizes = f13.subgroup_size_control == vk::TRUE
        && f13.compute_full_subgroups == vk::TRUE
        && sizes.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE)
        && own_size.contains(&properties.subgroup_size);
    let has = |feature: &Feature| match feature {
        Feature::SubgroupSizeControl => requires_sizes,
        Feature::SubgroupArithmetic => subgroups(vk::SubgroupFeatureFlags::ARITHMETIC),
        Feature::SubgroupShuffle => subgroups(vk::SubgroupFeatureFlags::SHUFFLE),
        Feature::SubgroupVote => subgroups(vk::SubgroupFeatureFlags::VOTE),
        Feature::Float16 => f12.shader_float16 == vk::TRUE,
        Feature::Storage16 => f11.storage_buffer16_bit_access == vk::TRUE,
        Feature::Int8 => f12.shader_int8 == vk::TRUE,
        Feature::Storage8 => f12.storage_buffer8_bit_access == vk::TRUE,
        Feature::IntegerDotProduct => f13.shader_integer_dot_product == vk::TRUE,
        Feature::MatrixF16 | Feature::MatrixF16Rows8 | Feature::MatrixF16Squares8 => {
            multiplies(feature, vk::ComponentTypeKHR::FLOAT16)
        }
        Feature::MatrixBf16 | Feature::MatrixBf16Rows8 | Feature::MatrixBf16Squares8 => {
            bfloat16.matrices == vk::TRUE && multiplies(feature, BFLOAT16_COMPONENT)
        }
        Feature::MatrixS8 | Feature::MatrixS8Terms16 | Feature::MatrixS8Rows8 | Feature::MatrixS8Squares8 => {
            f12.shader_int8 == vk::TRUE && multiplies(feature, vk::ComponentTypeKHR::SINT8)
        }
        // Probed on the open device.
        Feature::MatrixRowsInLanes | Feature::MatrixRowsInQuads | Feature::PacksToNearest => false,
        Feature::RoundsToEven => floats.shader_rounding_mode_rte_float32 == vk::TRUE,
        Feature::KeepsSpecialFloats => floats.shader_signed_zero_inf_nan_preserve_float32 == vk::TRUE,
        Feature::BufferDeviceAddress => f12.buffer_device_address == vk::TRUE,
        Feature::Float64 => f10.shader_float64 == vk::TRUE,
        Feature::Int64 => f10.shader_int64 == vk::TRUE,
        Feature::Int16 => f10.shader_int16 == vk::TRUE,
    };
    let features: Vec<Feature> = Feature::ALL.iter().copied().filter(has).collect();
    let mut extensions = Vec::new();
    // A device that offers this extension requires that it be enabled.
    if offers(khr::portability_subset::NAME) {
        extensions.push(khr::portability_subset::NAME);
    }
    if features.iter().any(|feature| feature.matrix().is_some()) {
        extensions.push(khr::cooperative_matrix::NAME);
    }
    if features.iter().any(|feature| feature.matrix_type() == Some("bf16")) {
        extensions.push(BFLOAT16);
    }
    let needed = [
        ("timelineSemaphore", f12.timeline_semaphore),
        ("synchronization2", f13.synchronization2),
        ("maintenance4", f13.maintenance4),
    ];
    missing.extend(needed.iter().filter(|(_, has)| *has == vk::FALSE).map(|(name, _)| (*name).to_owned()));
    (features, extensions)
}

/// Whether products of two matrices of this type with sums in f32, of 8-bit integers with sums of 32 bits, of the shape that the
/// feature names, are among those of a subgroup; of f16 also those with sums in f16, since results are rounded in such a matrix.
fn multiplies(instance: &Instance, handle: vk::PhysicalDevice, feature: Feature, of: vk::ComponentTypeKHR) -> bool {
    let matrices = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.handle);
    // SAFETY: the device offers the extension, as the caller found.
    let shapes = unsafe { matrices.get_physical_device_cooperative_matrix_properties(handle) }.unwrap_or_default();
    let needed = match of {
        vk::ComponentTypeKHR::SINT8 => &[vk::ComponentTypeKHR::SINT32][..],
        vk::ComponentTypeKHR::FLOAT16 => &[vk::ComponentTypeKHR::FLOAT32, of],
        _ => &[vk::ComponentTypeKHR::FLOAT32],
    };
    needed.iter().all(|sums| {
        shapes.iter().any(|s| {
            Some([s.m_size, s.n_size, s.k_size]) == feature.matrix()
                && s.scope == vk::ScopeKHR::SUBGROUP
                && [s.a_type, s.b_type] == [of; 2]
                && [s.c_type, s.result_type] == [*sums; 2]
        })
    })
}

/// The first queue family with compute (families that also support graphics come first and get the most resources),
/// with its timestamp bits.
fn compute_family(instance: &Instance, handle: vk::PhysicalDevice) -> Option<(u32, u32)> {
    // SAFETY: `handle` was enumerated from `instance`, which is alive.
    let families = unsafe { instance.handle.get_physical_device_queue_family_properties(handle) };
    let computes = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::COMPUTE) && f.queue_count > 0;
    let index = families.iter().position(computes)?;
    Some((index as u32, families[index].timestamp_valid_bits))
}

/// Bytes of the largest device-local heap.
fn device_memory(instance: &Instance, handle: vk::PhysicalDevice) -> u64 {
    // SAFETY: `handle` was enumerated from `instance`, which is alive.
    let memory = unsafe { instance.handle.get_physical_device_memory_properties(handle) };
    let local = memory.memory_heaps_as_slice().iter().filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    local.map(|h| h.size).max().unwrap_or(0)
}

fn version(packed: u32) -> (u32, u32, u32) {
    (vk::api_version_major(packed), vk::api_version_minor(packed), vk::api_version_patch(packed))
}

fn text(name: Result<&CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}
