//! Scores by distance: the products of queries and of keys with the vectors of the distance between them, as in
//! [`crate::ops::Attention`].

use super::super::functions::settle;
use super::Packed;
use crate::Result;
use crate::backend::cpu::exact::scale;
use crate::backend::cpu::kernels::attention::{Operand, Text};
use crate::backend::cpu::simd::{Arch, ExactProduct};
use crate::process::memory::filled;

/// The vectors of the distances in one text, in one key-value head.
pub(super) struct Distances<'a> {
    text: Text<'a>,
    /// The first row of the table in use, and how many are.
    first: usize,
    count: usize,
    /// What queries meet.
    a: Option<(Packed, Vec<f64>)>,
    /// The products of keys with what they meet, `[L, count]`.
    keys: Option<Vec<f32>>,
}

impl<'a> Distances<'a> {
    /// Packs what the queries meet, and multiplies the keys with what they meet.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(arch: Arch, text: &Text<'a>, met: [Option<Operand<'a>>; 2], head: usize) -> Result<Self> {
        let dim = text.op.head_dim;
        let first = row(text, -text.place(text.queries - 1));
        let count = row(text, text.length as i64 - 1 - text.place(0)) + 1 - first;
        let pack = |operand: Operand<'a>| -> Result<(Packed, Vec<f64>)> {
            let packed = Packed::turned(arch, [count, dim], |i| operand.head(first + i, head, dim))?;
            let scales = packed.scales();
            Ok((packed, scales))
        };
        let mut own = Distances { text: *text, first, count, a: met[0].map(pack).transpose()?, keys: None };
        if let Some(vectors) = met[1].map(pack).transpose()? {
            let size = [text.length, dim];
            let (rows, exponents) = Packed::integers(arch, size, |j| text.k.head(text.start + j, head, dim))?;
            let rows: Vec<f64> = rows.into_iter().map(f64::from).collect();
            let mut keys = filled(text.length * count, 0.0f32, "attention")?;
            multiply(arch, &vectors, &rows, &exponents, (&mut keys, count));
            own.keys = Some(keys);
        }
        Ok(own)
    }

    /// Adds to settled products `[queries, columns]` with all keys, whose queries are integers with exponents.
    pub fn add(
        &self,
        arch: Arch,
        first: usize,
        queries: &[f64],
        exponents: &[i32],
        (scores, columns): (&mut [f32], usize),
    ) {
        let mut met = vec![0.0f32; exponents.len() * self.count];
        if let Some(vectors) = &self.a {
            multiply(arch, vectors, queries, exponents, (&mut met, self.count));
        }
        for (i, scores) in scores.chunks_exact_mut(columns).take(exponents.len()).enumerate() {
            let place = self.text.place(first + i);
            for (key, score) in scores[..self.text.length].iter_mut().enumerate() {
                let at = row(&self.text, key as i64 - place) - self.first;
                if self.a.is_some() {
                    *score += settle(met[i * self.count + at]);
                }
                if let Some(keys) = &self.keys {
                    *score += settle(keys[key * self.count + at]);
                }
            }
        }
    }
}

/// The row of a distance.
fn row(text: &Text<'_>, distance: i64) -> usize {
    let reach = text.reach as i64;
    (distance.clamp(-reach, reach) + reach) as usize
}

/// The products of rows of integers with vectors.
fn multiply(
    arch: Arch,
    (vectors, column_scales): &(Packed, Vec<f64>),
    rows: &[f64],
    exponents: &[i32],
    out: (&mut [f32], usize),
) {
    let depth = rows.len() / exponents.len().max(1);
    let row_scales: Vec<f64> = exponents.iter().map(|e| scale(*e)).collect();
    ExactProduct {
        a: (rows, depth),
        rows: exponents.len(),
        depth,
        panels: &vectors.panels,
        panel_depth: depth,
        vectors: vectors.shape.vectors,
        columns: out.1,
        row_scales: &row_scales,
        column_scales,
        out,
    }
    .run(arch);
}
