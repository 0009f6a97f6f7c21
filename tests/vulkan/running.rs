//! Batches: numbers, counters, limits, threads.

use std::sync::Arc;

use grilly::backend::{Feed, ProgramOptions, vulkan};
use grilly::ops::Counts;
use grilly::{Error, settings::Settings};

use crate::model::*;

#[test]
fn batches_of_many_sizes_give_the_right_numbers() {
    let _turn = turn();
    let Some(device) = device("batches_of_many_sizes_give_the_right_numbers") else { return };
    let (program, tensors) = prepare(&device, ProgramOptions::default()).unwrap();
    for (batch, tokens) in [1, 127, 128, 129, 0, 5, 300, 2].into_iter().enumerate() {
        let x = input(tokens, batch);
        let outputs = start(&program, &x, &[1, 0]).unwrap().wait().unwrap();
        let [norms, products] = expected(&tensors, &x);
        assert_close(&outputs[0], &products);
        assert_close(&outputs[1], &norms);
    }
    let none = start(&program, &input(3, 0), &[]).unwrap().wait().unwrap();
    assert!(none.is_empty());
    assert_valid();
}

#[test]
fn a_batch_is_one_submission_and_one_wait() {
    let _turn = turn();
    let Some(device) = device("a_batch_is_one_submission_and_one_wait") else { return };
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    let x = input(100, 0);
    start(&program, &x, &[0]).unwrap().wait().unwrap();
    let before = counters();
    for _ in 0..10 {
        start(&program, &x, &[0]).unwrap().wait().unwrap();
    }
    let after = counters();
    assert_eq!(after.submits - before.submits, 10);
    assert_eq!(after.waits - before.waits, 10);
    assert_eq!(after.batches_vulkan - before.batches_vulkan, 10);
    assert_eq!(after.bytes_weights, before.bytes_weights);
    assert_eq!(after.bytes_down - before.bytes_down, 10 * 4 * x.len() as u64);
    let overhead = (after.bytes_up - before.bytes_up) / 10 - 4 * x.len() as u64;
    assert!(overhead <= 8 + 12 * 8, "{overhead} bytes beside the input: counts and grids are a hundred at most");
    assert_eq!((after.instances, after.devices), (before.instances, before.devices));
    assert_valid();
}

#[test]
fn memory_goes_back_when_a_program_is_dropped() {
    let _turn = turn();
    let Some(device) = device("memory_goes_back_when_a_program_is_dropped") else { return };
    let before = counters().bytes_held;
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    let pending = start(&program, &input(100, 0), &[0]).unwrap();
    assert!(counters().bytes_held > before);
    drop(program);
    pending.wait().unwrap();
    assert_eq!(counters().bytes_held, before);
    assert_valid();
}

#[test]
fn threads_share_a_program_and_get_the_same_bits() {
    let _turn = turn();
    let Some(device) = device("threads_share_a_program_and_get_the_same_bits") else { return };
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    let inputs: Vec<Vec<f32>> = (0..12).map(|i| input(1 + 37 * i, i)).collect();
    let alone: Vec<Vec<f32>> =
        inputs.iter().map(|x| start(&program, x, &[0]).unwrap().wait().unwrap().remove(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (program, inputs, alone) = (&program, &inputs, &alone);
            scope.spawn(move || {
                // More at once than there are slots, waited for in another order than started; some given up.
                let order: Vec<usize> = (0..inputs.len()).map(|i| (i * 5 + thread) % inputs.len()).collect();
                let mut pending: Vec<_> =
                    order.iter().map(|i| (*i, start(program, &inputs[*i], &[0]).unwrap())).collect();
                drop(pending.remove(thread));
                pending.rotate_left(3);
                for (i, batch) in pending {
                    let found = batch.wait().unwrap().remove(0);
                    assert!(found.iter().zip(&alone[i]).all(|(a, b)| a.to_bits() == b.to_bits()), "batch {i}");
                }
            });
        }
    });
    assert_valid();
}

#[test]
fn two_models_share_one_device() {
    let _turn = turn();
    let Some(first) = device("two_models_share_one_device") else { return };
    let second = vulkan::open(Some(0), &settings()).unwrap();
    assert_eq!(second.reason, "device=\"vulkan:0\" was asked for");
    let programs = [&first, &second.backend].map(|device| prepare(device, ProgramOptions::default()).unwrap().0);
    let x = input(9, 1);
    let pending = programs.each_ref().map(|program| start(program, &x, &[0]).unwrap());
    let [a, b] = pending.map(|batch| batch.wait().unwrap());
    assert_eq!(a, b);
    assert!(matches!(vulkan::open(Some(99), &settings()), Err(Error::IndexOutOfRange(_))));
}

