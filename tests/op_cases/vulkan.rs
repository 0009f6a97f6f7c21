//! Rows on Vulkan devices, in processes of their own, where driver and width can be chosen.

use std::path::Path;

use grilly::backend::vulkan::{built, dispatched};
use grilly::ops::Op;

use crate::engines::{absent, assert_valid, device, in_new_process, lavapipe, widths};
use crate::rows::Row;
use crate::{check, table};

/// The rows that a process of its own is to run, by name.
const ROWS: &str = "GRILLY_TEST_ROWS";

type Variables = Vec<(&'static str, String)>;

#[test]
#[ignore = "run by the other tests; GRILLY_TEST_ROWS names rows, with commas"]
fn rows_of_a_process() {
    let Some(device) = device("rows_of_a_process") else { return };
    println!("device: {}", device.device_name());
    let wanted = std::env::var(ROWS).unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').filter(|name| !name.is_empty()).collect();
    let Some(rows) = table("rows_of_a_process", &wanted) else { return };
    let seen: Vec<&str> = built().into_iter().filter(|variant| variant.subgroups).map(|variant| variant.name).collect();
    let count = || dispatched().iter().filter(|row| seen.contains(&row.0)).map(|row| row.2).sum::<u64>();
    let mut before = count();
    check(&*device, &rows, |row| {
        let after = count();
        if std::mem::replace(&mut before, after) < after {
            println!("sees its subgroup: {}", row.name);
        }
    });
    assert_valid();
}

/// Runs rows in processes side by side and returns what they print; nothing where there is no device.
fn apart(test: &str, runs: &[(Vec<&str>, Variables)]) -> String {
    let run = |(rows, variables): &(Vec<&str>, Variables)| {
        let variables = [&variables[..], &[(ROWS, rows.join(","))]].concat();
        in_new_process(&["--exact", "vulkan::rows_of_a_process", "--ignored"], &variables)
    };
    let told = std::thread::scope(|scope| {
        let threads: Vec<_> = runs.iter().map(|given| scope.spawn(move || run(given))).collect();
        // All are waited for before any that failed is heard.
        let told: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        told.into_iter().map(Result::unwrap).collect::<String>()
    });
    match told.lines().find(|line| line.starts_with("skipped: ")) {
        Some(line) => println!("{line} ({test})"),
        None => return told,
    }
    String::new()
}

/// Names of at most so many rows of each op, type and number of operands, evenly spread; of all under `GRILLY_TEST_FULL`.
/// Rows that stand together share pipelines.
fn sample<'a>(rows: impl Iterator<Item = &'a Row>, most: usize) -> Vec<Vec<&'a str>> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let key = format!("{} {} {}", row.op.name(), row.stored().name(), row.operands.len());
        match groups.iter_mut().find(|(found, _)| *found == key) {
            Some((_, names)) => names.push(&row.name),
            None => groups.push((key, vec![&row.name])),
        }
    }
    let full = std::env::var_os("GRILLY_TEST_FULL").is_some();
    let some = |names: Vec<&'a str>| {
        let count = if full { names.len() } else { most.min(names.len()) };
        (0..count).map(|place| names[(2 * place + 1) * names.len() / (2 * count)]).collect()
    };
    groups.into_iter().map(|(_, names)| some(names)).collect()
}

/// On lavapipe at its own subgroup size, and what sees it at the two others, too. Nearly all of the time is its compiler's.
#[test]
fn rows_on_the_vulkan_device() {
    let test = "rows_on_the_vulkan_device";
    let Some(rows) = table(test, &[]) else { return };
    let groups = sample(rows.iter(), 1);
    let half = |first: usize| groups.iter().skip(first).step_by(2).flatten().copied().collect();
    let told = apart(test, &[(half(0), lavapipe(None)), (half(1), lavapipe(None))]);
    if told.contains("device: llvmpipe") {
        let seen: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("sees its subgroup: ")).collect();
        assert!(!seen.is_empty());
        apart(test, &widths().iter().map(|width| (seen.clone(), lavapipe(Some(width)))).collect::<Vec<_>>());
    }
}

/// A second driver, with fewer features: no float16, no 8- and 16-bit storage. It keeps nothing of what it compiles, and takes
/// minutes for masks.
#[test]
fn rows_on_swiftshader() {
    let test = "rows_on_swiftshader";
    let Some(rows) = table(test, &[]) else { return };
    let driver = "/usr/lib/chromium/vk_swiftshader_icd.json";
    if !Path::new(driver).exists() {
        return absent("swiftshader", test, &format!("{driver} is missing (Debian: chromium-common)"));
    }
    // The gradients of attention have masks in all their builds.
    let masked = |row: &Row| match &row.op {
        Op::Attention(op) => op.hides() || op.bias,
        op => matches!(op, Op::AttentionBackward(_)),
    };
    let some = sample(rows.iter().filter(|row| !masked(row)), 1).concat();
    let variables = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].map(|name| (name, driver.to_owned()));
    apart(test, &[(some, variables.to_vec())]);
}
