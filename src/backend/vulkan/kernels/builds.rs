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
    /// The same, of numbers that dispatches before it have split.
    Prepared,
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
    /// Whether it takes rows in 16 bits that cannot be read four elements at a time.
    any_width: bool,
}

impl<S, P, T> Row<S, P, T> {
    /// The build with these constants.
    pub const fn of<C>(of: &'static Kernel, how: How, tile: fn(&Lowering<'_>, &S, &'static Variant) -> Fit<T>) -> Self
    where
        C: Specialization<Push: From<P>> + From<T>,
    {
        Row { of, how, kernel: C::KERNEL, tile, make: build::<C, P, T>, any_width: false }
    }

    /// The same where rows in 16 bits may start at any element.
    pub const fn at_any_width(self) -> Self {
        Row { any_width: true, ..self }
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
    let (stored, replaced) = (to.stored_at_any_width()?, to.replaced(of).is_some());
    let width = to.whole_quads().map_err(|error| error.to_string());
    let mut passed = Vec::new();
    for &Row { how, kernel, tile, make, any_width, .. } in rows.iter().filter(|row| std::ptr::eq(row.of, of)) {
        let own = if replaced && !std::ptr::eq(kernel, of) {
            Err("a user's shader is registered".into())
        } else if let (Err(lack), false) = (&width, any_width) {
            Err(lack.clone())
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
/// As [`Lowering::select_at_any_width`].
pub fn build<C, P, T>(to: &Lowering<'_>, push: P, tile: T) -> Result<Build>
where
    C: Specialization<Push: From<P>> + From<T>,
{
    Ok(Build::new(to.select_at_any_width(C::KERNEL)?, push.into(), C::from(tile)))
}