#[test]
fn a_memory_limit_is_kept_and_named() {
    let _turn = turn();
    let Some(device) = device("a_memory_limit_is_kept_and_named") else { return };
    let before = counters().bytes_held;
    let limit = |bytes| ProgramOptions { memory_limit: Some(bytes), ..ProgramOptions::default() };
    let error = prepare(&device, limit(1000)).err().unwrap();
    assert!(matches!(error, Error::OutOfMemory { bytes, .. } if bytes > 1000), "{error}");
    assert!(error.to_string().ends_with("for all weights; the model may take 1000 bytes"), "{error}");
    assert_eq!(counters().bytes_held, before, "what failed leaves nothing behind");
    let (program, tensors) = prepare(&device, limit(1 << 20)).unwrap();
    let limits = program.limits();
    assert!(limits.tokens < 3000 && limits.longest_text >= limits.tokens, "{limits:?}");
    let x = input(limits.tokens, 3);
    let pending: Vec<_> = (0..limits.in_flight).map(|_| start(&program, &x, &[0]).unwrap()).collect();
    assert!(counters().bytes_held - before <= 1 << 20);
    for batch in pending {
        assert_close(&batch.wait().unwrap()[0], &expected(&tensors, &x)[0]);
    }
    let error = start(&program, &input(limits.longest_text + 1, 0), &[0]).err().unwrap();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn a_feed_that_does_not_fit_is_refused() {
    let _turn = turn();
    let Some(device) = device("a_feed_that_does_not_fit_is_refused") else { return };
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    let x = input(4, 0);
    let feed = |tokens, inputs: Vec<&[f32]>, outputs: Vec<usize>| {
        let inputs = inputs.into_iter().map(bytemuck::cast_slice).collect();
        program.submit(&Feed { counts: Counts::new(tokens, 1), inputs, outputs }).err().map(|e| e.to_string())
    };
    assert!(feed(4, vec![&x], vec![0]).is_none());
    assert!(feed(5, vec![&x], vec![0]).unwrap().contains("x has 640 bytes, expected 800 for shape [T, 40]"));
    assert!(feed(4, vec![], vec![0]).unwrap().contains("0 inputs, expected 1"));
    assert!(feed(4, vec![&x], vec![2]).unwrap().contains("no output 2"));
}

#[test]
fn the_inventory_names_the_choice() {
    let _turn = turn();
    let Some(device) = device("the_inventory_names_the_choice") else { return };
    let inventory = vulkan::devices(&settings()).unwrap();
    let (index, reason) = inventory.chosen.unwrap();
    assert_eq!(inventory.devices[index].capabilities.name, device.device_name());
    assert!(!reason.is_empty() && inventory.devices[index].position == Some(0));
    let software = inventory.devices.iter().all(|d| d.capabilities.device_type == vulkan::DeviceType::Software);
    if software {
        let error = vulkan::open(None, &Settings::default()).err().unwrap();
        assert!(matches!(&error, Error::DeviceUnavailable(text) if text.contains("ALLOW_CPU_VULKAN=1")), "{error}");
    }
}

#[test]
fn profiles_name_every_dispatch() {
    let _turn = turn();
    let Some(device) = device("profiles_name_every_dispatch") else { return };
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    vulkan::profile(true);
    for _ in 0..3 {
        start(&program, &input(64, 0), &[0]).unwrap().wait().unwrap();
    }
    vulkan::profile(false);
    start(&program, &input(64, 0), &[0]).unwrap().wait().unwrap();
    let times = vulkan::times();
    let chosen = vulkan::devices(&settings()).unwrap();
    let timestamps = chosen.devices[chosen.chosen.unwrap().0].capabilities.timestamp_period > 0.0;
    if timestamps {
        assert!(times.values().all(|e| e.count == 3 && e.nanoseconds > 0.0), "{times:?}");
        assert!(times.keys().any(|(label, _)| label == "sum + norm"), "{times:?}");
    }
    assert_valid();
}

#[test]
fn large_weights_pass_through_the_ring_whole() {
    use grilly::dtype::DType;
    use grilly::graph::{Graph, Plan};
    use grilly::ops::{Dim, Linear, Shape};
    let _turn = turn();
    let Some(device) = device("large_weights_pass_through_the_ring_whole") else { return };
    // 15.3 MB: several times round the ring, and no piece ends where a segment does.
    let (rows, columns) = (1273, 3001);
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, columns), DType::F32);
    let w = graph.weight(vec!["w".into()], Shape::fixed(&[rows, columns]));
    let y = graph.node("product", Linear::default(), &[x, w]).unwrap();
    graph.outputs = vec![y];
    let mut tensors = Tensors::default();
    tensors.insert("w", &[rows, columns], DType::Bf16);
    let expected = tensors.values("w");
    let before = counters();
    let program = device.prepare(Arc::new(Plan::new(graph)), Arc::new(tensors), ProgramOptions::default()).unwrap();
    assert_eq!(counters().bytes_weights - before.bytes_weights, (4 * rows * columns) as u64);
    // Unit vectors read single columns back, exactly.
    let chosen: Vec<usize> = (0..columns).step_by(173).collect();
    let mut x = vec![0.0f32; chosen.len() * columns];
    for (row, column) in chosen.iter().enumerate() {
        x[row * columns + column] = 1.0;
    }
    let counts = Counts::new(chosen.len(), 1);
    let feed = Feed { counts, inputs: vec![bytemuck::cast_slice(&x)], outputs: vec![0] };
    let found = program.submit(&feed).unwrap().wait().unwrap().remove(0);
    for (row, column) in chosen.iter().enumerate() {
        for n in 0..rows {
            assert_eq!(f64::from(found[row * rows + n]), expected[n * columns + column]);
        }
    }
    assert_valid();
}

