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
