//! The pipelines that models dispatch, compiled by a driver that has no device: what it says of each, as lines of JSON.
//!
//! Models are those of published configurations: no weights are needed for what follows from shapes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::generated::half_packing;
use super::kernels::with_scratch;
use super::raw::{ComputePipeline, Device, Instance};
use super::{Capabilities, Dispatch, Feature, Variant, lower};
use crate::array::op_graph;
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::{Graph, Plan, Rounding};
use crate::model::encoder::{After, build, build_stack};
use crate::model::heads::{Feature as Read, Head, LogitScore, SpladePooling, Word};
use crate::model::registry::{model_type, read_head, read_spec};
use crate::model::shaders::shipped;
use crate::model::task_head::Task;
use crate::numerics::Numerics;
use crate::ops::{Op, PoolMode};
use crate::settings::variable;
use crate::{Error, Result};

/// Copies of published configurations, by name.
const PUBLISHED: &str = include_str!("../../../tests/fixtures/published.json");
const PATH: &str = "config.json";
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// By name and constants.
type Pipelines = BTreeMap<(&'static str, Vec<u32>), &'static Variant>;

/// Adds what a graph dispatches on a device, in float32 where that has no kernel of 16 bits; false if it has none at all.
fn add(found: &mut Pipelines, graph: Graph, (architecture, numerics): (&str, Numerics), device: &Capabilities) -> bool {
    let shaders = Arc::new(shipped());
    let fusion = Fusion { architecture, shaders: &shaders, numerics, ..Fusion::default() };
    let dispatches = || -> Result<Vec<Dispatch>> {
        let plan = with_scratch(Arc::new(Plan::with(graph, &fusion)?), device);
        match lower(&plan, device) {
            Err(Error::Unsupported { .. }) if plan.narrow().is_some() => lower(&plan.widened(), device),
            dispatches => dispatches,
        }
    };
    let Ok(dispatches) = dispatches() else { return false };
    let keyed = |dispatch: Dispatch| ((dispatch.variant.name, dispatch.constants), dispatch.variant);
    found.extend(dispatches.into_iter().map(keyed));
    true
}

/// What a model of a configuration runs: embeddings, scores, weights of words, states of its decoder; in each type, and in integers.
fn model(found: &mut Pipelines, config: &Map<String, Value>, numerics: Numerics, device: &Capabilities) {
    let path = Path::new(PATH);
    let model_type = model_type(config, path).unwrap();
    let spec = read_spec(model_type, config, path).unwrap().0;
    let modes = vec![PoolMode::Mean, PoolMode::Cls, PoolMode::LastToken];
    let pooled = [Head::Pooling { modes, include_prompt: true }, Head::Normalize { of: Read::Sentence }];
    let words = [Head::SpladePooling(SpladePooling { mode: PoolMode::Max, twice: false })];
    let logits = [Head::LogitScore(LogitScore { path: None, words: vec![Word::Id(0), Word::Id(1)] })];
    let [scores_head, words_head, next_head] =
        [Task::Scores, Task::Words, Task::NextWord].map(|task| read_head(task, model_type, config, path, &spec).ok());
    for dtype in TYPES {
        let mut built = vec![build(&spec, After::modules(&pooled), dtype).unwrap().graph];
        if let Some(head) = &scores_head {
            let after = After { head: Some(head), modules: &[], result: Read::Scores };
            built.extend(build(&spec, after, dtype).ok().map(|built| built.graph));
        }
        if let Some(head) = &words_head {
            let after = After { head: Some(head), modules: &words, result: Read::Sentence };
            built.extend(build(&spec, after, dtype).ok().map(|built| built.graph));
        }
        if let Some(head) = &next_head {
            let after = After { head: Some(head), modules: &logits, result: Read::Scores };
            built.extend(build(&spec, after, dtype).ok().map(|built| built.graph));
        }
        if let Some(decoder) = &spec.decoder {
            built.push(build_stack(&decoder.stack, dtype, None).unwrap().graph);
        }
        built.push(built[0].clone().with_integer_products(&Rounding::default()).unwrap());
        for graph in built {
            let known = add(found, graph, (model_type, numerics), device);
            assert!(known || numerics == Numerics::Everywhere, "{model_type} in {} runs nowhere", dtype.name());
        }
    }
}

/// What every op runs, from its examples, larger, in each type.
fn ops(found: &mut Pipelines, device: &Capabilities) {
    let sizes: [fn(usize) -> usize; 3] = [|n| n, |n| 12 * n, |n| 64 * n + 1];
    for (op, (_, shapes, _)) in Op::examples() {
        for (size, dtype) in sizes.iter().flat_map(|size| TYPES.map(|dtype| (size, dtype))) {
            let operand = |(place, axes): (usize, &&[usize])| {
                (op.operand(place).dtype(dtype), axes.iter().map(|n| size(*n)).collect())
            };
            let operands: Vec<(DType, Vec<usize>)> = shapes.iter().enumerate().map(operand).collect();
            if let Ok((graph, _)) = op_graph(&op, &operands) {
                add(found, graph, ("", Numerics::Run), device);
            }
        }
    }
}

/// As tests/amd.py reads it: a line for the device, then one for each pipeline, with subgroups of `GRILLY_TEST_LANES`.
/// `GRILLY_TEST_LONG` adds numbers that are the same everywhere, and all ops.
#[test]
#[ignore = "run by tests/amd.py, with a driver that compiles without a device"]
fn statistics_of_pipelines() {
    let instance = Arc::new(Instance::create(false, false, false).unwrap());
    let physical = instance.physical_devices().unwrap();
    let lanes = variable("GRILLY_TEST_LANES").map(|number| number.to_str().unwrap().parse().unwrap());
    let mut device = Device::compiler(&instance, physical.first().expect("a device"), lanes).unwrap();
    // What probe.rs asks by a dispatch is read from the code here: whether the conversion to float16 rounds towards zero. Matrices lie
    // as matrix-layout.glsl assumes on no device of AMD.
    let packing = half_packing::KERNEL.own(DType::F32, &device.capabilities).unwrap();
    let packed = ComputePipeline::new(&device, packing, &[]).and_then(|pipeline| device.statistics(&pipeline)).unwrap();
    assert!(packed.code.contains("f16"), "{}", packed.code);
    if !packed.code.contains("rtz") {
        Arc::get_mut(&mut device).unwrap().capabilities.features.push(Feature::PacksToNearest);
    }
    let able = &device.capabilities;
    let features: BTreeSet<&str> = able.features.iter().map(|feature| feature.name()).collect();
    println!("device {}", json!({"name": able.name, "subgroup": able.subgroup_size, "features": features}));

    let copies: BTreeMap<String, Value> = serde_json::from_str(PUBLISHED).unwrap();
    let configurations = || copies.values().map(|copy| copy["config"].as_object().unwrap());
    let mut found = Pipelines::new();
    configurations().for_each(|config| model(&mut found, config, Numerics::Run, able));
    let of_models = found.len();
    if variable("GRILLY_TEST_LONG").is_some() {
        configurations().for_each(|config| model(&mut found, config, Numerics::Everywhere, able));
        ops(&mut found, able);
    }
    assert!(of_models > 50, "{of_models}");
    for ((name, constants), variant) in found {
        let compiled = ComputePipeline::new(&device, variant, &constants);
        let line = match compiled.and_then(|pipeline| device.statistics(&pipeline)) {
            Ok(of) => {
                let [wmma, dot] = ["v_wmma_", "v_dot4_"].map(|name| of.code.matches(name).count());
                let (subgroup, numbers) = (of.subgroup, of.numbers);
                json!({"name": name, "constants": constants, "subgroup": subgroup, "wmma": wmma, "dot": dot, "numbers": numbers})
            }
            Err(error) => json!({"name": name, "constants": constants, "error": error.to_string()}),
        };
        println!("pipeline {line}");
    }
}
