//! `y = scale a b`: a batch of products of matrices that are both inputs.
//!
//! ```text
//! few large:   b in panels, packed by all threads; rows of y shared out  (as `linear`)
//! many small:  products shared out; each thread packs b into memory of its own, once for all products that share it
//! ```
//! Either way an element is the chain of sums of `simd/tile.rs`, in an order determined by the depth alone.

use rayon::prelude::*;

use super::Scratched;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::matmul::{Packed, multiply};
use crate::backend::cpu::panels::Panels;
use crate::backend::cpu::simd::{Arch, Finish, Product, Scale, Widest};
use crate::backend::cpu::step::Step;
use crate::backend::cpu::threads::Team;
use crate::exit::Request;
use crate::ops::{Matmul, Strided};
use crate::{Error, Result};

/// Pieces of a batch per thread, so that no thread waits long for another.
const PIECES: usize = 4;

pub(super) fn matmul(step: &Step<'_>, op: &Matmul, (out, scratch): Scratched<'_>) -> Result<()> {
    products(step, &op.strided([step.shape(0), step.shape(1)])?, scratch, out)
}

/// Computes all products; also used by `attention_scores`.
pub(super) fn products(step: &Step<'_>, product: &Strided, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
    if product.depth == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let batch = Batch { arch: step.arch, product, a: step.floats(0)?, b: step.floats(1)? };
    let one = product.rows * product.columns;
    if one == 0 {
        return Ok(());
    }
    let request = Request::current();
    match step.team {
        Team::Alone => batch.run(0, scratch, out, &request),
        Team::All(threads) if product.batches() >= threads => {
            let piece = product.batches().div_ceil(PIECES * threads);
            let pieces = out.par_chunks_mut(piece * one).enumerate();
            pieces.try_for_each(|(i, out)| batch.run(i * piece, &mut Floats::default(), out, &request))
        }
        team => {
            let mut pieces = out.chunks_exact_mut(one).enumerate();
            pieces.try_for_each(|(number, out)| batch.together(number, team, scratch, out))
        }
    }
}

#[derive(Clone, Copy)]
struct Batch<'a> {
    arch: Arch,
    product: &'a Strided,
    a: &'a [f32],
    b: &'a [f32],
}

