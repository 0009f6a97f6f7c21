//! The tokenizers that each class builds from small hand-made files.

use super::*;

/// Pieces of [`piece_file`] in the order of their ids.
pub(super) const PIECES: &[(&str, f64)] = &[
    ("<s>", 0.0),
    ("<pad>", 0.0),
    ("</s>", 0.0),
    ("<unk>", 0.0),
    ("▁", -2.0),
    ("▁a", -1.0),
    ("a", -3.0),
    ("b", -3.0),
    ("ab", -2.5),
    ("▁ab", -1.5),
    ("<mask>", 0.0),
    ("fi", -3.0),
    ("A", -4.0),
];
const BYTES: &[&str] = &["<s>", "<pad>", "</s>", "<unk>", "a", "b", "Ġ", "Ġa", "ab", "Ċ", "Ã", "©", "<mask>", "A"];

fn special(id: usize, content: &str) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": content == "<mask>", "rstrip": false,
        "normalized": false, "special": true})
}

/// tokenizer.json of byte-level BPE.
pub(super) fn byte_file() -> Value {
    let vocab: serde_json::Map<String, Value> = (0..).zip(BYTES).map(|(i, t)| ((*t).to_owned(), json!(i))).collect();
    json!({
        "version": "1.0",
        "added_tokens": [special(0, "<s>"), special(1, "<pad>"), special(2, "</s>"), special(12, "<mask>")],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "vocab": vocab, "merges": [["Ġ", "a"], ["a", "b"]]}
    })
}

/// tokenizer.json of Unigram, with a character map.
pub(super) fn piece_file(map: Option<&[u8]>) -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [special(0, "<s>"), special(1, "<pad>"), special(2, "</s>"), special(3, "<unk>"), special(10, "<mask>")],
        "normalizer": map.map(|map| json!({"type": "Sequence", "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": base64(map)},
            {"type": "Replace", "pattern": {"String": "a"}, "content": "b"},
        ]})),
        "model": {"type": "Unigram", "unk_id": 0, "vocab": PIECES, "byte_fallback": false}
    })
}

fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let four = |bytes: &[u8]| {
        let bits = bytes.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - bytes.len()));
        let digit = |i| digits[(bits >> (18 - 6 * i)) as usize & 63] as char;
        format!("{:=<4}", (0..=bytes.len()).map(digit).collect::<String>())
    };
    bytes.chunks(3).map(four).collect()
}

/// A character map in sentencepiece's format: the size of a double array over bytes, the array, and the replacements of
/// the keys. Keys have at most 4 bytes and differ in the first.
pub(super) fn character_map(pairs: &[(&str, &str)]) -> Vec<u8> {
    let (mut array, mut texts) = (vec![0u32; 256 * (2 + 4 * pairs.len())], String::new());
    for (number, (key, text)) in pairs.iter().enumerate() {
        let mut place = 0;
        for (depth, byte) in key.bytes().enumerate() {
            let here = place ^ usize::from(byte);
            // The next level has its own 256 entries, so that no two keys collide.
            place = 256 * (1 + 4 * number + depth);
            let ends = u32::from(depth + 1 == key.len());
            array[here] = u32::from(byte) | ends << 8 | ((here ^ place) as u32) << 10;
        }
        array[place] = texts.len() as u32;
        texts.push_str(text);
        texts.push('\0');
    }
    let size = (array.len() * 4) as u32;
    let array = array.into_iter().flat_map(u32::to_le_bytes);
    size.to_le_bytes().into_iter().chain(array).chain(texts.into_bytes()).collect()
}

/// Maps no-break spaces to spaces, the ligature ﬁ to its letters, and a space below an accent to a letter.
pub(super) fn no_break_spaces() -> Vec<u8> {
    character_map(&[("\u{a0}", " "), ("ﬁ", "fi"), (" \u{301}", "b")])
}

/// The tokenizer of a file with the configuration for a class.
pub(super) fn of(file: Value, config: Value) -> Tokenizer {
    load(&[("tokenizer.json", file), ("tokenizer_config.json", config)])
}

