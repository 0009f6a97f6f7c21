//! Attention of packed texts whose results have the same bits on every processor.
//!
//! ```text
//! pack:    rows of K and of V of a head as integers: K^T in panels [key panel][head_dim][width],  V in panels [column panel][L][width]
//! attend:  some queries at a time: scores = scale Q K^T + terms by distance;  by blocks of 64 keys: e^s = e 2^n,
//!          weights e 2^(n + exponent of the value) as integers,  y = sum of weights V / sum of e 2^n
//! ```
//! Sums over a block are exact. Blocks are counted from the text's first key and joined in order, by powers of two alone;
//! keys that are hidden from a query count nothing, whatever they hold.

mod attend;
mod block;
mod distances;

use std::ops::Range;

use attend::Attend;
use distances::Distances;
use rayon::prelude::*;

use super::refused;
use crate::backend::cpu::exact::{NOT_FINITE, integers, scale};
use crate::backend::cpu::kernels::attention::{Operand, Text, check_offsets};
use crate::backend::cpu::panels::Panels;
use crate::backend::cpu::simd::{Arch, Standard, Widest};
use crate::backend::cpu::step::Step;
use crate::backend::cpu::threads::Team;
use crate::exit::Request;
use crate::ops::Attention;
use crate::process::memory::filled;
use crate::text::packing;
use crate::{Error, Result, exit};

/// Queries that are worked on together.
const ROWS: usize = 16;

/// Keys of a block.
const BLOCK: usize = 64;

/// In place of an exponent: of a hidden key, or of a value row of zeros. Below every exponent, and so are sums with it.
const NOTHING: i32 = -(1 << 28);

/// Rows as integers in panels, with their exponents.
struct Packed {
    panels: Vec<f32>,
    exponents: Vec<i32>,
    shape: Panels,
}

impl Packed {
    /// The integers of rows `[count, dim]`, row by row, and their exponents.
    fn integers<'a>(
        arch: Arch,
        [count, dim]: [usize; 2],
        row: impl Fn(usize) -> &'a [f32],
    ) -> Result<(Vec<f32>, Vec<i32>)> {
        let (mut all, mut exponents) = (filled(count * dim, 0.0f32, "attention")?, vec![0; count]);
        let mut q = vec![0.0f64; dim];
        arch.vectorized(inlined!(|| {
            for (i, (all, exponent)) in all.chunks_exact_mut(dim).zip(&mut exponents).enumerate() {
                *exponent = integers(&row(i)[..dim], &mut q);
                all.iter_mut().zip(&q).for_each(|(all, q)| *all = *q as f32);
            }
        }));
        Ok((all, exponents))
    }

    /// A column for each row.
    fn turned<'a>(arch: Arch, size: [usize; 2], row: impl Fn(usize) -> &'a [f32]) -> Result<Self> {
        let (all, exponents) = Packed::integers(arch, size, row)?;
        let shape = Panels::new(size[0], Widest::of_wide(arch));
        let mut panels = filled(shape.padded * size[1], 0.0f32, "attention")?;
        shape.pack_turned(size, |j| &all[j * size[1]..][..size[1]], &mut panels);
        Ok(Packed { panels, exponents, shape })
    }

    /// Rows as they are.
    fn rows<'a>(arch: Arch, size: [usize; 2], row: impl Fn(usize) -> &'a [f32]) -> Result<Self> {
        let (all, exponents) = Packed::integers(arch, size, row)?;
        let shape = Panels::new(size[1], Widest::of_wide(arch));
        let mut panels = filled(shape.padded * size[0], 0.0f32, "attention")?;
        shape.pack(size, false, |j| &all[j * size[1]..][..size[1]], &mut panels);
        Ok(Packed { panels, exponents, shape })
    }

    /// The factors of the columns, padded.
    fn scales(&self) -> Vec<f64> {
        let mut scales: Vec<f64> = self.exponents.iter().map(|e| scale(*e)).collect();
        scales.resize(self.shape.padded.max(scales.len()), 1.0);
        scales
    }
}

