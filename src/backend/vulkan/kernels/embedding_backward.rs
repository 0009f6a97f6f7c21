//! Dispatches of `embedding_backward`: one.

use super::rows::{Rows, spread};
use crate::Result;
use crate::backend::vulkan::generated::embedding_backward::{Constants, Push};
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::EmbeddingBackward;

/// Adds the node's dispatch.
pub fn embedding_backward(to: &mut Lowering<'_>, _: &EmbeddingBackward) -> Result<()> {
    let rows = Rows::of(&to.result().shape)?;
    let quads = rows.columns.div_ceil(4);
    let lanes = quads.next_power_of_two().clamp(1, 256);
    let blocks = quads.div_ceil(lanes);
    let places = Rows::of_elements(to.shape(1))?;
    let push = Push { places_of: places.rows_of, places: places.rows, blocks, ..rows.into() };
    let groups = u64::from(rows.rows.div_ceil(256 / lanes)) * u64::from(blocks);
    to.dispatch(push, Constants { lanes, vector: rows.columns.is_multiple_of(4) }, spread(groups))
}
