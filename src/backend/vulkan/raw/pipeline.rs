//! Compute pipelines.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ash::vk;
use rspirv::spirv::Capability;

use super::Device;
use crate::backend::vulkan::float_controls::with_modes;
use crate::backend::vulkan::words::declares;
use crate::backend::vulkan::{Feature, Variant, dispatched, sizes};
use crate::numerics::Numerics;
use crate::{Error, Result};

/// A shader variant with its constants set, ready for dispatch.
pub struct ComputePipeline {
    pub(super) handle: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    pub(super) sets: vk::DescriptorSetLayout,
    /// The shader.
    pub variant: &'static Variant,
    pub(super) device: Arc<Device>,
    /// Dispatches submitted.
    pub(super) dispatches: Arc<AtomicU64>,
}

impl ComputePipeline {
    /// Compiles `variant` with `constants`, which follow the order of [`Variant::constants`].
    ///
    /// # Errors
    /// `PipelineCreationFailed` naming the limit or the feature, or a driver error.
    pub(in crate::backend::vulkan) fn new(
        device: &Arc<Device>,
        variant: &'static Variant,
        constants: &[u32],
    ) -> Result<Arc<Self>> {
        check_limits(device, variant, constants)?;
        Self::unchecked(device, variant, constants)
    }

    /// As [`ComputePipeline::new`], whether or not the device's limits allow it: apart, for the test that compares what is
    /// refused with what the validation layer refuses.
    pub(in crate::backend::vulkan) fn unchecked(
        device: &Arc<Device>,
        variant: &'static Variant,
        constants: &[u32],
    ) -> Result<Arc<Self>> {
        device.check("a compilation")?;
        device.has_memory("vkCreateComputePipelines")?;
        let bindings: Vec<_> = variant
            .bindings
            .iter()
            .map(|binding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding.index)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let sets = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the device is alive.
        let sets = unsafe { device.handle.create_descriptor_set_layout(&sets, None) }
            .map_err(|cause| device.failure("vkCreateDescriptorSetLayout", cause))?;
        // From here on `pipeline` destroys what has been created, also after a later failure.
        let mut pipeline = ComputePipeline {
            handle: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            sets,
            variant,
            device: device.clone(),
            dispatches: dispatched::count(variant, constants),
        };
        let push =
            [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(variant.push_bytes)];
        let set_layouts = [sets];
        let layout = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&set_layouts)
            .push_constant_ranges(if variant.push_bytes > 0 { &push } else { &[] });
        // SAFETY: the set layout is alive.
        pipeline.layout = unsafe { device.handle.create_pipeline_layout(&layout, None) }
            .map_err(|cause| device.failure("vkCreatePipelineLayout", cause))?;
        let handle = compile(device, variant, constants, pipeline.layout);
        pipeline.handle =
            handle.map_err(|cause| match device.failure(&format!("compiling {}", variant.name), cause) {
                // The driver rejects the shader; every other error is one of the device.
                Error::Device { device, cause, .. } => Error::PipelineCreationFailed {
                    shader: variant.name.into(),
                    reason: format!("the driver of {device} answers {cause}"),
                    remedy: "GRILLY_DEBUG=1 shows what the validation layer finds".into(),
                },
                other => other,
            })?;
        device.name(pipeline.handle, variant.name);
        device.name(pipeline.layout, variant.name);
        device.name(pipeline.sets, variant.name);
        Ok(Arc::new(pipeline))
    }
}

impl fmt::Debug for ComputePipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variant.name)
    }
}

