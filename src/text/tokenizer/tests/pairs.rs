use tokenizers::utils::truncation::truncate_encodings;
use tokenizers::{TruncationDirection, TruncationParams};

use super::*;

fn pair(tokenizer: &Tokenizer, first: &str, second: &str, most: usize) -> Tokens {
    tokenizer.encode_pairs(&[[first.to_owned(), second.to_owned()]], most).unwrap().remove(0)
}

/// The files of a class, which ignores the template of tokenizer.json.
fn class(name: &str, more: &[(&str, Value)]) -> Vec<(&'static str, Value)> {
    let mut config = json!({"tokenizer_class": name, "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"});
    config.as_object_mut().unwrap().extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    vec![("tokenizer.json", tokenizer_json()), ("tokenizer_config.json", config)]
}

#[test]
fn a_class_has_a_template_of_two_texts() {
    let bert = load(&class("BertTokenizer", &[]));
    let tokens = pair(&bert, "the rain", "in spain", 512);
    assert_eq!(tokens.ids, ids(&["[CLS]", "the", "rain", "[SEP]", "in", "spain", "[SEP]"]));
    assert_eq!(tokens.type_ids, [0, 0, 0, 0, 1, 1, 1]);
    let distilled = load(&class("DistilBertTokenizer", &[]));
    assert_eq!(pair(&distilled, "the rain", "in spain", 512), Tokens { type_ids: vec![0; 7], ..tokens });
    let segments = json!(["input_ids", "token_type_ids"]);
    let mpnet = load(&class("MPNetTokenizer", &[("model_input_names", segments)]));
    let tokens = pair(&mpnet, "the", "in spain", 512);
    assert_eq!(tokens.ids, ids(&["[CLS]", "the", "[SEP]", "[SEP]", "in", "spain", "[SEP]"]));
    assert_eq!(tokens.type_ids, [0; 7]);
    assert_eq!(pair(&bert, "", "", 512).ids, ids(&["[CLS]", "[SEP]", "[SEP]"]));
}

#[test]
fn the_steps_of_a_template() {
    use crate::text::tokenizer::classes::Pair;
    assert_eq!(Pair::Second.template("a", "z"), "a:0 $A:0 z:0 $B:1 z:1");
    assert_eq!(Pair::Begun.template("a", ""), "a:0 $A:0 a:1 $B:1");
    assert_eq!(Pair::Doubled.template("a", "z"), "a:0 $A:0 z:0 z:0 $B:0 z:0");
    assert_eq!(Pair::Joined.template("", "z"), "$A:0 z:0 $B:0 z:0");
}

#[test]
fn a_file_that_is_used_as_it_is_has_its_own() {
    let tokenizer = load(&[("tokenizer.json", tokenizer_json()), as_it_is()]);
    let tokens = pair(&tokenizer, "the rain", "in spain", 512);
    assert_eq!(tokens.ids, ids(&["[CLS]", "the", "rain", "[SEP]", "in", "spain"]));
    assert_eq!(tokens.type_ids, [0, 0, 0, 0, 1, 1]);
    let mut bare = tokenizer_json();
    bare["post_processor"] = Value::Null;
    let tokens = pair(&load(&[("tokenizer.json", bare), as_it_is()]), "the", "in spain", 512);
    assert_eq!((tokens.ids, tokens.type_ids), (ids(&["the", "in", "spain"]), vec![0, 1, 1]));
}

#[test]
fn the_longer_text_is_truncated_first() {
    let long = "the rain in spain a z in the rain ".repeat(80);
    for side in ["right", "left"] {
        let tokenizer = load(&class("BertTokenizer", &[("truncation_side", json!(side))]));
        let direction = if side == "left" { TruncationDirection::Left } else { TruncationDirection::Right };
        for most in [3, 7, 8, 16, 17, 101] {
            let library = &tokenizer.loaded.tokenizer;
            let room = TruncationParams { max_length: most - 3, direction, ..TruncationParams::default() };
            for (first, second) in [
                ("the", "in spain"),
                (long.as_str(), "in spain"),
                ("in spain", long.as_str()),
                (long.as_str(), &long[..long.len() / 2]),
                (&long[..long.len() / 2], long.as_str()),
                (long.as_str(), long.as_str()),
                ("", long.as_str()),
            ] {
                // Of whole texts: a truncation set in the tokenizer ends tokenizing early, and both then seem equally long.
                let [first_whole, second_whole] = [first, second].map(|text| library.encode(text, false).unwrap());
                let (a, b) = truncate_encodings(first_whole, Some(second_whole), &room).unwrap();
                let expected = library.post_process(a, b, true).unwrap();
                let found = pair(&tokenizer, first, second, most);
                assert_eq!(found.ids, expected.get_ids(), "{side} {most} {first:.20} {second:.20}");
                assert_eq!(found.type_ids, expected.get_type_ids());
            }
        }
    }
}

#[test]
fn a_limit_below_the_special_tokens_of_a_pair_is_refused() {
    let tokenizer = load(&class("BertTokenizer", &[]));
    let error = tokenizer.encode_pairs(&[["the".into(), "the".into()]], 2).unwrap_err().to_string();
    assert!(error.contains("max_seq_length is 2, but the tokenizer puts 3 special tokens around each pair"), "{error}");
}
