//! A slot: the memory of one batch in flight, with the command buffers recorded for it.
//!
//! A batch is one submission. Only a text too long for one (a watchdog would reset the device, or Ctrl-C would go
//! unnoticed) is submitted in parts, each when the previous one is done.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::budget::Budget;
use super::limits::flops_per_submission;
use super::memory::Arena;
use super::prepared::{Bound, GROUPS, Prepared};
use super::profile;
use super::raw::{Buffer, Device, Kind, Recording, Slice, Ticket, Timing};
use super::record::Commands;
use crate::backend::{BatchLimits, Feed, Reader};
use crate::dtype::DType;
use crate::graph::{Plan, ValueId};
use crate::ops::Counts;
use crate::stats::COUNTERS;
use crate::{Result, exit};

/// State shared by all slots of a program.
pub(super) struct Shared {
    pub(super) device: Arc<Device>,
    pub(super) plan: Arc<Plan>,
    pub(super) prepared: Prepared,
    pub(super) budget: Arc<Budget>,
    pub(super) limits: BatchLimits,
}

impl Shared {
    fn shape_bytes(&self, id: ValueId, counts: Counts) -> u64 {
        self.plan.graph.value(id).bytes(counts).next_multiple_of(4) as u64
    }

    /// Whether a batch, a text longer than the token budget, may take several submissions.
    fn long(&self, counts: Counts) -> bool {
        counts.tokens > self.limits.tokens
    }
}

/// The memory of one batch.
pub(super) struct Slot {
    capacity: Counts,
    bound: Bound,
    /// The dispatches: several recordings where a full slot is too much work for one submission.
    parts: Vec<Recording>,
    /// How many parts of the batch in flight are submitted.
    submitted: usize,
    timing: Timing,
    /// The copies of the requested outputs' rows, recorded again when the requested outputs or the counts change.
    read_back: Recording,
    results: Option<Arc<Buffer>>,
    recorded: Option<(Vec<usize>, Counts)>,
    ticket: Ticket,
}

impl Slot {
    /// Creates a slot for batches up to `capacity`.
    ///
    /// # Errors
    /// `OutOfMemory` or a device fault.
    pub(super) fn new(shared: &Shared, capacity: Counts) -> Result<Self> {
        let (device, plan) = (&shared.device, &shared.plan);
        let arena = |kind, sizes: &[u64]| Arena::new(device, kind, sizes, &shared.budget);
        let table = GROUPS * shared.prepared.groups(capacity).len() as u64;
        let inputs = plan.graph.inputs.iter().map(|id| shared.shape_bytes(*id, capacity));
        let sizes: Vec<u64> = [size_of_val(&capacity.words()) as u64, table].into_iter().chain(inputs).collect();
        let given = arena(Kind::Inputs, &sizes)?;
        let sizes: Vec<u64> = plan.buffers.iter().map(|b| b.bytes(capacity) as u64).collect();
        let bound = Bound {
            counts: given.slice(0),
            groups: Some(given.slice(1)),
            inputs: given.slices().skip(2).collect(),
            states: Vec::new(),
            buffers: arena(Kind::Activations, &sizes)?.slices().collect(),
        };
        let mut slot = Slot {
            capacity,
            bound,
            parts: Vec::new(),
            submitted: 0,
            timing: Timing::Off,
            read_back: Recording::new(device)?,
            results: None,
            recorded: None,
            ticket: Ticket::default(),
        };
        slot.record(shared)?;
        Ok(slot)
    }

    /// Whether a batch fits.
    pub(super) fn holds(&self, counts: Counts) -> bool {
        counts.all().zip(self.capacity.all()).all(|(size, most)| size <= most)
    }

    fn record(&mut self, shared: &Shared) -> Result<()> {
        self.timing = profile::timing();
        let most =
            if shared.long(self.capacity) { flops_per_submission(&shared.device.capabilities) } else { u64::MAX };
        let flops = shared.plan.flops(self.capacity);
        self.parts = shared.prepared.record(&shared.device, &self.bound, (flops, most), self.timing)?;
        Ok(())
    }

