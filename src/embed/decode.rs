//! The states of a model's decoder over encoded texts.

use std::ops::Range;

use ndarray::Array2;

use super::encode::Given;
use super::load::with_remedy;
use super::parts::{Parts, cut};
use super::session::{Session, Work};
use super::stages::Stage;
use super::{DecodeOptions, Encoded, Model, Route};
use crate::dtype::DType;
use crate::model::arch::ARCHITECTURES;
use crate::model::decoder::Decoder;
use crate::model::encoder::{build_stack, needed};
use crate::text::tokenizer::Tokens;
use crate::{Error, Result};

impl Model {
    /// The decoder's last hidden state of each pair, `[tokens, hidden]`: the encoder reads `texts[i]`, the decoder
    /// `decoder_texts[i]`, with a state per token. The decoder's weights are read by the first call. `progress` is
    /// called as by [`Model::encode`], with the number of pairs done.
    ///
    /// # Errors
    /// `Unsupported` for a model without a decoder, `Weights` for one that lacks some of its tensors, `ModelFormat`
    /// where the configuration states no start token for the shift; `InvalidArgument` for lists of different lengths;
    /// otherwise as [`Model::encode`].
    ///
    /// ```no_run
    /// use grilly::{DecodeOptions, Model};
    /// let model = Model::load("t5-small".as_ref(), &Default::default())?;
    /// let (texts, decoder_texts) = (["A house.".to_owned()], ["Ein Haus.".to_owned()]);
    /// let states = model.decode_states(&texts, &decoder_texts, &DecodeOptions::default(), &mut |_| Ok(()))?;
    /// assert_eq!(states[0].ncols(), 512);
    /// # Ok::<(), grilly::Error>(())
    /// ```
    pub fn decode_states(
        &self,
        texts: &[String],
        decoder_texts: &[String],
        options: &DecodeOptions,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Array2<f32>>> {
        self.require_open()?;
        if options.batch_size == 0 {
            return Err(Error::InvalidArgument("batch_size is 0, expected at least 1".into()));
        }
        if texts.len() != decoder_texts.len() {
            let (texts, others) = (texts.len(), decoder_texts.len());
            return Err(Error::InvalidArgument(format!("{texts} texts, but {others} decoder_texts; expected pairs")));
        }
        let route = self.first();
        let (decoder, stage) = route.decoder()?;
        let (call, others) = (route.call(&options.prompt, None), route.call("", None));
        let start = if options.shift_right { Some(route.start(decoder)?) } else { None };
        let mut states = Vec::with_capacity(texts.len());
        // Of one group at a time, the encoder's states are kept too.
        let bytes: Vec<usize> = texts.iter().zip(decoder_texts).map(|(text, other)| text.len() + other.len()).collect();
        let (texts, decoder_texts) = (Given::Texts(texts), Given::Texts(decoder_texts));
        for group in cut(&bytes) {
            let done = states.len();
            let work = |stage| {
                let tokens = vec![Array2::default((0, 0)); group.len()];
                Work::new(stage, options.batch_size, Encoded { tokens, ..Encoded::default() })
            };
            let within = |part: Range<usize>| done + part.start..done + part.end;
            let bytes = &bytes[group.clone()];
            let parts = Parts::in_turn(bytes, |part| route.tokens_of(texts, within(part), call));
            let encoded = self.rows(work(&route.source.encoders[0]), parts, &mut |_| progress(done))?;
            let parts =
                Parts::in_turn(bytes, |part| Ok(shifted(route.tokens_of(decoder_texts, within(part), others)?, start)));
            let work = Work { states: &encoded, ..work(stage) };
            let decoded = self.rows(work, parts, &mut |pairs| progress(done + pairs))?;
            if let Some(pair) = decoded.iter().position(|rows| !rows.iter().all(|number| number.is_finite())) {
                let pair = done + pair;
                let problem = format!("the states of pair {pair} are not finite; the weights or the device are faulty");
                return Err(Error::NotFinite(problem));
            }
            states.extend(decoded);
        }
        Ok(states)
    }

    /// The token vectors of each text.
    fn rows(
        &self,
        mut work: Work<'_>,
        mut parts: Parts<'_>,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Array2<f32>>> {
        Session::new(self, self.first())?.run(&mut work, &mut parts, progress)?;
        Ok(work.encoded.tokens)
    }

    /// The decoder's plan as text, one line per step.
    ///
    /// # Errors
    /// As [`Model::decode_states`], for a model without a decoder.
    pub fn decoder_plan_text(&self) -> Result<String> {
        Ok(self.first().decoder()?.1.plan.to_string())
    }
}

impl Route {
    /// The decoder and its plan, made by the first call.
    fn decoder(&self) -> Result<(&Decoder, &Stage)> {
        let Some(decoder) = self.spec.decoder.as_deref() else {
            let known: Vec<&str> = ARCHITECTURES.iter().filter(|row| row.decodes).map(|row| row.model_type).collect();
            let reason = format!("it has no decoder beside its encoder; models of {} have one", known.join(", "));
            return Err(Error::unsupported(format!("decode_states of a {} model", self.model_type), reason));
        };
        if let Some(stage) = self.source.decoder.get() {
            return Ok((decoder, stage));
        }
        if let Some(module) = self.modules.heads.iter().find(|module| module.replaces_tokens()) {
            let what = format!("decode_states of a model with the module {}", module.shown().0);
            let reason = "it replaces the last hidden states, which the decoder reads; load a folder without it";
            return Err(Error::unsupported(what, reason));
        }
        let weights = &self.source.weights;
        if !weights.has(&decoder.prefix) {
            let what = format!("decode_states of {}", weights.path().display());
            let reason = format!(
                "it holds the encoder alone and no tensor {}*; load a checkpoint of the whole {} model",
                decoder.prefix, self.model_type
            );
            return Err(Error::unsupported(what, reason));
        }
        let built = build_stack(&decoder.stack, DType::F32, None)?;
        let checked = weights.check(&needed(&built.graph), |name| name.starts_with(&decoder.prefix));
        checked.map_err(|error| with_remedy(error, weights, &self.model_type))?;
        let stage =
            Stage::new(self.source.decoder_place, built, &self.model_type, &self.source.encoders[0].plan.shaders)?;
        log::debug!(target: "grilly", "plan of the decoder of {}:\n{}", self.folder.display(), stage.plan);
        Ok((decoder, self.source.decoder.get_or_init(|| stage)))
    }

    /// The token before the first one.
    fn start(&self, decoder: &Decoder) -> Result<u32> {
        let rows = self.spec.words.rows;
        let problem = match decoder.start {
            Some(start) if (start as usize) < rows => return Ok(start),
            Some(start) => format!("decoder_start_token_id is {start}, but the embedding table has {rows} rows"),
            None => "decoder_start_token_id is missing, which shifts the tokens".to_owned(),
        };
        let path = self.folder.join(&self.modules.transformer).join("config.json");
        Err(Error::format(
            &path,
            format!("{problem}; state it (usually the padding token's id), or set shift_right to false"),
        ))
    }
}

/// The texts behind a start token, each without its last token.
fn shifted(mut texts: Vec<Tokens>, start: Option<u32>) -> Vec<Tokens> {
    if let Some(start) = start {
        for text in texts.iter_mut().filter(|text| !text.ids.is_empty()) {
            text.ids.rotate_right(1);
            text.ids[0] = start;
        }
    }
    texts
}