impl Batch<'_> {
    fn panels(&self) -> Panels {
        let Widest { vectors: most, lanes } = Widest::of_floats(self.arch);
        let vectors = self.product.columns.div_ceil(lanes).min(most);
        let width = vectors * lanes;
        Panels { vectors, width, padded: self.product.columns.next_multiple_of(width) }
    }

    /// Whether a row of `a` is contiguous.
    fn rows_lie(&self) -> bool {
        self.product.a[1] == 1 || self.product.depth == 1
    }

    /// Computes the products from index `first` on, in order.
    fn run(&self, first: usize, scratch: &mut Floats, out: &mut [f32], request: &Request) -> Result<()> {
        let Strided { rows, columns, depth, .. } = *self.product;
        let panels = self.panels();
        let packed = panels.padded * depth;
        scratch.resize(packed + if self.rows_lie() { 0 } else { rows * depth }, "a product")?;
        let (packed, turned) = scratch.split_at_mut(packed);
        let mut last = None;
        for (number, out) in out.chunks_exact_mut(rows * columns).enumerate() {
            if request.made() {
                return Err(Error::Interrupted);
            }
            let (a, b) = self.product.starts(first + number);
            if last.replace(b) != Some(b) {
                self.pack(&self.b[b..], panels, packed);
            }
            let (a, a_stride) = if self.rows_lie() {
                (&self.a[a..], self.product.a[0])
            } else {
                self.turn(&self.a[a..], turned);
                (&*turned, depth)
            };
            Product {
                a: (a, a_stride),
                rows,
                depth,
                panels: packed,
                panel_depth: depth,
                vectors: panels.vectors,
                columns,
                scale: Scale::All(self.product.scale),
                out: (out, columns),
                ..Product::default()
            }
            .run(self.arch);
        }
        Ok(())
    }

    /// Computes one product with all threads.
    fn together(&self, number: usize, team: Team, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
        let Strided { rows, columns, depth, scale, .. } = *self.product;
        let (a, b) = self.product.starts(number);
        let (a, b) = (&self.a[a..], &self.b[b..]);
        let [column, term, ..] = self.product.b;
        // As in `run`: splitting a separate b for many small products costs more than the tile unit saves.
        let packed = Packed::new(self.arch.without_tiles(), columns, depth, |n, row| {
            let column = &b[n * column..];
            if term == 1 {
                row.copy_from_slice(&column[..depth]);
            } else {
                row.iter_mut().zip(column.iter().step_by(term)).for_each(|(y, x)| *y = *x);
            }
            Ok(())
        })?;
        let a = if self.rows_lie() && (self.product.a[0] == depth || rows == 1) {
            &a[..rows * depth]
        } else {
            scratch.resize(rows * depth, "a product")?;
            team.rows(scratch, depth, 64, |first, part| self.turn(&a[first * self.product.a[0]..], part));
            &scratch[..]
        };
        multiply(self.arch, team, a, &packed, Finish::default(), out)?;
        if scale != 1.0 {
            team.rows(out, 1, 1 << 14, |_, part| part.iter_mut().for_each(|y| *y *= scale));
        }
        Ok(())
    }

    /// Splits a matrix of `b` into panels.
    fn pack(&self, b: &[f32], panels: Panels, packed: &mut [f32]) {
        let Strided { columns, depth, b: [column, term, ..], .. } = *self.product;
        if column == 1 {
            panels.pack([depth, columns], false, |k| &b[k * term..], packed);
        } else {
            panels.pack_turned([columns, depth], |n| b[n * column..].iter().step_by(term), packed);
        }
    }

    /// Copies rows of `a` so that each is contiguous.
    fn turn(&self, a: &[f32], rows: &mut [f32]) {
        let Strided { depth, a: [row, term, ..], .. } = *self.product;
        // A few rows at a time, so that their lines stay in the first-level cache during the loop over terms.
        for (block, lines) in rows.chunks_mut(16 * depth).enumerate() {
            for k in 0..depth {
                for (i, line) in lines.chunks_exact_mut(depth).enumerate() {
                    line[k] = a[(16 * block + i) * row + k * term];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand, archs, assert_close, numbers, run as run_op, same_bits};
    use crate::ops::{AttentionScores, Counts, Shape};

    fn reference(product: &Strided, a: &[f32], b: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let (mut sums, mut sizes) = (Vec::new(), Vec::new());
        for batch in 0..product.batches() {
            let (a_start, b_start) = product.starts(batch);
            for m in 0..product.rows {
                for n in 0..product.columns {
                    let terms = (0..product.depth).map(|k| {
                        let a = a[a_start + m * product.a[0] + k * product.a[1]];
                        let b = b[b_start + n * product.b[0] + k * product.b[1]];
                        f64::from(a) * f64::from(b) * f64::from(product.scale)
                    });
                    sums.push(terms.clone().sum());
                    sizes.push(terms.map(f64::abs).sum());
                }
            }
        }
        (sums, sizes)
    }

    fn check(op: Matmul, batch: &[usize], shared: bool, (m, n, k): (usize, usize, usize)) {
        let axes = |rows, columns, turned: bool, batch: &[usize]| {
            let last = if turned { [columns, rows] } else { [rows, columns] };
            [batch, &last].concat()
        };
        let (a_axes, b_axes) =
            (axes(m, k, op.transpose_a, batch), axes(k, n, op.transpose_b, if shared { &[] } else { batch }));
        let (a, b) = (numbers(a_axes.iter().product(), 1), numbers(b_axes.iter().product(), 2));
        let (a_shape, b_shape) = (Shape::fixed(&a_axes), Shape::fixed(&b_axes));
        let product = op.strided([&a_shape, &b_shape]).unwrap();
        let (expected, sizes) = reference(&product, &a, &b);
        for arch in archs() {
            let operands = [Operand::Floats(a_shape.clone(), &a), Operand::Floats(b_shape.clone(), &b)];
            let y = run_op(op.clone(), &operands, Counts::default(), arch);
            let roundings = 3.0 + (k as f64).sqrt();
            let what = format!("{op:?} {a_axes:?} x {b_axes:?} {arch:?}");
            assert_close(&y, &expected, &what, |i| f64::from(f32::EPSILON) * roundings * sizes[i]);
        }
    }

    #[test]
    fn products_of_every_layout_match_float64() {
        for transpose_a in [false, true] {
            for transpose_b in [false, true] {
                let op = Matmul { transpose_a, transpose_b, scale: 0.3, ..Matmul::default() };
                for size in [(1, 1, 1), (3, 2, 0), (5, 17, 9), (33, 49, 20), (2, 100, 385), (150, 3, 2)] {
                    for (batch, shared) in [(&[][..], false), (&[3, 2], false), (&[9], true)] {
                        check(op.clone(), batch, shared, size);
                    }
                }
            }
        }
    }

    #[test]
    fn grouped_heads_of_scores_match_float64() {
        for (b, h, g, s, keys, d) in [(2, 4, 2, 5, 7, 3), (1, 3, 1, 20, 33, 16), (1, 1, 1, 1, 1, 0)] {
            let (q, k) = (numbers(b * s * h * d, 3), numbers(b * keys * g * d, 4));
            let shapes = [Shape::fixed(&[b, s, h, d]), Shape::fixed(&[b, keys, g, d])];
            let op = AttentionScores { scale: 0.5 };
            let (expected, sizes) = reference(&op.strided(&[&shapes[0], &shapes[1]]).unwrap(), &q, &k);
            let operands = [Operand::Floats(shapes[0].clone(), &q), Operand::Floats(shapes[1].clone(), &k)];
            let y = run_op(op, &operands, Counts::default(), Arch::new());
            assert_close(&y, &expected, "scores", |i| 1e-6 * sizes[i]);
        }
    }

    #[test]
    fn a_row_has_the_same_bits_among_any_number_of_rows_and_products() {
        let (n, k) = (70, 500);
        let (a, b) = (numbers(9 * 40 * k, 1), numbers(n * k, 2));
        let run = |rows: usize, a: &[f32], batches: usize| {
            let shape = Shape::fixed(&[batches, rows, k]);
            let operands = [Operand::Floats(shape, a), Operand::Floats(Shape::fixed(&[k, n]), &b)];
            run_op(Matmul::default(), &operands, Counts::default(), Arch::new())
        };
        let all = run(40, &a, 9);
        assert!(same_bits(&run(9 * 40, &a, 1), &all));
        assert!(same_bits(&run(1, &a[5 * k..6 * k], 1), &all[5 * n..6 * n]));
    }
}
