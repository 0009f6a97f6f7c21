//! Views tensors as rows of columns, and cuts them into slices that a device can bind.

use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::kernel::{Extent, Range};
use crate::backend::vulkan::lowering::Lowering;
use crate::numerics::Numerics;
use crate::ops::{Dim, Shape, Softmax};
use crate::{Error, Result};

/// The fewest invocations that share a row; independent of the subgroup size, so that every device adds in the same order.
pub const LANES: u32 = 32;

/// Invocations that share a row, and partial sums of it, where its numbers are the same on every device.
pub const EVERYWHERE_LANES: u32 = 64;
/// Most groups of four columns that they keep in registers.
const MOST_EVERYWHERE: u32 = 8;

/// Invocations that share a row of at most so many columns: as few as keep eight groups of four each. Its sums are 32 up to 1,024 columns and
/// 256 beyond, whatever these are.
const SHARED: [(u32, u32); 5] = [(256, 8), (512, 16), (1024, 32), (2048, 64), (4096, 128)];
const MOST_LANES: u32 = 256;

/// Rows per workgroup of 256 invocations.
pub const fn rows_per_group(lanes: u32) -> u32 {
    256 / lanes
}

/// Workgroups of 256 invocations for a loop over `places`, about four per invocation.
pub fn walkers(places: u32) -> [Extent; 3] {
    along(Extent::Fixed(places.div_ceil(4 * 256).min(65_535)))
}

/// A grid along x only.
pub fn along(x: Extent) -> [Extent; 3] {
    [x, Extent::ONE, Extent::ONE]
}

/// A grid along x that continues along z.
pub fn continued(x: Extent) -> [Extent; 3] {
    [x, Extent::ONE, Extent::Continued { axis: 0 }]
}

/// A tensor as rows times columns; rows are contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// What the rows count.
    pub count: Dim,
    /// `rows_of` of `shaders/include/counts.glsl`.
    pub rows_of: u32,
    /// The number of rows where it is fixed; where the batch determines it, the rows of each that it counts.
    pub rows: u32,
    /// Columns: the last axis, or 1 for a vector whose length the batch determines.
    pub columns: u32,
}

impl Rows {
    /// Rows of `columns` columns, with their number given by `count`.
    pub fn new(count: Dim, columns: u32) -> Rows {
        let (rows_of, rows) = match count {
            Dim::Fixed(n) => (0, n as u32),
            Dim::Length | Dim::LengthOf(_) => (0, 0),
            Dim::Tokens => (1, 1),
            Dim::Texts => (2, 1),
            Dim::Boundaries => (3, 1),
            Dim::Counted(number) => (4 + number as u32, 1),
        };
        Rows { count, rows_of, rows, columns }
    }

    /// Rows of a shape.
    ///
    /// # Errors
    /// `Unsupported` for more than two axes of which the batch determines one.
    pub fn of(shape: &Shape) -> Result<Rows> {
        let count = match shape.0.as_slice() {
            [] | [Dim::Fixed(_)] => Dim::Fixed(1),
            [rows] | [rows, Dim::Fixed(_)] if !rows.is_length() => *rows,
            axes if axes.iter().all(|d| matches!(d, Dim::Fixed(_))) => {
                Dim::Fixed(shape.elements(Default::default()) / shape.columns().max(1))
            }
            _ => {
                let reason = "rows counted by the batch must be the first of two axes";
                return Err(Error::unsupported(format!("shape {shape}"), reason));
            }
        };
        Ok(Rows::new(count, shape.columns() as u32))
    }

    /// Rows of a shape, where a row that the batch counts may consist of several: `[T, heads, columns]`.
    ///
    /// # Errors
    /// As [`Rows::of`], for more than three axes.
    pub fn of_each(shape: &Shape) -> Result<Rows> {
        match shape.0[..] {
            [count @ (Dim::Tokens | Dim::Texts | Dim::Counted(_)), Dim::Fixed(each), Dim::Fixed(columns)] => {
                Ok(Rows { rows: each as u32, ..Rows::new(count, columns as u32) })
            }
            _ => Rows::of(shape),
        }
    }

    /// One row of one column per element of a shape.
    ///
    /// # Errors
    /// As [`Rows::of`].
    pub fn of_elements(shape: &Shape) -> Result<Rows> {
        let mut axes = shape.clone();
        axes.0.push(Dim::Fixed(1));
        Rows::of(&axes)
    }

    /// Workgroups for all rows in so many groups, each of which starts a tile of `height` rows; `tiles` tiles each.
    pub fn tiles_of_groups(self, groups: u32, height: u32, tiles: u32) -> Extent {
        let (more, per) = (groups * (height - 1), height * tiles);
        match self.count {
            Dim::Fixed(0) => Extent::Fixed(0),
            Dim::Fixed(_) => Extent::Fixed((self.rows + more).div_ceil(per)),
            dim => Extent::Groups { dim, each: self.rows, more, per },
        }
    }

