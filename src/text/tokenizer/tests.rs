use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::model::registry;

mod classes;
mod cuts;
mod pairs;
mod sentence_pieces;
mod sentences;

const VOCABULARY: &[&str] = &[
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "rain", "##s", "##ing", "in", "spain", "Spain", "e", "##e",
    "é", ".", ",", "我", "a", "z", "##z",
];

fn id(token: &str) -> u32 {
    VOCABULARY.iter().position(|known| *known == token).unwrap() as u32
}

fn ids(tokens: &[&str]) -> Vec<u32> {
    tokens.iter().map(|token| id(token)).collect()
}

/// tokenizer.json with truncation and padding enabled, as in many models.
fn tokenizer_json() -> Value {
    let special = |i: usize| {
        json!({"id": i, "content": VOCABULARY[i], "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    };
    let place = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let known = |token: &str| json!({"id": token, "ids": [id(token)], "tokens": [token]});
    let vocab: serde_json::Map<String, Value> =
        VOCABULARY.iter().enumerate().map(|(i, token)| ((*token).to_owned(), json!(i))).collect();
    json!({
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "[PAD]"},
        "added_tokens": (0..5).map(special).collect::<Vec<_>>(),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [place("[CLS]"), text, place("[SEP]")],
            "pair": [place("[CLS]"), text, place("[SEP]"), {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": known("[CLS]"), "[SEP]": known("[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab}
    })
}

/// A folder with the given files; strings are written verbatim.
fn folder(files: &[(&str, Value)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn encode(tokenizer: &Tokenizer, text: &str, most: usize) -> Vec<u32> {
    tokenizer.encode(&[text.to_owned()], most).unwrap().remove(0).ids
}

fn load(files: &[(&str, Value)]) -> Tokenizer {
    Tokenizer::load(folder(files).path(), false, registry::tokenizer).unwrap()
}

/// The class that uses tokenizer.json unchanged.
fn as_it_is() -> (&'static str, Value) {
    let names = ["input_ids", "token_type_ids"];
    ("tokenizer_config.json", json!({"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names}))
}

fn vocabulary_file() -> Value {
    json!(VOCABULARY.iter().map(|token| format!("{token}\n")).collect::<String>())
}

#[test]
fn baked_truncation_and_padding_are_dropped() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json())]);
    let whole = ids(&["[CLS]", "the", "rain", "##s", "in", "spain", ".", "[SEP]"]);
    assert_eq!(encode(&tokenizer, "The rains in Spain.", 512), whole);
    assert_eq!(encode(&tokenizer, "The rains in Spain.", 5), ids(&["[CLS]", "the", "rain", "##s", "[SEP]"]));
    assert_eq!(encode(&tokenizer, "The rains in Spain.", 2), ids(&["[CLS]", "[SEP]"]));
    assert_eq!(encode(&tokenizer, "", 512), ids(&["[CLS]", "[SEP]"]));
    assert_eq!(encode(&tokenizer, " \t\u{0}\n", 512), ids(&["[CLS]", "[SEP]"]));
}

#[test]
fn a_limit_below_the_special_tokens_is_refused() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json())]);
    let error = tokenizer.encode(&["the".into()], 1).unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(m) if m.contains("max_seq_length is 1")), "{error}");
}

#[test]
fn many_texts_keep_their_order() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json())]);
    let texts: Vec<String> = (0..500).map(|i| "rain ".repeat(i % 7)).collect();
    for (i, tokens) in tokenizer.encode(&texts, 512).unwrap().iter().enumerate() {
        assert_eq!(tokens.ids.len(), i % 7 + 2);
        assert_eq!(tokens.type_ids, vec![0; i % 7 + 2]);
    }
    assert!(tokenizer.encode(&[], 512).unwrap().is_empty());
}

#[test]
fn a_hundred_thousand_words_are_fine() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json())]);
    let text = "rain in the Spain ".repeat(25_000);
    let tokens = encode(&tokenizer, &text, 512);
    assert_eq!(tokens.len(), 512);
    assert_eq!(tokens[509..], ids(&["rain", "in", "[SEP]"]));
    assert_eq!(encode(&tokenizer, &"z".repeat(600_000), 512), ids(&["[CLS]", "[UNK]", "[SEP]"]));
}

