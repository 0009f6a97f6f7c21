//! Blocks of `attention` in 16 bits without matrix cores, whose scores stay in registers: those that a call asks for.

use crate::backend::vulkan::generated::Blocks;
use crate::backend::vulkan::kernel::Variant;
use crate::backend::vulkan::kernels::builds::Fit;
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::Attention;

/// The blocks; without a request the plain build runs, whose bits models have.
pub fn blocks(to: &Lowering<'_>, op: &Attention, _: &'static Variant) -> Fit<Blocks> {
    let [block_q, block_kv] = op.blocks.ok_or("no blocks are requested")?;
    super::starts_at(to, op, 0, 8)?;
    if op.dropout > 0.0 {
        return Err("it drops weights");
    }
    Ok(Blocks { block_q, block_kv, unit: 8, ..Blocks::of(op) })
}
