//! Uploads weights to the device through a ring of staging buffers, straight from the checkpoint's mapped file.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::Budget;
use super::integers::Integers;
use super::kernel::Resource;
use super::lock;
use super::memory::Arena;
use super::raw::{Buffer, Device, Kind, Recording, Slice, Timing};
use super::record::Commands;
use super::side_by_side;
use crate::Result;
use crate::dtype::DType;
use crate::graph::Graph;
use crate::ops::Counts;
use crate::stats::COUNTERS;
use crate::tensor::{TensorView, WeightSource};

/// One is filled while the device reads the other.
const SEGMENTS: usize = 2;
const SEGMENT_BYTES: u64 = 4 << 20;
/// Threads that fill a segment: one converts fewer bytes per second than the bus moves.
const THREADS: usize = 4;
/// Elements that a thread converts at a time.
const PIECE: usize = 1 << 16;

/// Bytes of a constant on the device.
pub(super) fn bytes_of(graph: &Graph, constant: Resource) -> u64 {
    match constant {
        Resource::Weight(id) => graph.value(id).bytes(Counts::default()) as u64,
        Resource::Integers(id, form) => Integers::of(graph.value(id), form).bytes(),
        _ => 0,
    }
}

/// Uploads `constants` to new regions of device memory, in that order, in their values' stored types and with their parts
/// stacked.
///
/// # Errors
/// The error that `source` returns; `NotFinite` naming a tensor; `OutOfMemory` or a device fault.
pub(super) fn upload(
    device: &Arc<Device>,
    graph: &Graph,
    constants: &[Resource],
    source: &dyn WeightSource,
    budget: &Arc<Budget>,
) -> Result<Arena> {
    let sizes: Vec<u64> = constants.iter().map(|constant| bytes_of(graph, *constant)).collect();
    let arena = Arena::new(device, Kind::Weights, &sizes, budget)?;
    if constants.is_empty() {
        return Ok(arena);
    }
    let largest = sizes.iter().sum::<u64>().clamp(4, SEGMENT_BYTES);
    let mut ring = Ring::new(device, largest, budget)?;
    for (region, (constant, bytes)) in constants.iter().zip(&sizes).enumerate() {
        let mut target = arena.slice(region);
        match *constant {
            Resource::Weight(id) => {
                let value = graph.value(id);
                for part in &value.tensors(source)? {
                    ring.write(part, value.dtype, &mut target)?;
                }
            }
            Resource::Integers(id, form) => {
                let value = graph.value(id);
                Integers::of(value, form).write(&value.tensors(source)?, |place, bytes| {
                    ring.write_bytes(bytes, Slice { offset: target.offset + place, ..target.clone() })
                })?;
            }
            _ => {}
        }
        COUNTERS.bytes_weights.fetch_add(*bytes, Relaxed);
    }
    ring.finish()?;
    Ok(arena)
}

/// As [`TensorView::read`], with several threads where there are many elements.
///
/// # Errors
/// As there.
fn read(tensor: &TensorView<'_>, first: usize, dtype: DType, memory: &mut [u8]) -> Result<()> {
    let most = memory.len().div_ceil(dtype.bytes(PIECE)).min(THREADS);
    let pieces = memory.chunks_mut(dtype.bytes(PIECE)).enumerate();
    let fault = Mutex::new(None);
    side_by_side::for_each(pieces, most, |(number, piece)| {
        if let Err(error) = tensor.read(first + number * PIECE, dtype, piece) {
            *lock(&fault) = Some(error);
        }
    })?;
    fault.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

struct Segment {
    buffer: Arc<Buffer>,
    recording: Recording,
    filled: u64,
    copies: Commands,
}

struct Ring<'a> {
    device: &'a Arc<Device>,
    segments: Vec<Segment>,
    current: usize,
}

impl<'a> Ring<'a> {
    fn new(device: &'a Arc<Device>, bytes: u64, budget: &Arc<Budget>) -> Result<Self> {
        let make = |_| {
            Ok(Segment {
                buffer: Buffer::new(device, Kind::Staging, bytes, budget)?,
                recording: Recording::new(device)?,
                filled: 0,
                copies: Commands::default(),
            })
        };
        Ok(Ring { device, segments: (0..SEGMENTS).map(make).collect::<Result<_>>()?, current: 0 })
    }

    /// Copies a tensor to the start of `target` as `dtype` and advances that start past it.
    fn write(&mut self, tensor: &TensorView<'_>, dtype: DType, target: &mut Slice) -> Result<()> {
        let mut first = 0;
        while first < tensor.elements() {
            let segment = &self.segments[self.current];
            let room = (segment.buffer.bytes - segment.filled) as usize * 8 / dtype.bits();
            if room == 0 {
                self.flush()?;
                continue;
            }
            let count = room.min(tensor.elements() - first);
            self.put(dtype.bytes(count), target, |memory| read(tensor, first, dtype, memory))?;
            first += count;
        }
        Ok(())
    }

    /// Copies bytes to the start of `target`.
    fn write_bytes(&mut self, mut bytes: &[u8], mut target: Slice) -> Result<()> {
        while !bytes.is_empty() {
            let segment = &self.segments[self.current];
            let room = (segment.buffer.bytes - segment.filled) as usize;
            if room == 0 {
                self.flush()?;
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.put(now.len(), &mut target, |memory| {
                memory.copy_from_slice(now);
                Ok(())
            })?;
            bytes = later;
        }
        Ok(())
    }

    /// Lets `fill` write bytes, for which there is room, that are copied to the start of `target`, and advances that start.
    fn put(&mut self, bytes: usize, target: &mut Slice, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let (segment, bytes) = (&mut self.segments[self.current], bytes as u64);
        segment.buffer.map(segment.filled, bytes, fill)??;
        let from = Slice { buffer: segment.buffer.clone(), offset: segment.filled, bytes };
        segment.copies.copy(from, Slice { bytes, ..target.clone() });
        segment.filled += bytes;
        target.offset += bytes;
        Ok(())
    }

    /// Submits the current segment and prepares the next one for filling.
    fn flush(&mut self) -> Result<()> {
        let segment = &mut self.segments[self.current];
        if !segment.copies.is_empty() {
            segment.recording.record(&mut segment.copies.take(), Timing::Off)?;
            self.device.submit(&mut [&mut segment.recording])?;
            segment.filled = 0;
        }
        self.current = (self.current + 1) % self.segments.len();
        self.device.wait_unless_reached(self.segments[self.current].recording.ticket())
    }

    fn finish(mut self) -> Result<()> {
        for _ in 0..self.segments.len() {
            self.flush()?;
        }
        Ok(())
    }
}
