//! The tokenizers of ALBERT, DeBERTa and T5.

use super::classes::{PIECES, no_break_spaces, of, piece_file};
use super::*;

#[test]
fn albert_unifies_quotes_and_drops_accents_and_capitals_unless_asked() {
    let mut file = piece_file(None);
    file["model"]["vocab"][4][0] = json!("\"");
    let albert = |file: &Value, more: &[(&str, bool)]| {
        let mut config = json!({"tokenizer_class": "AlbertTokenizer", "cls_token": "<s>", "sep_token": "<mask>"});
        more.iter().for_each(|(key, flag)| config[*key] = json!(flag));
        encode(&of(file.clone(), config), "a\u{301}AB``\u{fb01}", 9)
    };
    assert_eq!(albert(&file, &[]), [0, 5, 8, 4, 11, 10], "the unknown piece has id 1");
    assert_eq!(albert(&file, &[("do_lower_case", false)]), [0, 5, 12, 1, 4, 11, 10]);
    assert_eq!(albert(&file, &[("keep_accents", true)]), [0, 5, 1, 8, 4, 1, 10]);
    let around = json!({"Sequence": {"id": "A", "type_id": 0}});
    file["post_processor"] =
        json!({"type": "TemplateProcessing", "single": [around], "pair": [], "special_tokens": {}});
    assert_eq!(albert(&file, &[]), [5, 8, 4, 11], "the file's own template");
}

#[test]
fn deberta_composes_letters_and_splits_at_spaces_and_if_asked_at_punctuation() {
    let mut file = piece_file(Some(&no_break_spaces()));
    file["model"]["vocab"][11][0] = json!("é");
    let deberta = |more: Value, text: &str| {
        let mut config = json!({"tokenizer_class": "DebertaV2Tokenizer", "cls_token": "<s>", "sep_token": "</s>"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        encode(&of(file.clone(), config), text, 9)
    };
    assert_eq!(deberta(json!({}), "ab\n \ta\u{a0} e\u{301} "), [0, 9, 5, 4, 11, 2], "without the file's own map");
    assert_eq!(deberta(json!({}), "A"), [0, 4, 12, 2]);
    assert_eq!(deberta(json!({"do_lower_case": true}), "A"), [0, 5, 2]);
    assert_eq!(deberta(json!({"add_prefix_space": false}), "ab ab"), [0, 9, 9, 2]);
    assert_eq!(deberta(json!({"split_by_punct": true}), "a!b"), [0, 5, 4, 1, 4, 7, 2]);
    assert_eq!(deberta(json!({"unk_token": "<unk>"}), "!"), [0, 4, 3, 2], "the piece of that name");
    assert_eq!(deberta(json!({"unk_id": 2, "unk_token": "b"}), "!"), [0, 4, 2, 2], "b has a score");
}

#[test]
fn t5_has_a_token_after_a_text_alone_and_numbered_tokens() {
    let t5 = |more: Value, text: &str| {
        let mut config = json!({"tokenizer_class": "T5Tokenizer", "add_prefix_space": false});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        encode(&of(piece_file(None), config), text, 9)
    };
    assert_eq!(t5(json!({}), "ab"), [9, 2], "words begin with a mark whatever add_prefix_space says");
    assert_eq!(t5(json!({}), ""), [2]);
    let numbered = "<extra_id_0>a<extra_id_2>";
    let first = PIECES.len() as u32;
    assert_eq!(t5(json!({"eos_token": "<mask>"}), numbered), [first, 5, first + 2, 10]);
    for unnumbered in [json!({"extra_ids": 0}), json!({"extra_special_tokens": ["<x>"]})] {
        assert!(!t5(unnumbered, numbered).contains(&first));
    }
}
