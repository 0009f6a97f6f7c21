//! Texts as windows of tokens: the training part in an order drawn from a seed, and a part held out at the end.

use super::{Vocabulary, need};
use crate::ops::rng::philox;
use crate::{Error, Result};

/// Tokens of a vocabulary and their division into windows.
///
/// The last share is held out. Window `i` of a part is its tokens `i length .. (i + 1) length + 1`: inputs, and one
/// token later the targets.
#[derive(Debug, Clone)]
pub struct Dataset {
    tokens: Vec<u32>,
    /// The first token held out.
    split: usize,
    /// Tokens read by the model in one window.
    length: usize,
    seed: u64,
    /// The order of the windows in an epoch.
    order: Option<(u64, Vec<u32>)>,
}

/// How a text becomes windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Windows {
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Tokens read by the model in one window.
    pub length: usize,
    /// Share of the text, at its end, on which nothing is trained; 0 for none.
    pub held_out: f64,
    /// Seed of the order of the windows.
    pub seed: u64,
}

/// Some windows, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of windows.
    pub rows: usize,
    /// Tokens that the model reads, `rows * length`.
    pub inputs: Vec<u32>,
    /// The token after each of them.
    pub targets: Vec<u32>,
}

impl Batch {
    /// Windows of `length + 1` tokens each, one after the other.
    ///
    /// # Errors
    /// `InvalidArgument` for tokens that are no multiple of `length + 1`, or none.
    pub fn of(tokens: &[u32], length: usize) -> Result<Self> {
        let rows = tokens.len() / (length + 1);
        if rows == 0 || length == 0 || tokens.len() != rows * (length + 1) {
            let found = tokens.len();
            return Err(Error::InvalidArgument(format!(
                "{found} tokens do not divide into windows of {length} + 1 tokens"
            )));
        }
        let mut batch = Batch { rows: 0, inputs: Vec::new(), targets: Vec::new() };
        tokens.chunks(length + 1).for_each(|window| batch.push(window));
        Ok(batch)
    }

    fn push(&mut self, window: &[u32]) {
        self.rows += 1;
        self.inputs.extend_from_slice(&window[..window.len() - 1]);
        self.targets.extend_from_slice(&window[1..]);
    }

    /// Tokens that the model reads in one window.
    pub fn length(&self) -> usize {
        self.inputs.len() / self.rows.max(1)
    }

    /// Its windows in groups of `rows`, the last of which may be smaller.
    pub fn parts(&self, rows: usize) -> impl Iterator<Item = Batch> {
        let chunk = (rows * self.length()).max(1);
        let length = self.length().max(1);
        self.inputs.chunks(chunk).zip(self.targets.chunks(chunk)).map(move |(inputs, targets)| Batch {
            rows: inputs.len() / length,
            inputs: inputs.to_vec(),
            targets: targets.to_vec(),
        })
    }
}

impl Dataset {
    /// The bytes of a text, each of which is a token.
    ///
    /// # Errors
    /// As [`Dataset::of_tokens`].
    ///
    /// ```
    /// use grilly::train::{Dataset, Windows};
    /// let windows = Windows { vocab_size: 256, length: 4, held_out: 0.1, seed: 0 };
    /// let mut data = Dataset::of_bytes(&[7; 100], windows).unwrap();
    /// assert_eq!((data.windows(), data.held_out_windows()), (22, 2));
    /// assert_eq!(data.batch(0, 8).unwrap().inputs, [7; 32]);
    /// ```
    pub fn of_bytes(text: &[u8], windows: Windows) -> Result<Self> {
        Dataset::of_tokens(text.iter().copied().map(u32::from).collect(), windows)
    }

    /// A text in the tokens of a vocabulary, whose bytes from `split` on are held out.
    pub(super) fn of_text(text: &[u8], split: usize, vocabulary: &Vocabulary, windows: Windows) -> Result<Self> {
        let (training, held_out) = text.split_at(split);
        let mut tokens = vocabulary.encode(training)?;
        let split = tokens.len();
        tokens.extend(vocabulary.encode(held_out)?);
        Dataset::divided(tokens, split, windows)
    }