/// The ids of the text without the tokens around it.
fn own(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let ids = encode(tokenizer, text, 512);
    ids[1..ids.len() - 1].to_vec()
}

#[test]
fn a_class_builds_all_but_the_vocabulary() {
    let bytes = of(byte_file(), json!({"tokenizer_class": "RobertaTokenizer"}));
    assert_eq!(encode(&bytes, "ab a", 9), [0, 8, 7, 2], "the file would put a space before the text and split nothing");
    assert_eq!(own(&bytes, "a\n bé"), [4, 9, 6, 5, 10, 11]);
    let spaced = of(byte_file(), json!({"tokenizer_class": "RobertaTokenizerFast", "add_prefix_space": true}));
    assert_eq!(own(&spaced, "ab a"), [7, 5, 7]);

    let composed = |prefix: bool| {
        let config = json!({"tokenizer_class": "Qwen2Tokenizer", "unk_token": null, "add_prefix_space": prefix});
        of(byte_file(), config)
    };
    assert_eq!(encode(&composed(false), "ab a e\u{301}", 9), [8, 7, 6, 10, 11], "no tokens around, letters composed");
    assert_eq!(encode(&composed(true), "ab a", 9), [7, 5, 7]);

    let map = no_break_spaces();
    let pieces = of(piece_file(Some(&map)), json!({"tokenizer_class": "XLMRobertaTokenizer"}));
    assert_eq!(
        encode(&pieces, "ab  a\u{a0}\u{fb01}", 9),
        [0, 9, 5, 4, 11, 2],
        "letters stay what the map makes of them"
    );
    assert_eq!(own(&pieces, "\u{a0}éé b"), [4, 3, 4, 7]);
    let bare = of(piece_file(None), json!({"tokenizer_class": "XLMRobertaTokenizer", "add_prefix_space": false}));
    assert_eq!(own(&bare, "ab a\u{a0}\u{fb01}"), [8, 6, 3], "without a map the ligature is unknown");
}

#[test]
fn sentence_pieces_have_their_unknown_piece_by_id_or_by_name() {
    let named = |class: &str, unknown: &str| {
        own(&of(piece_file(None), json!({"tokenizer_class": class, "unk_token": unknown})), "é")
    };
    assert_eq!(named("XLMRobertaTokenizer", "a"), [4, 3]);
    assert_eq!(named("CamembertTokenizer", "a"), [4, 6]);
    assert_eq!(named("CamembertTokenizer", "<unk>"), [4, 3]);
}

#[test]
fn a_mask_takes_the_spaces_before_it_where_the_class_says_so() {
    // Splitting at white space hides it, except where the map turns a space into a letter.
    let mut file = piece_file(Some(&character_map(&[("\u{a0}", "b")])));
    file["added_tokens"] = json!([]);
    for (class, ids) in [("CamembertTokenizer", vec![5, 10, 5]), ("XLMRobertaTokenizer", vec![9, 10, 5])] {
        assert_eq!(own(&of(file.clone(), json!({"tokenizer_class": class})), "a\u{a0}<mask> a"), ids, "{class}");
    }
    let mut bytes = byte_file();
    bytes["added_tokens"] = json!([]);
    let config = |config: Value| of(bytes.clone(), config);
    assert_eq!(own(&config(json!({"tokenizer_class": "RobertaTokenizer"})), "a <mask>"), [4, 6, 12]);
    let taking = json!({"content": "<mask>", "lstrip": true, "__type": "AddedToken"});
    assert_eq!(own(&config(json!({"tokenizer_class": "RobertaTokenizer", "mask_token": taking})), "a <mask>"), [4, 12]);
    let added = json!({"12": taking, "40": {"content": "ab", "normalized": false, "single_word": true}});
    let added = config(json!({"tokenizer_class": "RobertaTokenizer", "added_tokens_decoder": added}));
    assert_eq!(own(&added, "a <mask>abb ab"), [4, 12, 8, 5, 6, 8]);
}

