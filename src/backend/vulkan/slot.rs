//! A slot: the memory of one batch in flight, with the command buffers recorded for it.
//!
//! A batch is one submission. Only a text too long for one (a watchdog would reset the device, or Ctrl-C would go
//! unnoticed) is submitted in parts, each when the previous one is done.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::budget::Budget;
use super::kernel::Resource;
use super::limits::flops_per_submission;
use super::memory::Arena;
use super::prepared::Prepared;
use super::profile;
use super::raw::{Buffer, Command, Device, Grid, Kind, Recording, Slice, Ticket, Timing};
use super::record::{Commands, Grids, Groups};
use crate::Result;
use crate::backend::{BatchLimits, Feed, Reader};
use crate::dtype::DType;
use crate::graph::{Plan, ValueId};
use crate::ops::Counts;
use crate::stats::COUNTERS;

/// State shared by all slots of a program.
pub(super) struct Shared {
    pub(super) device: Arc<Device>,
    pub(super) plan: Arc<Plan>,
    pub(super) prepared: Prepared,
    /// Which buffers contain the outputs.
    pub(super) outputs: Vec<usize>,
    pub(super) grids: Grids,
    pub(super) budget: Arc<Budget>,
    pub(super) limits: BatchLimits,
}

impl Shared {
    fn shape_bytes(&self, id: ValueId, counts: Counts) -> u64 {
        self.plan.graph.value(id).bytes(counts).next_multiple_of(4) as u64
    }

    /// The number of submissions per batch: one, except for a text longer than the token budget.
    fn submissions(&self, counts: Counts) -> usize {
        if counts.tokens <= self.limits.tokens {
            return 1;
        }
        let parts = self.plan.flops(counts).div_ceil(flops_per_submission(&self.device.capabilities));
        (parts as usize).clamp(1, self.prepared.dispatches.len().max(1))
    }
}

/// Regions of a slot's input arena: counts, then grids, then the graph's inputs.
const COUNTS: usize = 0;
const GRIDS: usize = 1;
const INPUTS: usize = 2;

/// The memory of one batch.
pub(super) struct Slot {
    capacity: Counts,
    inputs: Arena,
    activations: Arena,
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
        let device = &shared.device;
        let inputs = shared.plan.graph.inputs.iter().map(|id| shared.shape_bytes(*id, capacity));
        let sizes: Vec<u64> = [size_of_val(&capacity.words()) as u64, 12 * shared.grids.table.len() as u64]
            .into_iter()
            .chain(inputs)
            .collect();
        let inputs = Arena::new(device, Kind::Inputs, &sizes, &shared.budget)?;
        let sizes: Vec<u64> = shared.plan.buffers.iter().map(|b| b.bytes(capacity) as u64).collect();
        let activations = Arena::new(device, Kind::Activations, &sizes, &shared.budget)?;
        let mut slot = Slot {
            capacity,
            inputs,
            activations,
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
        let parts = shared.submissions(self.capacity);
        while self.parts.len() < parts {
            self.parts.push(Recording::new(&shared.device)?);
        }
        // Layers are alike, so parts with equal numbers of dispatches take about equally long.
        let length = shared.prepared.dispatches.len().div_ceil(parts).max(1);
        let (inputs, buffers) = (shared.plan.graph.inputs.len(), shared.plan.buffers.len());
        for (part, recording) in self.parts.iter_mut().enumerate() {
            let mut commands = Commands::default();
            for step in (part * length..shared.prepared.launches.len()).take(length) {
                let grid = match shared.grids.groups[step] {
                    Groups::Fixed(groups) => Grid::Direct(groups),
                    Groups::Counted(place) => {
                        let table = self.inputs.slice(GRIDS);
                        Grid::Indirect(Slice { offset: table.offset + 12 * place as u64, bytes: 12, ..table })
                    }
                };
                let buffers = shared.prepared.bind(step, |resource| match resource {
                    Resource::Counts => Some(self.inputs.slice(COUNTS)),
                    Resource::Input(place) if place < inputs => Some(self.inputs.slice(INPUTS + place)),
                    Resource::Buffer(place) if place < buffers => Some(self.activations.slice(place)),
                    _ => None,
                });
                commands.dispatch(&shared.prepared.launches[step], grid, buffers?);
            }
            recording.record(commands.take(), self.timing)?;
        }
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
        let grids = shared.grids.evaluate(feed.counts);
        let mut sent = self.write(COUNTS, bytemuck::bytes_of(&feed.counts.words()))?;
        sent += self.write(GRIDS, bytemuck::cast_slice(grids.as_flattened()))?;
        for (place, bytes) in feed.inputs.iter().enumerate() {
            sent += self.write(INPUTS + place, bytes)?;
        }
        let wants = (feed.outputs.clone(), feed.counts);
        if self.recorded.as_ref() != Some(&wants) {
            self.recorded = None;
            self.record_read_back(shared, &wants.0, wants.1)?;
            self.recorded = Some(wants);
        }
        self.submitted = 0;
        self.submit(device, shared.submissions(feed.counts))?;
        COUNTERS.bytes_up.fetch_add(sent, Relaxed);
        COUNTERS.batches_vulkan.fetch_add(1, Relaxed);
        COUNTERS.kiloflops_vulkan.fetch_add(shared.plan.flops(feed.counts).div_ceil(1000), Relaxed);
        Ok(())
    }

