//! Files of SentencePiece's.

use super::classes::no_break_spaces;
use super::*;
use crate::text::tokenizer::sentence_pieces::{Kind, SentencePieces, merges};

/// A field with bytes.
fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut field = vec![number << 3 | 2];
    while length > 0x7f {
        field.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    field.push(length as u8);
    [field.as_slice(), bytes].concat()
}

/// A field with a number below 128; fields from 16 on have a key of two bytes.
fn flag(number: u16, value: u8) -> Vec<u8> {
    let key = number << 3;
    if number < 16 { vec![key as u8, value] } else { vec![0x80 | (key & 0x7f) as u8, (key >> 7) as u8, value] }
}

fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
    part(1, &[part(1, text.as_bytes()), [&[0x15][..], &score.to_le_bytes()].concat(), flag(3, kind)].concat())
}

/// A file with control pieces, a whole one, and ordinary ones; `merged` says that they are those of BPE.
fn file(merged: bool) -> Vec<u8> {
    let pieces =
        [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -1.0, 1), ("▁", -2.0, 1), ("a", -3.0, 1)];
    let more = [("b", -3.5, 1), ("ab", -1.5, 1), ("[x]", 0.0, 4), ("▁ab", -1.25, 1)];
    let pieces = pieces.iter().chain(&more).flat_map(|(text, score, kind)| piece(text, *score, *kind));
    let learned = part(2, &flag(3, 1 + u8::from(merged)));
    let normalised = part(3, &[part(2, &no_break_spaces()), flag(4, 1)].concat());
    pieces.chain(learned).chain(normalised).chain(part(9, b"unread")).collect()
}

fn with(name: &str, bytes: &[u8], config: Value) -> Result<Tokenizer> {
    let folder = folder(&[("tokenizer_config.json", config)]);
    fs::write(folder.path().join(name), bytes).unwrap();
    Tokenizer::load(folder.path(), false, registry::tokenizer)
}

#[test]
fn a_file_is_read() {
    let read = SentencePieces::of(&file(true)).unwrap();
    assert_eq!(
        (read.pieces.len(), read.unigram, read.bytes, read.prefixed, read.squeezed),
        (10, false, false, true, true)
    );
    assert_eq!(read.pieces[8].kind, Kind::Whole);
    assert_eq!((read.pieces[1].kind, read.pieces[7].text.as_str(), read.pieces[7].score), (Kind::Control, "ab", -1.5));
    assert_eq!(read.named[2], (2, "</s>".to_owned()));
    let pairs = [("▁", "a"), ("a", "b"), ("▁", "ab"), ("▁a", "b")];
    assert_eq!(merges(&read.numbered()), pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert!(read.characters().unwrap().is_some());
}

#[test]
fn a_damaged_file_is_refused() {
    let whole = file(false);
    let cases: &[(&[u8], &str)] = &[
        (&[], "it has no pieces"),
        (&whole[..whole.len() - 1], "it ends inside a field"),
        (&[0x0a, 0x05, 0x0a], "it ends inside a field"),
        (&[0x0b], "the unknown kind 3"),
        (&[0x02, 0x00], "the number 0"),
        (&[0x08, 0x01], "a field holds a number where text or a message belongs"),
        (&[0x0a, 0x02, 0x10, 0x01], "a field holds a number where a float32 belongs"),
        (&[0x0a, 0x03, 0x0a, 0x01, 0xff], "a text is not UTF-8"),
        (&[0xff; 12], "more than 64 bits"),
    ];
    for (bytes, problem) in cases {
        let error = SentencePieces::of(bytes).unwrap_err();
        assert!(error.contains(problem), "{problem} not in {error}");
    }
    for cut in 0..whole.len() {
        let _ = SentencePieces::of(&whole[..cut]);
    }
    let mut random = 12_345_u32;
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let place = (random >> 8) as usize % bytes.len();
            bytes[place] = random as u8 ^ (random >> 16) as u8;
        }
        if let Ok(read) = SentencePieces::of(&bytes) {
            let _ = (merges(&read.numbered()), guarded(|| Ok(read.characters()?)));
        }
    }
}

#[test]
fn a_class_reads_its_file() {
    let class = |name: &str| json!({"tokenizer_class": name});
    let roberta = with("sentencepiece.bpe.model", &file(false), class("XLMRobertaTokenizer")).unwrap();
    // Four special tokens take the place of the first three pieces.
    assert_eq!(encode(&roberta, "a\u{a0}ab c<mask>", 12), [0, 4, 10, 5, 3, 11, 2]);
    let t5 = with("spiece.model", &file(false), json!({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})).unwrap();
    assert_eq!(encode(&t5, "a<extra_id_0><extra_id_1></s>", 12), [3, 11, 10, 2, 2]);
    let llama = with("tokenizer.model", &file(true), class("LlamaTokenizer")).unwrap();
    assert_eq!(encode(&llama, "a [x]ab", 12), [3, 4, 8, 7]);
    let error = with("spiece.model", &file(false), class("LlamaTokenizer")).err().unwrap().to_string();
    assert!(error.contains("no tokenizer.model"), "{error}");
    let error = with("spiece.model", b"[unk]", class("AlbertTokenizer")).err().unwrap();
    assert!(matches!(error, Error::ModelFormat { .. }) && error.to_string().contains("spiece.model"), "{error}");
}

#[test]
fn a_file_without_a_class_has_its_own_settings() {
    let config =
        |flag: bool| json!({"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": flag, "legacy": flag});
    let merged = with("tokenizer.model", &file(true), config(true)).unwrap();
    assert_eq!(encode(&merged, "  a  ab\u{a0} ", 12), [1, 3, 9]);
    assert_eq!(merged.loaded.tokenizer.decode(&[3, 9], true).unwrap(), "a ab");
    assert_eq!(
        encode(&merged, "a[x]a</s>a", 12),
        [1, 3, 8, 5, 2, 3],
        "what is whole is apart, a part after a token begun"
    );
    let first = with("tokenizer.model", &file(true), config(false)).unwrap();
    assert_eq!(encode(&first, "a</s>a", 12), [3, 2, 5]);
    let scored = with("tokenizer.model", &file(false), config(false)).unwrap();
    assert_eq!(encode(&scored, "ab  a c", 12), [9, 3, 4, 0]);
}
