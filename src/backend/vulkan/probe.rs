//! Driver behaviour that Vulkan does not specify, probed once by a dispatch when a device is opened.

use std::sync::Arc;

use half::f16;

use super::Feature;
use super::budget::Budget;
use super::generated::{half_packing, matrix_layout};
use super::kernel::Variant;
use super::raw::{Buffer, ComputePipeline, Device, Grid, Kind, Launch, Recording, Slice, Timing};
use super::record::{BoundDispatch, Commands};
use crate::dtype::DType;
use crate::numerics::portable::power_of_two;
use crate::{Error, Result};

/// Subgroup size at which the matrix layout is known.
const LANES: u32 = 32;

type Probe = fn(&Arc<Device>) -> Result<bool>;

/// Adds the features that probing finds. A driver that fails a probe lacks the feature: the device then runs variants that
/// do not need it.
///
/// # Errors
/// `OutOfMemory` or `DeviceLost`, which say nothing of the driver: opened later, the device has the feature.
pub(super) fn features(mut device: Arc<Device>) -> Result<Arc<Device>> {
    let probes: [(Feature, Probe); 2] =
        [(Feature::MatrixRowsInQuads, rows_in_quads), (Feature::PacksToNearest, packs_to_nearest)];
    let mut seen = Vec::new();
    for (feature, probe) in probes {
        match probe(&device) {
            Ok(true) => seen.push(feature),
            Ok(false) => {}
            Err(error @ (Error::OutOfMemory { .. } | Error::DeviceLost { .. })) => return Err(error),
            Err(error) => log::warn!(target: "grilly", "{}: {}: {error}", device.capabilities.name, feature.name()),
        }
    }
    // Only the caller holds the device so far.
    Arc::get_mut(&mut device).into_iter().for_each(|device| device.capabilities.features.append(&mut seen));
    Ok(device)
}

/// Whether matrix elements are distributed over the lanes as `matrix-layout.glsl` states.
fn rows_in_quads(device: &Arc<Device>) -> Result<bool> {
    let capabilities = &device.capabilities;
    let Ok(variant) = matrix_layout::KERNEL.own(DType::F16, capabilities) else { return Ok(false) };
    Ok(capabilities.subgroup_size == LANES && run(device, variant, &[], LANES as usize)?.iter().all(|word| *word == 1))
}

/// Whether conversion to float16 rounds as `half.glsl` does, over the whole range.
fn packs_to_nearest(device: &Arc<Device>) -> Result<bool> {
    let numbers = numbers();
    let variant = half_packing::KERNEL.own(DType::F32, &device.capabilities)?;
    let words = run(device, variant, &numbers, numbers.len() / 2)?;
    let found = words.iter().flat_map(|word| [*word as u16, (*word >> 16) as u16]).map(f16::from_bits);
    let same = |(found, number): (f16, &f32)| {
        let nearest = f16::from_f32(*number);
        found.to_bits() == nearest.to_bits() || (found.is_nan() && nearest.is_nan())
    };
    Ok(found.zip(&numbers).all(same))
}

/// 128 numbers: float16 midpoints and their neighbours, the ends of its ranges, and samples of every magnitude.
fn numbers() -> Vec<f32> {
    let unit = |power: i32| power_of_two(power) as f32;
    let mut found = vec![0.0, 1.0, 1.0 + unit(-11), 1.0 + 3.0 * unit(-11), 1.0 + unit(-11) + unit(-23)];
    found.extend([1.0 + unit(-11) - unit(-23), 65504.0, 65519.996, 65520.0, 1e30, f32::INFINITY, f32::NAN]);
    found.extend([unit(-14), unit(-14) - unit(-25), unit(-14) - unit(-26), unit(-24), unit(-25), 3.0 * unit(-25)]);
    found.extend([unit(-25) + unit(-48), 5.0 * unit(-25), unit(-26), 1e-40]);
    // From 2^-27 to 2^18, with arbitrary mantissas.
    found.extend((0..64 - found.len() as u32).map(|i| f32::from_bits(0x3200_0000 + i * 0x008a_bcd7)));
    let negative: Vec<f32> = found.iter().map(|x| -x).collect();
    [found, negative].concat()
}

/// The words that one workgroup of a shader writes; `numbers` is its input, if it has one.
pub(super) fn run(device: &Arc<Device>, variant: &'static Variant, numbers: &[f32], words: usize) -> Result<Vec<u32>> {
    let budget = Budget::new(u64::MAX);
    let given = 4 * numbers.len() as u64;
    let bytes = 4 * words as u64;
    let mut buffers = Vec::new();
    if given > 0 {
        let x = Buffer::new(device, Kind::Inputs, given, &budget)?;
        x.map(0, given, |memory| memory.copy_from_slice(bytemuck::cast_slice(numbers)))?;
        buffers.push(Slice::start(&x, given));
    }
    let y = Buffer::new(device, Kind::Activations, bytes, &budget)?;
    buffers.push(Slice::start(&y, bytes));
    let found = Buffer::new(device, Kind::Results, bytes, &budget)?;
    let launch =
        Launch { pipeline: ComputePipeline::new(device, variant, &[])?, push: Vec::new(), label: variant.name.into() };
    let mut commands = Commands::default();
    commands.dispatch(BoundDispatch { launch: Arc::new(launch), grid: Grid::Direct([1; 3]), buffers, flops: 0 });
    commands.copy_written([(Slice::start(&y, bytes), Slice::start(&found, bytes))]);
    let mut recording = Recording::new(device)?;
    recording.record(&mut commands.take(), Timing::Off)?;
    device.wait(device.submit(&mut [&mut recording])?)?;
    found.map(0, bytes, |memory| memory.chunks_exact(4).map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::device::open_device;
    use crate::settings::{Settings, test_requires};

    #[test]
    fn a_device_is_asked_when_it_is_opened() {
        // The same settings as the other tests of this process, which share the instance.
        let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
        match open_device(None, &settings) {
            Ok((opened, _)) => {
                let device = &opened.device;
                let (name, known) = (&device.capabilities.name, device.capabilities.has(Feature::PacksToNearest));
                println!("{name}: float16 to the nearest: {known}");
                assert_eq!(packs_to_nearest(device).unwrap(), known, "{name}");
                // Mesa's compiler rounds this way.
                assert!(known || !name.contains("llvmpipe"), "{name}");
            }
            Err(error) if test_requires("vulkan") => panic!("{error}"),
            Err(error) => println!("skipped: a_device_is_asked_when_it_is_opened: {error}"),
        }
    }

    #[test]
    fn the_numbers_asked_about_tell_roundings_apart() {
        let numbers = numbers();
        assert_eq!(numbers.len(), 128);
        let nearest: Vec<u16> = numbers.iter().map(|x| f16::from_f32(*x).to_bits()).collect();
        // Rounding toward zero, with values below 2^-14 flushed to 0, changes the bits.
        let magnitude = |x: &f32| f16::from_bits(f16::from_f32(*x).to_bits() & 0x7fff).to_f32();
        assert!(numbers.iter().filter(|x| x.is_finite() && magnitude(x) > x.abs()).count() > 20);
        assert!(numbers.iter().filter(|x| x.is_finite() && magnitude(x) < x.abs()).count() > 20);
        let small = nearest.iter().filter(|bits| (1..0x400).contains(&(**bits & 0x7fff))).count();
        assert!(small > 20, "{small}");
    }
}
