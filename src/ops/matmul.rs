//! Matrix product, batched over all axes but the last two.

use super::{Counts, Operand, Operation, Shape, Shapes, Signature};
use crate::{Error, Result};

/// `y[.., m, n] = scale * sum_k a[.., m, k] b[.., k, n]`
///
/// Operands: `a [.., M, K]` (`[.., K, M]` if `transpose_a`), `b [.., K, N]` (`[.., N, K]` if `transpose_b`); the
/// leading axes are equal, or `b` has none. The sum runs over `k` in an order fixed by `(N, K)`; it is 0 if `K = 0`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matmul {
    /// Whether the last two axes of `a` are swapped.
    pub transpose_a: bool,
    /// Whether the last two axes of `b` are swapped.
    pub transpose_b: bool,
    /// Factor on the sums; default 1.
    pub scale: f32,
}

impl Default for Matmul {
    fn default() -> Self {
        Matmul { transpose_a: false, transpose_b: false, scale: 1.0 }
    }
}

/// A batch of products described by strides, as backends compute it. The results, `[outer, inner, rows, columns]`, are
/// contiguous.
#[derive(Debug, Clone, PartialEq)]
pub struct Strided {
    /// Rows of a result, `M`.
    pub rows: usize,
    /// Columns of a result, `N`.
    pub columns: usize,
    /// Terms per sum, `K`.
    pub depth: usize,
    /// Outer batches.
    pub outer: usize,
    /// Inner batches per outer batch.
    pub inner: usize,
    /// Inner batches that share one matrix of `b`.
    pub group: usize,
    /// Strides of `a` in elements: row, term, outer batch, inner batch.
    pub a: [usize; 4],
    /// Strides of `b` in elements: column, term, outer batch, (shared) inner batch.
    pub b: [usize; 4],
    /// Factor on the sums.
    pub scale: f32,
}

impl Strided {
    /// Number of products.
    pub fn batches(&self) -> usize {
        self.outer * self.inner
    }

    /// Floating-point operations; a multiply-add counts two.
    pub fn flops(&self) -> u64 {
        2 * (self.batches() * self.rows * self.columns * self.depth) as u64
    }

    /// Offsets of the matrices of product `batch` in `a` and `b`.
    pub fn starts(&self, batch: usize) -> (usize, usize) {
        let (outer, inner) = (batch / self.inner, batch % self.inner);
        (outer * self.a[2] + inner * self.a[3], outer * self.b[2] + inner / self.group * self.b[3])
    }
}

impl Matmul {
    /// The strided product and the axes of the result.
    ///
    /// # Errors
    /// `InvalidArgument` naming the operand, the shape found and the shape expected.
    pub fn strided(&self, operands: &[&Shape]) -> Result<(Strided, Vec<usize>)> {
        let (a, b) = (operands[0], operands[1]);
        let (a_axes, b_axes) = (a.fixed_axes("matmul", "a")?, b.fixed_axes("matmul", "b")?);
        let [batch @ .., first, second] = &a_axes[..] else {
            return Err(Error::InvalidArgument(format!("matmul: a has shape {a}, expected at least two axes")));
        };
        let (rows, depth) = if self.transpose_a { (*second, *first) } else { (*first, *second) };
        let (own, columns) = match &b_axes[..] {
            [own @ .., n, k] if self.transpose_b && *k == depth => (own, *n),
            [own @ .., k, n] if !self.transpose_b && *k == depth => (own, *n),
            _ => (&[usize::MAX][..], 0),
        };
        if !own.is_empty() && own != batch {
            let before: String = batch.iter().map(|n| format!("{n}, ")).collect();
            let matrix = if self.transpose_b { format!("N, {depth}]") } else { format!("{depth}, N]") };
            let each = if batch.is_empty() { String::new() } else { format!("[{before}{matrix} or ") };
            return Err(Error::InvalidArgument(format!("matmul: b has shape {b}, expected {each}[{matrix} (a {a})")));
        }
        let batches: usize = batch.iter().product();
        let mut product = Strided {
            rows,
            columns,
            depth,
            outer: 1,
            inner: batches,
            group: 1,
            a: if self.transpose_a { [1, rows, 0, rows * depth] } else { [depth, 1, 0, rows * depth] },
            b: if self.transpose_b { [depth, 1, 0, columns * depth] } else { [1, columns, 0, columns * depth] },
            scale: self.scale,
        };
        if own.is_empty() {
            product.b[3] = 0;
            // One matrix `b` for all: the rows of all batches are the rows of a single product.
            if !self.transpose_a {
                (product.rows, product.inner) = (rows * batches, 1);
            }
        }
        let mut axes = batch.to_vec();
        axes.extend([rows, columns]);
        Ok((product, axes))
    }
}

impl Operation for Matmul {
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("a"), Operand::rows("b")]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        Ok(vec![Shape::fixed(&self.strided(of.all())?.1)])
    }

    fn flops(&self, operands: &[&Shape], _counts: Counts) -> u64 {
        self.strided(operands).map_or(0, |(product, _)| product.flops())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        let infer = |op: &Matmul, a: &[usize], b: &[usize]| {
            Op::from(op.clone())
                .infer(&[&Shape::fixed(a), &Shape::fixed(b)])
                .map(|mut shapes| shapes.remove(0).to_string())
        };
        let plain = Matmul::default();
        assert_eq!(infer(&plain, &[2, 3, 4, 5], &[2, 3, 5, 6]).unwrap(), "[2, 3, 4, 6]");
        assert_eq!(infer(&plain, &[2, 3, 4, 5], &[5, 6]).unwrap(), "[2, 3, 4, 6]");
        assert_eq!(infer(&plain, &[4, 0], &[0, 6]).unwrap(), "[4, 6]");
        let both = Matmul { transpose_a: true, transpose_b: true, ..plain.clone() };
        assert_eq!(infer(&both, &[2, 5, 4], &[2, 6, 5]).unwrap(), "[2, 4, 6]");
        let message = infer(&plain, &[2, 4, 5], &[3, 5, 6]).unwrap_err().to_string();
        assert!(message.contains("b has shape [3, 5, 6], expected [2, 5, N] or [5, N] (a [2, 4, 5])"), "{message}");
        assert!(infer(&plain, &[4, 5], &[6, 5]).is_err() && infer(&plain, &[5], &[5, 2]).is_err());
        assert!(infer(&plain, &[4, 5], &[5]).is_err() && infer(&plain, &[4, 5], &[1, 5, 2]).is_err());
    }
}
