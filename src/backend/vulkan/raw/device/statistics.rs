//! A device that only compiles, and what its driver says of pipelines.
//!
//! A driver without hardware has neither memory nor timelines: Mesa's RADV with `RADV_FORCE_FAMILY`.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

use ash::khr::pipeline_executable_properties as properties;

use super::*;
use crate::backend::vulkan::raw::ComputePipeline;

/// What a driver says of a pipeline.
pub struct Statistics {
    /// Invocations of its subgroups.
    pub subgroup: u32,
    /// The driver's numbers, by its names.
    pub numbers: BTreeMap<String, f64>,
    /// The driver's forms of the code, joined.
    pub code: String,
}

impl Device {
    /// Opens a device, usable or not, to compile and nothing else, with subgroups of so many `lanes` or as the driver chooses; it lives
    /// until the process ends, since there is no timeline to wait for.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn compiler(
        instance: &Arc<Instance>,
        physical: &Physical,
        lanes: Option<u32>,
    ) -> Result<ManuallyDrop<Arc<Self>>> {
        let mut physical = physical.clone();
        physical.extensions.push(properties::NAME);
        let subgroup_size = lanes.unwrap_or(physical.capabilities.subgroup_size);
        let capabilities = Capabilities { subgroup_size, ..physical.capabilities.clone() };
        let handle = create::create(instance, &physical);
        Ok(ManuallyDrop::new(Arc::new(Device {
            handle: handle.map_err(|cause| failure(&capabilities.name, "vkCreateDevice", cause))?,
            debug: None,
            allocator: Mutex::new(None),
            retaining: Mutex::default(),
            pipeline_cache: vk::PipelineCache::null(),
            kept: vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR,
            lanes,
            queue_family: physical.queue_family,
            timestamp_bits: 0,
            capabilities,
            queue: Mutex::new(Queue { handle: vk::Queue::null(), last: Ticket(0) }),
            timeline: vk::Semaphore::null(),
            seen: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            process: AtomicU32::new(crate::process::id()),
            physical: physical.handle,
            tells_budgets: false,
            instance: instance.clone(),
        })))
    }

    /// What the driver says of a pipeline of this device, which only compiles.
    ///
    /// # Errors
    /// A driver error.
    pub fn statistics(&self, pipeline: &ComputePipeline) -> Result<Statistics> {
        let calls = properties::Device::new(&self.instance.handle, &self.handle);
        let failed = |cause| self.failure("vkGetPipelineExecutableStatisticsKHR", cause);
        let whole = vk::PipelineInfoKHR::default().pipeline(pipeline.handle);
        let of = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline.handle);
        // SAFETY: the pipeline is alive and of this device, which keeps statistics; a compute pipeline has one executable. So below.
        let executables = unsafe { calls.get_pipeline_executable_properties(&whole) }.map_err(failed)?;
        // SAFETY: as above.
        let rows = unsafe { calls.get_pipeline_executable_statistics(&of) }.map_err(failed)?;
        let number = |row: &vk::PipelineExecutableStatisticKHR<'_>| match row.format {
            // SAFETY: the format says which member is written. So below.
            vk::PipelineExecutableStatisticFormatKHR::UINT64 => unsafe { row.value.u64 as f64 },
            // SAFETY: as above.
            vk::PipelineExecutableStatisticFormatKHR::INT64 => unsafe { row.value.i64 as f64 },
            // SAFETY: as above.
            vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => unsafe { row.value.f64 },
            // SAFETY: as above.
            _ => unsafe { row.value.b32.into() },
        };
        let name = |row: &vk::PipelineExecutableStatisticKHR<'_>| {
            row.name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let numbers = rows.iter().map(|row| (name(row), number(row))).collect();
        // SAFETY: as above.
        let mut forms = unsafe { calls.get_pipeline_executable_internal_representations(&of) }.map_err(failed)?;
        let mut texts: Vec<Vec<u8>> = forms.iter().map(|form| vec![0; form.data_size]).collect();
        for (form, text) in forms.iter_mut().zip(&mut texts) {
            form.p_data = text.as_mut_ptr().cast();
        }
        let mut count = forms.len() as u32;
        let get = calls.fp().get_pipeline_executable_internal_representations_khr;
        // SAFETY: as above; each form has memory of the size that the driver asked for.
        unsafe { get(self.handle.handle(), &of, &mut count, forms.as_mut_ptr()) }.result().map_err(failed)?;
        let code = texts.iter().map(|text| String::from_utf8_lossy(text)).collect();
        Ok(Statistics { subgroup: executables.first().map_or(0, |first| first.subgroup_size), numbers, code })
    }
}
