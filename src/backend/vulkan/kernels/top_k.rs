//! Dispatches of `top_k`: of parts of rows, then of what these have.

use super::rows::spread;
use crate::Result;
use crate::backend::vulkan::generated::top_k::{Constants, Push};
use crate::backend::vulkan::generated::top_k_join as join;
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::ops::{Counts, TopK};

/// The most elements that a workgroup can choose.
const MOST: usize = 1000;

/// `top_k`
pub fn top_k(to: &mut Lowering<'_>, op: &TopK) -> Result<()> {
    let columns = to.shape(0).columns();
    let rows = to.shape(0).elements(Counts::default()) / columns;
    let (parts, part) = op.parts(rows, columns);
    if op.count > MOST || parts * op.count > TopK::LONGEST {
        return Err(to.unsupported(format!("{} of {columns} columns, at most {MOST} are known", op.count)));
    }
    let count = op.count as u32;
    let push = Push { rows: rows as u32, columns: columns as u32, part: part as u32, parts: parts as u32 };
    let constants = Constants { count, masked: to.operands() > 1, vector: columns.is_multiple_of(4) };
    let build = to.own(DType::F32, push, constants)?;
    if parts == 1 {
        return to.add(build, "", &[], spread(rows as u64));
    }
    let found = [to.scratch("parts")?, to.scratch("part_places")?];
    to.add(build, "parts", &[("y", found[0]), ("places", found[1])], spread((rows * parts) as u64))?;
    let columns = parts as u32 * count;
    let push = join::Push { rows: rows as u32, columns, part: columns, parts: 1 };
    let build = to.own(DType::F32, push, join::Constants { count, vector: columns.is_multiple_of(4) })?;
    to.add(build, "join", &[], spread(rows as u64))
}
