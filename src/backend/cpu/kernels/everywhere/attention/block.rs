//! A block of keys as a query sees it, and how blocks are joined.

use super::super::functions::{div, mul, parts, settle, tanh};
use super::{BLOCK, NOTHING};
use crate::backend::cpu::exact::{power, whole};
use crate::backend::cpu::kernels::attention::{Text, add_biases};

/// The exponentials of a block's scores, `e 2^n`; `n` is [`NOTHING`] of keys that are not seen.
pub(super) struct Seen {
    /// Keys of the block.
    count: usize,
    e: [f32; BLOCK],
    n: [i32; BLOCK],
    /// The largest score, negative infinity if none is seen.
    largest: f32,
    /// Whether a score is not a number.
    broken: bool,
}

impl Seen {
    /// Whether the key at a place is seen.
    pub fn sees(&self, place: usize) -> bool {
        self.n[place] > NOTHING
    }
}

/// What becomes of the scores of some queries.
pub(super) struct Scores<'a> {
    pub text: &'a Text<'a>,
    /// The first of the queries.
    pub first: usize,
    /// By distance, settled; empty for none.
    pub biases: &'a [f32],
}

impl Scores<'_> {
    /// The block that begins with key `start`, seen from query `i` of ours, with scores relative to `reference`.
    #[inline(always)]
    pub fn seen(&self, i: usize, start: usize, scores: &[f32], reference: f32) -> Seen {
        let (text, query) = (self.text, self.first + i);
        let mut s = [f32::NEG_INFINITY; BLOCK];
        let own = &mut s[..scores.len()];
        own.copy_from_slice(scores);
        if text.op.soft_cap > 0.0 {
            let cap = settle(text.op.soft_cap);
            own.iter_mut().for_each(|s| *s = mul(cap, tanh(div(settle(*s), cap))));
        }
        if !self.biases.is_empty() {
            add_biases(own, start as i64 - text.place(query), self.biases, text.reach as i64);
        }
        for hidden in text.hidden(query, start + own.len()) {
            let within = |key: usize| key.clamp(start, start + own.len()) - start;
            let (from, to) = (within(hidden.start), within(hidden.end));
            own[from.min(to)..to].fill(f32::NEG_INFINITY);
        }
        let own = &s[..scores.len()];
        let broken = own.iter().fold(false, |any, s| any | s.is_nan());
        // Of all places, in vectors of any width: those beyond the block are negative infinities.
        let mut lanes = [f32::NEG_INFINITY; 16];
        for part in s.as_chunks::<16>().0 {
            lanes.iter_mut().zip(part).for_each(|(most, s)| *most = if *s > *most { *s } else { *most });
        }
        let largest = lanes.into_iter().fold(f32::NEG_INFINITY, |most, s| if s > most { s } else { most });
        let mut seen = Seen { count: own.len(), e: [0.0; BLOCK], n: [NOTHING; BLOCK], largest, broken };
        for ((e, n), s) in seen.e.iter_mut().zip(&mut seen.n).zip(own) {
            let (part, exponent) = parts(*s - reference);
            let hidden = *s == f32::NEG_INFINITY;
            *e = if hidden { 0.0 } else { part };
            *n = if hidden { NOTHING } else { exponent };
        }
        seen
    }
}

/// The sums of a query over the blocks that it has met, of numbers `x 2^most`.
#[derive(Clone, Copy)]
pub(super) struct Joined {
    /// The largest exponent so far.
    most: i32,
    /// The largest score so far.
    largest: f32,
    /// What scores are relative to: the largest of all where it lies beyond 2^20, otherwise 0.
    pub reference: f32,
    /// Of the exponentials.
    pub sum: f32,
    /// Whether the last block has keys that are seen, and by how much the exponent grew then.
    pub met: bool,
    grown: i32,
    /// Whether a score, or the value of a key that is seen, is not finite.
    pub broken: bool,
}

impl Default for Joined {
    fn default() -> Self {
        let (largest, reference) = (f32::NEG_INFINITY, 0.0);
        Joined { most: -(1 << 30), largest, reference, sum: 0.0, met: false, grown: 0, broken: false }
    }
}

/// `x 2^-places`; what is not finite stays.
#[inline(always)]
fn shifted(x: f32, places: i32) -> f32 {
    let factor = f32::from_bits(((127 - places.clamp(0, 126)) as u32) << 23);
    if places > 126 && x.is_finite() { 0.0 } else { settle(x * factor) }
}

impl Joined {
    /// Adds the exponentials of a block, and writes the integers of its weights, of values with these exponents: returns what
    /// their sums are multiplied by.
    #[inline(always)]
    pub fn meet(&mut self, seen: &Seen, exponents: &[i32], weights: &mut [f64; BLOCK]) -> f64 {
        self.broken |= seen.broken;
        self.largest = self.largest.max(seen.largest);
        let (e, n, weights) = (&seen.e[..seen.count], &seen.n[..seen.count], &mut weights[..seen.count]);
        let most = n.iter().fold(NOTHING, |most, n| most.max(*n));
        self.met = most > NOTHING;
        if !self.met {
            return self.pass(weights);
        }
        let all = self.most.max(most);
        // In units of 2^-30: adding 2^52 leaves integers in the low bits.
        const WHOLE: f64 = (1u64 << 52) as f64;
        let units = e.iter().zip(n).fold(0u64, |sum, (e, n)| {
            let units = f64::from(*e) * power((n - most).max(-64) + 30) + WHOLE;
            sum.wrapping_add(units.to_bits() - WHOLE.to_bits())
        });
        let block = units as f32 * f32::from_bits((127 - 30) << 23);
        self.grown = all - self.most;
        self.sum = shifted(self.sum, self.grown) + shifted(block, all - most);
        self.most = all;
        // Mantissas that would round above the largest integer are halved.
        let carried = |e: f32, n: i32, value: i32| n + value + (((e.to_bits() as i32) + 65_793) >> 23) - 127;
        let own = e.iter().zip(n).zip(exponents);
        let largest = own.clone().fold(i32::MIN, |most, ((e, n), value)| most.max(carried(*e, *n, *value)));
        for (w, ((e, n), value)) in weights.iter_mut().zip(own) {
            let shift = (n + value + 22 - largest).clamp(-200, 200);
            *w = if n + value <= NOTHING / 2 { 0.0 } else { whole(f64::from(*e) * power(shift)) };
        }
        // Integers of a weight and of a value have 22 places each.
        power((largest - 44).saturating_sub(all))
    }

    /// Adds nothing of a block.
    pub fn pass(&mut self, weights: &mut [f64]) -> f64 {
        self.met = false;
        weights.fill(0.0);
        0.0
    }

    /// Whether all blocks are to be met again, by a query whose largest score lies beyond 2^20, with scores relative to that.
    pub fn begins_again(&mut self) -> bool {
        let far = self.reference == 0.0 && self.largest.abs() > 1_048_576.0 && self.largest > f32::NEG_INFINITY;
        if far {
            let reference = self.largest.clamp(f32::MIN, f32::MAX);
            *self = Joined { reference, ..Joined::default() };
        }
        far
    }

    /// A sum of earlier blocks, measured as the last one.
    #[inline(always)]
    pub fn shifted(&self, sum: f32) -> f32 {
        shifted(sum, self.grown)
    }
}