#[test]
fn special_tokens_lose_their_options_where_the_class_adds_them_anew() {
    let ids = |class: &str| {
        let mask = json!({"__type": "AddedToken", "content": "<mask>", "lstrip": true, "rstrip": true});
        let added = json!({"12": mask, "40": {"content": "<new>", "lstrip": true}});
        let config = json!({"tokenizer_class": class, "unk_token": "<unk>", "mask_token": mask,
            "added_tokens_decoder": added});
        encode(&of(byte_file(), config), "a <mask> b <new>", 9)
    };
    assert_eq!(ids("GPT2Tokenizer"), [4, 12, 5, 14]);
    assert_eq!(ids("Qwen2Tokenizer"), [4, 6, 12, 6, 5, 14], "a token that is not special keeps its own");
}

#[test]
fn the_class_is_the_named_one_or_that_of_the_model() {
    let kind = |tokenizer: Option<&str>, model: Value| {
        let config = json!({"tokenizer_class": tokenizer});
        let files = [("tokenizer.json", byte_file()), ("tokenizer_config.json", config), ("config.json", model)];
        Tokenizer::load(folder(&files).path(), false, registry::tokenizer)
            .map(|tokenizer| encode(&tokenizer, "a a", 9))
            .ok()
    };
    // This tokenizer.json itself puts a space before the text, has no splitting and no template.
    let (bytes, as_it_is) = (Some(vec![0, 4, 7, 2]), Some(vec![7, 7]));
    assert_eq!(kind(None, json!({"model_type": "roberta"})), bytes);
    for name in ["gpt2", "gpt_neo", "gpt_neox", "qwen2"] {
        assert_eq!(kind(None, json!({"model_type": name})), Some(vec![4, 7]), "{name}");
    }
    assert_eq!(kind(None, json!({"model_type": "llama"})), as_it_is);
    assert_eq!(kind(None, json!({"model_type": "xlm-roberta"})), None);
    assert_eq!(kind(None, json!({"model_type": "bert", "tokenizer_class": "RobertaTokenizer"})), bytes);
    assert_eq!(kind(Some("LongformerTokenizerFast"), json!({"model_type": "xlm-roberta"})), bytes);
    assert_eq!(kind(Some("PreTrainedTokenizerFast"), json!({"model_type": "roberta"})), as_it_is);
    assert_eq!(kind(Some("Unheard"), json!({"model_type": "roberta", "tokenizer_class": "BertTokenizer"})), as_it_is);
    assert_eq!(kind(Some(""), json!({"model_type": "roberta"})), bytes);
    // Some kinds of models have their own class whatever a file names, some have tokenizer.json as it is.
    for name in ["RobertaTokenizer", "PreTrainedTokenizerFast", "LlamaTokenizer", "Unheard"] {
        assert_eq!(kind(Some(name), json!({"model_type": "qwen2"})), Some(vec![4, 7]), "{name}");
        for model in ["mistral", "phi3", "modernbert", "granite"] {
            assert_eq!(kind(Some(name), json!({"model_type": model})), as_it_is, "{name}, {model}");
        }
    }
    let named = |model: Value| kind(Some("BertTokenizer"), model);
    assert_eq!(named(json!({"model_type": "roberta", "model_name": "camembertv2-base"})), bytes);
    // A class for characters leaves a file over bytes as it is.
    assert_eq!(kind(Some("LlamaTokenizer"), json!({"model_type": "llama"})), as_it_is);
    assert_eq!(kind(Some("Phi3Tokenizer"), json!({"model_type": "llama"})), Some(vec![4, 4]));
}

