//! Rows rounded to integers of 8, 2 or 1 bits, and their scales.

use std::borrow::Cow;

use crate::backend::cpu::simd::{range, sum_by};
use crate::backend::cpu::step::Step;
use crate::numerics::{Numerics, settle};
use crate::ops::{Levels, Places, QuantizeKind, QuantizeRows, Scope};
use crate::{Error, Result};

/// Minimum words per thread.
const LEAST: usize = 1 << 12;

/// Sums of magnitudes, from which on a scale has no quotient among the normal numbers: 2^126.
const MOST_SUM: f32 = f32::from_bits(253 << 23);

pub(super) fn quantize_rows(step: &Step<'_>, op: &QuantizeRows, results: &mut [&mut [f32]]) -> Result<()> {
    let (x, columns) = (step.floats(0)?, step.shape(0).columns());
    let factors = op.factors.then(|| step.floats(1)).transpose()?;
    let (q, scale, zero) = match results {
        [q, scale] => (q, scale, None),
        [q, scale, zero] => (q, scale, Some(zero)),
        _ => return Err(Error::InvalidArgument("quantize_rows: expected two or three results".into())),
    };
    let x = factors.map_or(Cow::Borrowed(x), |factors| Cow::Owned(scaled(step, x, columns, factors)));
    let shared = Shared { x: &x, columns, scope: op.scope };
    let numerics = step.plan.numerics;
    let each = if op.pairs { 2 } else { 1 };
    step.rows(scale, each, 16).each(inlined!(|place, scale| {
        let elements = shared.elements(place);
        scale[0] = scale_of(op.kind, numerics, elements);
        if let [scale, zero] = scale {
            *zero = zero_of(*scale, elements) as f32;
        }
    }));
    let mut zeros: &[i32] = &[];
    if let Some(zero) = zero {
        let scale = &**scale;
        step.rows(zero, 1, 16).each(inlined!(|place, zero| {
            zero[0] = f32::from_bits(zero_of(scale[place], shared.elements(place)).cast_unsigned());
        }));
        zeros = bytemuck::cast_slice(zero);
    }
    let rows = Rounding { x: &x, columns, scale, each, zeros, places: op.scope.places(columns), numerics };
    let words = !op.unpacked && columns % 4 == 0 && columns > 0;
    match op.stored() {
        Levels::Int8 if words && op.scope == Scope::Row && op.seed.is_none() => whole(step, &rows, q),
        Levels::Int8 => round(step, op, &rows, q),
        levels => pack(step, levels, &rows, q),
    }
    Ok(())
}

/// The elements times the factors of their columns.
fn scaled(step: &Step<'_>, x: &[f32], columns: usize, factors: &[f32]) -> Vec<f32> {
    let mut scaled = x.to_vec();
    let rows = step.rows(&mut scaled, columns.max(1), 16);
    match step.plan.numerics {
        Numerics::Run => rows.each(inlined!(|_, row| {
            row.iter_mut().zip(factors).for_each(|(x, factor)| *x *= factor);
        })),
        Numerics::Everywhere => rows.each(inlined!(|_, row| {
            row.iter_mut().zip(factors).for_each(|(x, factor)| *x = settle(settle(*x) * settle(*factor)));
        })),
    }
    scaled
}

/// The elements that share each scale.
struct Shared<'a> {
    x: &'a [f32],
    columns: usize,
    scope: Scope,
}

impl Shared<'_> {
    #[inline(always)]
    fn elements(&self, place: usize) -> &[f32] {
        match self.scope {
            Scope::Row => &self.x[place * self.columns..][..self.columns],
            Scope::Tensor => self.x,
            Scope::Group(group) => {
                let groups = self.columns.div_ceil(group);
                let (row, first) = (place / groups, place % groups * group);
                &self.x[row * self.columns + first..][..group.min(self.columns - first)]
            }
        }
    }
}

