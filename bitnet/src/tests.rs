//! Every function on small numbers, on the CPU and on Vulkan, and the errors with the words of BitNet's own.

use super::*;
use grilly::Result;
use grilly::compiler::ComputeFunction;
use grilly::dtype::DType;

use BitNetShaderFunction as Function;

/// Elements of a buffer.
type Given<'a> = (DType, &'a [usize], Vec<u8>);

fn f(numbers: &[f32]) -> Vec<u8> {
    bytemuck::cast_slice(numbers).to_vec()
}

fn i(numbers: &[i8]) -> Vec<u8> {
    bytemuck::cast_slice(numbers).to_vec()
}

/// The CPU, and the Vulkan device where there is one.
fn devices() -> Vec<Device> {
    let vulkan = create_vulkan_device().ok().filter(|device| device.engine().capabilities().is_some());
    std::iter::once(Device::of("cpu").unwrap()).chain(vulkan).collect()
}

fn held(device: &Device, (dtype, shape, bytes): &Given<'_>) -> Buffer {
    let zeros = vec![0; dtype.bytes(shape.iter().product())];
    device.new_buffer_with_data(*dtype, shape, if bytes.is_empty() { &zeros } else { bytes }).unwrap()
}

/// Runs a function on buffers by index and returns these.
fn run(device: &Device, function: Function, given: &[Given<'_>], numbers: &[(&str, f64)]) -> Result<Vec<Buffer>> {
    let shaders = BitNetShaders::new(device.clone())?;
    let commands = device.new_command_queue().new_command_buffer();
    let encoder = shaders.create_compute_encoder_with_pipeline(&commands, function)?;
    let buffers: Vec<Buffer> = given.iter().map(|given| held(device, given)).collect();
    buffers.iter().enumerate().for_each(|(index, buffer)| encoder.set_buffer(index, Some(buffer), 0));
    numbers.iter().for_each(|(name, number)| encoder.set_number(name, *number));
    let elements = buffers.iter().map(|buffer| buffer.array().elements()).max().unwrap_or(0);
    let (threads, threadgroup) = shaders.calculate_dispatch_params(function, elements)?;
    dispatch_compute(&encoder, threads, threadgroup);
    encoder.end_encoding();
    commands.commit();
    commands.wait_until_completed()?;
    Ok(buffers)
}

fn near(buffer: &Buffer, expected: &[f32], what: &str) {
    let bytes = buffer.read().unwrap();
    let found: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 2e-6 * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
    }
}

const F32: DType = DType::F32;
/// `sqrt(2 / pi)`, half of `2 / sqrt(pi)` times `sqrt(2)`.
const ROOT: f32 = std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
const RESULT: Vec<u8> = Vec::new();

