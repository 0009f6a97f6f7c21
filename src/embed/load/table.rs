//! Step 2 for a table of token vectors: as sentence-transformers stores it, or as model2vec does.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::read::Files;
use super::spec::{Described, open};
use crate::error::brief;
use crate::model::config::read_json;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, NameRules, Table};
use crate::model::weights::Weights;
use crate::process::memory::reserved;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};

/// The table in sentence-transformers' files, and, after [`NameRules::of_table`], in model2vec's.
const NAME: &str = "embedding.weight";
/// What model2vec's files may hold beside it, where a token's vector is `embeddings[mapping[token]] * weights[token]`.
pub(super) const BESIDE: [&str; 2] = ["mapping", "weights"];
/// Tokens of a text where model2vec's config.json does not say.
const USUAL_LIMIT: usize = 512;
const LONGEST: usize = i32::MAX as usize;

/// Describes the table.
///
/// # Errors
/// `ModelFormat` and `Weights` for faults of the files.
pub(super) fn describe(files: &Files<'_>) -> Result<Described> {
    let mut weights = open(files, &NameRules::of_table())?;
    let (mut tokenizer, mut most) = Tokenizer::plain(&files.transformer)?;
    let spec = spec(&mut weights)?;
    if !files.modules.listed {
        // model2vec leaves unknown tokens out of its own models; sentence-transformers knows them by modules.json.
        if let Some(id) = unknown(&files.transformer.join("tokenizer.json"), &tokenizer)? {
            tokenizer = tokenizer.without(id);
        }
        let stated = limit(&files.config_path)?;
        most = most.into_iter().chain(stated).min();
    }
    let model_type = "StaticEmbedding".into();
    Ok(Described { model_type, spec, head: None, tokenizer, weights, max_seq_length: most })
}

/// `max_length` of model2vec's config.json: null for no limit.
fn limit(path: &Path) -> Result<Option<usize>> {
    let config = read_json(path)?;
    let mut fields = Fields::new(&config, path);
    let endless = fields.is_null("max_length");
    let stated = fields.optional_size("max_length", 1..=LONGEST);
    fields.done()?;
    Ok(if endless { None } else { stated.or(Some(USUAL_LIMIT)) })
}

/// The id of the token that stands for unknown words; `None` where there is none.
fn unknown(path: &Path, tokenizer: &Tokenizer) -> Result<Option<u32>> {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        unk_token: Option<String>,
        unk_id: Option<u32>,
    }
    let fault = |problem: String| Error::format(path, problem);
    let text = std::fs::read(path).map_err(|e| fault(format!("cannot be read: {e}")))?;
    let file: File = serde_json::from_slice(&text).map_err(|e| fault(format!("is not a tokenizer: {}", brief(e))))?;
    Ok(file.model.unk_token.and_then(|token| tokenizer.id(&token)).or(file.model.unk_id))
}

/// The description of the table. Of model2vec's tensors it is made, as in sentence-transformers.
fn spec(weights: &mut Weights) -> Result<EncoderSpec> {
    let path = weights.path().to_owned();
    let fault = |problem: String| Error::Weights { path: path.clone(), problems: vec![problem] };
    let (rows, columns) = match weights.shape(NAME) {
        Some(&[rows, columns]) if columns > 0 => (rows, columns),
        found => {
            return Err(fault(format!("{NAME} or embeddings has shape {found:?}, expected [tokens, columns]")));
        }
    };
    let of_model2vec = weights.stored_names().any(|name| name == "embeddings");
    let beside = BESIDE.iter().any(|name| weights.shape(name).is_some());
    if !(of_model2vec && (beside || weights.is_integer(NAME))) {
        return Ok(EncoderSpec::of_table(Table { name: NAME.into(), rows }, columns));
    }
    let again = "fetch the folder anew, or save the model again with model2vec";
    let mapping = vector(weights, "mapping")?.map(|rows_of| {
        let row = |(token, row): (usize, f64)| match row >= 0.0 && row < rows as f64 && row.fract() == 0.0 {
            true => Ok(row as usize),
            false => Err(fault(format!("mapping[{token}] is {row}, but embeddings has {rows} rows: {again}"))),
        };
        rows_of.into_iter().enumerate().map(row).collect::<Result<Vec<usize>>>()
    });
    let mapping = mapping.transpose()?;
    let tokens = mapping.as_ref().map_or(rows, Vec::len);
    let factors = vector(weights, "weights")?;
    if let Some(factors) = factors.as_ref().filter(|factors| factors.len() != tokens) {
        let of = if mapping.is_some() { "mapping" } else { "embeddings" };
        return Err(fault(format!("weights has {} numbers, but {of} has {tokens}: {again}", factors.len())));
    }
    let numbers = weights.numbers(NAME)?.unwrap_or_default();
    let mut made = reserved(tokens.saturating_mul(columns).saturating_mul(4), NAME)?;
    for token in 0..tokens {
        let row = mapping.as_ref().map_or(token, |mapping| mapping[token]);
        let factor = factors.as_ref().map_or(1.0, |factors| factors[token]);
        made.extend(numbers[row * columns..][..columns].iter().flat_map(|x| ((x * factor) as f32).to_le_bytes()));
    }
    if factors.is_some() || weights.is_integer(NAME) {
        weights.make_float32();
    }
    let made = Some(Arc::from(made));
    Ok(EncoderSpec { made, ..EncoderSpec::of_table(Table { name: NAME.into(), rows: tokens }, columns) })
}

/// The numbers of a tensor of one axis.
fn vector(weights: &Weights, name: &str) -> Result<Option<Vec<f64>>> {
    match weights.shape(name) {
        None | Some([_]) => weights.numbers(name),
        Some(shape) => {
            let problem = format!("{name} has shape {shape:?}, expected [tokens]");
            Err(Error::Weights { path: weights.path().to_owned(), problems: vec![problem] })
        }
    }
}