#[inline(always)]
fn scale_of(kind: QuantizeKind, numerics: Numerics, x: &[f32]) -> f32 {
    // As integers the magnitudes are in the same order, infinity and NaN above all.
    let largest = x.iter().fold(0, |most: u32, x| most.max(x.abs().to_bits()));
    if largest >= f32::INFINITY.to_bits() {
        return f32::NAN;
    }
    match kind {
        QuantizeKind::Absmax => 127.0 / f32::from_bits(largest).max(1e-5),
        QuantizeKind::Affine => {
            let (least, most) = range(x);
            // Half of each, so that the difference is finite.
            127.5 / (0.5 * most - 0.5 * least).max(5e-6)
        }
        QuantizeKind::Ternary | QuantizeKind::Binary if numerics == Numerics::Everywhere => {
            let count = x.len().max(1) as f32;
            let sum = magnitudes_in_lanes(x).max(1e-5 * count);
            if sum < MOST_SUM { count / sum } else { f32::NAN }
        }
        QuantizeKind::Ternary | QuantizeKind::Binary => {
            let (count, least) = (x.len().max(1) as f64, 1e-5 * x.len().max(1) as f32);
            let sum = magnitudes(x).max(f64::from(least));
            if sum < f64::from(MOST_SUM) { (count / sum) as f32 } else { f32::NAN }
        }
    }
}

/// The sum of magnitudes; of many in float64, since a tensor has millions.
#[inline(always)]
fn magnitudes(x: &[f32]) -> f64 {
    const FEW: usize = 2048;
    if x.len() <= FEW {
        return f64::from(sum_by([x], |[x]| x.abs()));
    }
    let (blocks, rest) = x.as_chunks::<16>();
    let mut chains = [0.0; 16];
    for block in blocks {
        chains.iter_mut().zip(block).for_each(|(sum, x)| *sum += f64::from(x.abs()));
    }
    chains.into_iter().chain(rest.iter().map(|x| f64::from(x.abs()))).sum()
}

/// The sum of settled magnitudes in the order that is the same on every device: lanes 256 apart, of a lane sixteen numbers,
/// sixteen such sums, sixteen of these, and all of those; lanes by halves.
#[inline(always)]
fn magnitudes_in_lanes(x: &[f32]) -> f32 {
    const LANES: usize = 256;
    let mut sums = [[0.0f32; LANES]; 4];
    for (turn, row) in (1usize..).zip(x.chunks(LANES)) {
        sums[0].iter_mut().zip(row).for_each(|(sum, x)| *sum += settle(*x).abs());
        for (level, turns) in [16, 256, 4096].into_iter().enumerate() {
            if turn.is_multiple_of(turns) {
                let (below, above) = sums.split_at_mut(level + 1);
                let pairs = above[0].iter_mut().zip(&mut below[level]).take(row.len());
                pairs.for_each(|(above, below)| *above += std::mem::take(below));
            }
        }
    }
    let [one, two, three, four] = &sums;
    let mut all = [0.0f32; LANES];
    for (lane, all) in all.iter_mut().enumerate() {
        *all = (four[lane] + three[lane]) + (two[lane] + one[lane]);
    }
    let mut reach = LANES / 2;
    while reach > 0 {
        let (near, far) = all.split_at_mut(reach);
        near.iter_mut().zip(far).for_each(|(near, far)| *near += *far);
        reach /= 2;
    }
    all[0]
}

#[inline(always)]
fn zero_of(scale: f32, x: &[f32]) -> i32 {
    if scale.is_nan() {
        return 0;
    }
    (-128 - (range(x).0 * scale).round_ties_even() as i32).clamp(-128, 127)
}

/// What the integers are made of.
struct Rounding<'a> {
    x: &'a [f32],
    columns: usize,
    /// Scales, of which each may precede its zero: then so many numbers each.
    scale: &'a [f32],
    each: usize,
    zeros: &'a [i32],
    places: Places,
    numerics: Numerics,
}

