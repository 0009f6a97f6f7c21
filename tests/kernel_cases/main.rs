//! Every op as a one-node plan, on the CPU and on the Vulkan device, against float64: sizes around every tile edge,
//! outliers, NaN and infinity, the same bits twice and alone.

mod cases;
mod reference;

use std::collections::HashMap;
use std::sync::Arc;

use grilly::backend::{Backend, Feed, Program, ProgramOptions, cpu};
use grilly::dtype::DType;
use grilly::graph::{Graph, Plan};
use grilly::ops::{Counts, Dim, Op};
use grilly::tensor::{TensorView, WeightSource};

use cases::{Case, Tensor};

/// The operands that are weights, by name.
struct Weights(HashMap<String, (Vec<usize>, Vec<u8>)>);

impl WeightSource for Weights {
    fn tensor(&self, name: &str) -> grilly::Result<TensorView<'_>> {
        let (shape, bytes) = &self.0[name];
        Ok(TensorView::new(DType::F32, DType::F32, shape, bytes))
    }
}

fn prepare(backend: &dyn Backend, case: &Case) -> grilly::Result<Arc<dyn Program>> {
    let mut graph = Graph::new();
    let mut weights = HashMap::new();
    let mut operands = Vec::new();
    for (place, tensor) in case.operands.iter().enumerate() {
        let name = format!("operand {place}");
        operands.push(match tensor {
            Tensor::Weight(axes, values) => {
                weights.insert(name.clone(), (axes.clone(), bytemuck::cast_slice(values).to_vec()));
                let stored = if axes.len() == 2 { case.stored } else { DType::F32 };
                graph.weight_as(stored, vec![name.into()], tensor.shape())
            }
            Tensor::Floats(..) => graph.input(&name, tensor.shape(), case.stored),
            Tensor::Vector(..) | Tensor::Array(..) => graph.input(&name, tensor.shape(), DType::F32),
            Tensor::Integers(..) => graph.input(&name, tensor.shape(), DType::U32),
        });
    }
    graph.outputs = vec![graph.node(case.name, case.op.clone(), &operands)?];
    backend.prepare(Arc::new(Plan::new(graph)), Arc::new(Weights(weights)), ProgramOptions::default())
}

