//! What needs a process of its own: no driver at all, and the end of the process in the middle of a batch.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use grilly::backend::{ProgramOptions, vulkan};
use grilly::{Error, settings::Settings};

use crate::model::*;

/// Runs the ignored test `name` of this binary in a new process.
fn in_new_process(name: &str, variables: &[(&str, &str)]) -> Output {
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new(test);
    command.args(["--exact", name, "--ignored", "--nocapture"]).envs(variables.iter().copied());
    command.output().unwrap()
}

fn assert_success(output: &Output) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
}

#[test]
fn without_a_driver_the_error_says_so() {
    let nowhere = [("VK_ICD_FILENAMES", "/nonexistent"), ("VK_DRIVER_FILES", "/nonexistent")];
    assert_success(&in_new_process("processes::no_driver", &nowhere));
}

#[test]
#[ignore = "run by without_a_driver_the_error_says_so"]
fn no_driver() {
    let error = vulkan::open(None, &Settings::default()).err().unwrap();
    let Error::DeviceUnavailable(text) = error else { panic!("{error}") };
    assert!(["no driver", "no Vulkan loader", "lists no device"].iter().any(|part| text.contains(part)), "{text}");
    assert!(vulkan::devices(&Settings::default()).is_err_and(|e| matches!(e, Error::DeviceUnavailable(_))));
}

#[test]
fn the_process_ends_soon_in_the_middle_of_batches() {
    let _turn = turn();
    if device("the_process_ends_soon_in_the_middle_of_batches").is_none() {
        return;
    }
    for _ in 0..3 {
        let started = Instant::now();
        let output = in_new_process("processes::ends_in_the_middle", &[]);
        assert_success(&output);
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    }
}

#[test]
#[ignore = "run by the_process_ends_soon_in_the_middle_of_batches"]
fn ends_in_the_middle() {
    let device = device("ends_in_the_middle").unwrap();
    let (program, _) = prepare(&device, ProgramOptions::default()).unwrap();
    let x = input(program.limits().tokens, 0);
    let worker = std::thread::spawn(move || {
        loop {
            let batches: grilly::Result<Vec<_>> = (0..4).map(|_| start(&program, &x, &[0])).collect();
            for batch in batches? {
                batch.wait()?;
            }
        }
        #[allow(unreachable_code)]
        Ok::<(), Error>(())
    });
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    vulkan::shut_down();
    assert!(asked.elapsed() < Duration::from_millis(1900), "{:?}", asked.elapsed());
    assert!(matches!(worker.join().unwrap(), Err(Error::Interrupted)));
    assert!(matches!(vulkan::open(None, &settings()), Err(Error::Interrupted)));
    std::process::exit(0);
}

#[test]
fn a_device_that_runs_on_does_not_crash_the_end() {
    let _turn = turn();
    if device("a_device_that_runs_on_does_not_crash_the_end").is_none() {
        return;
    }
    let started = Instant::now();
    assert_success(&in_new_process("processes::ends_with_a_long_batch", &[]));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
#[ignore = "run by a_device_that_runs_on_does_not_crash_the_end"]
fn ends_with_a_long_batch() {
    use grilly::backend::Feed;
    use grilly::dtype::DType;
    use grilly::graph::{Graph, Plan};
    use grilly::ops::{Counts, Dim, Linear, Shape};
    let device = device("ends_with_a_long_batch").unwrap();
    // 40 products of 1 GFLOP in one dispatch each: seconds on a rasteriser.
    let (columns, tokens) = (1024, 500);
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, columns), DType::F32);
    let w = graph.weight(vec!["w".into()], Shape::fixed(&[columns, columns]));
    let mut tensors = Tensors::default();
    tensors.insert("w", &[columns, columns], DType::F32);
    let mut y = x;
    for step in 0..40 {
        y = graph.node(&format!("product {step}"), Linear::default(), &[y, w]).unwrap();
    }
    graph.outputs = vec![y];
    let program =
        device.prepare(Plan::new(graph).into(), std::sync::Arc::new(tensors), ProgramOptions::default()).unwrap();
    let x = vec![0.0f32; tokens * columns];
    let feed = Feed { counts: Counts::new(tokens, 1), inputs: vec![bytemuck::cast_slice(&x)], outputs: vec![0] };
    let batches: Vec<_> = (0..program.limits().in_flight).map(|_| program.submit(&feed).unwrap()).collect();
    let asked = Instant::now();
    vulkan::shut_down();
    assert!(asked.elapsed() < Duration::from_millis(1900), "{:?}", asked.elapsed());
    for batch in batches {
        assert!(matches!(batch.wait(), Err(Error::Interrupted)));
    }
    drop(program);
    assert!(asked.elapsed() < Duration::from_millis(2500), "{:?}", asked.elapsed());
    println!("ends after {:?}", asked.elapsed());
    std::process::exit(0);
}
