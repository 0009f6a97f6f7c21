//! Programs: graphs with state that run again and again on a device. Each test runs on the CPU and on Vulkan; one runs them all
//! again at the other subgroup sizes of a software device.

mod cache;
mod quantized;
mod training;

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grilly::array::{Array, Engine};
use grilly::backend::BackendKind;
use grilly::dtype::DType;

/// Counters are the process'; tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn engines(test: &str) -> Vec<Arc<Engine>> {
    grilly::settings::configure_debug(true);
    let mut engines = vec![Engine::of("cpu").unwrap()];
    match Engine::of("vulkan") {
        Ok(engine) if engine.kind() == BackendKind::Vulkan => engines.push(engine),
        Ok(engine) if grilly::settings::test_requires("vulkan") => panic!("{test}: {}", engine.reason()),
        Err(error) if grilly::settings::test_requires("vulkan") => panic!("{test}: {error}"),
        _ => println!("skipped: {test}: no Vulkan device"),
    }
    engines
}

/// Numbers in -1..1 that depend on the seed alone.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next() + next()).collect()
}

/// Fails when the validation layer has said anything.
fn assert_valid() {
    #[cfg(feature = "vulkan")]
    {
        let messages = grilly::backend::vulkan::validation_messages();
        assert!(messages.is_empty(), "validation: {messages:#?}");
    }
}

fn floats(engine: &Arc<Engine>, shape: &[usize], values: &[f32]) -> Array {
    engine.upload(DType::F32, shape, bytemuck::cast_slice(values)).unwrap()
}

fn integers(engine: &Arc<Engine>, values: &[i32]) -> Array {
    engine.upload(DType::I32, &[values.len()], bytemuck::cast_slice(values)).unwrap()
}

fn read(array: &Array) -> Vec<f32> {
    array.read().unwrap().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Runs this binary's tests in a process of its own and returns what it prints.
fn in_new_process(test: &str, ignored: bool, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--nocapture", "--test-threads=1"]).envs(variables.iter().copied());
    if ignored {
        command.args(["--exact", "--ignored"]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{variables:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// lavapipe's subgroups have a lane for each 32 bits of its vectors: 4 and 16 here, 8 in the other tests where it has 256.
#[test]
fn programs_at_other_subgroup_sizes() {
    let _turn = turn();
    let software = |engine: &Arc<Engine>| engine.device().contains("llvmpipe");
    if !engines("programs_at_other_subgroup_sizes").iter().any(software) {
        println!("skipped: subgroup sizes are set on lavapipe alone");
        return;
    }
    for width in ["128", "512"] {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().to_str().unwrap();
        let variables = [
            ("LP_NATIVE_VECTOR_WIDTH", width),
            ("MESA_SHADER_CACHE_DIR", folder),
            ("GALLIVM_PERF", "nopt"),
            ("GRILLY_REQUIRE", "vulkan"),
        ];
        for slice in ["training::", "cache::", "quantized::"] {
            let told = in_new_process(slice, false, &variables);
            assert!(told.contains("test result: ok") && !told.contains(" 0 passed"), "{width}: {told}");
        }
    }
}