#[test]
fn a_text_over_the_budget_runs_in_parts() {
    use grilly::dtype::DType;
    use grilly::graph::{Graph, Plan};
    use grilly::ops::{Activation, ActivationKind, Dim, Linear, Shape};
    let _turn = turn();
    let Some(device) = device("a_text_over_the_budget_runs_in_parts") else { return };
    let columns = 512;
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, columns), DType::F32);
    let mut y = x;
    let mut tensors = Tensors::default();
    for layer in 0..8 {
        let name = format!("w{layer}");
        let w = graph.weight(vec![name.clone().into()], Shape::fixed(&[columns, columns]));
        tensors.insert(&name, &[columns, columns], DType::F32);
        y = graph.node(&format!("product {layer}"), Linear::default(), &[y, w]).unwrap();
        y = graph.node(&format!("tanh {layer}"), Activation::from(ActivationKind::Tanh), &[y]).unwrap();
    }
    graph.outputs = vec![y];
    let options = ProgramOptions::default();
    let program = device.prepare(Arc::new(Plan::new(graph)), Arc::new(tensors), options).unwrap();
    let limits = program.limits();
    if limits.tokens > 4096 {
        println!("skipped: a_text_over_the_budget_runs_in_parts: {} tokens fit one submission", limits.tokens);
        return;
    }
    let tokens = limits.tokens * 2 + 5;
    let x: Vec<f32> = (0..tokens * columns).map(|i| value("x", i)).collect();
    let feed = |rows: std::ops::Range<usize>, outputs: Vec<usize>| Feed {
        counts: Counts::new(rows.len(), 1),
        inputs: vec![bytemuck::cast_slice(&x[rows.start * columns..rows.end * columns])],
        outputs,
    };
    let before = counters().submits;
    let whole = program.submit(&feed(0..tokens, vec![0])).unwrap().wait().unwrap().remove(0);
    assert_eq!(counters().submits - before, 3);
    // The same rows in batches of one submission each: the same bits.
    for first in (0..tokens).step_by(1000) {
        let rows = first..tokens.min(first + 1000);
        let part = program.submit(&feed(rows.clone(), vec![0])).unwrap().wait().unwrap().remove(0);
        assert!(part.iter().zip(&whole[rows.start * columns..]).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    // Given up half way, the slot is as good as new.
    drop(program.submit(&feed(0..tokens, vec![0])).unwrap());
    let small = program.submit(&feed(0..3, vec![0])).unwrap().wait().unwrap().remove(0);
    assert_eq!(small, whole[..3 * columns]);
    assert_valid();
}
