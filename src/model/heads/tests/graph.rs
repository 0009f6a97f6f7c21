use super::*;
use crate::dtype::DType;
use crate::model::encoder::{After, build, needed};
use crate::model::registry::{read_head, read_spec};
use crate::model::spec::EncoderSpec;

fn config() -> Value {
    json!({"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "vocab_size": 30, "max_position_embeddings": 12, "model_type": "bert", "output_hidden_states": true})
}

fn spec(config: &Value) -> EncoderSpec {
    read_spec("bert", config.as_object().unwrap(), Path::new("config.json")).unwrap().0
}

#[test]
fn modules_read_what_those_before_them_give() {
    let config = config();
    let spec = spec(&config);
    let columns = |modules: &[(&str, Value)]| -> Result<Vec<usize>> {
        let folder = model(modules);
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let heads = read_modules(folder.path())?.heads;
        let graph = build(&spec, After::modules(&heads), DType::F32)?.graph;
        Ok(graph.outputs.iter().map(|id| graph.value(*id).shape.columns()).collect())
    };
    let dense = |of: &str| ("Dense", json!({"in_features": 8, "out_features": 4, "module_input_name": of}));
    let layers = |count: usize| ("WeightedLayerPooling", json!({"num_hidden_layers": count, "layer_start": 1}));
    assert_eq!(columns(&[dense("token_embeddings"), mean()]).unwrap(), [4, 4]);
    assert_eq!(columns(&[mean(), dense("token_embeddings")]).unwrap(), [4, 8]);
    assert_eq!(columns(&[mean(), dense("sentence_embedding")]).unwrap(), [8, 4]);
    assert_eq!(columns(&[layers(1), mean()]).unwrap(), [8, 8]);
    for (modules, problem) in [
        ([dense("sentence_embedding"), mean()], "Dense reads sentence_embedding, which no module before it gives"),
        ([("Normalize", Value::Null), mean()], "Normalize reads sentence_embedding, which no module before it gives"),
        ([mean(), mean()], "two Pooling modules"),
        ([layers(2), mean()], "1_WeightedLayerPooling: num_hidden_layers is 2, but the encoder has 1"),
    ] {
        let error = columns(&modules).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_residual_needs_its_own_product_only_where_columns_differ() {
    let spec = spec(&config());
    let read = |input: usize, output: usize| -> Result<Vec<(String, Vec<usize>)>> {
        let dense = json!({"in_features": input, "out_features": output, "use_residual": true});
        let heads = heads(&[mean(), ("Dense", dense)])?;
        let needed = needed(&build(&spec, After::modules(&heads), DType::F32)?.graph)
            .into_iter()
            .filter(|needed| needed.name.contains('/'));
        Ok(needed.map(|needed| (needed.name, needed.shape)).collect())
    };
    let product =
        |output| [("2_Dense/linear.weight".to_owned(), vec![output, 8]), ("2_Dense/linear.bias".into(), vec![output])];
    assert_eq!(read(8, 8).unwrap(), product(8));
    assert_eq!(read(8, 4).unwrap()[0], ("2_Dense/residual.weight".to_owned(), vec![4, 8]));
    assert_eq!(read(8, 4).unwrap()[1..], product(4));
    assert!(read(9, 4).unwrap_err().to_string().contains("in_features is 9, but the module before it gives 8"));
}

#[test]
fn splade_vectors_are_columns_of_several_outputs() {
    let mut config = config();
    config["vocab_size"] = json!(9000);
    let spec = spec(&config);
    let values = config.as_object().unwrap();
    let task = read_head(Task::Words, "bert", values, Path::new("config.json"), &spec).unwrap();
    for (mode, twice, nodes) in [(PoolMode::Max, false, 5), (PoolMode::Sum, true, 7)] {
        let modules = [Head::SpladePooling(SpladePooling { mode, twice })];
        let after = After { head: Some(&task), modules: &modules, result: Feature::Sentence };
        let graph = build(&spec, after, DType::F32).unwrap().graph;
        let columns: Vec<usize> = graph.outputs.iter().map(|id| graph.value(*id).shape.columns()).collect();
        assert_eq!(columns, [8, 4096, 4096, 808]);
        let of = |slice: &str| graph.nodes.iter().filter(|node| node.name.starts_with(slice)).count();
        assert_eq!([of("words 0 to 4096 "), of("words 8192 to 9000 ")], [nodes; 2]);
    }
    // Without the head nothing gives logits.
    let modules = [Head::SpladePooling(SpladePooling { mode: PoolMode::Max, twice: false })];
    let error = build(&spec, After::modules(&modules), DType::F32).unwrap_err().to_string();
    assert!(error.contains("SpladePooling reads logits of words, which no module gives"), "{error}");
}

#[test]
fn logits_of_two_words_alone_are_computed() {
    let mut config = config();
    config["model_type"] = json!("gemma2");
    let values = config.as_object().unwrap();
    let path = Path::new("config.json");
    let spec = read_spec("gemma2", values, path).unwrap().0;
    let task = read_head(Task::NextWord, "gemma2", values, path, &spec).unwrap();
    let words = [5, 2].map(Word::Id).into();
    let modules = [Head::LogitScore(LogitScore { path: None, words })];
    let after = |head| After { head, modules: &modules, result: Feature::Scores };
    let graph = build(&spec, after(Some(&task)), DType::F16).unwrap().graph;
    let products = graph.nodes.iter().filter(|node| node.name.starts_with("logit of token"));
    let rows: Vec<usize> =
        products.map(|node| graph.value(node.operands[1]).shape.rows().size(Default::default())).collect();
    assert_eq!((rows, graph.value(graph.outputs[1]).shape.columns()), (vec![1, 1], 1));
    let bounds = graph.nodes.iter().filter(|node| node.name == "soft cap");
    assert_eq!(bounds.count(), 2);
    let error = build(&spec, after(None), DType::F32).unwrap_err().to_string();
    assert!(error.contains("LogitScore reads logits of words, which no module gives"), "{error}");
}
