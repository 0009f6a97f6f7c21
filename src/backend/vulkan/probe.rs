//! Driver behaviour that Vulkan does not specify, probed once by a dispatch when a device is opened.

use std::sync::Arc;

use half::f16;

use super::budget::Budget;
use super::capabilities::{Feature, MatrixRows};
use super::generated::{half_packing, matrix_layout};
use super::kernel::{Specialization, Variant};
use super::raw::{Buffer, ComputePipeline, Device, Grid, Kind, Launch, Recording, Slice, Timing};
use super::record::{BoundDispatch, Commands};
use crate::dtype::DType;
use crate::numerics::portable::power_of_two;
use crate::{Error, Result};

/// Adds the features that probing finds. A driver that fails a probe lacks the feature: the device then runs variants that
/// do not need it.
///
/// # Errors
/// `OutOfMemory` or `DeviceLost`, which say nothing of the driver: opened later, the device has the feature.
pub(super) fn features(mut device: Arc<Device>) -> Result<Arc<Device>> {
    let failed = |feature: Feature, error: Error| match error {
        Error::OutOfMemory { .. } | Error::DeviceLost { .. } => Err(error),
        _ => {
            log::warn!(target: "grilly", "{}: {}: {error}", device.capabilities.name, feature.name());
            Ok(())
        }
    };
    let rows = rows_in_lanes(&device).or_else(|error| failed(Feature::MatrixRowsInLanes, error).map(|()| None))?;
    let packs = packs_to_nearest(&device).or_else(|error| failed(Feature::PacksToNearest, error).map(|()| false))?;
    // Only the caller holds the device so far.
    if let Some(device) = Arc::get_mut(&mut device) {
        let capabilities = &mut device.capabilities;
        capabilities.features.extend(rows.map(|_| Feature::MatrixRowsInLanes));
        let in_quads = rows == Some(MatrixRows::default()) && capabilities.has(Feature::MatrixF16);
        capabilities.features.extend(in_quads.then_some(Feature::MatrixRowsInQuads));
        capabilities.features.extend(packs.then_some(Feature::PacksToNearest));
        capabilities.matrix_rows = rows.unwrap_or_default();
    }
    Ok(device)
}

/// How the elements of a matrix are distributed over the lanes, of sums as of left operands, if neighbouring lanes hold whole rows.
fn rows_in_lanes(device: &Arc<Device>) -> Result<Option<MatrixRows>> {
    let capabilities = &device.capabilities;
    let Ok(variant) = matrix_layout::KERNEL.own(DType::F16, capabilities) else { return Ok(None) };
    let (Some([rows, columns, terms]), lanes) = (variant.matrix(), capabilities.subgroup_size) else { return Ok(None) };
    if columns != terms || !(rows * columns).is_multiple_of(lanes) {
        return Ok(None);
    }
    let (matrix_m, matrix_n, matrix_k) = (rows, columns, terms);
    let constants = matrix_layout::Constants { lanes, matrix_m, matrix_n, matrix_k };
    let found = run(device, variant, &constants.values(variant), &[], (rows * columns) as usize)?;
    Ok(layout(&found, columns, lanes))
}

/// The layout with which `matrix-layout.glsl` finds these places.
fn layout(found: &[u32], columns: u32, lanes: u32) -> Option<MatrixRows> {
    let elements = found.len() as u32 / lanes;
    let powers = || (0..=columns.ilog2()).map(|power| 1 << power);
    // A whole row has runs of any length: the longest is taken.
    let all = powers().flat_map(|row_lanes| powers().rev().map(move |run| MatrixRows { row_lanes, run }));
    // A lane has whole runs of a row, and the lanes of a row are of one subgroup.
    let mut possible = all.filter(|own| own.row_lanes * own.run <= columns && own.row_lanes <= lanes);
    possible.find(|own| {
        (0..).zip(found).all(|(at, word)| {
            let [row, column] = own.place([at / elements, at % elements], columns, lanes);
            let place = row * columns + column;
            *word == place | place << 16
        })
    })
}

