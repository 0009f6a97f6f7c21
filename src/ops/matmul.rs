//! Matrix product, batched over all axes but the last two.

use super::definition::{Origin, Term};
use super::{BinaryKind, Counts, Dim, Operand, Operation, Reduce, ReduceKind, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// `y[.., m, n] = scale * sum_k a[.., m, k] b[.., k, n]`
///
/// Operands: `a [.., M, K]` (`[.., K, M]` if `transpose_a`), `b [.., K, N]` (`[.., N, K]` if `transpose_b`); the
/// leading axes are equal, or `b` has none. The sum runs over `k` in an order fixed by `(N, K)`, if `transpose_a` by
/// `(M, N, K)`; it is 0 if `K = 0`. Sums of operands in 16 bits are float32. A program may count an axis, such as `K` in the
/// gradient of a weight.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Matmul {
    /// Whether the last two axes of `a` are swapped.
    pub transpose_a: bool,
    /// Whether the last two axes of `b` are swapped.
    pub transpose_b: bool,
    /// Factor on the sums; default 1.
    pub scale: f32,
    /// Whether the result is float32 where the operands have 16 bits, as the gradient of a weight; default false.
    pub wide: bool,
}

impl Default for Matmul {
    fn default() -> Self {
        Matmul { transpose_a: false, transpose_b: false, scale: 1.0, wide: false }
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

/// The smallest number of terms of sums that are cut, and the smallest of a part.
const LONG: usize = 4096;
const PART: usize = 512;
/// Tiles of 128 x 128 results that keep a large device busy, whatever share of it the last ones leave idle.
const TILES: usize = 1152;

/// The most parts into which sums of a matrix of results are cut.
fn most_parts(rows: usize, columns: usize) -> usize {
    TILES / (rows.div_ceil(128) * columns.div_ceil(128)).max(1)
}

impl Matmul {
    /// The equal parts into which long sums of few results are cut on a GPU, where one product is `a^T b` with a result in
    /// float32, as in the gradient of a weight; 1 if they are not. By the sizes of the product alone.
    pub fn parts(&self, product: &Strided, result: DType) -> usize {
        if !self.transpose_a || result != DType::F32 || product.batches() != 1 || product.depth < LONG {
            return 1;
        }
        let most = most_parts(product.rows, product.columns).min(product.depth / PART);
        let mut powers = (0..=most.checked_ilog2().unwrap_or(0)).rev().map(|power| 1 << power);
        // Of whole steps of a shader.
        powers.find(|parts| product.depth.is_multiple_of(64 * parts)).unwrap_or(1)
    }

    /// The strided product of operands that fit.
    ///
    /// # Errors
    /// `InvalidArgument` naming an operand of which the batch counts an axis.
    pub fn strided(&self, operands: [&Shape; 2]) -> Result<Strided> {
        let (a, b) = (operands[0].fixed_axes("matmul", "a")?, operands[1].fixed_axes("matmul", "b")?);
        let (batch, matrix) = a.split_at(a.len() - 2);
        let (rows, depth) = if self.transpose_a { (matrix[1], matrix[0]) } else { (matrix[0], matrix[1]) };
        let columns = b[b.len() - if self.transpose_b { 2 } else { 1 }];
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
        if b.len() == 2 {
            product.b[3] = 0;
            // One matrix `b` for all: the rows of all batches are the rows of a single product.
            if !self.transpose_a {
                (product.rows, product.inner) = (rows * batches, 1);
            }
        }
        Ok(product)
    }
}

impl Operation for Matmul {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        ("{}", &[&[2, 3, 4, 5], &[2, 3, 5, 6]], &[0, 1]),
        (r#"{"transpose_b": true}"#, &[&[2, 4, 5], &[2, 6, 5]], &[0, 1]),
        (r#"{"transpose_a": true}"#, &[&[2, 5, 4], &[2, 5, 6]], &[0, 1]),
        (r#"{"transpose_a": true, "transpose_b": true}"#, &[&[5, 4], &[6, 5]], &[0, 1]),
        ("{}", &[&[2, 3, 4, 5], &[5, 6]], &[0, 1]),
        (r#"{"transpose_b": true}"#, &[&[2, 4, 5], &[6, 5]], &[0, 1]),
        (r#"{"transpose_a": true}"#, &[&[2, 3, 5, 4], &[5, 6]], &[0, 1]),
        (r#"{"transpose_a": true, "transpose_b": true}"#, &[&[2, 5, 4], &[6, 5]], &[0, 1]),
    ];
    fn signature(&self) -> Signature {
        const NARROW: Signature =
            Signature::of(&[Operand::rows("a").narrow(), Operand::rows("b").narrow()]).scratch(&["sums"]).sized();
        const WIDE: Signature = NARROW.gives(&[Operand::rows("y").stored(DType::F32)]);
        if self.wide { WIDE } else { NARROW }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (a, b) = (&of["a"], &of["b"]);
        let [batch @ .., first, second] = &a.0[..] else { return Err(of.wrong("a", "at least two axes")) };
        let (rows, depth) = if self.transpose_a { (*second, *first) } else { (*first, *second) };
        let fitting = match &b.0[..] {
            [own @ .., n, k] if self.transpose_b && *k == depth => Some((own, *n)),
            [own @ .., k, n] if !self.transpose_b && *k == depth => Some((own, *n)),
            _ => None,
        };
        let Some((_, columns)) = fitting.filter(|(own, _)| own.is_empty() || *own == batch) else {
            let before: String = batch.iter().map(|n| format!("{n}, ")).collect();
            let matrix = if self.transpose_b { format!("N, {depth}]") } else { format!("{depth}, N]") };
            let each = if batch.is_empty() { String::new() } else { format!("[{before}{matrix} or ") };
            return Err(of.wrong("b", format!("{each}[{matrix} (a {a})")));
        };
        Ok(vec![Shape([batch, &[rows, columns]].concat())])
    }

    /// With `A` and `B` transposed as the attributes say, `g B^T` and `A^T g`, either of them transposed like its operand.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let [a, b] = operands else { return None };
        let mut vjp = Vjp::new(2);
        let [a_term, mut b_term] = [0, 1].map(|place| Term::whole(Origin::Operand(place)));
        let g = Term::whole(Vjp::gradient(2));
        let product = |transpose_a, transpose_b| Matmul { transpose_a, transpose_b, ..self.clone() };
        // One matrix for all products of a batch.
        let shared = b.0.len() < a.0.len();
        let by_a = if self.transpose_a {
            if shared {
                let copies = vjp.filled(1.0, Shape([&a.0[..a.0.len() - 2], &b.0[..]].concat()));
                b_term = vjp.binary(BinaryKind::Multiply, copies, b_term);
            }
            vjp.step(product(self.transpose_b, true), [b_term, g.clone()])
        } else {
            vjp.step(product(false, !self.transpose_b), [g.clone(), b_term])
        };
        vjp.give(0, by_a);
        // Without batches, or of all their rows as one matrix.
        let (mut a_term, mut g) = (a_term, g);
        if shared && !self.transpose_a {
            let columns = b.0[usize::from(!self.transpose_b)];
            (a_term, g) = (a_term.seen(a.flat()?), g.seen(a.with_columns(columns.size(Counts::default())).flat()?));
        }
        let by_b = if self.transpose_b {
            vjp.step(product(true, self.transpose_a), [g, a_term])
        } else {
            vjp.step(product(!self.transpose_a, false), [a_term, g])
        };
        let by_b = if shared && self.transpose_a {
            let batches = a.0[..a.0.len() - 2].iter().map(|dim| dim.size(Counts::default())).product();
            let each = by_b.seen(Shape([&[Dim::Fixed(batches)], &b.0[..]].concat()));
            vjp.step(Reduce::rows(ReduceKind::Sum), [each])
        } else {
            by_b
        };
        vjp.give(1, by_b);
        Some(vjp)
    }

    /// The sums of the parts, as many as any `K` has if the batch counts it.
    fn scratch(&self, operands: &[&Shape], result: DType) -> Vec<Shape> {
        let ([a, b], true, DType::F32) = (operands, self.transpose_a, result) else { return Vec::new() };
        let ([depth, Dim::Fixed(rows)], [first, second]) = (&a.0[..], &b.0[..]) else { return Vec::new() };
        let Dim::Fixed(columns) = (if self.transpose_b { first } else { second }) else { return Vec::new() };
        let most = most_parts(*rows, *columns);
        let parts = match depth {
            Dim::Fixed(depth) if *depth < LONG => 1,
            Dim::Fixed(depth) => most.min(depth / PART),
            _ => most,
        };
        if parts > 1 { vec![Shape::fixed(&[parts, *rows, *columns])] } else { Vec::new() }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        let fixed = |place: usize| Shape::fixed(&operands[place].sizes(counts));
        self.strided([&fixed(0), &fixed(1)]).map_or(0, |product| product.flops())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;

    #[test]
    fn long_sums_of_few_results_are_cut() {
        let transposed = Matmul { transpose_a: true, ..Matmul::default() };
        let parts = |op: &Matmul, a: &[usize], b: &[usize]| {
            let (a, b) = (Shape::fixed(a), Shape::fixed(b));
            let parts = op.parts(&op.strided([&a, &b]).unwrap(), DType::F32);
            let room = op.scratch(&[&a, &b], DType::F32).first().map_or(1, |shape| shape.sizes(Counts::default())[0]);
            assert!(parts <= room, "{parts} parts in the room of {room}");
            parts
        };
        assert_eq!(parts(&transposed, &[4096, 256], &[4096, 256]), 8);
        assert_eq!(parts(&transposed, &[4096, 1024], &[4096, 1024]), 8);
        assert_eq!(parts(&transposed, &[16384, 768], &[16384, 3072]), 8);
        assert_eq!(parts(&transposed, &[16384, 768], &[16384, 768]), 32);
        assert_eq!(parts(&transposed, &[4128, 64], &[4128, 64]), 1);
        assert_eq!(parts(&transposed, &[4095, 64], &[4095, 64]), 1);
        assert_eq!(parts(&transposed, &[2, 8192, 64], &[2, 8192, 64]), 1);
        assert_eq!(parts(&Matmul::default(), &[64, 8192], &[8192, 64]), 1);
        let counted = Shape::matrix(Dim::Tokens, 256);
        assert_eq!(transposed.scratch(&[&counted, &counted], DType::F32), [Shape::fixed(&[288, 256, 256])]);
    }

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
        let counted = Shape::matrix(Dim::Tokens, 4);
        let of_depth = Op::from(Matmul { transpose_a: true, ..plain.clone() });
        assert_eq!(of_depth.infer(&[&counted, &counted]).unwrap(), [Shape::fixed(&[4, 4])]);
        let columns = Op::from(Matmul { transpose_b: true, ..plain.clone() });
        let message = columns.infer(&[&Shape::fixed(&[3, 4]), &counted]).unwrap_err().to_string();
        assert_eq!(message, "matmul: its result would be [3, T]; a batch counts no axis but the first");
        assert!(of_depth.infer(&[&counted, &Shape::fixed(&[7, 4])]).is_err());
        let message = infer(&plain, &[2, 4, 5], &[3, 5, 6]).unwrap_err().to_string();
        assert!(message.contains("b has shape [3, 5, 6], expected [2, 5, N] or [5, N] (a [2, 4, 5])"), "{message}");
        assert!(infer(&plain, &[4, 5], &[6, 5]).is_err() && infer(&plain, &[5], &[5, 2]).is_err());
        assert!(infer(&plain, &[4, 5], &[5]).is_err() && infer(&plain, &[4, 5], &[1, 5, 2]).is_err());
    }
}
