//! Dispatches of `rope`: one.

use super::rows::{Rows, along, walkers};
use crate::backend::vulkan::generated::{rope, rope_rows};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::rope::head_axes;
use crate::ops::{Dim, Rope};
use crate::{Error, Result};

/// Adds the node's dispatch.
pub fn rope(to: &mut Lowering<'_>, op: &Rope) -> Result<()> {
    let (x, half) = (to.shape(0), to.shape(1).columns());
    let [stored, columns] = head_axes(x);
    let vector = columns.is_multiple_of(8) && half.is_multiple_of(4);
    let unit = if vector { 4 } else { 1 };
    let (row_pairs, heads) = ((columns / 2 / unit) as u32, op.heads.unwrap_or(stored) as u32);
    let by_rows = x.0.len() == 3;
    let variant = to.select(if by_rows { &rope_rows::KERNEL } else { &rope::KERNEL })?;
    if variant.stored.is_narrow() && !vector {
        let what = format!("rope in {}", variant.stored.name());
        let reason =
            format!("a head has {columns} columns, {} of them rotated; both must be multiples of eight", 2 * half);
        return Err(Error::unsupported(what, reason));
    }
    if by_rows {
        let (rows, pairs) = (Rows::new(x.rows(), 1), heads * row_pairs);
        let (stored, turned) = (stored as u32, (half / unit) as u32);
        let push =
            rope_rows::Push { pairs, row_pairs, heads, angles: rows.rows, rows_of: rows.rows_of, stored, turned };
        let grid = match x.rows() {
            Dim::Fixed(rows) => walkers(rows as u32 * pairs),
            _ => along(rows.tiles((4 * 256 / pairs.max(1)).max(1))),
        };
        return to.add(Build::new(variant, push, rope_rows::Constants { vector }), "", &[], grid);
    }
    let angles = (to.shape(1).elements(Default::default()) / half.max(1)) as u32;
    let pairs = (x.elements(Default::default()) / columns.max(1)) as u32 * row_pairs;
    let push = rope::Push { pairs, row_pairs, heads, angles };
    to.add(Build::new(variant, push, rope::Constants { vector }), "", &[], walkers(pairs))
}
