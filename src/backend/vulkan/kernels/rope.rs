//! Dispatches of `rope`: one.

use super::rows::{Rows, along, walkers};
use crate::backend::vulkan::generated::{rope, rope_counted};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::rope::head_axes;
use crate::ops::{Dim, Rope};
use crate::{Error, Result};

/// Adds the node's dispatch.
pub fn rope(to: &mut Lowering<'_>, _: &Rope) -> Result<()> {
    let x = to.shape(0);
    let [heads, columns] = head_axes(x);
    let vector = columns.is_multiple_of(8);
    let row_pairs = if vector { columns / 8 } else { columns / 2 };
    let (row_pairs, heads, dim) = (row_pairs as u32, heads as u32, x.rows());
    let variant = to.select(if matches!(dim, Dim::Fixed(_)) { &rope::KERNEL } else { &rope_counted::KERNEL })?;
    if variant.stored.is_narrow() && !vector {
        let what = format!("rope in {}", variant.stored.name());
        return Err(Error::unsupported(what, format!("a head has {columns} columns, no multiple of eight")));
    }
    if let Dim::Fixed(_) = dim {
        let angles = to.shape(1).elements(Default::default()) / (columns / 2).max(1);
        let pairs = (x.elements(Default::default()) / columns.max(1)) as u32 * row_pairs;
        let push = rope::Push { pairs, row_pairs, heads, angles: angles as u32 };
        return to.add(Build::new(variant, push, rope::Constants { vector }), "", &[], walkers(pairs));
    }
    let (rows, pairs) = (Rows::new(dim, 1), heads * row_pairs);
    let push = rope_counted::Push { pairs, row_pairs, heads, angles: 0, rows_of: rows.rows_of };
    let grid = along(rows.tiles((4 * 256 / pairs.max(1)).max(1)));
    to.add(Build::new(variant, push, rope_counted::Constants { vector }), "", &[], grid)
}
