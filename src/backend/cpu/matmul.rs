//! Products with weights that are packed into panels once.
//!
//! A weight `[N, K]` of the checkpoint is stored as `K x N`, split into panels as wide as a tile, so that the inner
//! loop reads it sequentially. Per batch only the rows of wide products are packed; bias, activation and residual are
//! applied while a tile is in cache, and every element's chain of sums is the same whatever the number of rows or
//! threads (see `simd/tile.rs` and `simd/tiles/`).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

use super::floats::Floats;
use super::simd::{self, Arch, Finish, PackPanel, Product, TileProduct, TileUnit, Widest};
use super::threads::Team;
use crate::exit::Request;
use crate::process::memory::filled;
use crate::process::threads;
use crate::{Error, Result};

/// A weight `[columns, depth]` in panels of `width` columns, zeros at the end.
pub struct Packed {
    panels: Floats,
    columns: usize,
    depth: usize,
    width: usize,
    /// The unit that multiplies, which determines the panel layout: `None` for `[depth][width]` floats, else that of
    /// `simd/tiles/`.
    tiles: Option<TileUnit>,
}

impl Packed {
    /// Packs the matrix whose row `n` (of `columns`) `read` writes into a slice of `depth`. Runs on the current pool.
    ///
    /// # Errors
    /// `OutOfMemory`, and those of `read`.
    pub fn new(
        arch: Arch,
        columns: usize,
        depth: usize,
        read: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<Self> {
        if let Some(unit) = arch.tiles()
            && let Some(packed) = Packed::for_tiles(arch, unit, columns, depth, &read)?
        {
            return Ok(packed);
        }
        let width = Widest::of_floats(arch).width();
        let pack = |rows: &[f32], panel: &mut [f32]| {
            for (k, line) in panel.chunks_exact_mut(width).enumerate() {
                for (x, row) in line.iter_mut().zip(rows.chunks_exact(depth)) {
                    *x = row[k];
                }
            }
        };
        let panels = panels(columns, depth, width, width * depth, read, pack)?;
        Ok(Packed { panels, columns, depth, width, tiles: None })
    }

    /// `None` if some weight cannot be split into parts: then the vector unit multiplies.
    fn for_tiles(
        arch: Arch,
        unit: TileUnit,
        columns: usize,
        depth: usize,
        read: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<Option<Self>> {
        let good = AtomicBool::new(true);
        let pack = |rows: &[f32], panel: &mut [f32]| {
            if !arch.dispatch(PackPanel { rows, depth, panel }) {
                good.store(false, Relaxed);
            }
        };
        let panels = panels(columns, depth, simd::PANEL, simd::panel_floats(depth), read, pack)?;
        let packed = Packed { panels, columns, depth, width: simd::PANEL, tiles: Some(unit) };
        Ok(good.into_inner().then_some(packed))
    }

    /// The number of columns that a bias must be padded to.
    pub fn padded_columns(&self) -> usize {
        self.columns.div_ceil(self.width) * self.width
    }

    /// Floats per panel.
    fn panel(&self) -> usize {
        if self.tiles.is_some() { simd::panel_floats(self.depth) } else { self.depth * self.width }
    }

    /// Computes the columns of `out [rows, columns]` from panel `first` on.
    fn multiply(
        &self,
        arch: Arch,
        a: &[f32],
        first: usize,
        columns: usize,
        finish: Finish<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let (rows, depth) = (out.len() / columns, self.depth);
        let panels = &self.panels[first * self.panel()..][..columns.div_ceil(self.width) * self.panel()];
        let finish = Finish { bias: finish.bias.get(first * self.width..).unwrap_or(&[]), ..finish };
        match self.tiles {
            Some(unit) => TileProduct { a, rows, depth, panels, columns, finish, out }.run(arch, unit),
            None => {
                Product {
                    a: (a, depth),
                    rows,
                    depth,
                    panels,
                    panel_depth: depth,
                    vectors: Widest::of_floats(arch).vectors,
                    columns,
                    finish,
                    out: (out, columns),
                    ..Product::default()
                }
                .run(arch);
                Ok(())
            }
        }
    }
}

/// Builds panels of `width` columns, `floats` floats each; `pack` receives a panel's rows of the weight, `depth` floats
/// each.
fn panels(
    columns: usize,
    depth: usize,
    width: usize,
    floats: usize,
    read: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    pack: impl Fn(&[f32], &mut [f32]) + Sync,
) -> Result<Floats> {
    let mut panels = Floats::zeros(columns.div_ceil(width) * floats, "a weight matrix")?;
    let request = Request::current();
    let packed = |rows: &mut Vec<f32>, (number, panel): (usize, &mut [f32])| {
        if request.made() {
            return Err(Error::Interrupted);
        }
        let first = number * width;
        let rows = &mut rows[..width.min(columns - first) * depth];
        for (i, row) in rows.chunks_exact_mut(depth).enumerate() {
            read(first + i, row)?;
        }
        pack(rows, panel);
        Ok(())
    };
    if depth > 0 {
        let rows = || vec![0.0f32; width * depth];
        threads::run(|| panels.par_chunks_mut(floats).enumerate().try_for_each_init(rows, packed))??;
    }
    Ok(panels)
}

/// With fewer rows than this a team shares the columns instead, so that each thread reads only part of the weights.
const FEW_ROWS: usize = 128;

/// Whether a team shares the columns of a product, in so many panels, and not its rows.
pub fn shares_columns(team: Team, rows: usize, panels: usize) -> bool {
    team != Team::Alone && rows < FEW_ROWS && panels >= 2
}

/// Computes `y [rows, columns]` in panels of `width` columns: `work` gets the number of a task's first panel and its own
/// `[rows, some panels]`, padded; rows are assembled afterwards.
///
/// # Errors
/// `OutOfMemory`, and those of `work`.
pub fn by_columns(
    team: Team,
    [columns, width]: [usize; 2],
    y: &mut [f32],
    work: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
) -> Result<()> {
    let (rows, panels) = (y.len() / columns, columns.div_ceil(width));
    let each = panels.div_ceil(2 * team.size()).max(1);
    let mut pieces = filled(rows * panels * width, 0.0f32, "a product")?;
    pieces.par_chunks_mut(rows * each * width).enumerate().try_for_each(|(task, out)| work(task * each, out))?;
    for (task, piece) in pieces.chunks(rows * each * width).enumerate() {
        let (padded, first) = (piece.len() / rows, task * each * width);
        let count = padded.min(columns - first);
        for (row, part) in piece.chunks_exact(padded).enumerate() {
            y[row * columns + first..][..count].copy_from_slice(&part[..count]);
        }
    }
    Ok(())
}

/// `y [M, N] = act(x [M, K] W^T + bias) + residual`
///
/// # Errors
/// `OutOfMemory`.
pub fn multiply(arch: Arch, team: Team, x: &[f32], weight: &Packed, finish: Finish<'_>, y: &mut [f32]) -> Result<()> {
    let (columns, depth, width) = (weight.columns, weight.depth, weight.width);
    if y.is_empty() {
        return Ok(());
    }
    let rows = y.len() / columns;
    if !shares_columns(team, rows, columns.div_ceil(width)) {
        return team.try_rows(y, columns, simd::PANEL, |first, out| {
            let part = first * columns..first * columns + out.len();
            let finish = Finish { residual: finish.residual.map(|r| &r[part]), ..finish };
            weight.multiply(arch, &x[first * depth..], 0, columns, finish, out)
        });
    }
    by_columns(team, [columns, width], y, |first, out| {
        weight.multiply(arch, x, first, out.len() / rows, Finish { residual: None, ..finish }, out)
    })?;
    if let Some(residual) = finish.residual {
        y.iter_mut().zip(residual).for_each(|(y, residual)| *y += residual);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
