//! A tokenizer from the files of a model's folder.
//!
//! The reference reads tokenizer.json, except that its BERT tokenizer takes the normalisation from
//! tokenizer_config.json, and truncation and padding come with each call.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokenizers::decoders::wordpiece::WordPiece as WordPieceDecoder;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::utils::{Lowercase, Sequence};
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer, TruncationDirection};

use super::guarded;
use crate::{Error, Result};

/// The reference's names of its BERT tokenizer.
const BERT: [&str; 2] = ["BertTokenizer", "BertTokenizerFast"];

/// A tokenizer without truncation and padding of its own.
pub(super) struct Loaded {
    pub tokenizer: Tokenizer,
    /// Which end of a long text is lost.
    pub direction: TruncationDirection,
    /// The file it comes from, for messages.
    pub path: PathBuf,
}

/// Reads the tokenizer in `folder`.
pub(super) fn load(folder: &Path, lower_case: bool) -> Result<Loaded> {
    let settings = Settings::read(folder)?;
    let path = folder.join("tokenizer.json");
    let (mut tokenizer, path) = match path.exists() {
        true => (settings.file_tokenizer(&path)?, path),
        false => settings.vocabulary_tokenizer(folder)?,
    };
    let refused = |e: tokenizers::Error| fault(&path, format!("is refused: {e}"));
    let baked = tokenizer.get_truncation().map(|truncation| truncation.direction);
    let direction = settings.truncation_side()?.or(baked).unwrap_or(TruncationDirection::Right);
    tokenizer.with_truncation(None).map_err(refused)?;
    tokenizer.with_padding(None);
    if lower_case {
        put_lower_case_first(&mut tokenizer).map_err(refused)?;
    }
    settings.add_special_tokens(&mut tokenizer).map_err(refused)?;
    Ok(Loaded { tokenizer, direction, path })
}

/// tokenizer_config.json, and the class that config.json may name.
struct Settings {
    path: PathBuf,
    values: Map<String, Value>,
    class: Option<String>,
}

impl Settings {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer_config.json");
        let values = read_object(&path)?.unwrap_or_default();
        let model = read_object(&folder.join("config.json"))?.unwrap_or_default();
        let class = values.get("tokenizer_class").or(model.get("tokenizer_class")).and_then(Value::as_str);
        let class = class.map(str::to_owned);
        Ok(Settings { path, values, class })
    }

    /// Whether the reference would use its BERT tokenizer, which is also what it takes when no class is named.
    fn is_bert(&self) -> bool {
        self.class.as_deref().is_none_or(|class| BERT.contains(&class))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(fault(&self.path, format!("{key} is neither true nor false"))),
        }
    }

    fn truncation_side(&self) -> Result<Option<TruncationDirection>> {
        match self.values.get("truncation_side").map(|side| side.as_str()) {
            None => Ok(None),
            Some(Some("right")) => Ok(Some(TruncationDirection::Right)),
            Some(Some("left")) => Ok(Some(TruncationDirection::Left)),
            Some(_) => Err(fault(&self.path, "truncation_side is neither \"right\" nor \"left\"".into())),
        }
    }

    /// The special token of a role such as `sep_token`: a string, or an object with its `content`.
    fn token(&self, role: &str) -> Option<&str> {
        let value = self.values.get(role)?;
        value.as_str().or_else(|| value.get("content")?.as_str())
    }

    /// The normalisation of the reference's BERT tokenizer, with its defaults.
    fn bert_normalizer(&self) -> Result<BertNormalizer> {
        let spaced = self.flag("tokenize_chinese_chars")?.unwrap_or(true);
        let lower = self.flag("do_lower_case")?.unwrap_or(true);
        Ok(BertNormalizer::new(true, spaced, self.flag("strip_accents")?, lower))
    }

    fn file_tokenizer(&self, path: &Path) -> Result<Tokenizer> {
        let unusable = |e: tokenizers::Error| fault(path, format!("is not a tokenizer: {e}"));
        let bytes = read(path)?;
        let mut tokenizer = guarded(|| Tokenizer::from_bytes(bytes)).map_err(unusable)?;
        if let (true, Some(NormalizerWrapper::BertNormalizer(own))) = (self.is_bert(), tokenizer.get_normalizer()) {
            let wanted = self.bert_normalizer()?;
            let meaning = |n: &BertNormalizer| {
                (n.clean_text, n.handle_chinese_chars, n.strip_accents.unwrap_or(n.lowercase), n.lowercase)
            };
            if meaning(own) != meaning(&wanted) {
                log::debug!(target: "grilly", "{}: {own:?} gives way to {wanted:?} of tokenizer_config.json", path.display());
                tokenizer.with_normalizer(Some(wanted)).map_err(unusable)?;
            }
        }
        Ok(tokenizer)
    }

    /// The reference's BERT tokenizer over `vocab.txt`, one token a line.
    fn vocabulary_tokenizer(&self, folder: &Path) -> Result<(Tokenizer, PathBuf)> {
        let path = folder.join("vocab.txt");
        if !path.exists() || !self.is_bert() {
            let made = "save it with `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)` of transformers";
            return Err(fault(folder, format!("has no tokenizer.json; {made}")));
        }
        let unusable = |e: tokenizers::Error| fault(&path, format!("is not a vocabulary: {e}"));
        let vocabulary = WordPiece::read_bytes(&read(&path)?).map_err(unusable)?;
        let role = |role: &str, default: &'static str| self.token(role).unwrap_or(default).to_owned();
        let [unknown, first, last] =
            [role("unk_token", "[UNK]"), role("cls_token", "[CLS]"), role("sep_token", "[SEP]")];
        for token in [&unknown, &first, &last] {
            if !vocabulary.contains_key(token) {
                return Err(fault(&path, format!("has no {token}")));
            }
        }
        let ids = [&first, &last].map(|token| (token.clone(), vocabulary[token]));
        let template = TemplateProcessing::builder()
            .try_single(format!("{first}:0 $A:0 {last}:0"))
            .and_then(|builder| builder.try_pair(format!("{first}:0 $A:0 {last}:0 $B:1 {last}:1")))
            .map_err(|e| fault(&path, e))?
            .special_tokens(ids.to_vec())
            .build()
            .map_err(|e| fault(&path, e.to_string()))?;
        let model = WordPiece::builder().vocab(vocabulary).unk_token(unknown).build().map_err(unusable)?;
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_normalizer(Some(self.bert_normalizer()?)).map_err(unusable)?;
        tokenizer
            .with_pre_tokenizer(Some(BertPreTokenizer))
            .with_post_processor(Some(template))
            .with_decoder(Some(WordPieceDecoder::default()));
        Ok((tokenizer, path))
    }

    /// Marks the named tokens as special where tokenizer.json does not: in a text they stand for themselves.
    fn add_special_tokens(&self, tokenizer: &mut Tokenizer) -> tokenizers::Result<()> {
        let defaults = self.is_bert().then_some(["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"]);
        for (i, role) in ["unk_token", "sep_token", "pad_token", "cls_token", "mask_token"].iter().enumerate() {
            let Some(token) = self.token(role).or(defaults.map(|names| names[i])) else { continue };
            let known = tokenizer.get_added_vocabulary().get_vocab().contains_key(token);
            // One that is not in the vocabulary either would get an id for which the model has no row.
            if !known && tokenizer.token_to_id(token).is_some() {
                tokenizer.add_special_tokens([AddedToken::from(token, true)])?;
            }
        }
        Ok(())
    }
}