#[test]
fn every_function_computes_what_its_name_says() {
    let x = [0.5f32, -1.0, 2.0, 0.0];
    let g = [1.0f32, 2.0, -3.0, 4.0];
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let gelu = |x: f32| 0.5 * x * (1.0 + (ROOT * (x + 0.044715 * x * x * x)).tanh());
    let by_gelu = |x: f32| {
        let inner = (ROOT * (x + 0.044715 * x * x * x)).tanh();
        0.5 * (1.0 + inner) + 0.5 * x * (1.0 - inner * inner) * ROOT * (1.0 + 3.0 * 0.044715 * x * x)
    };
    let softmax = |x: &[f32]| {
        let sum: f32 = x.iter().map(|x| x.exp()).sum();
        x.iter().map(|x| x.exp() / sum).collect::<Vec<f32>>()
    };
    type Pair = (Function, Function, Box<dyn Fn(f32) -> f32>, Box<dyn Fn(f32) -> f32>);
    let activations: Vec<Pair> = vec![
        (
            Function::ReluForward,
            Function::ReluBackward,
            Box::new(|x| x.max(0.0)),
            Box::new(|x| if x > 0.0 { 1.0 } else { 0.0 }),
        ),
        (Function::GeluForward, Function::GeluBackward, Box::new(gelu), Box::new(by_gelu)),
        (
            Function::SwishForward,
            Function::SwishBackward,
            Box::new(move |x| x * sigmoid(x)),
            Box::new(move |x| sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x)))),
        ),
        (
            Function::SigmoidForward,
            Function::SigmoidBackward,
            Box::new(sigmoid),
            Box::new(move |x| sigmoid(x) * (1.0 - sigmoid(x))),
        ),
        (Function::TanhForward, Function::TanhBackward, Box::new(f32::tanh), Box::new(|x| 1.0 - x.tanh() * x.tanh())),
        (
            Function::LeakyReluForward,
            Function::LeakyReluBackward,
            Box::new(|x| if x >= 0.0 { x } else { 0.01 * x }),
            Box::new(|x| if x > 0.0 { 1.0 } else { 0.01 }),
        ),
    ];
    for device in devices() {
        let name = |function: Function| format!("{} on {}", function.name(), device.engine().device());
        let result = |function, given: &[Given<'_>], numbers: &[(&str, f64)]| {
            run(&device, function, given, numbers).unwrap_or_else(|error| panic!("{}: {error}", name(function)))
        };
        for (forward, backward, value, slope) in &activations {
            let made = result(*forward, &[(F32, &[4], f(&x)), (F32, &[4], RESULT)], &[]);
            near(&made[1], &x.map(value), &name(*forward));
            let made = result(*backward, &[(F32, &[4], f(&g)), (F32, &[4], f(&x)), (F32, &[4], RESULT)], &[]);
            let expected: Vec<f32> = x.iter().zip(g).map(|(x, g)| g * slope(*x)).collect();
            near(&made[2], &expected, &name(*backward));
        }
        let given: [Given<'_>; 2] = [(F32, &[4], f(&x)), (F32, &[4], RESULT)];
        let steep = result(Function::LeakyReluForward, &given, &[("negative_slope", 0.5)]);
        near(&steep[1], &[0.5, -0.5, 2.0, 0.0], "leaky_relu_forward");
        for (p, expected) in [(0.0, x.map(|x| x.max(0.0))), (1.0, [0.0; 4])] {
            near(&result(Function::FusedReluDropout, &given, &[("p", p)])[1], &expected, "fused_relu_dropout");
        }
        let p = softmax(&x);
        near(&result(Function::SoftmaxForward, &[(F32, &[4], f(&x)), (F32, &[4], RESULT)], &[])[1], &p, "softmax");
        let sum: f32 = p.iter().zip(g).map(|(p, g)| p * g).sum();
        let expected: Vec<f32> = p.iter().zip(g).map(|(p, g)| p * (g - sum)).collect();
        let given: [Given<'_>; 3] = [(F32, &[4], f(&g)), (F32, &[4], f(&p)), (F32, &[4], RESULT)];
        near(&result(Function::SoftmaxBackward, &given, &[])[2], &expected, "softmax_backward");
        let (scale, shift): (Given<'_>, Given<'_>) = ((F32, &[2], f(&[2.0; 2])), (F32, &[2], f(&[1.0; 2])));
        let given: [Given<'_>; 4] = [(F32, &[1, 2], f(&[1.0, 3.0])), scale, shift, (F32, &[1, 2], RESULT)];
        near(&result(Function::LayerNormForward, &given, &[("eps", 0.0)])[3], &[-1.0, 3.0], "layer_norm");

        let rows: Given<'_> = (F32, &[1, 4], f(&[1.0, -0.5, 0.25, 0.75]));
        let given: [Given<'_>; 3] = [rows.clone(), (DType::U8, &[1], RESULT), (F32, &[1], RESULT)];
        let made = result(Function::BinarizeWeights, &given, &[]);
        assert_eq!((made[1].read().unwrap(), made[2].read().unwrap()), (vec![0b1101], f(&[1.6])));
        let given: [Given<'_>; 3] = [rows.clone(), (DType::U8, &[1], RESULT), (F32, &[2], RESULT)];
        let made = result(Function::QuantizeWeights1Bit, &given, &[("group_size", 2.0)]);
        assert_eq!(made[2].read().unwrap(), f(&[4.0 / 3.0, 2.0]));
        let given: [Given<'_>; 3] =
            [(DType::U8, &[1, 1], vec![0b1101]), (F32, &[1, 2], f(&[2.0, 4.0])), (F32, &[1, 4], RESULT)];
        let made = result(Function::DequantizeWeights1Bit, &given, &[("group_size", 2.0)]);
        near(&made[2], &[0.5, -0.5, 0.25, 0.25], "dequantize_weights_1bit");
        let given: [Given<'_>; 3] = [rows.clone(), (DType::I8, &[4], RESULT), (F32, &[1], RESULT)];
        let integers = i(&[127, -64, 32, 95]);
        let made = result(Function::QuantizeActivations, &given, &[]);
        assert_eq!((made[1].read().unwrap(), made[2].read().unwrap()), (integers, f(&[127.0])));
        let made = result(Function::QuantizeGradients, &given, &[("seed", 3.0)]);
        let drawn: Vec<i8> = made[1].read().unwrap().into_iter().map(u8::cast_signed).collect();
        for (found, below) in drawn.iter().zip([127i8, -64, 31, 95]) {
            assert!((below..=below.saturating_add(1)).contains(found), "{drawn:?}");
        }
        let (range, zero): (Given<'_>, Given<'_>) = ((F32, &[1, 2], f(&[0.0, 51.0])), (DType::I32, &[1], RESULT));
        let given: [Given<'_>; 4] = [range, (DType::I8, &[2], RESULT), (F32, &[1], RESULT), zero];
        for function in [Function::QuantizeActivations8Bit, Function::DynamicQuantizeActivations] {
            let made = result(function, &given, &[]);
            let found = [1, 2, 3].map(|index| made[index].read().unwrap());
            assert_eq!(found, [i(&[-128, 127]), f(&[5.0]), (-128i32).to_le_bytes().to_vec()], "{}", name(function));
        }
        let zero: Given<'_> = (DType::I32, &[1], (-128i32).to_le_bytes().to_vec());
        let bytes: Given<'_> = (DType::I8, &[1, 2], i(&[-128, 127]));
        let given: [Given<'_>; 4] = [bytes, (F32, &[1], f(&[5.0])), (F32, &[1, 2], RESULT), zero];
        near(&result(Function::DequantizeActivations8Bit, &given, &[])[2], &[0.0, 51.0], "dequantize");

        // Rows of one scale, so that rounding is exact, and the same weight in each form.
        let x: Given<'_> = (F32, &[1, 5], f(&[127.0, -2.0, 3.0, 0.0, 1.0]));
        let ternary: Given<'_> = (DType::U8, &[2, 2], vec![0b01_10_00_10, 0b10, 0b10_01_01_00, 0b01]);
        let int8: Given<'_> = (DType::I8, &[2, 5], i(&[1, -1, 1, 0, 1, -1, 0, 0, 1, 0]));
        let (half, bias): (Given<'_>, Given<'_>) = ((F32, &[1], f(&[2.0])), (F32, &[2], f(&[0.5, -0.5])));
        let g: Given<'_> = (F32, &[1, 2], f(&[2.0, 4.0]));
        for weights in [&ternary, &int8] {
            let given: [Given<'_>; 5] =
                [x.clone(), weights.clone(), bias.clone(), (F32, &[1, 2], RESULT), half.clone()];
            near(&result(Function::BitLinearForward, &given, &[])[3], &[67.0, -64.0], "bitlinear_forward");
            let given: [Given<'_>; 4] = [g.clone(), weights.clone(), (F32, &[1, 5], RESULT), half.clone()];
            let expected = [-1.0, -1.0, 1.0, 2.0, 1.0];
            near(&result(Function::BitLinearBackwardInput, &given, &[])[2], &expected, "bitlinear_backward_input");
            let floats: Given<'_> = (F32, &[1, 5], f(&[0.5, 0.25, 1.0, 2.0, 4.0]));
            let given: [Given<'_>; 4] = [floats, weights.clone(), (F32, &[1, 2], RESULT), half.clone()];
            near(&result(Function::MixedPrecisionMatmul, &given, &[])[2], &[2.625, 0.75], "mixed_precision_matmul");
        }
        let expected = [254.0, -4.0, 6.0, 0.0, 2.0, 508.0, -8.0, 12.0, 0.0, 4.0];
        let given: [Given<'_>; 3] = [g, x, (F32, &[2, 5], RESULT)];
        near(&result(Function::BitLinearBackwardWeight, &given, &[])[2], &expected, "bitlinear_backward_weight");
    }
}

#[test]
fn what_does_not_fit_is_named_when_it_is_waited_for() {
    let device = &Device::of("cpu").unwrap();
    let relu = |given: &[Given<'_>], numbers: &[(&str, f64)]| {
        run(device, Function::ReluForward, given, numbers).unwrap_err().to_string()
    };
    let (x, y): (Given<'_>, Given<'_>) = ((F32, &[2], f(&[1.0, 2.0])), (F32, &[2], RESULT));
    assert_eq!(relu(std::slice::from_ref(&x), &[]), "relu_forward: buffer 1, output, is not set");
    let found = relu(&[x.clone(), (F32, &[3], RESULT)], &[]);
    assert_eq!(found, "relu_forward: output is float32 [3], expected float32 [2]");
    assert!(relu(&[x.clone(), y.clone(), y.clone()], &[]).contains("there is no buffer 2, only input, output!"));
    assert!(relu(&[x.clone(), y.clone()], &[("eps", 1.0)]).contains(r#"there is no number "eps""#));
    let found = run(device, Function::QuantizeWeights1Bit, &[x.clone(), y.clone(), y.clone()], &[("group_size", 0.0)]);
    assert!(found.unwrap_err().to_string().contains("group_size is missing"));
    let found = run(device, Function::QuantizeGradients, &[x.clone(), y.clone(), y.clone()], &[("seed", 0.5)]);
    assert!(found.unwrap_err().to_string().contains("seed is 0.5, expected a whole number"));

    let shaders = BitNetShaders::new(device.clone()).unwrap();
    let buffers = [x, y].map(|given| held(device, &given));
    let encoded = |encode: &dyn Fn(&ComputeEncoder)| {
        let commands = device.new_command_queue().new_command_buffer();
        let encoder = shaders.create_compute_encoder_with_pipeline(&commands, Function::ReluForward).unwrap();
        buffers.iter().enumerate().for_each(|(index, buffer)| encoder.set_buffer(index, Some(buffer), 0));
        encode(&encoder);
        commands.commit();
        commands.wait_until_completed().map_err(|error| error.to_string())
    };
    assert_eq!(encoded(&|encoder| encoder.dispatch_threads([2, 1, 1], [1; 3])), Ok(()));
    for (encode, expected) in [
        (
            &(|encoder: &ComputeEncoder| encoder.dispatch_threads([1, 1, 1], [1; 3])) as &dyn Fn(&ComputeEncoder),
            "1 threads, expected one for each of 2 elements",
        ),
        (
            &|encoder| encoder.dispatch_threads([2, 1, 1], [64, 1, 1]),
            "groups of [64, 1, 1] threads, expected [1, 1, 1]",
        ),
        (&|encoder| encoder.set_buffer(0, Some(&buffers[0]), 4), "buffer 0 has the offset 4, expected 0"),
        (
            &|encoder| {
                encoder.end_encoding();
                encoder.dispatch_threads([2, 1, 1], [1; 3]);
            },
            "a dispatch after the end of the encoding",
        ),
    ] {
        let found = encoded(encode).unwrap_err();
        assert!(found.contains(expected), "{found}");
    }
    let commands = device.new_command_queue().new_command_buffer();
    assert!(commands.wait_until_completed().unwrap_err().to_string().contains("is not committed"));
    commands.new_compute_command_encoder().dispatch_threads([1; 3], [1; 3]);
    commands.commit();
    assert!(commands.wait_until_completed().unwrap_err().to_string().contains("a dispatch without a pipeline"));
    commands.commit();
    assert!(commands.wait_until_completed().unwrap_err().to_string().contains("is committed already"));
    assert!(shaders.calculate_dispatch_params(Function::ReluForward, 1 << 32).is_err());
}

#[test]
fn groups_are_whole_subgroups_and_every_pipeline_has_one() {
    for device in devices() {
        let shaders = BitNetShaders::new(device.clone()).unwrap();
        for function in Function::all() {
            let pipeline = shaders.get_pipeline(function).unwrap();
            let threads: u32 = pipeline.threadgroup().iter().product();
            assert!(threads.is_multiple_of(pipeline.thread_execution_width()), "{}", pipeline.name());
            assert_eq!(shaders.calculate_dispatch_params(function, 7).unwrap().0, [7, 1, 1]);
        }
    }
}

#[test]
fn errors_begin_with_the_specified_words() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = ShaderCompiler::new(ShaderCompilerConfig {
        shader_directory: folder.path().to_owned(),
        enable_caching: false,
        ..ShaderCompilerConfig::release()
    });
    let of = |function: &str| compiler.get_compute_function("bitlinear", function);
    let begins = |found: Result<ComputeFunction>, expected: &str| {
        let found = found.unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}");
    };
    begins(of("bitlinear_forward"), "Shader 'bitlinear' not found");
    let text = "#version 460\n// function: other\nlayout(local_size_x = 64) in;\nvoid main() {}\n";
    let file = folder.path().join("bitlinear.glsl");
    std::fs::write(&file, text).unwrap();
    begins(of("bitlinear_forward"), "Function 'bitlinear_forward' not found in shader 'bitlinear'");
    std::fs::write(&file, text.replace("other", "bitlinear_forward").replace("{}", "{ x = 1; }")).unwrap();
    begins(of("bitlinear_forward"), "Failed to compile shader 'bitlinear'");
    std::fs::write(&file, text.replace("other", "bitlinear_forward")).unwrap();
    let function = of("bitlinear_forward").unwrap();
    let cpu = Device::of("cpu").unwrap();
    let found = cpu.new_compute_pipeline_state_with_function(&function).unwrap_err().to_string();
    assert!(found.starts_with("Failed to create pipeline for function 'bitlinear_forward'"), "{found}");
    assert!(found.ends_with("runs no shaders; choose another device"), "{found}");
}

/// Runs the commands that `encode` adds.
fn commanded(device: &Device, encode: impl FnOnce(&BitNetShaders, &CommandBuffer) -> Result<()>) {
    let shaders = BitNetShaders::new(device.clone()).unwrap();
    let commands = device.new_command_queue().new_command_buffer();
    encode(&shaders, &commands).unwrap();
    commands.commit();
    commands.wait_until_completed().unwrap();
}

#[test]
fn every_function_has_an_encoder_and_a_dispatch_by_name() {
    for device in devices() {
        let buffer = |dtype, shape: &[usize], bytes: Vec<u8>| held(&device, &(dtype, shape, bytes));
        let weights = buffer(F32, &[1, 4], f(&[1.0, -1.0, 4.0, 2.0]));
        let [packed, scale] = [buffer(DType::U8, &[1, 1], RESULT), buffer(F32, &[1, 2], RESULT)];
        let [again, normal, dropped] = [(); 3].map(|()| buffer(F32, &[1, 4], RESULT));
        let [ones, zeros] = [1.0, 0.0].map(|x| buffer(F32, &[4], f(&[x; 4])));
        commanded(&device, |shaders, commands| {
            let [threads, group] = [[4, 1, 1], [1, 1, 1]];
            let group = |function| shaders.get_pipeline(function).map_or(group, |pipeline| pipeline.threadgroup());
            let encoder = create_quantize_weights_1bit_encoder(shaders, commands)?;
            let own = group(Function::QuantizeWeights1Bit);
            dispatch_quantize_weights_1bit(&encoder, &weights, &packed, &scale, 2.0, threads, own);
            let encoder = create_dequantize_weights_1bit_encoder(shaders, commands)?;
            let own = group(Function::DequantizeWeights1Bit);
            dispatch_dequantize_weights_1bit(&encoder, &packed, &scale, &again, 2.0, threads, own);
            let encoder = create_layer_norm_forward_encoder(shaders, commands)?;
            let own = group(Function::LayerNormForward);
            dispatch_layer_norm_forward(&encoder, &weights, &ones, &zeros, &normal, 0.75, threads, own);
            let encoder = create_fused_relu_dropout_encoder(shaders, commands)?;
            let own = group(Function::FusedReluDropout);
            dispatch_fused_relu_dropout(&encoder, &weights, &dropped, 0.0, 1.0, threads, own);
            Ok(())
        });
        near(&again, &[1.0, -1.0, 3.0, 3.0], "dequantize_weights_1bit");
        // The mean is 1.5, the variance 3.25.
        near(&normal, &[-0.25, -1.25, 1.25, 0.25], "layer_norm_forward");
        near(&dropped, &[1.0, 0.0, 4.0, 2.0], "fused_relu_dropout");
        // A buffer that may be left out, in the middle.
        let [x, bytes] = [buffer(F32, &[1, 2], f(&[1.0, 2.0])), buffer(DType::I8, &[1, 2], i(&[1, -1]))];
        let y = buffer(F32, &[1, 1], RESULT);
        commanded(&device, |shaders, commands| {
            let encoder = create_mixed_precision_matmul_encoder(shaders, commands)?;
            let own = shaders.get_pipeline(Function::MixedPrecisionMatmul)?.threadgroup();
            dispatch_mixed_precision_matmul(&encoder, &x, &bytes, &y, None, 0.0, [1, 1, 1], own);
            Ok(())
        });
        near(&y, &[-1.0], "mixed_precision_matmul");
    }
}

#[test]
fn a_users_function_is_one_like_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#version 460\n// function: twice\nlayout(local_size_x = 64) in;\n\
                layout(std430, binding = 0) readonly buffer X { float x[]; };\n\
                layout(std430, binding = 1) writeonly buffer Y { float y[]; };\n\
                void main() { uint i = gl_GlobalInvocationID.x; if (i < x.length()) { y[i] = 2.0 * x[i]; } }\n";
    std::fs::write(folder.path().join("mine.glsl"), text).unwrap();
    let [twice, thrice] = ["twice", "thrice"].map(|function| Function::User { shader: "mine", function });
    assert_eq!((twice.name(), twice.buffers().len()), ("twice", 0));
    assert!(Function::all().all(|function| function != twice) && Function::all().count() == 28);
    for device in devices() {
        let config = ShaderCompilerConfig {
            shader_directory: folder.path().to_owned(),
            enable_caching: false,
            ..ShaderCompilerConfig::release()
        };
        let shaders = BitNetShaders::with_compiler(device.clone(), ShaderCompiler::new(config)).unwrap();
        let error = shaders.get_pipeline(thrice).unwrap_err().to_string();
        assert!(error.starts_with("Function 'thrice' not found in shader 'mine'"), "{error}");
        let error = shaders.get_pipeline(Function::User { shader: "none", function: "main" }).unwrap_err().to_string();
        assert!(error.starts_with("Shader 'none' not found"), "{error}");
        if device.engine().capabilities().is_none() {
            let error = shaders.get_pipeline(twice).unwrap_err().to_string();
            assert!(error.starts_with("Failed to create pipeline for function 'twice'"), "{error}");
            continue;
        }
        let [x, y] = [f(&[1.5, -2.0]), RESULT].map(|bytes| held(&device, &(F32, &[2], bytes)));
        let commands = device.new_command_queue().new_command_buffer();
        let encoder = shaders.create_compute_encoder_with_pipeline(&commands, twice).unwrap();
        [&x, &y].into_iter().enumerate().for_each(|(index, buffer)| encoder.set_buffer(index, Some(buffer), 0));
        let (threads, threadgroup) = shaders.calculate_dispatch_params(twice, 2).unwrap();
        assert_eq!((threads, threadgroup), ([2, 1, 1], [64, 1, 1]));
        dispatch_compute(&encoder, threads, threadgroup);
        commands.commit();
        commands.wait_until_completed().unwrap();
        near(&y, &[3.0, -4.0], "twice");
        // Compiled once: the file is not read again.
        std::fs::write(folder.path().join("mine.glsl"), "no shader").unwrap();
        assert!(shaders.get_pipeline(twice).is_ok());
        std::fs::write(folder.path().join("mine.glsl"), text).unwrap();
    }
}

#[test]
fn the_global_shaders_stay_on_one_device() {
    let cpu = Device::of("cpu").unwrap();
    assert!(global_shaders().is_err_and(|error| error.to_string().contains("initialize_global_shaders")));
    initialize_global_shaders(cpu.clone()).unwrap();
    initialize_global_shaders(cpu).unwrap();
    assert_eq!(global_shaders().unwrap().device().engine().device(), "cpu");
    for other in devices().into_iter().skip(1) {
        assert!(initialize_global_shaders(other).unwrap_err().to_string().contains("on \"cpu\" already"));
    }
}