/// What the queries of a text meet in a key-value head.
struct Head<'a> {
    keys: Packed,
    key_scales: Vec<f64>,
    /// A row of zeros has the exponent [`NOTHING`].
    values: Packed,
    /// The factors of their columns.
    ones: Vec<f64>,
    /// Keys whose values are not finite.
    broken: Vec<usize>,
    distances: Option<Distances<'a>>,
}

impl<'a> Head<'a> {
    /// Packs a head.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn new(arch: Arch, text: &Text<'a>, met: Option<[Option<Operand<'a>>; 2]>, head: usize) -> Result<Self> {
        let size = [text.length, text.op.head_dim];
        let of = |operand: Operand<'a>| move |j: usize| operand.head(text.start + j, head, size[1]);
        let keys = Packed::turned(arch, size, of(text.k))?;
        let mut values = Packed::rows(arch, size, of(text.v))?;
        let value = of(text.v);
        let mut broken = Vec::new();
        for (j, exponent) in values.exponents.iter_mut().enumerate() {
            if *exponent == NOT_FINITE {
                broken.push(j);
            }
            if *exponent == NOT_FINITE || value(j)[..size[1]].iter().all(|x| !x.is_normal()) {
                *exponent = NOTHING;
            }
        }
        let distances = met.map(|met| Distances::new(arch, text, met, head)).transpose()?;
        let ones = vec![1.0; values.shape.padded];
        Ok(Head { key_scales: keys.scales(), keys, values, ones, broken, distances })
    }
}

pub(super) fn attention(step: &Step<'_>, op: &Attention, out: &mut [f32]) -> Result<()> {
    let (given, queries, keys) = (Text::of(step, op, 0)?, step.indices(3)?, step.indices(4)?);
    let stride = op.heads * op.head_dim;
    if op.dropout > 0.0 {
        return Err(refused("attention with dropout"));
    }
    if stride == 0 {
        return Ok(());
    }
    let rows = |place: usize| step.shape(place).rows().size(step.counts);
    let of = |column: Option<usize>| column.map(|column| Operand::new(step, 5, column)).transpose();
    let met = match op.distances {
        None => None,
        Some([a, b]) => Some([of(a)?, of(b)?]),
    };
    let reach = if met.is_some() { rows(5) / 2 } else { given.reach };
    check_offsets(op, [queries, keys], [rows(0), rows(1)])?;
    let mut rest = out;
    for number in 0..queries.len() - 1 {
        let text = given.at(number, [packing::rows(queries, number), packing::rows(keys, number / op.shared_by)]);
        let text = Text { reach, ..text };
        let (own, after) = rest.split_at_mut(text.queries * stride);
        rest = after;
        if text.queries == 0 || text.length == 0 {
            own.fill(0.0);
            continue;
        }
        let group = op.heads / op.kv_heads;
        let attend = |head: usize, own: &Head<'_>, queries: Range<usize>, out: &mut [f32]| {
            for head in head * group..(head + 1) * group {
                Attend { arch: step.arch, text: &text, own, head, queries: queries.clone() }.run(out);
            }
        };
        let head = |head: usize| Head::new(step.arch, &text, met, head);
        if step.team == Team::Alone {
            for number in 0..op.kv_heads {
                if exit::requested() {
                    return Err(Error::Interrupted);
                }
                let head = head(number)?;
                for (i, out) in own.chunks_mut(ROWS * stride).enumerate() {
                    attend(number, &head, i * ROWS..i * ROWS + out.len() / stride, out);
                }
            }
            continue;
        }
        let request = Request::current();
        let heads = (0..op.kv_heads).into_par_iter().map(|number| {
            let _standard = Standard::enter();
            head(number)
        });
        let heads = heads.collect::<Result<Vec<Head<'_>>>>()?;
        own.par_chunks_mut(ROWS * stride).enumerate().for_each(|(i, out)| {
            let _standard = Standard::enter();
            for (number, head) in heads.iter().enumerate().take_while(|_| !request.made()) {
                attend(number, head, i * ROWS..i * ROWS + out.len() / stride, out);
            }
        });
    }
    Ok(())
}