/// Lower case before the tokenizer's own normalisation, unless lower-casing is already one of its steps.
fn put_lower_case_first(tokenizer: &mut Tokenizer) -> tokenizers::Result<()> {
    let mut steps = vec![NormalizerWrapper::Lowercase(Lowercase)];
    match tokenizer.get_normalizer() {
        None => {}
        Some(NormalizerWrapper::Sequence(own)) => steps.extend(own.as_ref().iter().cloned()),
        Some(own) => steps.push(own.clone()),
    }
    if !steps[1..].iter().any(|step| matches!(step, NormalizerWrapper::Lowercase(_))) {
        tokenizer.with_normalizer(Some(Sequence::new(steps)))?;
    }
    Ok(())
}

/// Whether a space always ends a token, and nothing after it changes the tokens before it.
pub(super) fn splits_at_spaces(tokenizer: &Tokenizer) -> bool {
    fn local(normalizer: &NormalizerWrapper) -> bool {
        match normalizer {
            NormalizerWrapper::BertNormalizer(_) | NormalizerWrapper::Lowercase(_) => true,
            NormalizerWrapper::Sequence(steps) => steps.as_ref().iter().all(local),
            _ => false,
        }
    }
    tokenizer.get_normalizer().is_none_or(local)
        && matches!(tokenizer.get_pre_tokenizer(), Some(PreTokenizerWrapper::BertPreTokenizer(_)))
        && tokenizer.get_added_tokens_decoder().values().all(|token| !token.content.contains(char::is_whitespace))
}

fn fault(path: &Path, problem: String) -> Error {
    Error::ModelFormat { path: path.to_owned(), problem }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    // Asked before reading: reading a pipe would wait for its other end.
    if !path.is_file() {
        return Err(fault(path, "not a regular file".into()));
    }
    std::fs::read(path).map_err(|e| fault(path, format!("cannot be read: {e}")))
}

/// A JSON file as an object; nothing when there is no such file.
fn read_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.exists() {
        return Ok(None);
    }
    serde_json::from_slice(&read(path)?).map(Some).map_err(|e| fault(path, format!("not a JSON object: {e}")))
}
