//! How elementwise shaders walk over a tensor: `shaders/include/elements.glsl`.

use super::rows::Rows;
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::kernel::Extent;
use crate::ops::{Counts, Dim, Shape};

/// Elements of a workgroup: four an invocation, and four times as many where that still makes groups enough.
const FEW: u32 = 1024;
const MANY: u32 = 4096;
/// Workgroups that fill any device.
const ENOUGH: u32 = 4096;

/// The head of an elementwise shader's push block, and its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// `rows_of` of `shaders/include/counts.glsl`.
    pub rows_of: u32,
    /// Rows where they are fixed.
    pub rows: u32,
    /// Columns; 1 where all axes are fixed, and every element is a row.
    pub columns: u32,
    /// Rows of a workgroup; with the columns a multiple of four.
    pub rows_per_group: u32,
    /// Workgroups along x.
    pub groups: Extent,
}

impl Elements {
    /// The walk over a tensor.
    ///
    /// # Errors
    /// As [`Rows::of`].
    pub fn of(shape: &Shape, capabilities: &Capabilities) -> Result<Elements> {
        if shape.0.iter().all(|dim| matches!(dim, Dim::Fixed(_))) {
            let elements = shape.elements(Counts::default()) as u32;
            let least = elements.div_ceil(capabilities.workgroup_count[0]).next_multiple_of(FEW);
            let rows_per_group = least.max(if elements / MANY < ENOUGH { FEW } else { MANY });
            let groups = Extent::Fixed(elements.div_ceil(rows_per_group));
            return Ok(Elements { rows_of: 0, rows: elements, columns: 1, rows_per_group, groups });
        }
        let rows = Rows::of(shape)?;
        let columns = rows.columns.max(1);
        let step = match columns % 4 {
            0 => 1,
            2 => 2,
            _ => 4,
        };
        let rows_per_group = (MANY / columns).max(1).next_multiple_of(step);
        Ok(Elements {
            rows_of: rows.rows_of(),
            rows: rows.fixed(),
            columns: rows.columns,
            rows_per_group,
            groups: rows.tiles(rows_per_group),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_start_at_multiples_of_four_and_are_never_too_many() {
        let floor = Capabilities::floor();
        for elements in [1, 3, 4, 1023, 1025, 1 << 20, 1 << 24, 300_000_001, u32::MAX - 1_000_000] {
            let walk = Elements::of(&Shape::fixed(&[elements as usize]), &floor).unwrap();
            let Extent::Fixed(groups) = walk.groups else { panic!() };
            assert!(
                groups <= floor.workgroup_count[0] && walk.rows_per_group.is_multiple_of(4),
                "{elements}: {walk:?}"
            );
            assert!(u64::from(groups) * u64::from(walk.rows_per_group) >= u64::from(elements));
        }
        for columns in [1, 2, 3, 6, 40, 1000, 4097, 5000] {
            let walk = Elements::of(&Shape::matrix(Dim::Tokens, columns), &floor).unwrap();
            assert_eq!(walk.rows_per_group * columns as u32 % 4, 0, "{columns}");
        }
    }
}