#[test]
fn the_code_of_a_repository_is_done_or_refused() {
    let with = |auto_map: Value, ends: bool| {
        let config = json!({"tokenizer_class": "Qwen2Tokenizer", "unk_token": "<unk>", "eos_token": "</s>",
            "pad_token": "<pad>", "add_eos_token": ends, "auto_map": auto_map});
        let files = [("tokenizer.json", byte_file()), ("tokenizer_config.json", config)];
        Tokenizer::load(folder(&files).path(), false, registry::tokenizer)
    };
    let names = json!(["tokenization_qwen.Qwen2Tokenizer", "tokenization_qwen.Qwen2TokenizerFast"]);
    for map in [json!({"AutoTokenizer": names}), names.clone(), json!({"AutoTokenizer": [names[0], null]})] {
        let tokenizer = with(map.clone(), true).unwrap();
        // Everything else is as tokenizer.json has it, with its space before a text.
        assert_eq!(encode(&tokenizer, "a a", 9), [7, 7, 2]);
        let pair = tokenizer.encode_pairs(&[["a".into(), "ab".into()]], 9).unwrap().remove(0);
        assert_eq!(pair.ids, [7, 2, 7, 5, 2]);
        assert_eq!(encode(&with(map, false).unwrap(), "a a", 9), [7, 7]);
    }
    let others = json!({"AutoTokenizer": ["own--tokenization_own.OwnTokenizer", null]});
    let error = with(others, true).err().unwrap();
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("tokenization_own.OwnTokenizer"));
    assert!(with(json!({"AutoModel": "modeling.Model"}), true).is_ok());
}

#[test]
fn a_family_whose_class_is_python_code_has_the_class_that_a_file_names() {
    let load = |config: Value| {
        let mut files = vec![("tokenizer.json", tokenizer_json()), ("config.json", json!({"model_type": "roformer"}))];
        if !config.is_null() {
            files.push(("tokenizer_config.json", config));
        }
        Tokenizer::load(folder(&files).path(), false, registry::tokenizer)
    };
    assert!(load(json!({"tokenizer_class": "BertTokenizer"})).is_ok());
    assert!(load(json!({"tokenizer_class": "PreTrainedTokenizerFast"})).is_ok());
    for (config, said) in [
        (Value::Null, "config.json: RoFormerTokenizer, the tokenizer of model_type \"roformer\","),
        (json!({"do_lower_case": true}), "config.json: RoFormerTokenizer, the tokenizer of"),
        (json!({"tokenizer_class": "RoFormerTokenizerFast"}), "tokenizer_class \"RoFormerTokenizerFast\""),
    ] {
        let error = load(config).err().unwrap();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(said) && error.to_string().contains("the dictionary of rjieba"), "{error}");
    }
}

