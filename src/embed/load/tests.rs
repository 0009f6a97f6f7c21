use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::dtype::DType;
use crate::model::class::Class;
use crate::model::encoder::outputs;
use crate::ops::PoolMode;

/// A BERT with 32 columns, and mean pooling.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-bert")
}

fn options(dtype: DTypeChoice) -> LoadOptions {
    LoadOptions { device: "cpu".into(), dtype: Some(dtype), ..LoadOptions::default() }
}

fn read<'a>(folder: &'a Path, options: &'a LoadOptions) -> Result<Files<'a>> {
    let listing = class::read_listing(folder, options.class)?;
    let rows = listing.map_or_else(|| Ok(Vec::new()), |listing| listing.choose(None))?;
    Files::read(folder, options, rows)
}

#[test]
fn each_step_gives_what_the_next_one_reads() {
    let folder = folder();
    let options = options(DTypeChoice::Given(DType::Bf16));
    let files = read(&folder, &options).unwrap();
    assert_eq!((files.rows.len(), files.modules.heads.len(), files.config["hidden_size"].as_u64()), (2, 1, Some(32)));
    let mut described = spec::describe(&files).unwrap();
    assert_eq!((described.model_type.as_str(), described.spec.hidden, described.head.is_none()), ("bert", 32, true));
    assert_eq!(described.max_seq_length, files.sentence.max_seq_length);
    assert_eq!(graph::choose_type(&files, &mut described).unwrap(), DTypeChoice::Given(DType::Bf16));
    assert_eq!(described.weights.rounded, DType::Bf16);
    let built = graph::build(&files, &described).unwrap();
    let graph = &built[0].graph;
    assert_eq!((built.len(), graph.value(graph.outputs[outputs::TEXTS]).shape.columns()), (1, 32));
    let mut stages =
        Stages { settings: Settings::from_env().unwrap(), threads: None, places: 0, automatic: Vec::new() };
    let route = stages.route(files, described, built, DTypeChoice::Given(DType::Bf16)).unwrap();
    // The encoder and a decoder.
    assert_eq!((stages.places, route.dimension(), route.dtype()), (2, 32, DType::Bf16));
}

#[test]
fn the_caller_may_replace_what_the_files_say() {
    let folder = folder();
    let mut options = options(DTypeChoice::Integers);
    options.pooling = Some(vec![PoolMode::Cls, PoolMode::Max]);
    options.arguments.config.insert("num_hidden_layers".into(), json!(1));
    let files = read(&folder, &options).unwrap();
    assert!(matches!(&files.modules.heads[0], Head::Pooling { modes, .. } if modes.len() == 2));
    let mut described = spec::describe(&files).unwrap();
    assert_eq!(described.spec.layers.len(), 1);
    assert_eq!(graph::choose_type(&files, &mut described).unwrap(), DTypeChoice::Integers);
    assert_eq!(described.weights.rounded, DType::F16);
    // The tensors of the other layers are those of the file's model.
    let built = graph::build(&files, &described).unwrap();
    let graph = &built[0].graph;
    assert_eq!(graph.value(graph.outputs[outputs::TEXTS]).shape.columns(), 64);
}

#[test]
fn modules_that_must_compute_in_float32_do_not_do_so_in_16_bits() {
    let folder = folder();
    for (dtype, known) in [(DType::F32, true), (DType::F16, false)] {
        let mut options = options(DTypeChoice::Given(dtype));
        options.class = Class::named("CrossEncoder").unwrap();
        let mut files = read(&folder, &options).unwrap();
        assert!(files.rows.is_empty(), "a folder of another class is a bare one");
        files.sentence.settings.insert("keep_in_fp32_modules".into(), json!(["0.model.classifier"]));
        let mut described = spec::describe(&files).unwrap();
        match graph::choose_type(&files, &mut described) {
            Ok(_) => assert!(known),
            Err(error) => assert!(!known && error.to_string().contains("keep_in_fp32_modules of"), "{error}"),
        }
        // The checkpoint has no head.
        assert!(matches!(graph::build(&files, &described), Err(Error::Weights { .. })));
    }
}
