//! The tokens of a text cut at a space equal the first tokens of the whole text.

use super::classes::{PIECES, byte_file, no_break_spaces, piece_file};
use super::*;

/// Strings beside spaces in all relevant combinations; the last are not white space alone but may become part of it.
const AROUND: &[&str] = &[
    "rains",
    "Spain",
    "é\u{301}",
    ". ,",
    "[SEP]",
    "<mask>",
    "</s>",
    "我",
    "\u{a0}",
    "zzz",
    "\u{301}e",
    "\u{200b}",
    "a",
    "'s",
    "``b''",
    "b'",
    "1",
    "\n",
    "\t\t",
    "👩\u{200d}🚀",
    "1\u{fe0f}\u{20e3}",
    "\u{600}",
    "각",
    "ab",
    "ba b",
    "<x>",
    "▁a",
    "\u{0}",
    "  ",
    "   ",
];

/// Texts of this number of strings, with spaces between about half of them.
fn texts(lengths: &[usize]) -> impl Iterator<Item = String> {
    let mut state = 1u64;
    lengths.iter().map(move |length| {
        let mut text = String::new();
        for _ in 0..*length {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push_str(AROUND[(state >> 33) as usize % AROUND.len()]);
            text.push_str(if state >> 63 == 0 { "" } else { " " });
        }
        text
    })
}