/// Whether conversion to float16 rounds as `half.glsl` does, over the whole range.
fn packs_to_nearest(device: &Arc<Device>) -> Result<bool> {
    let numbers = numbers();
    let variant = half_packing::KERNEL.own(DType::F32, &device.capabilities)?;
    let words = run(device, variant, &[], &numbers, numbers.len() / 2)?;
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

/// The words that one workgroup of a shader with these constants writes; `numbers` is its input, if it has one.
pub(super) fn run(
    device: &Arc<Device>,
    variant: &'static Variant,
    constants: &[u32],
    numbers: &[f32],
    words: usize,
) -> Result<Vec<u32>> {
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
    let launch = Launch {
        pipeline: ComputePipeline::new(device, variant, constants)?,
        push: Vec::new(),
        label: variant.name.into(),
    };
    let mut commands = Commands::default();
    commands.dispatch(BoundDispatch { launch: Arc::new(launch), grid: Grid::Direct([1; 3]), buffers, flops: 0 });
    commands.copy_written([(Slice::start(&y, bytes), Slice::start(&found, bytes))]);
    let mut recording = Recording::new(device)?;
    recording.record(&mut commands.take(), Timing::Off)?;
    device.wait(device.submit(&mut [&mut recording])?)?;
    let word = |w: &[u8]| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]);
    found.read(0, bytes, |memory| memory.chunks_exact(4).map(word).collect())
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
    fn the_layout_of_rows_is_the_one_that_the_probe_saw() {
        let written = |[rows, columns, lanes]: [u32; 3], place: &dyn Fn(u32, u32) -> [u32; 2]| -> Vec<u32> {
            let elements = rows * columns / lanes;
            let all = (0..lanes).flat_map(|lane| (0..elements).map(move |e| (lane, e)));
            let index = |[row, column]: [u32; 2]| row * columns + column;
            all.map(|(lane, e)| index(place(lane, e)) * 0x10001).collect()
        };
        // Four lanes with two rows of 16, in pairs of columns, and lanes with a column.
        let nvidia = |l: u32, e: u32| [l / 4 + 8 * (e / 4), 2 * (l % 4) + e % 2 + 8 * (e / 2 % 2)];
        let found = layout(&written([16, 16, 32], &nvidia), 16, 32);
        assert_eq!(found, Some(MatrixRows { row_lanes: 4, run: 2 }));
        assert_eq!(found, Some(MatrixRows::default()));
        let column = |l: u32, e: u32| [e, l];
        assert_eq!(layout(&written([8, 8, 8], &column), 8, 8), Some(MatrixRows { row_lanes: 8, run: 1 }));
        let columns = |l: u32, e: u32| [2 * e + l / 16, l % 16];
        assert_eq!(layout(&written([16, 16, 32], &columns), 16, 32), Some(MatrixRows { row_lanes: 16, run: 1 }));
        let row = |l: u32, e: u32| [l, e];
        assert_eq!(layout(&written([8, 8, 8], &row), 8, 8), Some(MatrixRows { row_lanes: 1, run: 8 }));
        let half = |l: u32, e: u32| [l / 2, 8 * (l % 2) + e];
        assert_eq!(layout(&written([16, 16, 32], &half), 16, 32), Some(MatrixRows { row_lanes: 2, run: 8 }));
        // Rows of a lane that are neighbours; sums and left operands that differ; a lane with more of an operand.
        let four = |l: u32, e: u32| [4 * (l / 8) + e / 2, 2 * (l % 8) + e % 2];
        assert_eq!(layout(&written([16, 16, 32], &four), 16, 32), None);
        let mut differ = written([8, 8, 8], &row);
        differ[3] += 1 << 16;
        assert_eq!(layout(&differ, 8, 8), None);
        assert_eq!(layout(&[u32::MAX; 64], 8, 8), None);
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
