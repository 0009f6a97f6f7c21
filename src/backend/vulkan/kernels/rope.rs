//! Dispatches of `rope`: one.

use super::rows::walkers;
use crate::backend::vulkan::generated::rope::{Constants, KERNEL, Push};
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::{Rope, rope};
use crate::{Error, Result};

/// Adds the node's dispatch.
pub fn rope(to: &mut Lowering<'_>, _: &Rope) -> Result<()> {
    let [batch, rows, heads, columns] = rope::heads("rope", to.shape(0))?;
    let vector = columns.is_multiple_of(8);
    let row_pairs = if vector { columns / 8 } else { columns / 2 };
    let stored = to.select(&KERNEL)?.stored;
    if stored.is_narrow() && !vector {
        let what = format!("rope in {}", stored.name());
        return Err(Error::Unsupported { what, reason: format!("a head has {columns} columns, no multiple of eight") });
    }
    let shared = to.shape(1).0.len() == 2;
    let push = Push {
        pairs: (batch * rows * heads * row_pairs) as u32,
        row_pairs: row_pairs as u32,
        heads: heads as u32,
        angles: (if shared { rows } else { batch * rows }) as u32,
    };
    to.dispatch(push, Constants { vector }, walkers(push.pairs))
}
