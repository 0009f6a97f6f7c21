//! Dispatches of `pool`: one per mode, each writing its own columns.

use crate::Result;
use crate::backend::vulkan::generated::pool::{Constants, Push};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::{Dim, Pool};

/// Columns per workgroup.
const COLUMNS_PER_GROUP: u32 = 64;

/// Adds the node's dispatches.
pub fn pool(to: &mut Lowering<'_>, op: &Pool) -> Result<()> {
    let columns = to.shape(0).columns() as u32;
    let across = Extent::Fixed(columns.div_ceil(COLUMNS_PER_GROUP));
    for (place, mode) in op.modes.iter().enumerate() {
        let push = Push { columns, y_columns: columns * op.modes.len() as u32, y_column: columns * place as u32 };
        let grid = [across, Extent::Tiles { dim: Dim::Texts, per: 1 }, Extent::ONE];
        to.dispatch(push, Constants { mode: *mode as u32 }, grid)?;
    }
    Ok(())
}
