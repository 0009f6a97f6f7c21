//! Dispatch of `grow_unit`.

use crate::Result;
use crate::backend::vulkan::generated::grow_unit::{Constants, Push};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::{Counts, GrowUnit};

/// `grow_unit`: one workgroup, which writes one row at most.
pub fn grow_unit(to: &mut Lowering<'_>, op: &GrowUnit) -> Result<()> {
    let rows = |place: usize| to.shape(place).rows().size(Counts::default()) as u32;
    let columns = to.shape(0).columns() as u32;
    let push = Push { rows: rows(2), columns, capacity: rows(0), threshold: op.threshold };
    to.dispatch(push, Constants {}, [Extent::ONE; 3])
}
