//! Encoding: from texts, or pairs of texts, to the model's outputs.

use std::ops::Range;

use ndarray::Array2;

use super::parts::Parts;
use super::session::{Session, Work};
use super::{EncodeOptions, Encoded, Model};
use crate::model::encoder::outputs;
use crate::process::memory::filled;
use crate::text::chat::Chat;
use crate::text::tokenizer::{Tokenizer, Tokens};
use crate::{Error, Result};

/// What a call encodes.
#[derive(Clone, Copy)]
pub(super) enum Given<'a> {
    Texts(&'a [String]),
    Pairs(&'a [[String; 2]]),
    /// Tokens as they are.
    Rows(&'a [Tokens]),
}

impl Given<'_> {
    /// Bytes of each text or pair, about.
    pub(super) fn bytes(self) -> Vec<usize> {
        match self {
            Given::Texts(texts) => texts.iter().map(String::len).collect(),
            Given::Pairs(pairs) => pairs.iter().map(|[first, second]| first.len() + second.len()).collect(),
            Given::Rows(rows) => rows.iter().map(|row| 4 * row.ids.len()).collect(),
        }
    }

    /// Tokens of a part; of a pair the prompt begins the first text.
    pub(super) fn tokens(self, part: Range<usize>, call: Call<'_>, tokenizer: &Tokenizer) -> Result<Vec<Tokens>> {
        let Call { prompt, task, most, chat } = call;
        let begun = |text: &String| format!("{prompt}{text}");
        match (self, chat) {
            (Given::Rows(rows), _) => rows[part].iter().map(|row| as_given(row, most)).collect(),
            (Given::Texts(texts), Some(chat)) => {
                let texts: Vec<_> = texts[part].iter().map(|text| vec![text.as_str()]).collect();
                chat.tokens(&texts, (prompt, task), tokenizer, most)
            }
            (Given::Pairs(pairs), Some(chat)) => {
                let pairs: Vec<Vec<_>> =
                    pairs[part].iter().map(|pair| pair.iter().map(String::as_str).collect()).collect();
                chat.tokens(&pairs, (prompt, task), tokenizer, most)
            }
            (Given::Texts(texts), None) if prompt.is_empty() => tokenizer.encode(&texts[part], most),
            (Given::Texts(texts), None) => tokenizer.encode(&texts[part].iter().map(begun).collect::<Vec<_>>(), most),
            (Given::Pairs(pairs), None) if prompt.is_empty() => tokenizer.encode_pairs(&pairs[part], most),
            (Given::Pairs(pairs), None) => {
                let begun = pairs[part].iter().map(|[first, second]| [begun(first), second.clone()]);
                tokenizer.encode_pairs(&begun.collect::<Vec<_>>(), most)
            }
        }
    }
}

/// Tokens that a caller gave.
fn as_given(row: &Tokens, most: usize) -> Result<Tokens> {
    if row.ids.is_empty() || row.ids.len() > most || row.type_ids.len() != row.ids.len() {
        let problem = format!(
            "a row has {} tokens and {} segments, expected 1 to {most} of each",
            row.ids.len(),
            row.type_ids.len()
        );
        return Err(Error::InvalidArgument(problem));
    }
    Ok(row.clone())
}

/// How texts become tokens.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub prompt: &'a str,
    pub task: Option<&'a str>,
    /// Maximum tokens of a text.
    pub most: usize,
    /// The template of which texts become messages.
    pub chat: Option<&'a Chat>,
}

/// Rows of zeros for results.
fn zeros(rows: usize, columns: usize) -> Result<Array2<f32>> {
    let numbers = filled(rows.saturating_mul(columns), 0.0, "embeddings")?;
    Array2::from_shape_vec((rows, columns), numbers).map_err(|e| Error::InvalidArgument(e.to_string()))
}