/// Runs on the first `counts` of the case's rows.
fn run(program: &dyn Program, case: &Case, counts: Counts) -> Vec<f32> {
    let feed = |tensor: &Tensor| {
        let elements = tensor.shape().elements(counts);
        match tensor {
            Tensor::Floats(_, _, values) => {
                let mut bytes = vec![0; case.stored.bytes(elements)];
                case.stored.encode(&values[..elements], &mut bytes);
                bytes
            }
            Tensor::Vector(_, values) | Tensor::Array(_, values) => bytemuck::cast_slice(&values[..elements]).to_vec(),
            Tensor::Integers(_, values) => bytemuck::cast_slice(&values[..elements]).to_vec(),
            Tensor::Weight(..) => unreachable!("weights are no inputs"),
        }
    };
    let inputs: Vec<Vec<u8>> = case.operands.iter().filter(|t| !matches!(t, Tensor::Weight(..))).map(feed).collect();
    let inputs = inputs.iter().map(Vec::as_slice).collect();
    program.submit(&Feed { counts, inputs, outputs: vec![0] }).unwrap().wait().unwrap().remove(0)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check(backend: &dyn Backend, case: &Case) {
    let program = match prepare(backend, case) {
        Err(error) => panic!("{}: {error}", case.name),
        Ok(program) => program,
    };
    let device = format!("{} in {}", backend.kind().name(), case.stored.name());
    let found = run(&*program, case, case.counts);
    let expected = reference::run(case);
    assert_eq!(found.len(), expected.len(), "{} on {device}", case.name);
    for (place, (y, (value, bound))) in found.iter().zip(&expected).enumerate() {
        let y = f64::from(*y);
        let agree =
            if value.is_finite() { (y - value).abs() <= *bound } else { y == *value || y.is_nan() && value.is_nan() };
        assert!(agree, "{} on {device}: element {place} is {y}, expected {value} within {bound:e}", case.name);
    }
    assert_eq!(bits(&run(&*program, case, case.counts)), bits(&found), "{} on {device}: two runs differ", case.name);
    // The first text alone gives the bits it has among others.
    let alone = Counts { tokens: case.offsets[1] as usize, texts: 1 };
    let counted = !case.operands.iter().any(|operand| matches!(operand, Tensor::Integers(Dim::Fixed(_), _)));
    let independent =
        matches!(case.op, Op::Attention(_) | Op::Pool(_) | Op::Linear(_) | Op::LayerNorm(_) | Op::Softmax(_));
    if independent && counted && alone.tokens > 0 {
        let first = run(&*program, case, alone);
        assert_eq!(bits(&first), bits(&found[..first.len()]), "{} on {device}: alone differs", case.name);
    }
}

#[test]
fn cases_on_the_cpu() {
    let backend = cpu::backend();
    for case in cases::all() {
        check(&*backend, &case);
    }
}

/// Tells a process that [`apart`] starts which of [`cases::TABLES`] to run.
#[cfg(feature = "vulkan")]
const TABLE: &str = "GRILLY_TEST_TABLE";

/// The body of the tests below, and nothing by itself.
#[cfg(feature = "vulkan")]
#[test]
fn cases_of_a_process_of_its_own() {
    use grilly::backend::vulkan;
    use grilly::settings::Settings;
    let Ok(table) = std::env::var(TABLE) else { return };
    let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
    let backend = match vulkan::open(None, &settings) {
        Ok(choice) => choice.backend,
        Err(error) if grilly::settings::test_requires("vulkan") => panic!("{error}"),
        Err(error) => return println!("skipped: {error}"),
    };
    let software = ["llvmpipe", "SwiftShader"].iter().any(|name| backend.device_name().contains(name));
    let swiftshader = backend.device_name().contains("SwiftShader");
    for case in cases::table(&table) {
        // Software devices' compilers take minutes for these; lavapipe has masks, and the CPU and GPUs run both.
        let masked = matches!(&case.op, Op::Attention(op) if op.hides() || op.bias);
        if !(software && case.name == cases::WIDEST || swiftshader && masked) {
            check(&*backend, &case);
        }
    }
    let messages = vulkan::validation_messages();
    assert!(messages.is_empty(), "validation: {messages:#?}");
}

/// Runs tables side by side, each in a process of its own, where driver and width can be chosen.
///
/// Almost all of the time goes into lavapipe's compiler: it may leave its optimiser out (what Python's tests run is
/// optimised), and keeps what it compiled. It does so without regard to the width, hence a folder for each.
#[cfg(feature = "vulkan")]
fn apart(name: &str, runs: &[(&str, &[(&str, &str)])]) {
    let run = |(table, environment): &(&str, &[(&str, &str)])| {
        let key: String =
            environment.iter().flat_map(|(_, value)| value.chars()).filter(char::is_ascii_digit).collect();
        let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lavapipe-{key}"));
        std::fs::create_dir_all(&cache).unwrap();
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cases_of_a_process_of_its_own", "--nocapture"]);
        command.env(TABLE, table).env("GALLIVM_PERF", "nopt").env("MESA_SHADER_CACHE_DIR", cache);
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let text = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{table} {environment:?} {}:\n{text}",
            output.status
        );
        if let Some(line) = text.lines().find(|line| line.starts_with("skipped: ")) {
            println!("skipped: {name}: {}", &line["skipped: ".len()..]);
        }
    };
    std::thread::scope(|scope| {
        for given in runs {
            scope.spawn(move || run(given));
        }
    });
}

#[cfg(feature = "vulkan")]
#[test]
fn cases_on_the_vulkan_device() {
    apart("cases_on_the_vulkan_device", &[("first half", &[]), ("second half", &[])]);
}

/// lavapipe's subgroups have 8 invocations on most processors, and 4 and 16 at these widths; other drivers ignore the
/// variable.
#[cfg(feature = "vulkan")]
#[test]
fn cases_at_other_subgroup_sizes_of_lavapipe() {
    let width = |width: &'static str| [("LP_NATIVE_VECTOR_WIDTH", width)];
    let (narrow, wide) = (width("128"), width("512"));
    apart("cases_at_other_subgroup_sizes_of_lavapipe", &[("sample", &narrow), ("sample", &wide)]);
}

/// A second driver, with fewer features: no float16, no 8- and 16-bit storage.
#[cfg(feature = "vulkan")]
#[test]
fn cases_on_swiftshader() {
    let driver = "/usr/lib/chromium/vk_swiftshader_icd.json";
    if !std::path::Path::new(driver).exists() {
        assert!(!grilly::settings::test_requires("swiftshader"), "{driver} is missing (Debian: chromium-common)");
        return println!("skipped: cases_on_swiftshader: {driver} is missing (Debian: chromium-common)");
    }
    apart("cases_on_swiftshader", &[("sample", &[("VK_DRIVER_FILES", driver), ("VK_ICD_FILENAMES", driver)])]);
}