#[test]
fn decoders_that_start_with_a_class_of_their_own() {
    let mut file = byte_file();
    let pieces = ["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "<0xC3>", "<0xA9>", "\u{301}"];
    file["model"]["vocab"] = pieces.iter().enumerate().map(|(i, piece)| ((*piece).to_owned(), json!(i))).collect();
    file["model"]["merges"] = json!([["▁", "a"]]);
    file["added_tokens"] = json!([special(0, "<unk>"), special(1, "<s>"), special(2, "</s>")]);
    file["pre_tokenizer"] = Value::Null;
    let with = |config: Value| of(file.clone(), config);
    let llama = with(json!({"tokenizer_class": "LlamaTokenizer"}));
    assert_eq!(encode(&llama, "a a<s>aé", 12), [6, 6, 1, 4, 7, 8], "a space before the first part, bytes of letters");
    assert_eq!(llama.padding_side(), Side::Left);
    let legacy = with(json!({"tokenizer_class": "LlamaTokenizerFast", "legacy": true}));
    assert_eq!(encode(&legacy, "a<s>a", 12), [6, 1, 6]);
    let bare = with(json!({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false, "padding_side": "right"}));
    assert_eq!((encode(&bare, "a a", 12), bare.padding_side()), (vec![4, 6], Side::Right));
    let gemma = with(json!({"tokenizer_class": "GemmaTokenizer", "pad_token": "<unk>"}));
    assert_eq!(encode(&gemma, " a  a<mask>x", 12), [6, 3, 6, 12, 0], "the mask is added, and <bos> and <eos>");
    let mut framed = byte_file();
    framed["post_processor"] = json!({"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]});
    let config = json!({"tokenizer_class": "GPTNeoXTokenizer", "add_eos_token": true, "eos_token": "</s>"});
    assert_eq!(encode(&of(framed, config), "a e\u{301}", 9), [4, 6, 10, 11], "composed, and nothing around");
}

#[test]
fn segments_are_given_where_the_class_or_the_configuration_says_so() {
    let segments = |config: Value| {
        let mut file = tokenizer_json();
        file["post_processor"]["single"][1]["Sequence"]["type_id"] = json!(1);
        let tokenizer = of(file, config);
        (tokenizer.gives_segments(), tokenizer.encode(&["the".into()], 9).unwrap().remove(0).type_ids)
    };
    let names = ["input_ids", "token_type_ids"];
    assert_eq!(segments(json!({})), (true, vec![0; 3]), "BERT's own template");
    assert_eq!(segments(json!({"tokenizer_class": "DistilBertTokenizer"})), (false, vec![0; 3]));
    assert_eq!(segments(json!({"tokenizer_class": "TokenizersBackend"})), (false, vec![0; 3]));
    let backend = json!({"tokenizer_class": "TokenizersBackend", "model_input_names": names});
    assert_eq!(segments(backend), (true, vec![0, 1, 0]));
    assert_eq!(segments(json!({"model_input_names": ["input_ids"]})), (false, vec![0; 3]));
}

#[test]
fn padding_is_the_class_or_the_configurations_or_the_files() {
    let padding = |file: Value, config: Value| {
        let tokenizer = of(file, config);
        (tokenizer.pad_id(), tokenizer.padding_side())
    };
    assert_eq!(padding(byte_file(), json!({"tokenizer_class": "RobertaTokenizer"})), (Some(1), Side::Right));
    let named = json!({"tokenizer_class": "RobertaTokenizer", "pad_token": "a", "padding_side": "left"});
    assert_eq!(padding(byte_file(), named), (Some(4), Side::Left));
    assert_eq!(padding(byte_file(), json!({"tokenizer_class": "RobertaTokenizer", "pad_token": null})).0, None);
    let new = json!({"tokenizer_class": "RobertaTokenizer", "pad_token": "[PAD]"});
    assert_eq!(padding(byte_file(), new).0, Some(BYTES.len() as u32), "a token that is nowhere gets the next id");
    let mut left = tokenizer_json();
    left["padding"]["direction"] = json!("Left");
    assert_eq!(padding(left.clone(), json!({"tokenizer_class": "TokenizersBackend"})), (Some(0), Side::Left));
    assert_eq!(padding(left, json!({})), (Some(0), Side::Left));
    assert_eq!(padding(byte_file(), json!({"tokenizer_class": "TokenizersBackend"})), (None, Side::Right));
}

#[test]
fn older_files_count_where_the_configuration_lists_no_added_tokens() {
    let older = [
        ("special_tokens_map.json", json!({"sep_token": "ab", "additional_special_tokens": ["aa"]})),
        ("added_tokens.json", json!({"<new>": 14})),
    ];
    let with = |config: Value| {
        let files = [("tokenizer.json", byte_file()), ("tokenizer_config.json", config)];
        encode(&load(&[&files[..], &older[..]].concat()), "aa<new>", 9)
    };
    let class = "RobertaTokenizer";
    assert_eq!(with(json!({"tokenizer_class": class})), [0, 15, 14, 8]);
    assert_eq!(with(json!({"tokenizer_class": class, "added_tokens_decoder": {}}))[..3], [0, 4, 4]);
}

#[test]
fn a_vocabulary_with_merges_is_enough_for_bytes() {
    let vocab = byte_file()["model"]["vocab"].clone();
    let config = ("tokenizer_config.json", json!({"tokenizer_class": "RobertaTokenizer"}));
    let load = |merges: &str| {
        let files = [("vocab.json", vocab.clone()), ("merges.txt", json!(merges)), config.clone()];
        Tokenizer::load(folder(&files).path(), false, registry::tokenizer)
    };
    let tokenizer = load("#version: 0.2\nĠ a\na b\n").unwrap();
    assert_eq!(encode(&tokenizer, "ab a<mask>", 9), [0, 8, 7, 12, 2]);
    for (merges, part) in [("Ġ a\nab", "line 2"), ("a b c", "line 1"), ("a x", "vocab.json")] {
        let error = load(merges).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_a_class_cannot_use_is_named() {
    let class = |name: &str| json!({"tokenizer_class": format!("{name}Tokenizer")});
    let with = |name: &str, key: &str, value: Value| {
        let mut config = class(name);
        config[key] = value;
        ("tokenizer_config.json", config)
    };
    let bytes = ("tokenizer.json", byte_file());
    let mut broken = piece_file(Some(&[1, 2, 3]));
    broken["normalizer"] = broken["normalizer"]["normalizers"][0].clone();
    let mut odd = byte_file();
    odd["model"]["merges"] = json!(["a"]);
    let sentences = ("tokenizer_config.json", class("XLMRoberta"));
    let cases: &[(&[(&str, Value)], &str)] = &[
        (&[bytes.clone(), sentences.clone()], "its pieces have no scores"),
        (std::slice::from_ref(&sentences), "no tokenizer.json and no sentencepiece.bpe.model; save it with"),
        (
            &[("sentencepiece.bpe.model", json!("")), sentences.clone()],
            "is not a SentencePiece model: it has no pieces",
        ),
        (&[("vocab.json", json!({})), ("tokenizer_config.json", class("Roberta"))], "no vocab.json with merges.txt"),
        (
            &[("vocab.txt", vocabulary_file()), ("tokenizer_config.json", class("TokenizersBackend"))],
            "no tokenizer.json",
        ),
        (&[("tokenizer.json", broken), sentences.clone()], "tokenizer.json"),
        (&[("tokenizer.json", odd), ("tokenizer_config.json", class("Roberta"))], "the merge \"a\""),
        (&[("tokenizer.json", piece_file(None)), ("tokenizer_config.json", class("Albert"))], "has no [CLS]"),
        (
            &[("tokenizer.json", piece_file(None)), with("T5", "extra_ids", json!(-1))],
            "extra_ids is not a whole number",
        ),
        (&[("tokenizer.json", piece_file(None)), with("T5", "eos_token", Value::Null)], "eos_token is null"),
        (&[bytes.clone(), with("Roberta", "cls_token", Value::Null)], "cls_token is null"),
        (&[("tokenizer.json", tokenizer_json()), with("Bert", "unk_token", Value::Null)], "unk_token is null"),
        (&[bytes.clone(), with("Roberta", "mask_token", json!(3))], "mask_token is neither"),
        (
            &[bytes.clone(), with("Roberta", "added_tokens_decoder", json!({"x": {"content": "a"}}))],
            "\"x\" is not an id",
        ),
        (&[bytes.clone(), with("Roberta", "added_tokens_decoder", json!({"1": "a"}))], "the token 1"),
        (&[bytes.clone(), with("Roberta", "model_input_names", json!("input_ids"))], "model_input_names"),
        (&[bytes.clone(), with("Roberta", "extra_special_tokens", json!("a"))], "extra_special_tokens"),
        (&[bytes.clone(), with("Roberta", "padding_side", json!("top"))], "padding_side"),
        (
            &[bytes, ("added_tokens.json", json!({"a": -1})), ("tokenizer_config.json", class("Roberta"))],
            "added_tokens.json",
        ),
    ];
    for (files, part) in cases {
        let error = Tokenizer::load(folder(files).path(), false, registry::tokenizer)
            .err()
            .unwrap_or_else(|| panic!("{part} is accepted"));
        assert!(matches!(error, Error::ModelFormat { .. }), "{error}");
        assert!(error.to_string().contains(part), "{part} not in {error}");
    }
}
