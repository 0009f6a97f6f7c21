//! Arenas: several regions in few buffers, charged to a budget.

use std::sync::Arc;

use super::budget::Budget;
use super::raw::{Buffer, Device, Kind, Slice};
use crate::Result;

/// Largest buffer shared by several regions; a single region may be larger.
const LARGEST_SHARED: u64 = 256 << 20;

/// The location of a region.
#[derive(Clone, Copy)]
struct Place {
    buffer: usize,
    offset: u64,
    bytes: u64,
}

/// Regions laid out in buffers; before the buffers are allocated, in their sizes.
pub(super) struct Arena<B = Arc<Buffer>> {
    buffers: Vec<B>,
    places: Vec<Place>,
}

/// Places each region at a multiple of `alignment`. Regions share a buffer while it stays within `largest`; lengths are
/// rounded up to 16 bytes, so that shaders may read the last vector in full.
fn lay_out(sizes: &[u64], alignment: u64, largest: u64) -> Arena<u64> {
    let alignment = alignment.max(16);
    let mut layout = Arena { buffers: Vec::<u64>::new(), places: Vec::with_capacity(sizes.len()) };
    for size in sizes {
        let bytes = size.max(&1).next_multiple_of(16);
        let offset = layout.buffers.last().map(|end| end.next_multiple_of(alignment));
        match offset.filter(|offset| offset + bytes <= largest) {
            Some(offset) => {
                let buffer = layout.buffers.len() - 1;
                layout.buffers[buffer] = offset + bytes;
                layout.places.push(Place { buffer, offset, bytes });
            }
            None => {
                layout.places.push(Place { buffer: layout.buffers.len(), offset: 0, bytes });
                layout.buffers.push(bytes);
            }
        }
    }
    layout
}

impl Arena {
    /// Allocates one region per size, in order.
    ///
    /// # Errors
    /// `OutOfMemory`, or a driver error.
    pub(super) fn new(device: &Arc<Device>, kind: Kind, sizes: &[u64], budget: &Arc<Budget>) -> Result<Self> {
        let capabilities = &device.capabilities;
        let largest = LARGEST_SHARED.min(capabilities.allocation);
        let layout = lay_out(sizes, capabilities.storage_buffer_alignment, largest);
        let make = |bytes: &u64| Buffer::new(device, kind, *bytes, budget);
        Ok(Arena { buffers: layout.buffers.iter().map(make).collect::<Result<_>>()?, places: layout.places })
    }

    /// A region.
    pub(super) fn slice(&self, region: usize) -> Slice {
        let place = self.places[region];
        Slice { buffer: self.buffers[place.buffer].clone(), offset: place.offset, bytes: place.bytes }
    }

    /// All regions, in order.
    pub(super) fn slices(&self) -> impl Iterator<Item = Slice> {
        (0..self.places.len()).map(|region| self.slice(region))
    }

    /// Total bytes of all buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.buffers.iter().map(|b| b.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_aligned_and_never_overlap() {
        let sizes: Vec<u64> = (0..40).map(|i| (i * 977) % 5000).collect();
        let layout = lay_out(&sizes, 256, 10_000);
        for (i, (place, size)) in layout.places.iter().zip(&sizes).enumerate() {
            assert!(place.offset % 256 == 0 && place.bytes >= *size && place.bytes % 16 == 0 && place.bytes > 0);
            assert!(place.offset + place.bytes <= layout.buffers[place.buffer]);
            for other in &layout.places[..i] {
                let apart = place.offset >= other.offset + other.bytes || other.offset >= place.offset + place.bytes;
                assert!(apart || place.buffer != other.buffer);
            }
        }
        assert!(layout.buffers.len() > 1 && layout.buffers.iter().all(|b| *b <= 10_000));
    }

    #[test]
    fn a_region_over_the_limit_has_a_buffer_of_its_own() {
        let layout = lay_out(&[64, 1 << 20, 64], 64, 1024);
        assert_eq!(layout.buffers, [64, 1 << 20, 64]);
    }

    #[test]
    fn a_budget_is_given_back() {
        let budget = Budget::new(100);
        let charge = budget.charge(60).unwrap();
        assert!(budget.charge(60).is_none());
        drop(charge);
        assert_eq!(budget.held(), 0);
        assert!(budget.charge(100).is_some());
        assert!(budget.charge(u64::MAX).is_none());
    }
}