fn compile(
    device: &Device,
    variant: &Variant,
    constants: &[u32],
    layout: vk::PipelineLayout,
) -> Result<vk::Pipeline, vk::Result> {
    let words = match (variant.numerics, variant.matrix()) {
        (Numerics::Run, None) => Cow::Borrowed(&*variant.spirv),
        (Numerics::Run, Some(_)) => Cow::Owned(variant.words(constants)),
        (Numerics::Everywhere, _) => Cow::Owned(with_modes(&variant.words(constants), &device.capabilities)),
    };
    let module = vk::ShaderModuleCreateInfo::default().code(&words);
    // SAFETY: the code was validated when grilly was built, or when a user's shader was compiled, and its requirements
    // were checked against the device's features.
    let module = unsafe { device.handle.create_shader_module(&module, None) }?;
    let entries: Vec<_> = variant
        .constants
        .iter()
        .enumerate()
        .map(|(place, constant)| vk::SpecializationMapEntry {
            constant_id: constant.id,
            offset: 4 * place as u32,
            size: 4,
        })
        .collect();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(constants));
    let mut lanes = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    let (required, full) = subgroups(device, variant, constants, &words);
    if let Some(required) = required {
        lanes = lanes.required_subgroup_size(required);
        stage = stage.push_next(&mut lanes);
    }
    if full {
        stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
    }
    let info = [vk::ComputePipelineCreateInfo::default().flags(device.kept).stage(stage).layout(layout)];
    // SAFETY: every pointer of `info` outlives the call; the cache synchronises itself.
    let made = unsafe { device.handle.create_compute_pipelines(device.pipeline_cache, &info, None) };
    // SAFETY: a pipeline does not need its module once it is created.
    unsafe { device.handle.destroy_shader_module(module, None) };
    made.map(|pipelines| pipelines[0]).map_err(|(_, cause)| cause)
}

/// The subgroup size that a pipeline requires, and whether subgroups must be full: that of its constant SUBGROUPS, or the device's. From
/// SPIR-V 1.6 on a driver may choose a size for each pipeline.
fn subgroups(device: &Device, variant: &Variant, constants: &[u32], words: &[u32]) -> (Option<u32>, bool) {
    let capabilities = &device.capabilities;
    if device.lanes.is_some() || !capabilities.has(Feature::SubgroupSizeControl) {
        return (device.lanes, false);
    }
    let ([x, y, z], _) = sizes(variant, constants);
    let mut given = variant.constants.iter().zip(constants);
    let subgroups = given.find(|(constant, _)| constant.name == "subgroups").map(|(_, count)| *count);
    let size = subgroups.and_then(|count| x.checked_div(count)).unwrap_or(capabilities.subgroup_size).max(1);
    let possible = x.is_multiple_of(size) && x * y * z <= size.saturating_mul(capabilities.workgroup_subgroups);
    let assumed = possible && declares(words, Capability::GroupNonUniform);
    (assumed.then_some(size), assumed)
}

fn check_limits(device: &Device, variant: &Variant, constants: &[u32]) -> Result<()> {
    let capabilities = &device.capabilities;
    let narrow = |reason: String| {
        Err(Error::PipelineCreationFailed {
            shader: variant.name.into(),
            reason,
            remedy: "a shader for this device must keep to its limits, which grilly.info() lists".into(),
        })
    };
    if constants.len() != variant.constants.len() {
        return narrow(format!("{} constants given, it has {}", constants.len(), variant.constants.len()));
    }
    let own = [
        ("storage buffers", variant.bindings.len() as u64, capabilities.storage_buffers),
        ("bytes of push constants", variant.push_bytes.into(), capabilities.push_constants),
    ];
    // Of these constants, not of the shader's defaults: a smaller tile fits where the default does not.
    let (local_size, shared_bytes) = sizes(variant, constants);
    let workgroup = capabilities.of_workgroup(local_size, shared_bytes);
    if let Some(reason) = capabilities.exceeded(own.into_iter().chain(workgroup)) {
        return narrow(reason);
    }
    match variant.needs.iter().find(|feature| !capabilities.has(**feature)) {
        Some(feature) => narrow(format!("it needs {}, which {} lacks", feature.name(), capabilities.name)),
        None => Ok(()),
    }
}

impl Drop for ComputePipeline {
    fn drop(&mut self) {
        if self.device.forked() {
            return;
        }
        // SAFETY: this is the last owner; recordings own what they use and settle before they release it. Null handles
        // are allowed.
        unsafe {
            self.device.handle.destroy_pipeline(self.handle, None);
            self.device.handle.destroy_pipeline_layout(self.layout, None);
            self.device.handle.destroy_descriptor_set_layout(self.sets, None);
        }
    }
}