#[test]
fn the_other_end_can_be_lost() {
    let config = json!({"truncation_side": "left"});
    let tokenizer = load(&[("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", config)]);
    assert_eq!(encode(&tokenizer, "the rain in spain", 4), ids(&["[CLS]", "in", "spain", "[SEP]"]));
    let mut baked = tokenizer_json();
    baked["truncation"]["direction"] = json!("Left");
    assert_eq!(encode(&load(&[("tokenizer.json", baked)]), "the rain in spain", 3), ids(&["[CLS]", "spain", "[SEP]"]));
}

#[test]
fn special_tokens_in_a_text_stand_for_themselves() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json())]);
    let expected = ids(&["[CLS]", "the", "[MASK]", "rain", "[SEP]", "[SEP]"]);
    assert_eq!(encode(&tokenizer, "the [MASK] rain[SEP]", 512), expected);
    let mut unmarked = tokenizer_json();
    unmarked["added_tokens"] = json!([]);
    assert_eq!(encode(&load(&[("tokenizer.json", unmarked)]), "the [MASK] rain[SEP]", 512), expected);
}

#[test]
fn the_bert_class_takes_its_normalisation_from_the_configuration() {
    let cased = json!({"tokenizer_class": "BertTokenizer", "do_lower_case": false});
    let files = |config: Value| [("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", config)];
    assert_eq!(encode(&load(&files(cased)), "in Spain é", 9), ids(&["[CLS]", "in", "Spain", "é", "[SEP]"]));
    let accents = json!({"strip_accents": false});
    assert_eq!(encode(&load(&files(accents)), "in Spain é", 9), ids(&["[CLS]", "in", "spain", "é", "[SEP]"]));
    let other = json!({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false});
    assert_eq!(encode(&load(&files(other)), "in Spain é", 9), ids(&["[CLS]", "in", "spain", "e", "[SEP]"]));
}

#[test]
fn lower_case_on_request_spares_special_tokens() {
    let config = json!({"do_lower_case": false});
    let folder = folder(&[("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", config)]);
    let tokenizer = Tokenizer::load(folder.path(), true, registry::tokenizer).unwrap();
    assert_eq!(encode(&tokenizer, "[MASK] SPAIN É", 9), ids(&["[CLS]", "[MASK]", "spain", "é", "[SEP]"]));
}

#[test]
fn a_vocabulary_alone_is_enough_for_bert() {
    let whole = load(&[("tokenizer.json", tokenizer_json())]);
    let alone = load(&[("vocab.txt", vocabulary_file())]);
    for text in ["The rains, in Spain é. 我a", "[MASK]the", "", "x", "\u{0}the\tRAIN"] {
        assert_eq!(encode(&alone, text, 8), encode(&whole, text, 8), "{text:?}");
    }
    let config = json!({"do_lower_case": false, "tokenize_chinese_chars": false});
    let cased = load(&[("vocab.txt", vocabulary_file()), ("tokenizer_config.json", config)]);
    assert_eq!(encode(&cased, "Spain 我a", 8), ids(&["[CLS]", "Spain", "[UNK]", "[SEP]"]));
    assert_eq!(alone.loaded.tokenizer.get_vocab_size(true), VOCABULARY.len());
}

#[test]
fn prompt_lengths_leave_out_the_trailing_special_token() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json())]);
    assert_eq!(tokenizer.prompt_length("", 512).unwrap(), 0);
    assert_eq!(tokenizer.prompt_length("the rain: ", 512).unwrap(), 4);
    assert_eq!(tokenizer.prompt_length("the rain in spain", 3).unwrap(), 2);
    let mut bare = tokenizer_json();
    bare["post_processor"] = Value::Null;
    assert_eq!(load(&[("tokenizer.json", bare), as_it_is()]).prompt_length("the rain", 512).unwrap(), 2);
}