    /// Writes a batch's inputs and submits it. The feed must fit the plan and the slot.
    ///
    /// # Errors
    /// `OutOfMemory` or a device fault.
    pub(super) fn start(&mut self, shared: &Shared, feed: &Feed<'_>) -> Result<()> {
        let device = &shared.device;
        device.check("a batch")?;
        // An abandoned batch may still be in flight here.
        device.wait_unless_reached(self.ticket)?;
        if self.timing != profile::timing() {
            self.record(shared)?;
        }
        let (counts, groups) = (feed.counts.words(), shared.prepared.groups(feed.counts));
        let mut sent = write(&self.bound.counts, bytemuck::bytes_of(&counts))?;
        if let Some(table) = &self.bound.groups {
            sent += write(table, bytemuck::cast_slice(groups.as_flattened()))?;
        }
        for (input, bytes) in self.bound.inputs.iter().zip(&feed.inputs) {
            sent += write(input, bytes)?;
        }
        let wants = (feed.outputs.clone(), feed.counts);
        if self.recorded.as_ref() != Some(&wants) {
            self.recorded = None;
            self.record_read_back(shared, &wants.0, wants.1)?;
            self.recorded = Some(wants);
        }
        self.submitted = 0;
        self.submit(device, shared.long(feed.counts))?;
        COUNTERS.bytes_up.fetch_add(sent, Relaxed);
        COUNTERS.batches_vulkan.fetch_add(1, Relaxed);
        COUNTERS.kiloflops_vulkan.fetch_add(shared.plan.flops(feed.counts).div_ceil(1000), Relaxed);
        Ok(())
    }

    /// Submits the next part of the batch, or the rest unless it is `long`.
    fn submit(&mut self, device: &Device, long: bool) -> Result<()> {
        let all = self.parts.len();
        let end = if long { all.min(self.submitted + 1) } else { all };
        let last = (end == all).then_some(&mut self.read_back);
        let mut recordings: Vec<&mut Recording> = self.parts[self.submitted..end].iter_mut().chain(last).collect();
        self.ticket = device.submit(&mut recordings)?;
        self.submitted = end;
        Ok(())
    }

    fn record_read_back(&mut self, shared: &Shared, outputs: &[usize], counts: Counts) -> Result<()> {
        let bytes = |place: &usize| shared.shape_bytes(shared.plan.graph.outputs[*place], counts);
        let needed: u64 = outputs.iter().map(bytes).sum();
        let results = match self.results.take().filter(|buffer| buffer.bytes >= needed) {
            Some(buffer) => buffer,
            None => Buffer::new(&shared.device, Kind::Results, needed.next_power_of_two(), &shared.budget)?,
        };
        let mut offset = 0;
        let copy = |place: &usize| {
            let from = Slice { bytes: bytes(place), ..self.bound.buffers[shared.prepared.outputs[*place]].clone() };
            let to = Slice { offset, ..Slice::start(&results, from.bytes) };
            offset += from.bytes;
            (from, to)
        };
        let mut commands = Commands::default();
        commands.copy_written(outputs.iter().map(copy).filter(|(from, _)| from.bytes > 0));
        self.results = Some(results);
        self.read_back.record(&mut commands.take(), Timing::Off)
    }

    /// Waits for the batch in flight and passes its requested outputs to `reader`.
    ///
    /// # Errors
    /// A device fault, `Interrupted`, or the error that `reader` returns.
    pub(super) fn finish(&mut self, shared: &Shared, reader: Reader<'_>) -> Result<()> {
        shared.device.wait(self.ticket)?;
        while self.submitted < self.parts.len() {
            exit::check()?;
            self.submit(&shared.device, true)?;
            shared.device.wait(self.ticket)?;
        }
        if self.timing == Timing::On {
            for part in &self.parts {
                profile::add(&part.times()?);
            }
        }
        let (Some((outputs, counts)), Some(results)) = (&self.recorded, &self.results) else {
            return Ok(());
        };
        let mut start = 0;
        for (number, place) in outputs.iter().enumerate() {
            let id = shared.plan.graph.outputs[*place];
            let value = shared.plan.graph.value(id);
            let elements = value.bytes(*counts) as u64;
            results.read(start, elements, |memory| match value.dtype {
                DType::F32 => reader(number, bytemuck::cast_slice(memory)),
                dtype => reader(number, &dtype.decode(memory)),
            })??;
            start += shared.shape_bytes(id, *counts);
        }
        COUNTERS.bytes_down.fetch_add(start, Relaxed);
        Ok(())
    }
}

/// Writes the start of some memory; returns the number of bytes.
fn write(to: &Slice, bytes: &[u8]) -> Result<u64> {
    if !bytes.is_empty() {
        to.buffer.map(to.offset, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
    }
    Ok(bytes.len() as u64)
}