    /// Workgroups for all rows, `per` rows each.
    pub fn tiles(self, per: u32) -> Extent {
        match self.count {
            Dim::Fixed(n) => Extent::Fixed((n as u32).div_ceil(per)),
            dim if self.rows > 1 => Extent::Groups { dim, each: self.rows, more: 0, per },
            dim => Extent::Tiles { dim, per },
        }
    }
}

/// A grid along x and, where x is too short, along y; shaders number the workgroups `y * groups along x + x`.
pub fn spread(groups: u64) -> [Extent; 3] {
    const MOST: u64 = 65_535;
    let y = groups.div_ceil(MOST).max(1);
    [Extent::Fixed(groups.div_ceil(y) as u32), Extent::Fixed(y as u32), Extent::ONE]
}

/// How `shaders/include/rows/held-rows.glsl` distributes a row over invocations: determined by its columns alone, so that a
/// row's bits do not depend on the other rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Invocations that share a row.
    pub lanes: u32,
    /// Groups of four columns per invocation, of the row or of a part.
    pub quads: u32,
    /// Whether a row is kept in registers as a whole.
    pub held: bool,
    /// Whether rows start at multiples of four elements.
    pub vector: bool,
}

impl Held {
    /// The distribution for rows of `columns` columns. One that no invocations can keep is in parts, which they can.
    pub fn of(columns: u32) -> Held {
        Held::read(columns, columns.is_multiple_of(4))
    }

    /// The same, read by four adjacent columns or by columns that are apart.
    pub fn read(columns: u32, vector: bool) -> Held {
        let lanes = SHARED.iter().find(|(most, _)| columns <= *most).map_or(MOST_LANES, |(_, lanes)| *lanes);
        let [parts, part] = Softmax::parts(columns as usize).map(|size| size as u32);
        if parts > 1 {
            return Held { lanes, quads: part / (4 * lanes), held: false, vector };
        }
        let sums = if lanes > LANES { MOST_LANES } else { LANES };
        // Groups whose columns are apart lie in whole rounds of all sums, and a last one.
        let quads = if vector {
            columns.div_ceil(4 * lanes)
        } else {
            let (rounds, rest) = (columns / (4 * sums), columns % (4 * sums));
            rounds * (sums / lanes) + rest.min(sums).div_ceil(lanes)
        };
        Held { lanes, quads: quads.max(1), held: true, vector }
    }

    /// The distribution for rows of `columns` columns in a plan of these numbers: 64 lanes, whatever the columns, where they
    /// are the same on every device.
    pub fn in_plan(to: &Lowering<'_>, columns: u32) -> Held {
        if to.numerics() == Numerics::Run {
            return Held::of(columns);
        }
        let quads = columns.div_ceil(4 * EVERYWHERE_LANES).max(1);
        let held = quads <= MOST_EVERYWHERE;
        Held { lanes: EVERYWHERE_LANES, quads: if held { quads } else { 1 }, held, vector: false }
    }

    /// Workgroups for all rows.
    pub fn grid(self, rows: Rows) -> [Extent; 3] {
        let per = rows_per_group(self.lanes);
        match rows.count {
            Dim::Fixed(n) => spread((n as u64).div_ceil(u64::from(per))),
            // As many workgroups along y as each counted row has rows, so that x depends on the count alone.
            dim => [Extent::Tiles { dim, per }, Extent::Fixed(rows.rows), Extent::ONE],
        }
    }
}

/// A slice of a matrix' rows that one binding can cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// First row.
    pub first: u32,
    /// Rows.
    pub rows: u32,
    /// The range to bind.
    pub range: Range,
}

/// Cuts a matrix of `rows` rows of `row_bytes` bytes into slices that `capabilities` can bind; one slice if possible.
///
/// # Errors
/// `Unsupported` when even the smallest number of rows with an aligned end does not fit.
pub fn slices(matrix: Range, rows: usize, row_bytes: u64, capabilities: &Capabilities) -> Result<Vec<Slice>> {
    if rows as u64 * row_bytes <= capabilities.storage_buffer_range {
        return Ok(vec![Slice { first: 0, rows: rows as u32, range: matrix }]);
    }
    // The least number of rows after which a row starts at an aligned byte, and a product's column at a multiple of
    // four.
    let alignment = capabilities.storage_buffer_alignment.max(4);
    let step = (alignment / greatest_common_divisor(alignment, row_bytes)).max(4);
    let most = capabilities.storage_buffer_range / row_bytes / step * step;
    if most == 0 {
        let Capabilities { storage_buffer_range: range, name, .. } = capabilities;
        let reason = format!("{step} rows exceed the storage-buffer range of {range} bytes of {name}");
        return Err(Error::unsupported(format!("a matrix of {row_bytes} bytes a row"), reason));
    }
    let cut = |first: usize| {
        let rows = (most as usize).min(rows - first);
        let range = Range {
            resource: matrix.resource,
            offset: matrix.offset + first as u64 * row_bytes,
            bytes: Some(rows as u64 * row_bytes),
        };
        Slice { first: first as u32, rows: rows as u32, range }
    };
    Ok((0..rows).step_by(most as usize).map(cut).collect())
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests;
