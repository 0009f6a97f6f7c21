//! On a device: `validate_config` rejects exactly the configurations that the validation layer finds too large.
//!
//! `cargo test --release --lib flash_limits -- --nocapture` prints what was compiled on the present device.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use super::super::device::open_device;
use super::super::flash::{
    DEFAULT_CONFIG, FlashAttentionConfig, TunedConfigs, required_shared_memory, shader, validate_config,
};
use super::super::raw::{ComputePipeline, Device, STOPS};
use super::super::{Variant, validated, validation_messages};
use crate::compiler::{ShaderCompiler, ShaderCompilerConfig};
use crate::settings::{Settings, test_requires};

/// A shader whose shared-memory size is a constant.
const WORDS: &str = "#version 460
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint WORDS = 1;
layout(std430, binding = 0) buffer X { uint x[]; };
shared uint words[WORDS];
void main() {
    words[gl_LocalInvocationIndex % WORDS] = x[gl_GlobalInvocationID.x];
    barrier();
    x[gl_GlobalInvocationID.x] = words[(gl_LocalInvocationIndex + 1u) % WORDS];
}
";

fn words() -> &'static Variant {
    let folder = std::env::temp_dir().join(format!("grilly-flash-limits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("words.glsl"), WORDS).unwrap();
    let config = ShaderCompilerConfig {
        shader_directory: folder.clone(),
        enable_caching: false,
        ..ShaderCompilerConfig::default()
    };
    let function = ShaderCompiler::new(config).get_compute_function("words", "main").unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    function.variant
}

/// Whether the layer reports that a pipeline exceeds the device's shared memory, as the engine must; no driver receives such a
/// pipeline.
fn is_too_large(device: &Arc<Device>, variant: &'static Variant, constants: &[u32]) -> bool {
    let about_memory =
        || validation_messages().iter().filter(|line| line.contains("maxComputeSharedMemorySize")).count();
    let before = about_memory();
    STOPS.store(true, SeqCst);
    let made = ComputePipeline::unchecked(device, variant, constants);
    STOPS.store(false, SeqCst);
    let too_large = about_memory() > before;
    assert_eq!(made.is_err(), too_large, "{}: {:?}", variant.name, made.err());
    let refused = ComputePipeline::new(device, variant, constants).err();
    assert_eq!(refused.is_some(), too_large, "{}: {refused:?}", variant.name);
    too_large
}

/// Every block size of attention.
fn configurations() -> Vec<FlashAttentionConfig> {
    let mut found: Vec<_> = TunedConfigs::ALL.iter().map(|(_, config)| *config).chain([DEFAULT_CONFIG]).collect();
    for block_q in [16, 32, 64, 128] {
        for block_kv in [16, 32, 48, 64, 128, 256] {
            for head_dim in [16, 32, 48, 64, 80, 96, 128, 256] {
                found.push(FlashAttentionConfig { block_q, block_kv, head_dim, half_precision: true });
            }
        }
    }
    // A float32 configuration takes a driver a while to compile.
    for (block_q, block_kv) in [(16, 16), (16, 256), (32, 128), (128, 16), (128, 64), (256, 256)] {
        found.push(FlashAttentionConfig { block_q, block_kv, head_dim: 32, half_precision: false });
    }
    found
}

fn skip(reason: &str) {
    println!("skipped: configurations_are_refused_where_the_layer_complains: {reason}");
}

#[test]
fn configurations_are_refused_where_the_layer_complains() {
    let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
    let device = match open_device(None, &settings) {
        Ok((opened, _)) => opened.device.clone(),
        Err(error) if test_requires("vulkan") => panic!("{error}"),
        Err(error) => return skip(&error.to_string()),
    };
    let limit = device.capabilities.shared_memory;
    if !validated() {
        assert!(!test_requires("vulkan"), "the validation layer is not installed");
        skip("no validation layer: only what is allowed is compiled");
    }
    let words = words();
    // The most words a shader may have, and one more.
    assert!(!is_too_large(&device, words, &[limit / 4]));
    assert!(!validated() || is_too_large(&device, words, &[limit / 4 + 1]));
    let (mut accepted, mut refused, mut kernels) = (0, 0, 0);
    for config in configurations() {
        let refuses = validate_config(config, limit.into()).is_err();
        if refuses && !validated() {
            continue;
        }
        let need = u32::try_from(required_shared_memory(config)).unwrap();
        assert_eq!(is_too_large(&device, words, &[need / 4]), refuses, "{config} needs {need} of {limit} bytes");
        *(if refuses { &mut refused } else { &mut accepted }) += 1;
        // The kernel itself, where the device can run it; in float16 heads that a driver compiles in a moment.
        let can = match config.half_precision {
            true => config.block_q == 64 && (config.head_dim <= 32 || refuses),
            false => 4 * config.block_q <= device.capabilities.invocations,
        };
        if can {
            let (variant, constants) = shader(config);
            assert_eq!(is_too_large(&device, variant, &constants), refuses, "{} for {config}", variant.name);
            kernels += 1;
        }
    }
    println!(
        "{}, {limit} bytes: {accepted} configurations accepted, {refused} refused; {kernels} of them as attention itself",
        device.capabilities.name
    );
    assert!(accepted > 20 && kernels > 0 && (refused > 20 || !validated()));
}

/// A second driver, with its own limit.
#[test]
fn configurations_on_swiftshader() {
    let driver = "/usr/lib/chromium/vk_swiftshader_icd.json";
    if !std::path::Path::new(driver).exists() {
        assert!(!test_requires("swiftshader"), "{driver} is missing (Debian: chromium-common)");
        return println!("skipped: configurations_on_swiftshader: {driver} is missing (Debian: chromium-common)");
    }
    let own = "backend::vulkan::kernels::flash_limits::configurations_are_refused_where_the_layer_complains";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", own, "--nocapture"]).env("VK_DRIVER_FILES", driver).env("VK_ICD_FILENAMES", driver);
    let output = command.output().unwrap();
    let text = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    println!("{}", text.lines().find(|line| line.contains("configurations accepted")).unwrap_or(&text));
}