    /// Tokens of any vocabulary.
    ///
    /// # Errors
    /// `InvalidArgument` for a part shorter than a window; `IndexOutOfRange` for a token outside the vocabulary.
    pub fn of_tokens(tokens: Vec<u32>, windows: Windows) -> Result<Self> {
        let split = tokens.len() - (tokens.len() as f64 * windows.held_out) as usize;
        Dataset::divided(tokens, split, windows)
    }

    /// Tokens of which those from `split` on are held out.
    fn divided(tokens: Vec<u32>, split: usize, windows: Windows) -> Result<Self> {
        let Windows { vocab_size, length, held_out, seed } = windows;
        let wrong = |problem: String| Err(Error::InvalidArgument(problem));
        need("held_out", &held_out, (0.0..1.0).contains(&held_out), "a share from 0 to below 1")?;
        if length == 0 {
            return wrong("a window has 0 tokens, expected at least 1".into());
        }
        if let Some(place) = tokens.iter().position(|token| *token as usize >= vocab_size) {
            let token = tokens[place];
            let problem = format!("token {token} at {place} is outside the vocabulary; set vocab_size above {token}");
            return Err(Error::IndexOutOfRange(format!("{problem} (it is {vocab_size})")));
        }
        let all = tokens.len();
        let parts = [("training", split, true), ("held-out", all - split, held_out > 0.0)];
        for (name, found, wanted) in parts {
            if wanted && found <= length {
                let shorter =
                    format!("the {name} part has {found} of {all} tokens, fewer than a window of {length} + 1");
                return wrong(format!("{shorter}; take a longer text or a smaller window"));
            }
        }
        Ok(Dataset { tokens, split, length, seed, order: None })
    }

    /// Windows in the training part.
    pub fn windows(&self) -> usize {
        (self.split - 1) / self.length
    }

    /// Windows in the part held out.
    pub fn held_out_windows(&self) -> usize {
        (self.tokens.len() - self.split).saturating_sub(1) / self.length
    }

    /// Batches of `rows` windows in an epoch; windows that fill no batch are left out.
    ///
    /// # Errors
    /// `InvalidArgument` if the text has fewer windows.
    pub fn steps_per_epoch(&self, rows: usize) -> Result<u64> {
        match self.windows().checked_div(rows) {
            Some(steps) if steps > 0 => Ok(steps as u64),
            _ => {
                let (found, length) = (self.windows(), self.length);
                Err(Error::InvalidArgument(format!(
                    "a batch has {rows} windows, expected 1 to {found}, the windows of {length} tokens in the text"
                )))
            }
        }
    }

    /// The batch of a step, counted from 0 over all epochs. It depends on text, seed, number and size alone.
    ///
    /// # Errors
    /// As [`Dataset::steps_per_epoch`].
    pub fn batch(&mut self, step: u64, rows: usize) -> Result<Batch> {
        let steps = self.steps_per_epoch(rows)?;
        let (epoch, first) = (step / steps, (step % steps) as usize * rows);
        if self.order.as_ref().is_none_or(|(known, _)| *known != epoch) {
            self.order = Some((epoch, permutation(self.windows(), self.seed, epoch)));
        }
        let mut batch = Batch { rows: 0, inputs: Vec::new(), targets: Vec::new() };
        for window in self.order.iter().flat_map(|(_, order)| &order[first..first + rows]) {
            let start = *window as usize * self.length;
            batch.push(&self.tokens[start..=start + self.length]);
        }
        Ok(batch)
    }

    /// The windows held out, in order.
    pub fn held_out(&self) -> Batch {
        let held = &self.tokens[self.split..];
        let mut batch = Batch { rows: 0, inputs: Vec::new(), targets: Vec::new() };
        for window in 0..self.held_out_windows() {
            batch.push(&held[window * self.length..=(window + 1) * self.length]);
        }
        batch
    }
}

/// Last word of the counters from which an order is drawn; dropout's have zero there.
const SHUFFLE: u32 = 1;

