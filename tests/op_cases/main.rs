//! Every row of the op-case table (`tests/cases`) as a plan of one node, on the CPU and on Vulkan devices: against float64,
//! twice, and the first text alone. `tests/ops/test_ops.py` runs the same rows on arrays.
#![allow(clippy::disallowed_methods)]

#[path = "../engines/mod.rs"]
mod engines;
mod rows;

use std::collections::HashMap;
use std::path::Path;

use grilly::Error;
use grilly::backend::{Backend, Executable, Feed, cpu};
use grilly::dtype::DType;
use grilly::ops::{Counts, Dim, Op};

use engines::{absent, bits};
use rows::Row;

/// The rows, or a line saying which test is skipped.
fn table(test: &str, wanted: &[&str]) -> Option<Vec<Row>> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("op-cases.safetensors");
    let missing = |error| absent("cases", test, &format!("{}: {error}; `make op-cases` writes it", path.display()));
    std::fs::read(&path).map_err(missing).ok().map(|bytes| rows::read(&bytes, wanted))
}

fn run(program: &dyn Executable, row: &Row, counts: Counts) -> grilly::Result<Vec<Vec<f32>>> {
    let inputs = row.inputs(counts);
    let inputs = inputs.iter().map(Vec::as_slice).collect();
    program.submit(&Feed { counts, inputs, outputs: (0..row.results.len()).collect() })?.wait()
}

/// What is wrong with a row on a device.
fn fault(backend: &dyn Backend, row: &Row) -> grilly::Result<Option<String>> {
    let (program, (_, counts)) = (row.prepare(backend)?, row.shapes());
    let found = run(&*program, row, counts)?;
    for (place, (found, expected)) in found.iter().zip(&row.results).enumerate() {
        if let Some(wrong) = expected.fault(found) {
            return Ok(Some(format!("result {place}: {wrong}")));
        }
    }
    let all = |results: &[Vec<f32>]| results.iter().map(|y| bits(y)).collect::<Vec<_>>();
    if all(&run(&*program, row, counts)?) != all(&found) {
        return Ok(Some("two runs differ".into()));
    }
    let Some(counts) = row.alone() else { return Ok(None) };
    let alone = run(&*program, row, counts)?;
    let first: Vec<_> = alone.iter().zip(found).map(|(alone, found)| found[..alone.len()].to_vec()).collect();
    Ok((all(&alone) != all(&first)).then(|| "the first text alone has other bits".into()))
}

/// Ops whose kernels of 16 bits are for matrix cores alone: elsewhere, plans with them run in float32.
const ON_MATRIX_CORES: [&str; 2] = ["matmul", "max_sim"];

/// Runs rows and fails with all that is wrong with them; `done` hears of each.
fn check(backend: &dyn Backend, rows: &[Row], mut done: impl FnMut(&Row)) {
    let mut faults = Vec::new();
    // By op and type: whether any row ran.
    let mut ran: HashMap<(&str, DType), bool> = HashMap::new();
    for row in rows {
        let found = fault(backend, row);
        // Some kernels of 16 bits want more of a head's columns, and some devices have none.
        let refused = row.stored().is_narrow() && matches!(found, Err(Error::Unsupported { .. }));
        *ran.entry((row.op.name(), row.stored())).or_default() |= !refused;
        if !refused && let Some(wrong) = found.unwrap_or_else(|error| Some(error.to_string())) {
            faults.push(format!("{}: {wrong}", row.name));
        }
        done(row);
    }
    for ((op, stored), _) in ran.iter().filter(|((op, _), ran)| !**ran && !ON_MATRIX_CORES.contains(op)) {
        if ran.iter().any(|((_, other), ran)| other == stored && *ran) {
            faults.push(format!("{op}: no row runs in {}", stored.name()));
        }
    }
    assert!(faults.is_empty(), "{} faults on {}:\n{}", faults.len(), backend.device_name(), faults.join("\n"));
}

#[test]
fn rows_on_the_cpu() {
    let Some(rows) = table("rows_on_the_cpu", &[]) else { return };
    check(&*cpu::backend(), &rows, |_| {});
    for (number, least) in [(rows::ROWS, 100), (rows::KEYS, 8)] {
        let counted = |row: &&Row| row.shapes().0.iter().any(|shape| shape.rows() == Dim::Counted(number));
        let found = rows.iter().filter(counted).count();
        assert!(found >= least, "{found} rows have count {number}");
    }
    // Integers are no output of a plan of batches, and those of 8 bits no input.
    let absent: Vec<_> = Op::NAMES.iter().filter(|name| !rows.iter().any(|row| row.op.name() == **name)).collect();
    let integers = [
        "dequantize_rows",
        "integer_linear",
        "quantize_rows",
        "quantized_linear",
        "route",
        "sort_indices",
        "top_k",
        "layer_norm_quantize_rows",
        "rms_norm_quantize_rows",
    ];
    assert_eq!(absent, integers.each_ref(), "have no row");
}

#[cfg(feature = "export")]
mod hlsl;
#[cfg(feature = "vulkan")]
mod vulkan;
