//! A device that fails on request.

use grilly::Error;
use grilly::backend::faults::{Fault, clear, inject};
use grilly::backend::{ProgramOptions, vulkan};

use crate::model::*;

#[test]
fn a_lost_device_fails_fast_and_a_new_one_opens() {
    let _turn = turn();
    let Some(device) = device("a_lost_device_fails_fast_and_a_new_one_opens") else { return };
    let held = counters().bytes_held;
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    let x = input(50, 0);
    let under_way = start(&program, &x, &[0]).unwrap();
    inject(Fault::DeviceLost, 0);
    let error = start(&program, &x, &[0]).err().unwrap();
    assert!(matches!(&error, Error::DeviceLost { .. }) && error.is_device_fault(), "{error}");
    clear();
    assert!(matches!(under_way.wait(), Err(Error::DeviceLost { .. })));
    assert!(matches!(start(&program, &x, &[0]), Err(Error::DeviceLost { .. })));
    assert!(matches!(prepare(&device, ProgramOptions::default()), Err(Error::DeviceLost { .. })));
    drop((program, device));
    assert_eq!(counters().bytes_held, held);
    let again = vulkan::open(None, &settings()).unwrap().backend;
    let (program, tensors) = prepare(&again, ProgramOptions::default()).unwrap();
    let outputs = start(&program, &x, &[0]).unwrap().wait().unwrap();
    assert_close(&outputs[0], &expected(&tensors, &x)[0]);
    assert_valid();
}

#[test]
fn exhausted_memory_is_an_error_at_every_allocation() {
    let _turn = turn();
    let Some(device) = device("exhausted_memory_is_an_error_at_every_allocation") else { return };
    let held = counters().bytes_held;
    let x = input(50, 0);
    let mut failures = 0;
    for after in 0.. {
        inject(Fault::Allocation, after);
        let outcome =
            prepare(&device, ProgramOptions::default()).and_then(|(program, _)| start(&program, &x, &[0])?.wait());
        clear();
        assert_eq!(counters().bytes_held, held, "allocation {after}");
        match outcome {
            Ok(_) => break,
            Err(Error::OutOfMemory { bytes, purpose, .. }) if bytes > 0 || purpose.starts_with("vk") => failures += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failures >= 4, "weights, staging, inputs, activations and results are allocations: {failures}");
    assert_valid();
}

#[test]
fn a_batch_that_fails_to_grow_leaves_the_program_usable() {
    let _turn = turn();
    let Some(device) = device("a_batch_that_fails_to_grow_leaves_the_program_usable") else { return };
    let (program, tensors) = prepare(&device, ProgramOptions::default()).unwrap();
    let (small, large) = (input(10, 0), input(2000, 0));
    for _ in 0..5 {
        start(&program, &small, &[0]).unwrap().wait().unwrap();
        inject(Fault::Allocation, 0);
        assert!(matches!(start(&program, &large, &[0]), Err(Error::OutOfMemory { .. })));
        clear();
    }
    let outputs = start(&program, &large, &[0]).unwrap().wait().unwrap();
    assert_close(&outputs[0], &expected(&tensors, &large)[0]);
    assert_valid();
}