    /// Submits the rest of the batch if it fits one submission, or else its next part.
    fn submit(&mut self, device: &Device, submissions: usize) -> Result<()> {
        let all = self.parts.len();
        let end = if submissions > 1 { self.submitted + 1 } else { all };
        let mut recordings: Vec<&mut Recording> = self.parts[self.submitted..end].iter_mut().collect();
        if end == all {
            recordings.push(&mut self.read_back);
        }
        self.ticket = device.submit(&mut recordings)?;
        self.submitted = end;
        Ok(())
    }

    fn write(&self, region: usize, bytes: &[u8]) -> Result<u64> {
        if !bytes.is_empty() {
            let slice = self.inputs.slice(region);
            slice.buffer.map(slice.offset, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        }
        Ok(bytes.len() as u64)
    }

    fn record_read_back(&mut self, shared: &Shared, outputs: &[usize], counts: Counts) -> Result<()> {
        let bytes = |place: &usize| shared.shape_bytes(shared.plan.graph.outputs[*place], counts);
        let needed: u64 = outputs.iter().map(bytes).sum();
        let results = match self.results.take().filter(|buffer| buffer.bytes >= needed) {
            Some(buffer) => buffer,
            None => Buffer::new(&shared.device, Kind::Results, needed.next_power_of_two(), &shared.budget)?,
        };
        let mut commands = vec![Command::BeforeCopies];
        let mut offset = 0;
        for (place, bytes) in outputs.iter().zip(outputs.iter().map(bytes)).filter(|(_, bytes)| *bytes > 0) {
            let from = Slice { bytes, ..self.activations.slice(shared.outputs[*place]) };
            commands.push(Command::Copy { from, to: Slice { buffer: results.clone(), offset, bytes } });
            offset += bytes;
        }
        commands.push(Command::AfterCopies);
        self.results = Some(results);
        self.read_back.record(commands, Timing::Off)
    }

    /// Waits for the batch in flight and passes its requested outputs to `reader`.
    ///
    /// # Errors
    /// A device fault, `Interrupted`, or the error that `reader` returns.
    pub(super) fn finish(&mut self, shared: &Shared, reader: Reader<'_>) -> Result<()> {
        shared.device.wait(self.ticket)?;
        while self.submitted < self.parts.len() {
            self.submit(&shared.device, self.parts.len())?;
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
            results.map(start, elements, |memory| match value.dtype {
                DType::F32 => reader(number, bytemuck::cast_slice(memory)),
                dtype => reader(number, &dtype.decode(memory)),
            })??;
            start += shared.shape_bytes(id, *counts);
        }
        COUNTERS.bytes_down.fetch_add(start, Relaxed);
        Ok(())
    }
}
