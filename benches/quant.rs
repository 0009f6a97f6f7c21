//! Benchmarks of every function of `grilly.quant` through command encoders, on the CPU and on the Vulkan device where there is
//! one: `cargo bench --bench quant`. Each is one command and the wait for it.

use criterion::{Criterion, criterion_group, criterion_main};
use grilly::dtype::DType;
use grilly_bitnet::{BitNetShaderFunction, BitNetShaders, Buffer, Device, create_vulkan_device, dispatch_compute};

/// Tokens, columns of the input and of the result.
const ROWS: usize = 64;
const COLUMNS: usize = 1024;
const RESULT: usize = 512;
const GROUP: usize = 128;

/// The buffer that a function has under a name, of numbers between -1 and 1 or of bytes.
fn buffer(device: &Device, function: BitNetShaderFunction, name: &str) -> Buffer {
    use BitNetShaderFunction::*;
    let layer = matches!(function, BitLinearForward | BitLinearBackwardInput | MixedPrecisionMatmul);
    let matrix = matches!(function, BinarizeWeights | QuantizeWeights1Bit | DequantizeWeights1Bit);
    let signs = vec![RESULT, COLUMNS / 8];
    let (dtype, shape) = match (name.trim_end_matches(['!', '?']), function) {
        ("weights", DequantizeWeights1Bit) => (DType::U8, signs),
        ("weights", _) if layer => (DType::U8, signs),
        ("weights", _) => (DType::F32, vec![RESULT, COLUMNS]),
        ("output", BitLinearForward | MixedPrecisionMatmul) => (DType::F32, vec![ROWS, RESULT]),
        ("output", BinarizeWeights | QuantizeWeights1Bit) => (DType::U8, signs),
        ("output", DequantizeWeights1Bit) | ("grad_weight", _) => (DType::F32, vec![RESULT, COLUMNS]),
        ("output", QuantizeActivations | QuantizeActivations8Bit | DynamicQuantizeActivations | QuantizeGradients)
        | ("input", DequantizeActivations8Bit) => (DType::I8, vec![ROWS, COLUMNS]),
        ("grad_output", BitLinearBackwardInput | BitLinearBackwardWeight) => (DType::F32, vec![ROWS, RESULT]),
        ("weight_scale", _) | ("scale", BinarizeWeights | DynamicQuantizeActivations | QuantizeGradients) => {
            (DType::F32, vec![1])
        }
        ("scale", _) if matrix => (DType::F32, vec![RESULT, COLUMNS / GROUP]),
        ("scale", _) => (DType::F32, vec![ROWS]),
        ("zero", DynamicQuantizeActivations) => (DType::I32, vec![1]),
        ("zero", _) => (DType::I32, vec![ROWS]),
        ("bias", BitLinearForward) => (DType::F32, vec![RESULT]),
        ("weight" | "bias", _) => (DType::F32, vec![COLUMNS]),
        _ => (DType::F32, vec![ROWS, COLUMNS]),
    };
    let elements: usize = shape.iter().product();
    #[expect(clippy::disallowed_methods, reason = "any numbers")]
    let numbers = (0..elements).map(|i| (i as f32 * 0.618).sin());
    let bytes: Vec<u8> = match dtype {
        DType::F32 if name.contains("scale") => numbers.flat_map(|x| (2.0 + x).to_le_bytes()).collect(),
        DType::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        _ => (0..dtype.bytes(elements)).map(|i| (i * 37) as u8).collect(),
    };
    device.new_buffer_with_data(dtype, &shape, &bytes).expect("the device has memory")
}

fn functions(criterion: &mut Criterion) {
    measure(criterion, "quant", &Device::of("cpu").expect("there is a CPU"));
    // Without a Vulkan device it is the CPU.
    let vulkan = create_vulkan_device().ok().filter(|device| device.engine().capabilities().is_some());
    if let Some(device) = vulkan {
        measure(criterion, "quant on vulkan", &device);
    }
}

fn measure(criterion: &mut Criterion, name: &str, device: &Device) {
    let shaders = BitNetShaders::new(device.clone()).expect("the device is usable");
    let queue = device.new_command_queue();
    let mut group = criterion.benchmark_group(name);
    for function in BitNetShaderFunction::all() {
        let buffers: Vec<Buffer> = function.buffers().iter().map(|name| buffer(device, function, name)).collect();
        let most = buffers.iter().map(|buffer| buffer.array().elements()).max().unwrap_or(0);
        let (threads, threadgroup) = shaders.calculate_dispatch_params(function, most).expect("sizes of 32 bits");
        group.bench_function(function.name(), |bencher| {
            bencher.iter(|| {
                let commands = queue.new_command_buffer();
                let encoder = shaders.create_compute_encoder_with_pipeline(&commands, function).expect("a pipeline");
                buffers.iter().enumerate().for_each(|(index, buffer)| encoder.set_buffer(index, Some(buffer), 0));
                dispatch_compute(&encoder, threads, threadgroup);
                encoder.end_encoding();
                commands.commit();
                commands.wait_until_completed().expect("the buffers fit");
            });
        });
    }
    group.finish();
}

criterion_group!(quant, functions);
criterion_main!(quant);