impl Rounding<'_> {
    #[inline(always)]
    fn scale(&self, place: usize) -> f32 {
        self.scale[self.each * place]
    }

    #[inline(always)]
    fn zero(&self, place: usize) -> i32 {
        match self.each {
            2 => self.scale[2 * place + 1] as i32,
            _ => self.zeros.get(place).copied().unwrap_or(0),
        }
    }

    fn place(&self, element: usize) -> usize {
        let (row, column) = (element / self.columns, element % self.columns);
        row * self.places.per_row + column / self.places.group
    }

    /// The integer of an element in -1 .. 1.
    fn level(&self, levels: Levels, element: usize) -> i8 {
        let x = self.x[element];
        if levels == Levels::Binary {
            let x = if self.numerics == Numerics::Everywhere { settle(x) } else { x };
            return if x > 0.0 { 1 } else { -1 };
        }
        // A NaN becomes 0.
        (x * self.scale(self.place(element))).round_ties_even().clamp(-1.0, 1.0) as i8
    }
}

/// Rows in whole words, each with a scale of its own.
fn whole(step: &Step<'_>, rows: &Rounding<'_>, q: &mut [f32]) {
    /// Added to a number below 2^22, leaves it rounded to the nearest integer, ties to even, in the lower bits.
    const ROUNDER: f32 = 12_582_912.0;
    let columns = rows.columns;
    step.rows(q, columns / 4, 16).each(inlined!(|row, words| {
        let (scale, zero) = (rows.scale(row), rows.zero(row));
        let bytes: &mut [i8] = bytemuck::cast_slice_mut(words);
        if scale.is_nan() {
            return bytes.fill(0);
        }
        for (byte, x) in bytes.iter_mut().zip(&rows.x[row * columns..][..columns]) {
            let rounded = (x * scale).clamp(-512.0, 512.0) + ROUNDER;
            let integer = rounded.to_bits().cast_signed() - ROUNDER.to_bits().cast_signed();
            *byte = (integer + zero).clamp(-128, 127) as i8;
        }
    }));
}

/// Four integers of 8 bits per word, which may contain the end of one row and the start of the next.
fn round(step: &Step<'_>, op: &QuantizeRows, rows: &Rounding<'_>, q: &mut [f32]) {
    let (numbers, levels) = (op.numbers(), op.kind.levels());
    step.team.rows(q, 1, LEAST, |first, part| {
        for (word, bytes) in (first..).zip(bytemuck::cast_slice_mut::<f32, [i8; 4]>(part)) {
            let chance = numbers.map(|numbers| numbers.uniforms::<1>(word as u64)[0]);
            for (i, byte) in bytes.iter_mut().enumerate().take(rows.x.len() - 4 * word) {
                if levels != Levels::Int8 {
                    *byte = rows.level(levels, 4 * word + i);
                    continue;
                }
                let place = rows.place(4 * word + i);
                let scaled = rows.x[4 * word + i] * rows.scale(place);
                let scaled = if rows.numerics == Numerics::Everywhere { settle(scaled) } else { scaled };
                let scaled = scaled.clamp(-512.0, 512.0);
                let rounded = match chance {
                    None => scaled.round_ties_even(),
                    Some(u) => scaled.floor() + if u[i] < scaled - scaled.floor() { 1.0 } else { 0.0 },
                };
                // Of NaN it is 0, and so is `zero`.
                let integer = rounded as i32 + rows.zero(place);
                *byte = integer.clamp(-128, 127) as i8;
            }
        }
    });
}

/// Four or eight integers per byte, each row in whole bytes.
fn pack(step: &Step<'_>, levels: Levels, rows: &Rounding<'_>, q: &mut [f32]) {
    let (each, row_bytes) = (levels.per_byte(), levels.bytes(rows.columns));
    let bytes = rows.x.len() / rows.columns.max(1) * row_bytes;
    step.team.rows(q, 1, LEAST / each, |first, part| {
        for (place, byte) in (4 * first..bytes).zip(bytemuck::cast_slice_mut::<f32, u8>(part)) {
            let (row, start) = (place / row_bytes, place % row_bytes * each);
            *byte = 0;
            for column in start..rows.columns.min(start + each) {
                let level = rows.level(levels, row * rows.columns + column);
                let code = if levels == Levels::Binary { u8::from(level > 0) } else { (level + 1) as u8 };
                *byte |= code << (8 / each * (column - start));
            }
        }
    });
}
