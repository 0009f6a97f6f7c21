//! Continuation of a text, token by token.

use serde::{Deserialize, Serialize};

use super::graph::Model;
use super::{Trainer, need};
use crate::array::Program;
use crate::dtype::DType;
use crate::ops::Counts;
use crate::ops::rng::philox;
use crate::process::memory::filled;
use crate::{Error, Result, exit};

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Seed; token `i` depends on the seed, `i` and what precedes it alone. Default 0.
    pub seed: u64,
    /// Divisor of the logits; 0 for the most probable token. Default 1.
    pub temperature: f64,
    /// Only the `top_k` most probable tokens; default all.
    pub top_k: Option<usize>,
    /// Only the most probable tokens that together have at least this probability; default 1, all.
    pub top_p: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { seed: 0, temperature: 1.0, top_k: None, top_p: 1.0 }
    }
}

/// Last word of the counters from which tokens are drawn.
const SAMPLE: u32 = 3;

impl Sampling {
    /// Reads it from JSON.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown key, a missing one or a value of the wrong type.
    pub fn from_json(text: &str) -> Result<Self> {
        super::parsed("sampling", text)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// `InvalidArgument` naming the first that is out of range.
    pub fn check(&self) -> Result<()> {
        let Sampling { temperature, top_k, top_p, .. } = self;
        need("temperature", temperature, *temperature >= 0.0 && temperature.is_finite(), "a finite number from 0")?;
        need("top_k", &0, *top_k != Some(0), "at least 1, or none")?;
        need("top_p", top_p, *top_p > 0.0 && *top_p <= 1.0, "a number above 0, to 1")
    }

    /// The token chosen by the logits, number `index` of a text. Of equal logits the first comes first.
    #[expect(clippy::disallowed_methods, reason = "training and its samples have the numbers of their device")]
    fn choose(&self, logits: &[f32], index: u64) -> Result<u32> {
        if let Some(place) = logits.iter().position(|logit| logit.is_nan()) {
            return Err(Error::NotFinite(format!("the logit of token {place} is NaN")));
        }
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
        if self.temperature == 0.0 {
            return Ok(order[0] as u32);
        }
        order.truncate(self.top_k.unwrap_or(order.len()));
        let most = f64::from(logits[order[0]]);
        let weight = |place: &usize| ((f64::from(logits[*place]) - most) / self.temperature).exp();
        let mut weights: Vec<f64> = order.iter().map(weight).collect();
        let all: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let enough = |weight: &f64| {
            sum += weight;
            sum >= self.top_p * all
        };
        if let Some(last) = weights.iter().position(enough) {
            weights.truncate(last + 1);
        }
        let words =
            philox([index as u32, (index >> 32) as u32, 0, SAMPLE], [self.seed as u32, (self.seed >> 32) as u32]);
        // 53 bits, as many as a float64 has.
        let drawn = (u64::from(words[0]) << 21 | u64::from(words[1]) >> 11) as f64 / (1u64 << 53) as f64;
        let mut rest = drawn * weights.iter().sum::<f64>();
        let below = |weight: &f64| {
            rest -= weight;
            rest < 0.0
        };
        let place = weights.iter().position(below).unwrap_or(weights.len() - 1);
        Ok(order[place] as u32)
    }
}

impl Trainer {
    /// `count` tokens that continue `prompt`, of which the model reads the last `max_seq_len`. Keys and values of tokens that
    /// were read stay on the device; beyond `max_seq_len` every position is another, and all are read again for each token.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty prompt or settings out of range; `IndexOutOfRange` for a token outside the
    /// vocabulary; `NotFinite` for a logit that is NaN; or a device fault.
    pub fn generate(&mut self, prompt: &[u32], count: usize, sampling: &Sampling) -> Result<Vec<u32>> {
        sampling.check()?;
        if prompt.is_empty() {
            return Err(Error::InvalidArgument("the prompt is empty, expected at least one token".into()));
        }
        let most = self.config().max_seq_len;
        let (mut tokens, mut known) = (prompt.to_vec(), 0);
        for index in 0..count as u64 {
            exit::check()?;
            let first = tokens.len().saturating_sub(most);
            if first > 0 {
                known = 0;
            }
            let logits = self.logits(&tokens[first + known..], known)?;
            known = tokens.len() - first;
            tokens.push(sampling.choose(&logits, index)?);
        }
        Ok(tokens.split_off(prompt.len()))
    }

