//! The choice of a build: rows, tried in order, for every product and for attention.
//!
//! A row's shader names in its manifest the features that it needs and conditions on the device, the columns of the result (N)
//! and the terms of a sum (K); what else it takes, and its tile, are a function of the row. The number of rows (M) decides
//! tiles, and among builds only where these give the same bits.

use crate::Result;
use crate::backend::vulkan::kernel::{Kernel, Specialization, Variant};
use crate::backend::vulkan::lowering::{Build, Lowering};

/// How a workgroup computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// On matrix cores, in the operands' type.
    Matrix,
    /// On matrix cores, each float32 number as two float16 numbers.
    Split,
    /// Lanes fed by subgroup shuffles.
    Shuffle,
    /// Lanes that share the sums of a row.
    Lanes,
    /// A row per invocation, in registers.
    Registers,
    /// As on every device.
    Plain,
}

/// A tile, or why the build does not take the node.
pub type Fit<T> = std::result::Result<T, &'static str>;

/// A build for what `S` describes, with constants made of `T` and a push block made of `P`.
pub struct Row<S, P, T> {
    /// The kernel in whose place it runs; that of the last row.
    of: &'static Kernel,
    how: How,
    kernel: &'static Kernel,
    tile: fn(&Lowering<'_>, &S, &'static Variant) -> Fit<T>,
    make: fn(&Lowering<'_>, P, T) -> Result<Build>,
}

impl<S, P, T> Row<S, P, T> {
    /// The build with these constants.
    pub const fn of<C>(of: &'static Kernel, how: How, tile: fn(&Lowering<'_>, &S, &'static Variant) -> Fit<T>) -> Self
    where
        C: Specialization<Push: From<P>> + From<T>,
    {
        Row { of, how, kernel: C::KERNEL, tile, make: build::<C, P, T> }
    }
}

/// The row that runs a node, with its variant and tile.
pub struct Chosen<P, T> {
    pub how: How,
    pub variant: &'static Variant,
    pub tile: T,
    /// The dispatch's shader with its push block and constants.
    pub make: fn(&Lowering<'_>, P, T) -> Result<Build>,
}

/// The first row for a kernel that the device has and that takes a node of `[n, k]`. A user's shader in place of the kernel
/// has the interface of the last row.
///
/// # Errors
/// `Unsupported` with what each row lacks.
pub fn choose<S, P, T>(
    to: &mut Lowering<'_>,
    of: &'static Kernel,
    sizes: [usize; 2],
    rows: &'static [Row<S, P, T>],
    site: &S,
) -> Result<Chosen<P, T>> {
    let (stored, replaced) = (to.stored()?, to.replaced(of).is_some());
    let mut passed = Vec::new();
    for &Row { how, kernel, tile, make, .. } in rows.iter().filter(|row| std::ptr::eq(row.of, of)) {
        let own = if replaced && !std::ptr::eq(kernel, of) {
            Err("a user's shader is registered".into())
        } else {
            kernel.fitting((stored, to.numerics()), to.capabilities, Some(sizes))
        };
        match own.and_then(|variant| Ok((variant, tile(to, site, variant)?))) {
            Ok((variant, tile)) => {
                let not = if passed.is_empty() { "" } else { ", not " };
                to.choices.push(format!("{}{not}{}", variant.name, passed.join(", ")));
                return Ok(Chosen { how, variant, tile, make });
            }
            Err(lack) => passed.push(format!("{} ({lack})", kernel.name)),
        }
    }
    Err(to.unsupported(passed.join(", ")))
}

/// The shader with these constants.
///
/// # Errors
/// As [`Lowering::select`].
pub fn build<C, P, T>(to: &Lowering<'_>, push: P, tile: T) -> Result<Build>
where
    C: Specialization<Push: From<P>> + From<T>,
{
    Ok(Build::new(to.select(C::KERNEL)?, push.into(), C::from(tile)))
}
