//! Products with weights that were cut into panels once.
//!
//! A weight `[N, K]` of the checkpoint is kept as `K x N`, cut into panels as wide as a tile: the inner loop reads it
//! front to back. Nothing is packed per batch, bias, activation and residual are done while a block is in cache, and
//! every element's chain of sums is the same whatever the number of rows or threads (see `simd/tile.rs`).

use rayon::prelude::*;

use super::floats::Floats;
use super::simd::{self, Arch, Finish, PANEL_VECTORS, Product, Scale};
use super::threads::Team;
use crate::Result;
use crate::ops::ActivationKind;

/// A weight `[columns, depth]` in panels: `[panel][depth][width]`, `width` its columns side by side, zeros at the end.
pub struct Packed {
    panels: Floats,
    columns: usize,
    depth: usize,
    width: usize,
}

impl Packed {
    /// Packs the matrix whose row `n` (of `columns`) `read` writes into a slice of `depth`. Runs on rayon's current pool.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(arch: Arch, columns: usize, depth: usize, read: impl Fn(usize, &mut [f32]) + Sync) -> Result<Self> {
        let width = PANEL_VECTORS * simd::lanes(arch);
        let mut panels = Floats::zeros(columns.div_ceil(width) * width * depth, "a weight matrix")?;
        if depth > 0 {
            panels.par_chunks_mut(width * depth).enumerate().for_each_init(
                || vec![0.0f32; width * depth],
                |rows, (number, panel)| {
                    let first = number * width;
                    let count = width.min(columns - first);
                    for (i, row) in rows.chunks_exact_mut(depth).take(count).enumerate() {
                        read(first + i, row);
                    }
                    for (k, line) in panel.chunks_exact_mut(width).enumerate() {
                        for (j, x) in line[..count].iter_mut().enumerate() {
                            *x = rows[j * depth + k];
                        }
                    }
                },
            );
        }
        Ok(Packed { panels, columns, depth, width })
    }

    /// Columns a bias must be padded to.
    pub fn padded_columns(&self) -> usize {
        self.columns.div_ceil(self.width) * self.width
    }
}

/// What follows the product.
#[derive(Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// `[N]`, padded to [`Packed::padded_columns`]; empty for none.
    pub bias: &'a [f32],
    /// After the bias.
    pub activation: Option<ActivationKind>,
    /// `[M, N]`, added last.
    pub residual: Option<&'a [f32]>,
}

/// Rows below which a team shares the columns instead: then each thread reads a part of the weights only.
const FEW_ROWS: usize = 128;

/// `y [M, N] = act(x [M, K] W^T + bias) + residual`
pub fn multiply(arch: Arch, team: Team, x: &[f32], weight: &Packed, epilogue: Epilogue<'_>, y: &mut [f32]) {
    let (columns, depth) = (weight.columns, weight.depth);
    if y.is_empty() {
        return;
    }
    let rows = y.len() / columns;
    let panels = weight.panels.len() / (weight.width * depth).max(1);
    if team == Team::Alone || rows >= FEW_ROWS || panels < 2 {
        return team.rows(y, columns, 8, |first, out| {
            let rows = out.len() / columns;
            let part = first * columns..(first + rows) * columns;
            Product {
                a: &x[first * depth..],
                a_stride: depth,
                rows,
                depth,
                panels: &weight.panels,
                panel_depth: depth,
                vectors: PANEL_VECTORS,
                columns,
                scale: Scale::All(1.0),
                bias: epilogue.bias,
                finish: Finish { activation: epilogue.activation, residual: epilogue.residual.map(|r| &r[part]) },
                out,
                out_stride: columns,
            }
            .run(arch);
        });
    }
    // Each task owns some panels' columns and writes them to its own [rows, width] pieces; rows are put together after.
    let width = weight.width;
    let each = panels.div_ceil(2 * team.size()).max(1);
    let mut pieces = vec![0.0f32; rows * panels * width];
    pieces.par_chunks_mut(rows * each * width).enumerate().for_each(|(task, out)| {
        let first = task * each;
        let count = out.len() / (rows * width);
        let padded = count * width;
        Product {
            a: x,
            a_stride: depth,
            rows,
            depth,
            panels: &weight.panels[first * width * depth..(first + count) * width * depth],
            panel_depth: depth,
            vectors: PANEL_VECTORS,
            columns: padded,
            scale: Scale::All(1.0),
            bias: if epilogue.bias.is_empty() { &[] } else { &epilogue.bias[first * width..][..padded] },
            finish: Finish { activation: epilogue.activation, residual: None },
            out,
            out_stride: padded,
        }
        .run(arch);
    });
    for (task, piece) in pieces.chunks(rows * each * width).enumerate() {
        let padded = piece.len() / rows;
        let first = task * each * width;
        let count = padded.min(columns - first);
        for (row, part) in piece.chunks_exact(padded).enumerate() {
            let start = row * columns + first;
            let out = &mut y[start..start + count];
            match epilogue.residual {
                None => out.copy_from_slice(&part[..count]),
                Some(residual) => {
                    for ((y, x), r) in out.iter_mut().zip(part).zip(&residual[start..]) {
                        *y = x + r;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{archs, numbers, same_bits};

    fn product(arch: Arch, team: Team, x: &[f32], w: &[f32], n: usize, k: usize) -> Vec<f32> {
        let weight = Packed::new(arch, n, k, |row, out| out.copy_from_slice(&w[row * k..][..k])).unwrap();
        let mut y = vec![0.0; x.len() / k.max(1) * n];
        multiply(arch, team, x, &weight, Epilogue::default(), &mut y);
        y
    }

    #[test]
    fn a_row_has_the_same_bits_among_any_number_of_rows() {
        for arch in archs() {
            for (n, k) in [(1, 1), (5, 2), (47, 33), (48, 384), (49, 385), (100, 800)] {
                let (x, w) = (numbers(200 * k, 1), numbers(n * k, 2));
                let all = product(arch, Team::Alone, &x, &w, n, k);
                for rows in 1..=200 {
                    let some = product(arch, Team::Alone, &x[(200 - rows) * k..], &w, n, k);
                    assert!(same_bits(&some, &all[(200 - rows) * n..]), "{rows} rows, [{n}, {k}], {arch:?}");
                    if rows > 24 && k > 100 {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn rows_apart_leave_what_is_between_alone() {
        for arch in archs() {
            let (rows, columns, depth, gap) = (11, 21, 19, 3);
            let (a, b) = (numbers(rows * depth, 3), numbers(columns * depth, 4));
            let weight =
                Packed::new(arch, columns, depth, |n, out| out.copy_from_slice(&b[n * depth..][..depth])).unwrap();
            let mut out = vec![7.5f32; rows * (columns + gap)];
            Product {
                a: &a,
                a_stride: depth,
                rows,
                depth,
                panels: &weight.panels,
                panel_depth: depth,
                vectors: PANEL_VECTORS,
                columns,
                scale: Scale::All(1.0),
                bias: &[],
                finish: Finish { activation: Some(ActivationKind::Relu), residual: None },
                out: &mut out,
                out_stride: columns + gap,
            }
            .run(arch);
            for row in out.chunks_exact(columns + gap) {
                assert_eq!(row[columns..], [7.5; 3], "{arch:?}");
                assert!(row[..columns].iter().all(|x| *x >= 0.0 && *x != 7.5));
            }
        }
    }
}
