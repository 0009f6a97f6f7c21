//! Uploads weights to the device through a ring of staging buffers, straight from the checkpoint's mapped file.
//!
//! constants ── pieces of a segment ─▶ threads: each converts a block in its cache and writes it to the segment, once
//!           ── copies of the segment on the device, while the next is filled

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::budget::Budget;
use super::integers::Integers;
use super::kernel::Resource;
use super::lock;
use super::memory::Arena;
use super::raw::{Buffer, Device, Kind, Recording, Slice, Timing, WriteOnly};
use super::record::Commands;
use super::side_by_side;
use crate::dtype::DType;
use crate::graph::Graph;
use crate::ops::Counts;
use crate::stats::COUNTERS;
use crate::tensor::{TensorView, WeightSource};
use crate::{Error, Result};

/// One is filled while the device reads the other.
const SEGMENTS: usize = 2;
const SEGMENT_BYTES: u64 = 8 << 20;
/// Elements that a thread converts at a time.
const PIECE: usize = 1 << 15;

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
    let start = Instant::now();
    let sizes: Vec<u64> = constants.iter().map(|constant| bytes_of(graph, *constant)).collect();
    let arena = Arena::new(device, Kind::Weights, &sizes, budget)?;
    if constants.is_empty() {
        return Ok(arena);
    }
    let largest = sizes.iter().sum::<u64>().clamp(4, SEGMENT_BYTES);
    let mut ring = Ring::new(device, largest, budget)?;
    let allocating = start.elapsed();
    for (region, (constant, bytes)) in constants.iter().zip(&sizes).enumerate() {
        let mut target = arena.slice(region);
        match *constant {
            Resource::Weight(id) => {
                let value = graph.value(id);
                for part in value.tensors(source)? {
                    ring.write(Arc::new(part), value.dtype, &mut target)?;
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
    let [reading, waiting] = ring.finish()?;
    let (bytes, all) = (sizes.iter().sum::<u64>(), start.elapsed());
    log::debug!(
        target: "grilly",
        "uploaded {bytes} bytes in {all:.2?}: allocating {allocating:.2?}, reading {reading:.2?}, waiting {waiting:.2?}"
    );
    Ok(arena)
}

/// Elements of a tensor, and their place in a segment.
struct Piece<'a> {
    tensor: Arc<TensorView<'a>>,
    elements: Range<usize>,
    dtype: DType,
    place: u64,
}

/// Writes pieces, in the order of their places, to a segment.
///
/// # Errors
/// As [`TensorView::pass`]; `Interrupted`.
fn fill(pieces: &[Piece<'_>], segment: WriteOnly<'_>) -> Result<()> {
    let (mut parts, mut rest, mut end) = (Vec::new(), segment, 0);
    for Piece { tensor, elements, dtype, place } in pieces {
        // Bytes between two pieces are written already.
        rest = rest.split_at((place - end) as usize).1;
        end = place + dtype.bytes(elements.len()) as u64;
        for first in elements.clone().step_by(PIECE) {
            let elements = first..elements.end.min(first + PIECE);
            let (own, later) = rest.split_at(dtype.bytes(elements.len()));
            parts.push((tensor, elements, *dtype, own));
            rest = later;
        }
    }
    let most = pieces.iter().map(|piece| piece.elements.len()).sum::<usize>().div_ceil(PIECE);
    // The first fault in the order of the pieces.
    let fault: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    side_by_side::for_each(parts.into_iter().enumerate(), most, |(number, (tensor, elements, dtype, mut own))| {
        if let Err(error) = tensor.pass(elements, dtype, |bytes| own.put(bytes)) {
            let mut fault = lock(&fault);
            if fault.as_ref().is_none_or(|(first, _)| number < *first) {
                *fault = Some((number, error));
            }
        }
    })?;
    let fault = fault.into_inner().unwrap_or_else(PoisonError::into_inner);
    fault.map_or(Ok(()), |(_, error)| Err(error))
}

struct Segment<'a> {
    buffer: Arc<Buffer>,
    recording: Recording,
    filled: u64,
    /// Written before the copies are submitted.
    pieces: Vec<Piece<'a>>,
    copies: Commands,
}

struct Ring<'a> {
    device: Arc<Device>,
    segments: Vec<Segment<'a>>,
    current: usize,
    /// Spent on filling segments, and on waiting for the device.
    times: [Duration; 2],
}

impl<'a> Ring<'a> {
    fn new(device: &Arc<Device>, bytes: u64, budget: &Arc<Budget>) -> Result<Self> {
        let make = |_| {
            Ok(Segment {
                buffer: Buffer::new(device, Kind::Staging, bytes, budget)?,
                recording: Recording::new(device)?,
                filled: 0,
                pieces: Vec::new(),
                copies: Commands::default(),
            })
        };
        let segments = (0..SEGMENTS).map(make).collect::<Result<_>>()?;
        Ok(Ring { device: device.clone(), segments, current: 0, times: Default::default() })
    }

    /// Copies a tensor to the start of `target` as `dtype` and advances that start past it.
    fn write(&mut self, tensor: Arc<TensorView<'a>>, dtype: DType, target: &mut Slice) -> Result<()> {
        let mut first = 0;
        while first < tensor.elements() {
            let count = (self.room()? as usize * 8 / dtype.bits()).min(tensor.elements() - first);
            if count == 0 {
                self.flush()?;
                continue;
            }
            let place = self.place(dtype.bytes(count), target);
            let piece = Piece { tensor: tensor.clone(), elements: first..first + count, dtype, place };
            self.segments[self.current].pieces.push(piece);
            first += count;
        }
        Ok(())
    }

    /// Copies bytes to the start of `target`.
    fn write_bytes(&mut self, mut bytes: &[u8], mut target: Slice) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at((self.room()? as usize).min(bytes.len()));
            let place = self.place(now.len(), &mut target);
            let segment = &self.segments[self.current];
            segment.buffer.map(place, now.len() as u64, |memory| memory.copy_from_slice(now))?;
            bytes = later;
        }
        Ok(())
    }

    /// Bytes that the current segment has room for: at least one.
    fn room(&mut self) -> Result<u64> {
        let left = |segment: &Segment<'_>| segment.buffer.bytes - segment.filled;
        if left(&self.segments[self.current]) == 0 {
            self.flush()?;
        }
        Ok(left(&self.segments[self.current]))
    }

    /// A place in the current segment, which has room, whose bytes are copied to the start of `target`, which advances.
    fn place(&mut self, bytes: usize, target: &mut Slice) -> u64 {
        let (segment, bytes) = (&mut self.segments[self.current], bytes as u64);
        let from = Slice { buffer: segment.buffer.clone(), offset: segment.filled, bytes };
        segment.copies.copy(from, Slice { bytes, ..target.clone() });
        segment.filled += bytes;
        target.offset += bytes;
        segment.filled - bytes
    }

    /// Fills and submits the current segment, and waits for the next one.
    fn flush(&mut self) -> Result<()> {
        let segment = &mut self.segments[self.current];
        if !segment.copies.is_empty() {
            let start = Instant::now();
            segment.buffer.map(0, segment.filled, |memory| fill(&segment.pieces, memory))??;
            segment.pieces.clear();
            self.times[0] += start.elapsed();
            segment.recording.record(&mut segment.copies.take(), Timing::Off)?;
            self.device.submit(&mut [&mut segment.recording])?;
            segment.filled = 0;
        }
        self.current = (self.current + 1) % self.segments.len();
        let start = Instant::now();
        let waited = self.device.wait_unless_reached(self.segments[self.current].recording.ticket());
        self.times[1] += start.elapsed();
        waited
    }

    /// Submits what is left, waits for all and returns the times.
    fn finish(mut self) -> Result<[Duration; 2]> {
        for _ in 0..self.segments.len() {
            self.flush()?;
        }
        Ok(self.times)
    }
}
