//! A damaged model folder is refused with a typed error; whatever its bytes are, nothing panics.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use grilly::dtype::DType;
use grilly::model::arguments::Arguments;
use grilly::model::class::{CLASSES, read_modules};
use grilly::model::config::read_sentence_config;
use grilly::model::encoder::{self, After};
use grilly::model::registry::{model_type, read_spec};
use grilly::model::weights::Weights;
use grilly::text::tokenizer::Tokenizer;
use grilly::{Error, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

const VOCABULARY: [&str; 9] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", "##s", "."];
/// Files that damage is done to.
const DAMAGED: [&str; 8] = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "2_Dense/config.json",
];

/// Everything that is read from a folder, up to the point where a backend would take over.
fn load(folder: &Path) -> Result<()> {
    let class = CLASSES[0];
    let modules = read_modules(folder, class)?;
    let transformer = folder.join(&modules.transformer);
    let path = transformer.join("config.json");
    let arguments = Arguments::of_folder(&transformer)?;
    let json = arguments.configuration(&path)?;
    let config = read_sentence_config(folder, class, &modules, &arguments, &json)?;
    let (spec, rules) = read_spec(model_type(&json, &path)?, &json, &path)?;
    let after = After { head: None, modules: &modules.heads, result: class.result };
    let built = encoder::build(&spec, after, DType::F32)?;
    let weights = Weights::open(folder, &modules.transformer, &modules.tensor_folders(), &rules)?;
    weights.check(&encoder::needed(&built.graph), |_| true)?;
    let tokenizer = Tokenizer::with_arguments(&transformer, config.do_lower_case, &arguments.processor)?;
    let limit = config.max_seq_length.unwrap_or(usize::MAX).min(spec.positions.longest_text());
    tokenizer.encode(&["The rains [MASK]".into(), String::new()], limit)?;
    tokenizer.prompt_length("rain", limit)?;
    Ok(())
}

/// A whole model of one layer, all of whose files are honest.
fn model() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, content: &Value| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_vec(content).unwrap()).unwrap();
    };
    write(
        "config.json",
        &json!({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 4, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 6, "vocab_size": 9, "max_position_embeddings": 16,
            "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
            "position_embedding_type": "absolute"}),
    );
    let class = |kind: &str| format!("sentence_transformers.models.{kind}");
    write(
        "modules.json",
        &json!([
            {"idx": 0, "name": "0", "path": "", "type": class("Transformer")},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": class("Pooling")},
            {"idx": 2, "name": "2", "path": "2_Dense", "type": class("Dense")},
            {"idx": 3, "name": "3", "path": "3_Normalize", "type": class("Normalize")}
        ]),
    );
    write("1_Pooling/config.json", &json!({"word_embedding_dimension": 4, "pooling_mode_mean_tokens": true}));
    write(
        "2_Dense/config.json",
        &json!({"in_features": 4, "out_features": 3, "bias": true, "use_residual": true,
            "activation_function": "torch.nn.modules.activation.Tanh"}),
    );
    write("sentence_bert_config.json", &json!({"max_seq_length": 12, "do_lower_case": true}));
    write(
        "config_sentence_transformers.json",
        &json!({"prompts": {"query": "q: "}, "default_prompt_name": "query", "similarity_fn_name": "cosine"}),
    );
    write("tokenizer_config.json", &json!({"tokenizer_class": "BertTokenizer", "model_max_length": 16}));
    write("tokenizer.json", &tokenizer());
    let container = |tensors: &[(String, Vec<usize>)]| {
        let (mut header, mut end) = (serde_json::Map::new(), 0);
        for (name, shape) in tensors {
            let begin = end;
            end += 4 * shape.iter().product::<usize>();
            header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}));
        }
        let header = Value::Object(header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; end]].concat()
    };
    fs::write(folder.path().join("model.safetensors"), container(&tensors())).unwrap();
    let dense = [("linear.weight", vec![3, 4]), ("linear.bias", vec![3]), ("residual.weight", vec![3, 4])];
    let dense = dense.map(|(name, shape)| (name.to_owned(), shape));
    fs::write(folder.path().join("2_Dense/model.safetensors"), container(&dense)).unwrap();
    folder
}

fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut tensors = Vec::new();
    let mut add = |name: &str, shape: &[usize]| tensors.push((format!("bert.{name}"), shape.to_vec()));
    for (name, rows) in [("word", 9), ("position", 16), ("token_type", 2)] {
        add(&format!("embeddings.{name}_embeddings.weight"), &[rows, 4]);
    }
    for (name, rows, columns) in [
        ("attention.self.query", 4, 4),
        ("attention.self.key", 4, 4),
        ("attention.self.value", 4, 4),
        ("attention.output.dense", 4, 4),
        ("intermediate.dense", 6, 4),
        ("output.dense", 4, 6),
    ] {
        add(&format!("encoder.layer.0.{name}.weight"), &[rows, columns]);
        add(&format!("encoder.layer.0.{name}.bias"), &[rows]);
    }
    for name in ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"] {
        add(&format!("{name}.LayerNorm.gamma"), &[4]);
        add(&format!("{name}.LayerNorm.beta"), &[4]);
    }
    add("pooler.dense.weight", &[4, 4]);
    tensors
}

fn tokenizer() -> Value {
    let vocab: serde_json::Map<String, Value> =
        VOCABULARY.iter().enumerate().map(|(i, token)| ((*token).to_owned(), json!(i))).collect();
    let special = |i: usize| {
        json!({"id": i, "content": VOCABULARY[i], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let place = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let single = json!([place("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, place("[SEP]")]);
    let known = |token: &str, id: usize| json!({"id": token, "ids": [id], "tokens": [token]});
    json!({
        "version": "1.0",
        "truncation": {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": null,
        "added_tokens": (0..5).map(special).collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single,
            "special_tokens": {"[CLS]": known("[CLS]", 2), "[SEP]": known("[SEP]", 3)}},
        "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab}
    })
}

/// A linear congruential generator: the same cases on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    /// One change to a file: shorter, longer, another bit, or another number in otherwise whole JSON.
    fn damage(&mut self, file: &mut Vec<u8>) {
        let place = self.below(file.len());
        match self.below(8) {
            0 => file.truncate(place),
            1 => file.insert(place, self.below(256) as u8),
            2 if place < file.len() => drop(file.remove(place)),
            3 if place < file.len() => file[place] ^= 1 << self.below(8),
            _ => self.change_number(file),
        }
    }

    fn change_number(&mut self, file: &mut Vec<u8>) {
        const NUMBERS: [&str; 9] =
            ["0", "-1", "7", "9999", "4294967295", "18446744073709551615", "1e999", "0.5", "null"];
        let digits: Vec<usize> = (0..file.len()).filter(|i| file[*i].is_ascii_digit()).collect();
        if digits.is_empty() {
            return;
        }
        let begin = digits[self.below(digits.len())];
        match self.below(2) {
            0 => file[begin] = b'0' + self.below(10) as u8,
            _ => {
                let number = NUMBERS[self.below(NUMBERS.len())];
                file.splice(begin..begin + 1, number.bytes());
            }
        }
    }
}

#[test]
fn the_honest_model_loads() {
    load(model().path()).unwrap();
}

/// Written by transformers and sentence-transformers themselves.
#[test]
fn the_fixture_loads() {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-bert")).unwrap();
}

#[test]
fn damage_gives_a_typed_error_and_never_a_panic() {
    const CASES: usize = 300;
    let folder = model();
    let mut random = Random(11);
    let (mut loaded, mut refused) = (0, 0);
    for name in DAMAGED {
        let path = folder.path().join(name);
        let original = fs::read(&path).unwrap();
        for case in 0..CASES {
            let mut file = original.clone();
            for _ in 0..1 + random.below(3) {
                random.damage(&mut file);
            }
            fs::write(&path, &file).unwrap();
            match catch_unwind(AssertUnwindSafe(|| load(folder.path()))) {
                Ok(Ok(())) => loaded += 1,
                Ok(Err(
                    Error::ModelFormat { .. }
                    | Error::Weights { .. }
                    | Error::Unsupported { .. }
                    | Error::InvalidArgument(_),
                )) => refused += 1,
                Ok(Err(other)) => panic!("{name}, case {case}: {other:?}"),
                Err(_) => panic!("{name}, case {case} panicked: {}", String::from_utf8_lossy(&file)),
            }
        }
        fs::write(&path, &original).unwrap();
    }
    assert!(loaded > 200 && refused > 800, "{loaded} loaded, {refused} refused");
}
