//! What tests of devices share: the devices themselves, numbers, and processes in which lavapipe compiles in some way.

#![allow(dead_code)] // no test uses all of it

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use grilly::array::Engine;
use grilly::backend::{Backend, BackendKind};
use grilly::settings::{Settings, configure_debug, test_requires};

/// The CPU's engine and that of the Vulkan device, or a line saying which test goes without it.
pub fn engines(test: &str) -> Vec<Arc<Engine>> {
    configure_debug(true);
    let mut engines = vec![Engine::of("cpu").unwrap()];
    match Engine::of("vulkan") {
        Ok(engine) if engine.kind() == BackendKind::Vulkan => engines.push(engine),
        Ok(engine) => absent("vulkan", test, engine.reason()),
        Err(error) => absent("vulkan", test, &error.to_string()),
    }
    engines
}

/// A software rasteriser counts as a device, and the validation layer watches.
pub fn settings() -> Settings {
    Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() }
}

/// The Vulkan device, or a line saying which test is skipped.
#[cfg(feature = "vulkan")]
pub fn device(test: &str) -> Option<Arc<dyn Backend>> {
    let opened = grilly::backend::vulkan::open(None, &settings());
    opened.map_err(|error| absent("vulkan", test, &error.to_string())).ok().map(|choice| choice.backend)
}

/// Names a test that goes without something, or fails where `GRILLY_REQUIRE` lists it.
pub fn absent(what: &str, test: &str, reason: &str) {
    assert!(!test_requires(what), "{test}: {reason}");
    println!("skipped: {test}: {reason}");
}

/// Fails when the validation layer has said anything.
pub fn assert_valid() {
    #[cfg(feature = "vulkan")]
    {
        let messages = grilly::backend::vulkan::validation_messages();
        assert!(messages.is_empty(), "validation: {messages:#?}");
    }
}

/// Numbers in -1..1 that look random and depend on the seed alone.
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next() + next()).collect()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Environment variables by which lavapipe makes vectors of so many bits (`None`: as many as the processor has), and so
/// subgroups of a 32nd as many invocations, without its optimiser, which takes longest. What it compiled it keeps without
/// regard to the width, hence a folder for each: those of `tests/lavapipe.py`, so that nothing is compiled twice.
pub fn lavapipe(width: Option<&str>) -> Vec<(&'static str, String)> {
    let name = format!("lavapipe-{}-unoptimised", width.unwrap_or("native"));
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cache"));
    let folder = cache.join("grilly").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.into_os_string().into_string().unwrap();
    let variables = [("GALLIVM_PERF", "nopt".to_owned()), ("MESA_SHADER_CACHE_DIR", folder)];
    variables.into_iter().chain(width.map(|width| ("LP_NATIVE_VECTOR_WIDTH", width.to_owned()))).collect()
}

/// Bits of lavapipe's vectors that are not its own choice on most processors. Without AVX-512 it splits 512, and rounds halves
/// away from zero there, where Vulkan's RoundEven and the tests expect even numbers.
pub fn widths() -> &'static [&'static str] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        return &["128", "512"];
    }
    &["128"]
}

/// Runs tests of this binary that `arguments` choose in a process of its own and returns what they print.
pub fn in_new_process(arguments: &[&str], variables: &[(&str, String)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).arg("--nocapture").envs(variables.iter().cloned());
    let output = command.output().unwrap();
    let text = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && !text.contains(" 0 passed"), "{variables:?} {}\n{text}", output.status);
    text
}