/// The numbers below `n` in an order drawn from seed and epoch (Fisher and Yates).
fn permutation(n: usize, seed: u64, epoch: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    let key = [seed as u32, (seed >> 32) as u32];
    for last in (1..n).rev() {
        let words = philox([last as u32, epoch as u32, (epoch >> 32) as u32, SHUFFLE], key);
        let drawn = u64::from(words[0]) | u64::from(words[1]) << 32;
        // Scaling 64 bits to at most 2^32 places favours none by more than 2^-32.
        let place = (u128::from(drawn) * (last as u128 + 1)) >> 64;
        order.swap(last, place as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: Windows = Windows { vocab_size: 256, length: 4, held_out: 0.1, seed: 3 };

    fn text(n: usize) -> Vec<u8> {
        (0..n).map(|i| i as u8).collect()
    }

    #[test]
    fn an_epoch_has_every_window_once_in_an_order_of_its_own() {
        let mut data = Dataset::of_bytes(&text(200), WINDOWS).unwrap();
        assert_eq!((data.windows(), data.held_out_windows()), (44, 4));
        let steps = data.steps_per_epoch(4).unwrap();
        assert_eq!(steps, 11);
        let mut epochs = Vec::new();
        for epoch in 0..2 {
            let mut firsts = Vec::new();
            for step in 0..steps {
                let batch = data.batch(epoch * steps + step, 4).unwrap();
                for (inputs, targets) in batch.inputs.chunks(4).zip(batch.targets.chunks(4)) {
                    let expected: Vec<u32> = (inputs[0]..inputs[0] + 5).collect();
                    assert_eq!((inputs, targets), (&expected[..4], &expected[1..]));
                    firsts.push(inputs[0]);
                }
            }
            let mut sorted = firsts.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..44).map(|i| i * 4).collect::<Vec<u32>>());
            assert_ne!(firsts, sorted);
            epochs.push(firsts);
        }
        assert_ne!(epochs[0], epochs[1]);
        let mut other = Dataset::of_bytes(&text(200), Windows { seed: 4, ..WINDOWS }).unwrap();
        assert_ne!(other.batch(0, 44).unwrap(), data.batch(0, 44).unwrap());
    }

    /// By an implementation of the generator and the shuffle in Python.
    #[test]
    fn the_order_is_that_of_its_definition() {
        assert_eq!(permutation(10, 0, 0), [1, 0, 9, 5, 4, 2, 3, 8, 7, 6]);
    }

    #[test]
    fn nothing_held_out_is_trained_on() {
        let data = Dataset::of_bytes(&text(200), WINDOWS).unwrap();
        let held: Vec<Batch> = data.held_out().parts(3).collect();
        assert_eq!(held.iter().map(|batch| batch.rows).collect::<Vec<_>>(), [3, 1]);
        assert_eq!((held[0].inputs[0], held[1].targets[3]), (180, 196));
        let none = Dataset::of_bytes(&text(200), Windows { held_out: 0.0, ..WINDOWS }).unwrap();
        assert_eq!((none.windows(), none.held_out().rows), (49, 0));
    }

    #[test]
    fn texts_that_do_not_fit_are_refused() {
        let error = |n: usize, windows: Windows| Dataset::of_bytes(&text(n), windows).unwrap_err().to_string();
        assert!(error(4, WINDOWS).contains("the training part has 4 of 4 tokens, fewer than a window of 4 + 1"));
        assert!(error(40, WINDOWS).contains("the held-out part has 4 of 40 tokens"));
        assert!(error(40, Windows { vocab_size: 9, ..WINDOWS }).contains("token 9 at 9 is outside the vocabulary"));
        assert!(error(40, Windows { held_out: 1.0, ..WINDOWS }).contains("held_out is 1"));
        assert!(error(40, Windows { length: 0, ..WINDOWS }).contains("0 tokens"));
        let mut data = Dataset::of_bytes(&text(100), WINDOWS).unwrap();
        for rows in [0, 23] {
            let error = data.batch(0, rows).unwrap_err().to_string();
            assert!(error.contains(&format!("a batch has {rows} windows, expected 1 to 22")), "{error}");
        }
        assert!(Batch::of(&[1; 9], 4).is_err() && Batch::of(&[], 4).is_err());
        assert_eq!(Batch::of(&[1; 10], 4).unwrap().rows, 2);
    }
}
