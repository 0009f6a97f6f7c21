//! Programs: graphs with state that run again and again on a device. Each test runs on the CPU and on Vulkan; one runs them all
//! again at the other subgroup sizes of a software device.
#![allow(clippy::disallowed_methods)]

mod cache;
mod quantized;
#[cfg(feature = "vulkan")]
mod second_sequence;
mod training;

#[path = "../engines/mod.rs"]
mod engines;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grilly::array::{Array, Engine};
use grilly::dtype::DType;

use engines::{assert_valid, engines, in_new_process, lavapipe, numbers, widths};

/// Counters are the process'; tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
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

/// lavapipe's subgroups have a lane for each 32 bits of its vectors: 4 and 16 here (16 with AVX-512), 8 in the other tests where
/// it has 256.
#[test]
fn programs_at_other_subgroup_sizes() {
    let _turn = turn();
    let software = |engine: &Arc<Engine>| engine.device().contains("llvmpipe");
    if !engines("programs_at_other_subgroup_sizes").iter().any(software) {
        println!("skipped: subgroup sizes are set on lavapipe alone");
        return;
    }
    std::thread::scope(|scope| {
        for width in widths() {
            let variables = [lavapipe(Some(width)), vec![("GRILLY_REQUIRE", "vulkan".into())]].concat();
            scope.spawn(move || in_new_process(&["--skip", "programs_at_other_subgroup_sizes"], &variables));
        }
    });
}