impl Model {
    /// Computes the embeddings of `texts`. `progress` is called with the number of texts done so far, after each batch
    /// and each part of the tokenizing; an error that it returns stops the run.
    ///
    /// # Errors
    /// `InvalidArgument` for a batch size of 0 and a task that the model does not have, `NotFinite` naming the texts,
    /// `Unusable` after `close` or a fork, and whatever `progress` returns.
    pub fn encode(
        &self,
        texts: &[String],
        options: &EncodeOptions,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Encoded> {
        self.encode_given(Given::Texts(texts), options, progress)
    }

    /// As [`Model::encode`] of pairs of texts, each in the tokenizer's template of two.
    ///
    /// # Errors
    /// As [`Model::encode`].
    pub fn encode_pairs(
        &self,
        pairs: &[[String; 2]],
        options: &EncodeOptions,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Encoded> {
        self.encode_given(Given::Pairs(pairs), options, progress)
    }

    /// As [`Model::encode`] of rows of tokens as they are, with those around a text.
    ///
    /// # Errors
    /// As [`Model::encode`]; `InvalidArgument` for a row without tokens or with too many, `IndexOutOfRange` for an id of no token.
    pub fn encode_rows(
        &self,
        rows: &[Tokens],
        options: &EncodeOptions,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Encoded> {
        self.encode_given(Given::Rows(rows), options, progress)
    }

    fn encode_given(
        &self,
        given: Given<'_>,
        options: &EncodeOptions,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Encoded> {
        self.require_open()?;
        if options.batch_size == 0 {
            return Err(Error::InvalidArgument("batch_size is 0, expected at least 1".into()));
        }
        let bytes = given.bytes();
        let task = options.task.as_deref();
        // No texts need no route.
        let route = if bytes.is_empty() { self.usual() } else { self.route(task)? };
        let stage = if bytes.is_empty() { route.stage(None)? } else { route.stage(task)? };
        let encoded = Encoded {
            texts: zeros(bytes.len(), if stage.outputs_of_texts().is_empty() { 0 } else { stage.dimension() })?,
            tokens: if options.tokens { vec![Array2::default((0, 0)); bytes.len()] } else { Vec::new() },
            ..Encoded::default()
        };
        if bytes.len() > 1 && options.batch_size > 1 {
            route.need_padding()?;
        }
        let mut work = Work {
            tokens: Vec::with_capacity(bytes.len()),
            first: route.unpooled_tokens(&options.prompt)?,
            shares: route.spec.shared_beginning && !options.tokens,
            wanted: stage.outputs_of_texts().chain(options.tokens.then_some(outputs::TOKENS)).collect(),
            ..Work::new(stage, options.batch_size, encoded)
        };
        let call = route.call(&options.prompt, task);
        let most = options.max_length.map_or(call.most, |most| most.min(route.spec.positions.longest_text()));
        let call = Call { most, ..call };
        let mut session = Session::new(self, route)?;
        std::thread::scope(|scope| {
            let tokenize =
                |part: Range<usize>| route.tokens_of(given, part, call).map(|texts| route.without_padding(texts));
            let mut parts = match session.is_elsewhere() {
                true => Parts::ahead(scope, &bytes, tokenize),
                false => Parts::in_turn(&bytes, tokenize),
            };
            session.run(&mut work, &mut parts, progress)
        })?;
        if stage.outputs_of_texts().is_empty() {
            let wrong = |rows: &Array2<f32>| !rows.iter().all(|number| number.is_finite());
            if let Some(text) = work.encoded.tokens.iter().position(wrong) {
                let problem =
                    format!("the vectors of text {text} are not finite; the weights or the device are faulty");
                return Err(Error::NotFinite(problem));
            }
            let scored = |id: &u32| route.masks.iter().all(|mask| mask.scores(task, *id));
            work.encoded.scored = work.tokens.iter().map(|text| text.ids.iter().map(scored).collect()).collect();
        }
        if options.tokens {
            work.encoded.ids = work.tokens.into_iter().map(|text| text.ids).collect();
        }
        Ok(work.encoded)
    }
}