fn same_as_whole(tokenizer: &Tokenizer) {
    let ids = |text: &str| tokenizer.loaded.tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec();
    let mut cuts = 0;
    for text in texts(&[60; 40]) {
        let (whole, mut from) = (ids(&text), 0);
        while let Some(space) = tokenizer.cuts.first(&text, from) {
            assert!(whole.starts_with(&ids(&text[..space])), "{:?} cut at {space}", &text[..space]);
            (from, cuts) = (space + 1, cuts + 1);
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
    for text in texts(&[10, 300, 700, 3_000]) {
        let whole = ids(&text);
        for room in [0, 7, 64, 200, 1_000] {
            let cut = tokenizer.plain_ids(&text, room, Side::Right).unwrap();
            let most = room.min(whole.len());
            assert!(cut.len() >= most);
            assert_eq!(cut[..most], whole[..most]);
        }
    }
}

fn with_tokens(mut file: Value) -> Value {
    let flags = json!({"single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true});
    for (id, content, normalized) in [(100, "<x>", false), (101, "ab", true)] {
        let mut token = flags.clone();
        token["content"] = json!(content);
        token["id"] = json!(id);
        token["normalized"] = json!(normalized);
        token["single_word"] = json!(normalized);
        file["added_tokens"].as_array_mut().unwrap().push(token);
    }
    file
}

#[test]
fn words_are_cut_at_any_space() {
    for (file, name) in [(tokenizer_json(), "BertTokenizer"), (with_tokens(tokenizer_json()), "MPNetTokenizer")] {
        let config = json!({"tokenizer_class": name, "cls_token": "[CLS]", "sep_token": "[SEP]"});
        let tokenizer = load(&[("tokenizer.json", file), ("tokenizer_config.json", config)]);
        assert_eq!(tokenizer.cuts, Cuts::Spaces);
        same_as_whole(&tokenizer);
    }
}

#[test]
fn bytes_and_sentences_are_cut_between_visible_characters() {
    let map = no_break_spaces();
    for prefix in [true, false] {
        for (file, name) in [
            (byte_file(), "Roberta"),
            (piece_file(Some(&map)), "XLMRoberta"),
            (piece_file(None), "Camembert"),
            (piece_file(Some(&map)), "Albert"),
        ] {
            for file in [file.clone(), with_tokens(file)] {
                let config = json!({"tokenizer_class": format!("{name}Tokenizer"), "add_prefix_space": prefix,
                    "cls_token": "<s>", "sep_token": "</s>"});
                let files = folder(&[("tokenizer.json", file), ("tokenizer_config.json", config)]);
                for lower_case in [true, false] {
                    let tokenizer = Tokenizer::load(files.path(), lower_case, registry::tokenizer).unwrap();
                    assert_eq!(tokenizer.cuts, Cuts::BetweenWords);
                    same_as_whole(&tokenizer);
                }
            }
        }
    }
}

#[test]
fn a_cut_stands_between_visible_characters() {
    let first = |text: &str| Cuts::BetweenWords.first(text, 1);
    for text in ["ab", "a  b", "a \u{301}", "é b", "a é", " b", "ab ", "a\tb", "a\u{a0}b"] {
        assert_eq!(first(text), None, "{text:?}");
    }
    assert_eq!(first("a b"), Some(1));
    assert_eq!(first("é  é a- (b"), Some(9));
    assert_eq!(Cuts::BetweenWords.first(" b", 0), None);
    assert_eq!((Cuts::Spaces.first("é é", 0), Cuts::Spaces.first("é é", 3)), (Some(2), None));
    assert_eq!(Cuts::Nowhere.first("a b", 0), None);
}

#[test]
fn what_might_reach_over_a_space_is_not_cut() {
    let as_it_is = json!({"tokenizer_class": "TokenizersBackend"});
    let cuts =
        |file: Value, config: &Value| load(&[("tokenizer.json", file), ("tokenizer_config.json", config.clone())]).cuts;
    let changed = |file: &Value, key: &str, value: Value| {
        let mut file = file.clone();
        file[key] = value;
        cuts(file, &as_it_is)
    };
    let words = tokenizer_json();
    let steps = |steps: &[Value]| json!({"type": "Sequence", "normalizers": steps});
    let lower = json!({"type": "Lowercase"});
    assert_eq!(cuts(words.clone(), &as_it_is), Cuts::Spaces);
    assert_eq!(changed(&words, "normalizer", steps(&[lower.clone(), words["normalizer"].clone()])), Cuts::Spaces);
    assert_eq!(changed(&words, "normalizer", steps(&[lower, json!({"type": "NFC"})])), Cuts::Nowhere);
    assert_eq!(changed(&words, "pre_tokenizer", json!({"type": "Whitespace"})), Cuts::Nowhere);
    let bytes =
        |regex| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
    assert_eq!(changed(&words, "pre_tokenizer", bytes(true)), Cuts::BetweenWords);
    assert_eq!(changed(&words, "pre_tokenizer", bytes(false)), Cuts::Nowhere);
    assert_eq!(
        changed(&words, "normalizer", piece_file(Some(&no_break_spaces()))["normalizer"].clone()),
        Cuts::Nowhere
    );
    let map = |map: &[u8]| piece_file(Some(map))["normalizer"]["normalizers"][0].clone();
    assert_eq!(changed(&words, "normalizer", map(&no_break_spaces())), Cuts::BetweenWords);
    assert_eq!(
        changed(&words, "normalizer", map(&super::classes::character_map(&[("x", " "), (" ", "x")]))),
        Cuts::Nowhere
    );
    let mut spaced = words.clone();
    spaced["added_tokens"][4]["content"] = json!("the rain");
    assert_eq!(cuts(spaced, &as_it_is), Cuts::Nowhere);
    // Tokens matched after normalisation may contain a space only then.
    let mut chinese = words.clone();
    let vocabulary = chinese["model"]["vocab"].clone();
    chinese["added_tokens"].as_array_mut().unwrap().push(json!({"id": vocabulary["我"], "content": "我",
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false}));
    assert_eq!(cuts(chinese, &as_it_is), Cuts::Nowhere);
    let tokenizer = load(&[("tokenizer.json", words), ("tokenizer_config.json", as_it_is)]);
    let text = "the rain ".repeat(1000);
    assert!(tokenizer.plain_ids(&text, 4, Side::Right).unwrap().len() < 2000);
    assert_eq!(tokenizer.plain_ids(&text, 4, Side::Left).unwrap().len(), 2000);
    assert!(PIECES.len() < 100, "the ids of added tokens are those above");
}