#[test]
fn what_stands_around_a_text_is_what_the_template_puts_there() {
    let with = |template: &dyn Fn(&mut Value)| {
        let mut json = tokenizer_json();
        template(&mut json["post_processor"]);
        load(&[("tokenizer.json", json), as_it_is()])
    };
    let usual = with(&|_| ());
    let text = with(&|t| t["single"][1]["Sequence"]["type_id"] = json!(1));
    let bare = with(&|t| *t = Value::Null);
    let twice = with(&|t| t["single"][2] = json!({"Sequence": {"id": "A", "type_id": 0}}));
    for tokenizer in [&usual, &text, &bare] {
        let around = tokenizer.surroundings.as_ref().expect("the same around every text");
        for ids in [&[][..], &[7], &[7, 6, 8, 6, 7]] {
            assert_eq!(around.around(ids), post_process(&tokenizer.loaded.tokenizer, ids, None).unwrap());
        }
    }
    assert_eq!(text.surroundings.as_ref().map(|around| around.own), Some(1));
    assert_eq!(twice.surroundings, None, "a text that stands there twice is left to the library");
}

#[test]
fn unusable_files_are_named() {
    let mut no_unknown = tokenizer_json();
    no_unknown["model"]["vocab"].as_object_mut().unwrap().remove("[UNK]");
    let cases: &[(&[(&str, Value)], &str)] = &[
        (&[], "no tokenizer.json"),
        (&[("tokenizer.json", json!("{"))], "tokenizer.json"),
        (&[("tokenizer.json", json!([]))], "tokenizer.json"),
        (&[("tokenizer.json", json!({"version": "1.0"}))], "tokenizer.json"),
        (&[("vocab.txt", json!("the\nrain\n"))], "has no [UNK]"),
        (
            &[("vocab.txt", vocabulary_file()), ("tokenizer_config.json", json!({"tokenizer_class": "T5"}))],
            "no tokenizer.json",
        ),
        (&[("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", json!([1]))], "tokenizer_config.json"),
        (
            &[("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", json!({"do_lower_case": "yes"}))],
            "do_lower_case",
        ),
        (
            &[("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", json!({"truncation_side": 3}))],
            "truncation_side",
        ),
    ];
    for (files, part) in cases {
        let error = Tokenizer::load(folder(files).path(), false, registry::tokenizer).err().unwrap();
        assert!(matches!(error, Error::ModelFormat { .. }), "{error}");
        assert!(error.to_string().contains(part), "{part} not in {error}");
    }
    assert!(Tokenizer::load(Path::new("/nonexistent"), false, registry::tokenizer).is_err());
    let error = load(&[("tokenizer.json", no_unknown)]).encode(&["the xylophone".into()], 9).unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(m) if m.contains("text 0")), "{error}");
}

#[test]
fn a_long_value_is_not_quoted_whole() {
    let long = json!("x".repeat(300_000));
    let as_it_is = ("tokenizer_config.json", json!({"tokenizer_class": "PreTrainedTokenizerFast"}));
    for (part, key) in [("model", "vocab"), ("model", "unk_token"), ("truncation", "direction")] {
        let mut file = tokenizer_json();
        file[part][key] = if key == "unk_token" { json!([long]) } else { long.clone() };
        for config in [as_it_is.clone(), ("tokenizer_config.json", json!({}))] {
            let Err(error) =
                Tokenizer::load(folder(&[("tokenizer.json", file.clone()), config]).path(), false, registry::tokenizer)
            else {
                continue;
            };
            let text = error.to_string();
            assert!(text.len() < 400 && text.contains("tokenizer.json: "), "{} bytes: {text:.300}", text.len());
        }
    }
}

#[test]
fn a_baked_limit_below_the_special_tokens_is_harmless() {
    let mut tiny = tokenizer_json();
    tiny["truncation"]["max_length"] = json!(1);
    assert_eq!(encode(&load(&[("tokenizer.json", tiny)]), "rain", 9), ids(&["[CLS]", "rain", "[SEP]"]));
}

#[test]
fn beginnings_that_the_vocabulary_has_are_one_token() {
    let plain = || load(&[("tokenizer.json", tokenizer_json())]);
    let begun = plain().with_beginnings(&["##s ".into(), "rain".into(), "unknown ".into()]).unwrap();
    let parts = ["[CLS]", "[UNK]", "[UNK]", "[UNK]", "the", "[SEP]"];
    assert_eq!(encode(&plain(), "##s the", 9), ids(&parts));
    assert_eq!(encode(&begun, "##s the", 9), ids(&["[CLS]", "##s", "the", "[SEP]"]));
    // What it does not know stays text.
    assert_eq!(encode(&begun, "unknown the", 9), encode(&plain(), "unknown the", 9));
    assert_eq!((begun.id("##s"), begun.id("unknown")), (Some(id("##s")), None));
}
