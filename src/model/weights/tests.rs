mod tied;

use std::fs;
use std::panic::catch_unwind;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A safetensors file: header, then data.
fn container(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// A valid file of the given tensors: name, type, axes; element `i` of each tensor is `i`.
fn honest(tensors: &[(&str, &str, &[usize])]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    for (name, dtype, shape) in tensors {
        let begin = data.len();
        for i in 0..shape.iter().product::<usize>() {
            match *dtype {
                "F32" => data.extend((i as f32).to_le_bytes()),
                "F16" => data.extend(half::f16::from_f32(i as f32).to_le_bytes()),
                "BF16" => data.extend(half::bf16::from_f32(i as f32).to_le_bytes()),
                "F64" => data.extend((i as f64).to_le_bytes()),
                "F8_E5M2" => data.push(half::f16::from_f32(i as f32).to_le_bytes()[1]),
                "F8_E4M3FNUZ" => data.push(0),
                "I64" => data.extend((i as i64).to_le_bytes()),
                other => panic!("{other}"),
            }
        }
        header.insert((*name).into(), json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    container(&Value::Object(header).to_string(), &data)
}

fn rules() -> NameRules {
    let text = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    NameRules {
        prefixes: text(&["bert."]),
        starts: vec![("encoder.".into(), "layers.".into())],
        endings: vec![("norm.gamma".into(), "norm.weight".into()), ("norm.beta".into(), "norm.bias".into())],
        ignored: text(&["old.mask"]),
        stacked: vec![("both.weight".into(), text(&["first.weight", "second.weight"]))],
        aliases: vec![("tied".into(), "words".into())],
        ..NameRules::default()
    }
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn open(files: &[(&str, &[u8])]) -> Result<Weights> {
    Weights::open(folder(files).path(), "", &[], &rules())
}

fn refusal(files: &[(&str, &[u8])]) -> String {
    match open(files).err().unwrap() {
        error @ Error::ModelFormat { .. } => error.to_string(),
        other => panic!("{other}"),
    }
}

fn refused_header(header: &str, data: usize) -> String {
    refusal(&[("model.safetensors", &container(header, &vec![0; data]))])
}

fn needed(tensors: &[(&str, &[usize])]) -> Vec<Needed> {
    tensors
        .iter()
        .map(|(name, shape)| Needed { name: (*name).into(), shape: shape.to_vec(), content: Content::Numbers })
        .collect()
}

fn values(weights: &Weights, name: &str) -> Vec<f32> {
    let view = weights.tensor(name).unwrap();
    let mut values = vec![0.0; view.elements()];
    view.read_f32(0, &mut values).unwrap();
    values
}

#[test]
fn element_types_are_read() {
    let file = honest(&[
        ("a", "F32", &[2, 3]),
        ("b", "F16", &[3]),
        ("c", "BF16", &[1, 4]),
        ("d", "F64", &[2]),
        ("e", "F8_E5M2", &[2]),
        ("position_ids", "I64", &[5]),
    ]);
    let weights = open(&[("model.safetensors", &file)]).unwrap();
    assert_eq!(values(&weights, "a"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(values(&weights, "b"), [0.0, 1.0, 2.0]);
    assert_eq!(values(&weights, "c"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!([values(&weights, "d"), values(&weights, "e")], [[0.0, 1.0]; 2]);
    let all: [(&str, &[usize]); 6] =
        [("a", &[2, 3]), ("b", &[3]), ("c", &[1, 4]), ("d", &[2]), ("e", &[2]), ("a", &[2, 3])];
    assert_eq!(weights.check(&needed(&all), |_| true).unwrap(), ["position_ids"]);
    assert!(matches!(weights.tensor("f"), Err(Error::Weights { .. })));
}

#[test]
fn a_second_name_stands_in_for_the_first() {
    let read = |names: &[&str]| {
        let tensors: Vec<_> = names.iter().enumerate().map(|(i, name)| (*name, "F32", vec![i + 1])).collect();
        let tensors: Vec<_> = tensors.iter().map(|(name, dtype, shape)| (*name, *dtype, shape.as_slice())).collect();
        values(&open(&[("model.safetensors", &honest(&tensors))]).unwrap(), "words").len()
    };
    assert_eq!([read(&["words"]), read(&["bert.tied"])], [1, 1]);
    assert_eq!([read(&["words", "tied"]), read(&["tied", "words"])], [1, 2]);
}

#[test]
fn all_faults_are_named_at_once() {
    let file = honest(&[
        ("bert.a.weight", "F32", &[2, 3]),
        ("b", "I64", &[3]),
        ("bert.a.bias", "F32", &[4]),
        ("bert.extra.weight", "F32", &[4]),
        ("more", "I64", &[]),
        ("bert.pooler.dense.weight", "F32", &[2, 2]),
        ("b.more", "I64", &[]),
        ("c", "F8_E4M3FNUZ", &[1]),
    ]);
    let weights = open(&[("model.safetensors", &file)]).unwrap();
    let wanted = needed(&[("a.weight", &[3, 2]), ("b", &[3]), ("gone", &[7]), ("c", &[1])]);
    let Err(Error::Weights { path, problems }) = weights.check(&wanted, |_| true) else { panic!() };
    assert!(path.ends_with("model.safetensors"));
    assert_eq!(
        problems,
        [
            "a.weight has shape [2, 3], expected [3, 2]",
            "b is stored as I64, expected F32, F16, BF16, F64, F8_E4M3 or F8_E5M2",
            "missing gone [7]",
            "c is stored as F8_E4M3FNUZ, expected F32, F16, BF16, F64, F8_E4M3 or F8_E5M2",
            "unexpected a.bias [4] (stored as bert.a.bias)",
            "unexpected b.more []",
        ]
    );
    assert!(matches!(weights.tensor("b"), Err(Error::Weights { .. })));
}

#[test]
fn tensors_of_another_part_are_not_unexpected() {
    let file = honest(&[("a.weight", "F32", &[2]), ("decoder.b", "F32", &[3]), ("a.extra", "F32", &[1])]);
    let weights = open(&[("model.safetensors", &file)]).unwrap();
    assert!(weights.has("decoder.") && weights.has("a.extra") && !weights.has("decoder.c") && !weights.has("z"));
    let problems = |needed: &[Needed], of_decoder: bool| match weights
        .check(needed, |name| name.starts_with("decoder.") == of_decoder)
    {
        Err(Error::Weights { problems, .. }) => problems,
        other => panic!("{other:?}"),
    };
    assert_eq!(problems(&needed(&[("a.weight", &[2])]), false), ["unexpected a.extra [1]"]);
    let both = needed(&[("a.weight", &[2]), ("decoder.c", &[3])]);
    assert_eq!(problems(&both, true), ["missing decoder.c [3]", "unexpected decoder.b [3]"]);
}

#[test]
fn very_many_faults_are_counted() {
    let weights = open(&[("model.safetensors", &honest(&[]))]).unwrap();
    let missing: Vec<Needed> =
        (0..5000).map(|i| Needed { name: format!("t{i}"), shape: vec![1], content: Content::Numbers }).collect();
    let Err(Error::Weights { problems, .. }) = weights.check(&missing, |_| true) else { panic!() };
    assert_eq!((problems.len(), problems.last().unwrap().as_str()), (1001, "and 4000 more"));
}

#[test]
fn old_names_and_prefixes_become_uniform() {
    let file =
        honest(&[("bert.x.norm.gamma", "F32", &[2]), ("bert.x.norm.beta", "F32", &[2]), ("y.weight", "F32", &[1])]);
    let weights = open(&[("model.safetensors", &file)]).unwrap();
    weights.check(&needed(&[("x.norm.weight", &[2]), ("x.norm.bias", &[2]), ("y.weight", &[1])]), |_| true).unwrap();
    let double = honest(&[("bert.x.norm.gamma", "F32", &[2]), ("x.norm.weight", "F32", &[2])]);
    let weights = open(&[("model.safetensors", &double)]).unwrap();
    let error = weights.check(&needed(&[("x.norm.weight", &[2])]), |_| true).unwrap_err();
    assert!(matches!(error, Error::ModelFormat { .. }), "{error}");
    let said = "two tensors are called x.norm.weight: stored as bert.x.norm.gamma and x.norm.weight";
    assert!(error.to_string().contains(said), "{error}");
    // Of those that nothing reads there may be two.
    let twice = honest(&[("bert.pooler.x", "F32", &[2]), ("pooler.x", "F32", &[2]), ("a", "F32", &[1])]);
    open(&[("model.safetensors", &twice)]).unwrap().check(&needed(&[("a", &[1])]), |_| true).unwrap();
}

#[test]
fn layers_beyond_the_stated_ones_and_parts_of_layers_are_unexpected() {
    let names = [
        "x.0.q.weight",
        "x.0.q.bias",
        "x.0.norm.weight",
        "x.1.q.weight",
        "x.7.mask",
        "bert.linear",
        "own.roberta.linear",
        "own.linear",
        "mlp.dense.weight",
        "head.0.weight",
        "roberta.x",
    ];
    let tensors = names.map(|name| (name, "F32", &[1usize][..]));
    let folder = folder(&[("model.safetensors", &honest(&tensors))]);
    let prefixes = vec!["bert.".into(), "own.".into()];
    let rules = NameRules { ignored: vec!["*.mask".into()], prefixes, ..NameRules::default() };
    let weights = Weights::open(folder.path(), "", &[], &rules).unwrap();
    let Err(Error::Weights { problems, .. }) = weights.check(&needed(&[("x.0.q.weight", &[1])]), |_| true) else {
        panic!()
    };
    // The first two bear the mark of an architecture; the own prefix is none.
    let refused = [
        "unexpected roberta.linear [1] (stored as own.roberta.linear)",
        "unexpected roberta.x [1]",
        "unexpected x.0.norm.weight [1]",
        "unexpected x.0.q.bias [1]",
        "unexpected x.1.q.weight [1]",
    ];
    assert_eq!(problems, refused);
}

#[test]
fn stacked_tensors_are_taken_apart() {
    let file = honest(&[("bert.encoder.0.both.weight", "F16", &[4, 3]), ("encoder.both.weight", "F32", &[2])]);
    let weights = open(&[("model.safetensors", &file)]).unwrap();
    let [first, second] = ["layers.0.first.weight", "layers.0.second.weight"];
    let all = needed(&[(first, &[2, 3]), (second, &[2, 3]), ("layers.first.weight", &[1])]);
    let Err(Error::Weights { problems, .. }) = weights.check(&all, |_| true) else { panic!() };
    assert_eq!(problems, ["unexpected layers.second.weight [1] (stored as encoder.both.weight)"]);
    assert_eq!(values(&weights, first), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(values(&weights, second), [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    let message = refusal(&[("model.safetensors", &honest(&[("both.weight", "F32", &[3, 2])]))]);
    assert!(message.contains("both.weight has shape [3, 2], expected 2 equal blocks of rows"), "{message}");
}

#[test]
fn shards_are_joined() {
    let index = |map: Value| json!({"metadata": {"total_size": 1}, "weight_map": map}).to_string().into_bytes();
    let (one, two) = (honest(&[("bert.a", "F32", &[2])]), honest(&[("b", "F16", &[1]), ("c", "F32", &[1])]));
    let files = |map: Value| {
        let files: [(&str, &[u8]); 3] =
            [("model.safetensors.index.json", &index(map)), ("one.safetensors", &one), ("two.safetensors", &two)];
        folder(&files)
    };
    let open = |map: Value| Weights::open(files(map).path(), "", &[], &rules());
    let weights = open(json!({"bert.a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"})).unwrap();
    weights.check(&needed(&[("a", &[2]), ("b", &[1]), ("c", &[1])]), |_| true).unwrap();
    assert_eq!(values(&weights, "a"), [0.0, 1.0]);
    for (map, part) in [
        (json!({"a": "one.safetensors"}), "promises tensors that are not in it: a"),
        (json!({"bert.a": "three.safetensors"}), "three.safetensors is missing"),
        (json!({"bert.a": "../one.safetensors"}), "not a file of the folder"),
        (json!({"bert.a": "/etc/passwd"}), "not a file of the folder"),
        (json!({"bert.a": 1}), "not a file of the folder"),
        (json!({}), "weight_map is empty"),
        (json!([]), "weight_map is []"),
    ] {
        let error = open(map.clone()).err().unwrap();
        assert!(matches!(error, Error::ModelFormat { .. }));
        assert!(error.to_string().contains(part), "{map}: {error}");
    }
    let twice = files(json!({"bert.a": "one.safetensors", "b": "two.safetensors"}));
    fs::write(twice.path().join("two.safetensors"), honest(&[("a", "F32", &[2]), ("b", "F32", &[1])])).unwrap();
    let weights = Weights::open(twice.path(), "", &[], &rules()).unwrap();
    let error = weights.check(&needed(&[("a", &[2])]), |_| true).unwrap_err();
    assert!(error.to_string().contains("two tensors are called a: stored as bert.a and a"), "{error}");
}

#[test]
fn modules_keep_their_folder_as_prefix() {
    let (encoder, dense) = (honest(&[("a", "F32", &[1])]), honest(&[("linear.weight", "F16", &[2, 1])]));
    let files: [(&str, &[u8]); 2] = [("0_T/model.safetensors", &encoder), ("2_Dense/model.safetensors", &dense)];
    let folder = folder(&files);
    let weights = Weights::open(folder.path(), "0_T", &["2_Dense".into(), "2_Dense".into()], &rules()).unwrap();
    weights.check(&needed(&[("a", &[1]), ("2_Dense/linear.weight", &[2, 1])]), |_| true).unwrap();
    assert_eq!(values(&weights, "2_Dense/linear.weight"), [0.0, 1.0]);
    let error = weights.check(&needed(&[("a", &[1])]), |_| true).unwrap_err();
    assert!(error.to_string().ends_with("unexpected 2_Dense/linear.weight [2, 1]"), "{error}");
    assert!(Weights::open(folder.path(), "0_T", &["3_Dense".into()], &rules()).is_err());
}

#[test]
fn other_formats_say_how_to_convert() {
    assert!(refusal(&[("tf_model.h5", b"")]).contains("safe_serialization"));
    assert!(refusal(&[]).contains("neither model.safetensors nor"));
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("model.safetensors")).unwrap();
    let error = Weights::open(folder.path(), "", &[], &rules()).err().unwrap();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn lying_headers_are_refused() {
    let tensor = |shape: &str, begin: u64, end: u64| {
        format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
    };
    let one = |entry: String| format!(r#"{{"a":{entry}}}"#);
    let two = |a: String, b: String| format!(r#"{{"a":{a},"b":{b}}}"#);
    let huge = u64::MAX;
    for (header, data, part) in [
        (one(tensor("[2]", 0, 8)), 4, "ends at byte 8 of the data, which has only 4"),
        (one(tensor("[2]", 0, 8)), 12, "4 bytes after the last tensor"),
        (one(tensor("[2]", 8, 0)), 8, "before it begins"),
        (one(tensor("[3]", 0, 8)), 8, "takes 12"),
        (one(tensor("[2]", 4, 12)), 12, "belong to no tensor"),
        (one(tensor("[2]", huge, huge)), 8, "ends at byte"),
        (one(tensor("[4611686018427387904,4]", 0, 8)), 8, "impossible shape"),
        (one(tensor("[18446744073709551615]", 0, 8)), 8, "impossible shape"),
        (one(tensor("[-2]", 0, 8)), 8, "corrupt header"),
        (one(tensor("[2.5]", 0, 8)), 8, "corrupt header"),
        (two(tensor("[2]", 0, 8), tensor("[2]", 4, 12)), 12, "a and b overlap"),
        (two(tensor("[2]", 0, 8), tensor("[2]", 0, 8)), 8, "overlap"),
        (two(tensor("[2]", 0, 8), tensor("[1]", 12, 16)), 16, "belong to no tensor"),
        (format!(r#"{{"a":{0},"a":{0}}}"#, tensor("[2]", 0, 8)), 8, "\"a\" stands there twice"),
        (one(tensor("[2]", 0, 8).replace("F32", "F31")), 8, "F31"),
        (r#"{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#.into(), 8, "duplicate"),
        (r#"{"a":{"dtype":"F32","shape":[2]}}"#.into(), 8, "data_offsets"),
        (r#"{"a":3}"#.into(), 8, "corrupt header"),
        ("[]".into(), 0, "corrupt header"),
        (r#"{"__metadata__":{"a":1}}"#.into(), 0, "corrupt header"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#.into(), 0, "twice"),
        ("{}x".into(), 0, "corrupt header"),
        ("{\"\u{0}".into(), 0, "corrupt header"),
    ] {
        let message = refused_header(&header, data);
        assert!(message.contains(part), "{header}: {part} not in {message}");
    }
}

#[test]
fn broken_containers_are_refused() {
    let whole = honest(&[("a", "F32", &[2, 3])]);
    for length in 0..whole.len() {
        let message = refusal(&[("model.safetensors", &whole[..length])]);
        assert!(message.contains("truncated"), "{length}: {message}");
    }
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    assert!(refusal(&[("model.safetensors", pointer)]).contains("git lfs pull"));
    let mut absurd = whole.clone();
    absurd[7] = 0xff;
    assert!(refusal(&[("model.safetensors", &absurd)]).contains("not a safetensors file"));
    let mut binary = whole;
    binary[9] = 0xff;
    assert!(refusal(&[("model.safetensors", &binary)]).contains("corrupt header"));
}

#[test]
fn empty_tensors_are_allowed() {
    let file = honest(&[("a", "F32", &[0, 3]), ("b", "F32", &[1]), ("c", "F16", &[2, 0])]);
    let weights = open(&[("model.safetensors", &file)]).unwrap();
    weights.check(&needed(&[("a", &[0, 3]), ("b", &[1]), ("c", &[2, 0])]), |_| true).unwrap();
    assert_eq!(weights.tensor("c").unwrap().elements(), 0);
}

/// Random corruption with a fixed seed: never a panic, and a file accepted here is accepted by the reference parser.
#[test]
fn random_damage_never_panics() {
    let whole = honest(&[("bert.a", "F32", &[2, 3]), ("b.norm.gamma", "F16", &[3]), ("position_ids", "I64", &[2])]);
    let mut random = Random(7);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut file = whole.clone();
        for _ in 0..1 + random.below(4) {
            random.damage(&mut file);
        }
        let ours = catch_unwind(|| header::read(&file)).expect("no panic");
        let theirs = safetensors::SafeTensors::read_metadata(&file);
        match ours {
            Ok(tensors) => {
                accepted += 1;
                assert_eq!(theirs.unwrap().1.tensors().len(), tensors.len());
                assert!(tensors.iter().all(|tensor| file.get(tensor.bytes.clone()).is_some()));
            }
            Err(problem) => {
                refused += 1;
                assert!(!problem.is_empty());
                assert!(theirs.is_err() || problem.contains("twice"), "{problem}: {}", String::from_utf8_lossy(&file));
            }
        }
    }
    assert!(accepted > 100 && refused > 1_000, "{accepted} accepted, {refused} refused");
}

/// A linear congruential generator: the same cases on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }

    fn damage(&mut self, file: &mut Vec<u8>) {
        let place = self.below(file.len());
        match self.below(6) {
            0 => file.truncate(place),
            1 => file.insert(place, self.below(256) as u8),
            2 if place < file.len() => drop(file.remove(place)),
            // Replacing digits by digits keeps the JSON valid but its statements false.
            3 | 4 => {
                let digits: Vec<usize> = (8..file.len()).filter(|i| file[*i].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    let chosen = digits[self.below(digits.len())];
                    file[chosen] = b'0' + self.below(10) as u8;
                }
            }
            _ if place < file.len() => file[place] ^= 1 << self.below(8),
            _ => {}
        }
    }
}
