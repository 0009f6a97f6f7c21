//! Dispatches of `pool`, one per mode, each writing its own columns, and of its gradient.

use super::rows::Rows;
use crate::Result;
use crate::backend::vulkan::generated::pool::{Constants, KERNEL, Push};
use crate::backend::vulkan::generated::pool_backward as backward;
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::{Dim, Pool, PoolBackward};

/// Columns per workgroup.
const COLUMNS_PER_GROUP: u32 = 64;

/// Adds the node's dispatches.
pub fn pool(to: &mut Lowering<'_>, op: &Pool) -> Result<()> {
    let columns = to.shape(0).columns() as u32;
    let across = Extent::Fixed(columns.div_ceil(COLUMNS_PER_GROUP));
    for (place, mode) in op.modes.iter().enumerate() {
        let push = Push { columns, y_columns: columns * op.modes.len() as u32, y_column: columns * place as u32 };
        let grid = [across, Extent::Tiles { dim: Dim::Texts, per: 1 }, Extent::Continued { axis: 1 }];
        let build = Build::new(to.select_at_any_width(&KERNEL)?, push, Constants { mode: *mode as u32 });
        to.add(build, "", &[], grid)?;
    }
    Ok(())
}

/// `pool_backward`: one per mode, each of which adds to the result of those before.
pub fn pool_backward(to: &mut Lowering<'_>, PoolBackward(op): &PoolBackward) -> Result<()> {
    let rows = Rows::of(to.shape(1))?;
    let columns = rows.columns;
    let across = Extent::Fixed(columns.div_ceil(COLUMNS_PER_GROUP));
    for (place, mode) in op.modes.iter().enumerate() {
        let (g_columns, g_column) = (columns * op.modes.len() as u32, columns * place as u32);
        let push = backward::Push { g_columns, g_column, ..rows.into() };
        let grid = [across, Extent::Tiles { dim: Dim::Boundaries, per: 1 }, Extent::Continued { axis: 1 }];
        to.dispatch(push, backward::Constants { mode: *mode as u32, added: place > 0 }, grid)?;
    }
    Ok(())
}
