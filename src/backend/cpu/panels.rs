//! Matrices cut into panels, as products read them.

use super::simd::Widest;

/// Panels that cover columns.
#[derive(Clone, Copy)]
pub struct Panels {
    /// Of a panel.
    pub vectors: usize,
    /// Columns of a panel.
    pub width: usize,
    /// Columns of all.
    pub padded: usize,
}

impl Panels {
    /// The vectors that cover `columns`, distributed evenly over panels.
    pub fn new(columns: usize, widest: Widest) -> Self {
        let vectors = columns.div_ceil(widest.lanes).max(1);
        let panels = vectors.div_ceil(widest.vectors);
        let width = vectors.div_ceil(panels) * widest.lanes;
        Panels { vectors: width / widest.lanes, width, padded: panels * width }
    }

    /// Packs the rows of a matrix `[rows, dim]` into panels `[panel][rows][width]`; with `finite`, numbers that are not
    /// become 0.
    pub fn pack<'a>(self, [rows, dim]: [usize; 2], finite: bool, row: impl Fn(usize) -> &'a [f32], out: &mut [f32]) {
        let width = self.width;
        for (panel, first) in out.chunks_exact_mut((rows * width).max(1)).zip((0..dim).step_by(width)) {
            let count = width.min(dim - first);
            for (i, line) in panel.chunks_exact_mut(width).enumerate() {
                line[..count].copy_from_slice(&row(i)[first..first + count]);
                line[count..].fill(0.0);
                if finite {
                    line.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
                }
            }
        }
    }

    /// The same of the transpose: `[panel][dim][width]`, a column per row of the matrix.
    pub fn pack_turned<'a, R>(self, [rows, dim]: [usize; 2], row: impl Fn(usize) -> R, out: &mut [f32])
    where
        R: IntoIterator<Item = &'a f32>,
    {
        let width = self.width;
        for (panel, first) in out.chunks_exact_mut(dim * width).zip((0..rows).step_by(width)) {
            let count = width.min(rows - first);
            if count < width {
                panel.fill(0.0);
            }
            for j in 0..count {
                for (line, x) in panel.chunks_exact_mut(width).zip(row(first + j)) {
                    line[j] = *x;
                }
            }
        }
    }
}
