//! Memory that is retained for later arrays: what it counts as, and that it goes before memory runs out.

use grilly::Error;
use grilly::backend::faults::{Fault, clear, inject};
use grilly::backend::{ArrayEngine, ProgramOptions};

use crate::model::*;

const MIB: usize = 1 << 20;

/// Uploads, and downloads to see that the content is right.
fn round_trip(engine: &dyn ArrayEngine, bytes: usize) -> grilly::Result<grilly::backend::Memory> {
    let given: Vec<u8> = (0..bytes).map(|i| (i / 7 + bytes) as u8).collect();
    let memory = engine.upload(&given)?;
    let mut read = [Vec::new()];
    engine.download(&[(&memory, bytes)], &mut read)?;
    assert!(read[0] == given, "{bytes} bytes");
    Ok(memory)
}

#[test]
fn retained_memory_goes_before_memory_runs_out() {
    let _turn = turn();
    let Some(device) = device("retained_memory_goes_before_memory_runs_out") else { return };
    let before = counters();
    let options = ProgramOptions { memory_limit: Some(64 << 20), ..ProgramOptions::default() };
    let engine = device.arrays(Some(options)).unwrap();
    let held = || counters().bytes_held - before.bytes_held;
    let retained = || counters().bytes_retained - before.bytes_retained;
    drop([1, 2, 3].map(|more| round_trip(&*engine, 2 * MIB * more).unwrap()));
    assert!(retained() >= 12 << 20, "{}", retained());
    assert!(held() < 1 << 20, "{}", held());
    // Segments of 8 MiB travel beside it, so this leaves room for a part of what is retained.
    let large = round_trip(&*engine, 44 * MIB).unwrap();
    assert!(held() >= 44 << 20 && held() + retained() <= 64 << 20, "{} {}", held(), retained());
    // And this for none of it.
    let more = round_trip(&*engine, 11 * MIB).unwrap();
    assert!(held() >= 55 << 20 && held() + retained() <= 64 << 20, "{} {}", held(), retained());
    let error = round_trip(&*engine, 11 * MIB).err().unwrap();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    drop((large, more));
    assert!(retained() <= 32 << 20, "of a buffer and of staging, a quarter of the budget each: {}", retained());
    drop(round_trip(&*engine, 44 * MIB).unwrap());
    drop(engine);
    assert_eq!((counters().bytes_held, counters().bytes_retained), (before.bytes_held, before.bytes_retained));
    assert_valid();
}

#[test]
fn a_loop_near_the_limit_goes_on() {
    let _turn = turn();
    let Some(device) = device("a_loop_near_the_limit_goes_on") else { return };
    let options = ProgramOptions { memory_limit: Some(20 << 20), ..ProgramOptions::default() };
    let engine = device.arrays(Some(options)).unwrap();
    let alive = round_trip(&*engine, 7 * MIB).unwrap();
    for number in 0..40 {
        round_trip(&*engine, (2 * MIB + number * 45_000) & !3).unwrap();
    }
    drop(alive);
    assert_valid();
}

#[test]
fn a_refused_allocation_is_an_error_where_memory_is_retained() {
    let _turn = turn();
    let Some(device) = device("a_refused_allocation_is_an_error_where_memory_is_retained") else { return };
    let engine = device.arrays(Some(ProgramOptions::default())).unwrap();
    drop(round_trip(&*engine, MIB).unwrap());
    inject(Fault::Allocation, 0);
    let error = round_trip(&*engine, MIB).err().unwrap();
    clear();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    drop(round_trip(&*engine, MIB).unwrap());
    assert_valid();
}

#[test]
fn a_lost_device_retains_nothing() {
    let _turn = turn();
    let Some(device) = device("a_lost_device_retains_nothing") else { return };
    let before = counters();
    let engine = device.arrays(Some(ProgramOptions::default())).unwrap();
    let memory = round_trip(&*engine, MIB).unwrap();
    assert!(counters().bytes_retained > before.bytes_retained);
    inject(Fault::DeviceLost, 0);
    assert!(round_trip(&*engine, MIB).is_err());
    clear();
    drop(memory);
    assert_eq!(counters().bytes_retained, before.bytes_retained);
    assert_valid();
}
