//! Which lane holds which element of a matrix: Vulkan leaves it to the driver, so a device is asked once, when it is opened.

use std::sync::Arc;

use super::Feature;
use super::generated::matrix_layout::KERNEL;
use super::memory::Budget;
use super::raw::{Buffer, Command, Device, Grid, Kind, Launch, Pipeline, Recording, Slice, Timing};
use crate::Result;
use crate::graph::DType;

const LANES: u64 = 32;

/// Notes [`Feature::MatrixRowsInQuads`] if the device's matrices lie so. A failure to find out is not one of the device:
/// it then runs the builds that need not know.
pub(super) fn look(mut device: Arc<Device>) -> Arc<Device> {
    let capabilities = &device.capabilities;
    if u64::from(capabilities.subgroup_size) != LANES || KERNEL.own(DType::F16, capabilities).is_err() {
        return device;
    }
    match rows_in_quads(&device) {
        // Nothing holds the device yet but the caller.
        Ok(true) => Arc::get_mut(&mut device)
            .into_iter()
            .for_each(|device| device.capabilities.features.push(Feature::MatrixRowsInQuads)),
        Ok(false) => {}
        Err(error) => log::warn!(target: "grilly", "{}: the layout of matrices: {error}", device.capabilities.name),
    }
    device
}

fn rows_in_quads(device: &Arc<Device>) -> Result<bool> {
    let variant = KERNEL.own(DType::F16, &device.capabilities)?;
    let bytes = 4 * LANES;
    let budget = Budget::new(u64::MAX);
    let slice = |buffer: &Arc<Buffer>| Slice { buffer: buffer.clone(), offset: 0, bytes };
    let y = Buffer::new(device, Kind::Activations, bytes, &budget)?;
    let found = Buffer::new(device, Kind::Results, bytes, &budget)?;
    let launch = Launch {
        pipeline: Pipeline::new(device, variant, &[])?,
        push: Vec::new(),
        grid: Grid::Direct([1; 3]),
        label: KERNEL.name.into(),
    };
    let commands = vec![
        Command::Start,
        Command::Dispatch { launch: Arc::new(launch), buffers: vec![slice(&y)] },
        Command::BeforeCopies,
        Command::Copy { from: slice(&y), to: slice(&found) },
        Command::AfterCopies,
    ];
    let mut recording = Recording::new(device)?;
    recording.record(commands, Timing::Off)?;
    let ticket = device.submit(&mut [&mut recording])?;
    device.wait(ticket)?;
    found.map(0, bytes, |memory| memory.chunks_exact(4).all(|word| word == 1u32.to_ne_bytes()))
}