    /// The logits after tokens of a text, of which the caches have the first `known`.
    fn logits(&mut self, tokens: &[u32], known: usize) -> Result<Vec<f32>> {
        let (first, count, words) = (known as u32, tokens.len() as u32, self.config().vocab_size);
        let positions: Vec<u32> = (first..first + count).collect();
        let mut inputs = Vec::with_capacity(4 + self.own.tables.len());
        for numbers in [tokens, &positions, &[0, count], &[0, first + count]] {
            inputs.push(self.own.indices(numbers)?);
        }
        inputs.extend(self.own.tables.iter().cloned());
        let logits = self.decoding()?.run(&inputs.iter().collect::<Vec<_>>())?[0].read()?;
        let last = &logits.as_chunks::<4>().0[words * (tokens.len() - 1)..];
        // A text may have taught fewer tokens than the model has room for.
        let known = self.vocabulary().json().map_or(words, |_| self.vocabulary().size());
        Ok(last.iter().take(known).map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    /// The program of a decoding step.
    fn decoding(&mut self) -> Result<&Program> {
        let made = match self.decoding.take() {
            Some(known) => known,
            None => {
                let graph = Model::decoding(self.config())?.graph;
                let caches = graph.states[1..].iter().map(|id| {
                    let shape = graph.value(*id).shape.sizes(Default::default());
                    let zeros = filled(4 * shape.iter().product::<usize>(), 0, "a cache of keys and values")?;
                    self.own.engine.upload(DType::F32, &shape, &zeros)
                });
                let caches = caches.collect::<Result<Vec<_>>>()?;
                let most = Counts::new(self.config().max_seq_len, 1);
                self.own.update.program().beside_with(graph, most, &caches.iter().collect::<Vec<_>>())?
            }
        };
        Ok(self.decoding.insert(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 2.0, 1.0, 2.0, -1.0];

    fn counts(sampling: &Sampling) -> [usize; 5] {
        let mut counts = [0; 5];
        (0..10_000).for_each(|index| counts[sampling.choose(&LOGITS, index).unwrap() as usize] += 1);
        counts
    }

    #[test]
    fn tokens_are_as_frequent_as_their_probability() {
        for temperature in [1.0, 0.5, 3.0] {
            let weights = LOGITS.map(|logit| (f64::from(logit) / temperature).exp());
            let all: f64 = weights.iter().sum();
            let found = counts(&Sampling { temperature, ..Sampling::default() });
            for (found, weight) in found.into_iter().zip(weights) {
                let p = weight / all;
                // Five standard deviations of the count.
                assert!((found as f64 - 1e4 * p).abs() < 5.0 * (1e4 * p * (1.0 - p)).sqrt(), "{found} {p}");
            }
        }
    }

    #[test]
    fn only_the_tokens_asked_for_are_drawn() {
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        assert_eq!(counts(&greedy), [0, 10_000, 0, 0, 0]);
        let chosen = |sampling: Sampling| counts(&sampling).map(|count| count > 0);
        assert_eq!(chosen(Sampling { top_k: Some(3), ..Sampling::default() }), [false, true, true, true, false]);
        // The two of probability 0.39 each reach 0.7, and the third is needed for 0.8.
        assert_eq!(chosen(Sampling { top_p: 0.7, ..Sampling::default() }), [false, true, false, true, false]);
        assert_eq!(chosen(Sampling { top_p: 0.8, ..Sampling::default() }), [false, true, true, true, false]);
        assert!(greedy.choose(&[1.0, f32::NAN], 0).is_err());
    }

    #[test]
    fn bad_settings_are_named() {
        let default = Sampling::default;
        for (sampling, part) in [
            (Sampling { temperature: -1.0, ..default() }, "temperature is -1"),
            (Sampling { top_k: Some(0), ..default() }, "top_k is 0"),
            (Sampling { top_p: 0.0, ..default() }, "top_p is 0"),
        ] {
            assert!(sampling.check().unwrap_err().to_string().contains(part));
        }
    }
}
