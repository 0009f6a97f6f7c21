//! Dispatch of `token_convolution`: one.

use super::elementwise::walk;
use crate::Result;
use crate::backend::vulkan::generated::token_convolution::{Constants, Push};
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::{Dim, TokenConvolution};

/// Adds the node's dispatch.
pub fn token_convolution(to: &mut Lowering<'_>, op: &TokenConvolution) -> Result<()> {
    let (width, [heads, taps]) = (to.shape(0).columns(), TokenConvolution::sizes(to.shape(1)));
    let apart = if to.shape(1).rows() == Dim::Fixed(1) { 0 } else { heads * taps };
    let constants = Constants { vector: width.is_multiple_of(4) };
    let [width, block, taps, apart, before] = [width, width / heads, taps, apart, op.before].map(|size| size as u32);
    walk(to, &to.result().shape, constants, |walk| Push { width, block, taps, apart, before, ..walk })
}
