//! Arrays in device memory, and plans run on them.
//!
//! A call adds its dispatches to a list; the list is recorded and submitted when something is read, or when it is long
//! or heavy enough. Arrays are never changed once made, so only what a list itself writes can be a hazard in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use super::Capabilities;
use super::device::Opened;
use super::kernel::{Access, Dispatch, Range, Resource};
use super::kernels::linear_matrix;
use super::limits::flops_per_submission;
use super::lower::lower;
use super::memory::Budget;
use super::profile;
use super::raw::{Buffer, Command, Grid, Kind, Recording, Slice, Ticket, Timing, lock};
use crate::backend::registry::{self, Registry};
use crate::backend::{ArrayEngine, Memory, ProgramOptions};
use crate::graph::{Plan, Storage};
use crate::ops::{Counts, Op, Shape};
use crate::stats::COUNTERS;
use crate::{Error, Result};

/// Dispatches after which a list is submitted, so that the device starts while the host goes on.
const LONG: usize = 256;
/// Lists under way at once.
const MOST_RECORDINGS: usize = 8;
/// Sizes of packed batches whose counts are kept on the device.
const MOST_COUNTS: usize = 64;
/// Buffers from this size on are allocations of their own, which take the driver milliseconds: they are kept for the next
/// result of their size.
const LARGE: u64 = 64 << 20;
/// At most this part of the device's memory is kept so.
const KEPT: u64 = 8;
/// Bytes of staging memory after which a list is submitted.
const MUCH_STAGING: u64 = 256 << 20;

pub(super) struct VulkanArrays {
    opened: Arc<Opened>,
    /// `None` for the process' registry as it is at each call.
    shaders: Option<Arc<Registry>>,
    budget: Arc<Budget>,
    list: Mutex<List>,
    /// For the arrays, which free their memory through it.
    own: Weak<VulkanArrays>,
}

/// What waits to be submitted, and what is under way.
#[derive(Default)]
struct List {
    commands: Vec<Command>,
    dispatches: usize,
    flops: u64,
    staged: u64,
    /// Whether copies were added since the last barrier.
    copied: bool,
    /// Buffers used since the last barrier between dispatches, by address.
    used: HashMap<usize, Access>,
    recordings: Vec<Recording>,
    last: Ticket,
    counts: HashMap<Counts, Arc<Buffer>>,
    /// Memory of arrays that are gone while commands that use it are not done.
    free: Vec<Arc<Buffer>>,
}

/// Bytes behind a result that must stay as they were, while guard bands are on.
const GUARD: u64 = 256;
const MARK: u8 = 0xA7;

static GUARDED: AtomicBool = AtomicBool::new(false);

/// Turns guard bands on or off: marked bytes behind every result, which reading it checks. For tests.
pub fn guard_bands(on: bool) {
    GUARDED.store(on, Relaxed);
}

/// An array's memory. When the last clone goes, it is freed at once if the device has finished with it, and else is kept
/// for the next result of its size: commands run in order, so that result may be written there.
struct Held {
    buffer: Option<Arc<Buffer>>,
    /// Where its guard band begins, if it has one.
    guard: Option<u64>,
    arrays: Weak<VulkanArrays>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let buffer = self.buffer.take();
        if let Some(arrays) = self.arrays.upgrade()
            && !arrays.opened.device.forked()
            && let Ok(mut list) = arrays.list.try_lock()
        {
            list.let_go();
            list.keep(buffer.filter(|_| self.guard.is_none()), arrays.opened.device.capabilities.memory / KEPT);
        }
    }
}

impl List {
    /// Frees what finished recordings kept alive, and of the memory of arrays that are gone what no command uses.
    fn let_go(&mut self) {
        for recording in &mut self.recordings {
            // A failure shows at the next submission.
            let _ = retire(recording);
        }
        self.free.retain(|buffer| buffer.bytes >= LARGE || Arc::strong_count(buffer) > 1);
    }

    /// Keeps a buffer that nobody will read any more, if commands still use it or its memory is slow to get.
    fn keep(&mut self, buffer: Option<Arc<Buffer>>, most: u64) {
        let held: u64 = self.free.iter().map(|buffer| buffer.bytes).sum();
        let worth = |b: &Arc<Buffer>| Arc::strong_count(b) > 1 || (b.bytes >= LARGE && held + b.bytes <= most);
        self.free.extend(buffer.filter(worth));
    }

    /// A buffer of that size that nobody will read any more.
    fn reuse(&mut self, bytes: u64) -> Option<Arc<Buffer>> {
        let place = self.free.iter().position(|buffer| buffer.bytes == bytes)?;
        Some(self.free.swap_remove(place))
    }

    fn use_buffer(&self, buffer: &Arc<Buffer>, access: Access) -> bool {
        let earlier = self.used.get(&(Arc::as_ptr(buffer) as usize));
        earlier.is_some_and(|earlier| access != Access::Read || *earlier != Access::Read)
    }
}

/// Frees what a finished recording kept alive, after taking its times; whether it is finished.
fn retire(recording: &mut Recording) -> Result<bool> {
    if recording.finished()? {
        profile::add(&recording.times()?);
    }
    recording.let_go()
}

impl VulkanArrays {
    /// Arrays that run whatever shaders are registered; with `options` those that are registered now, for good.
    pub(super) fn new(opened: &Arc<Opened>, options: Option<ProgramOptions>) -> Arc<Self> {
        let limit = options.and_then(|options| options.memory_limit).unwrap_or(u64::MAX);
        let memory = (opened.device.capabilities.memory / 16 * 15).min(limit);
        Arc::new_cyclic(|own| VulkanArrays {
            opened: opened.clone(),
            shaders: options.map(|_| registry::read()),
            budget: Budget::new(memory),
            list: Mutex::default(),
            own: own.clone(),
        })
    }

    fn memory(&self, buffer: Arc<Buffer>, guard: Option<u64>) -> Memory {
        Memory::new(Held { buffer: Some(buffer), guard, arrays: self.own.clone() })
    }

    /// A copy of marks to where the guard band of a buffer begins.
    fn mark(&self, list: &mut List, buffer: &Arc<Buffer>, guard: u64) -> Result<()> {
        let marks = self.buffer(list, Kind::Staging, GUARD)?;
        marks.map(0, GUARD, |memory| memory.fill(MARK))?;
        list.commands.push(Command::Copy {
            from: Slice { buffer: marks, offset: 0, bytes: GUARD },
            to: Slice { buffer: buffer.clone(), offset: guard, bytes: GUARD },
        });
        list.copied = true;
        Ok(())
    }

    /// A buffer; when memory is short, everything is finished first and what is no longer needed freed.
    fn buffer(&self, list: &mut List, kind: Kind, bytes: u64) -> Result<Arc<Buffer>> {
        let device = &self.opened.device;
        match Buffer::new(device, kind, bytes.next_multiple_of(16), &self.budget) {
            Err(Error::OutOfMemory { .. })
                if !(list.commands.is_empty() && list.recordings.is_empty() && list.free.is_empty()) =>
            {
                self.finish(list)?;
                list.free.clear();
                Buffer::new(device, kind, bytes.next_multiple_of(16), &self.budget)
            }
            made => made,
        }
    }

    /// Memory for what a dispatch writes.
    fn result(&self, list: &mut List, bytes: u64) -> Result<Arc<Buffer>> {
        let bytes = bytes.max(4).next_multiple_of(16);
        match list.reuse(bytes) {
            Some(buffer) if !GUARDED.load(Relaxed) => Ok(buffer),
            _ => self.buffer(list, Kind::Arrays, bytes),
        }
    }

    /// Submits what waits.
    fn submit(&self, list: &mut List) -> Result<()> {
        if list.commands.is_empty() {
            return Ok(());
        }
        let device = &self.opened.device;
        let mut commands = vec![Command::Start];
        commands.append(&mut list.commands);
        if list.copied {
            commands.push(Command::AfterCopies);
        }
        (list.dispatches, list.flops, list.staged, list.copied) = (0, 0, 0, false);
        list.used.clear();
        let mut free = None;
        for (place, recording) in list.recordings.iter_mut().enumerate() {
            if retire(recording)? {
                free = Some(place);
            }
        }
        let mut recording = match free {
            Some(place) => list.recordings.swap_remove(place),
            None if list.recordings.len() < MOST_RECORDINGS => Recording::new(device)?,
            // The oldest is the first to be done; recording it anew waits for it.
            None => list.recordings.remove(0),
        };
        let timing = if profile::is_on() { Timing::On } else { Timing::Off };
        recording.record(commands, timing)?;
        list.last = device.submit(&mut [&mut recording])?;
        list.recordings.push(recording);
        Ok(())
    }

    fn finish(&self, list: &mut List) -> Result<()> {
        self.submit(list)?;
        self.opened.device.wait(list.last)?;
        for recording in &mut list.recordings {
            retire(recording)?;
        }
        list.let_go();
        self.opened.pipelines.save(&self.opened.device);
        Ok(())
    }

    /// The buffer that holds a batch's counts.
    fn counts(&self, list: &mut List, counts: Counts) -> Result<Arc<Buffer>> {
        if let Some(buffer) = list.counts.get(&counts) {
            return Ok(buffer.clone());
        }
        if list.counts.len() >= MOST_COUNTS {
            list.counts.clear();
        }
        let buffer = self.buffer(list, Kind::Inputs, 16)?;
        let words = [counts.tokens as u32, counts.texts as u32];
        buffer.map(0, 8, |memory| memory.copy_from_slice(bytemuck::cast_slice(&words)))?;
        list.counts.insert(counts, buffer.clone());
        Ok(buffer)
    }

    /// An operand's buffer; one without elements binds a few bytes, from which no kernel takes a value.
    fn input(&self, list: &mut List, memory: &Memory) -> Result<Arc<Buffer>> {
        if memory.is_empty() {
            return self.buffer(list, Kind::Arrays, 16);
        }
        let missing = || Error::InvalidArgument("an operand is another device's array".into());
        held(memory).cloned().ok_or_else(missing)
    }

    fn dispatch(&self, list: &mut List, dispatch: Dispatch, counts: Counts, run: &Run<'_>) -> Result<()> {
        let pipeline = self.opened.pipelines.get(&self.opened.device, dispatch.variant, &dispatch.constants)?;
        let mut buffers = Vec::with_capacity(dispatch.bindings.len());
        for range in &dispatch.bindings {
            buffers.push(run.bind(*range, &dispatch.label)?);
        }
        let accesses = || buffers.iter().zip(dispatch.variant.bindings.iter().map(|b| b.access));
        if list.copied {
            list.commands.push(Command::AfterCopies);
            list.copied = false;
        }
        if accesses().any(|(slice, access)| list.use_buffer(&slice.buffer, access)) {
            list.commands.push(Command::BetweenDispatches);
            list.used.clear();
        }
        for (slice, access) in accesses() {
            let used = list.used.entry(Arc::as_ptr(&slice.buffer) as usize).or_insert(access);
            if access != Access::Read {
                *used = access;
            }
        }
        let grid = Grid::Direct(dispatch.grid.map(|extent| extent.groups(counts)));
        if let Grid::Direct(groups) = grid
            && groups.contains(&0)
        {
            return Ok(());
        }
        list.commands.push(Command::Dispatch { pipeline, buffers, push: dispatch.push, grid, label: dispatch.label });
        list.dispatches += 1;
        Ok(())
    }
}

/// The buffers of one call.
struct Run<'a> {
    limits: &'a Capabilities,
    counts: Arc<Buffer>,
    inputs: Vec<Arc<Buffer>>,
    buffers: Vec<Arc<Buffer>>,
}

impl Run<'_> {
    fn bind(&self, range: Range, label: &str) -> Result<Slice> {
        let missing = || Error::Unsupported {
            what: label.to_owned(),
            reason: format!("it binds {:?} from byte {}, which does not exist", range.resource, range.offset),
        };
        let buffer = match range.resource {
            Resource::Counts => &self.counts,
            Resource::Input(place) => self.inputs.get(place).ok_or_else(missing)?,
            Resource::Buffer(place) => self.buffers.get(place).ok_or_else(missing)?,
            Resource::Weight(_) => return Err(missing()),
        };
        let rest = buffer.bytes.checked_sub(range.offset).filter(|rest| *rest > 0).ok_or_else(missing)?;
        let bytes = range.bytes.unwrap_or(rest);
        if bytes > rest {
            return Err(missing());
        }
        let limits = self.limits;
        if bytes > limits.storage_buffer_range {
            return Err(Error::Unsupported {
                what: label.to_owned(),
                reason: format!(
                    "an array of {bytes} bytes is larger than the storage-buffer range of {} bytes of {}",
                    limits.storage_buffer_range, limits.name
                ),
            });
        }
        Ok(Slice { buffer: buffer.clone(), offset: range.offset, bytes })
    }
}

fn held(memory: &Memory) -> Option<&Arc<Buffer>> {
    memory.content::<Held>().and_then(|held| held.buffer.as_ref())
}

impl ArrayEngine for VulkanArrays {
    fn upload(&self, bytes: &[u8]) -> Result<Memory> {
        let device = &self.opened.device;
        device.check("an upload")?;
        let list = &mut *lock(&self.list);
        let words = bytes.len().next_multiple_of(4) as u64;
        let buffer = self.buffer(list, Kind::Arrays, words)?;
        let staging = self.buffer(list, Kind::Staging, words)?;
        staging.map(0, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        list.commands.push(Command::Copy {
            from: Slice { buffer: staging, offset: 0, bytes: words },
            to: Slice { buffer: buffer.clone(), offset: 0, bytes: words },
        });
        list.copied = true;
        list.staged += words;
        COUNTERS.bytes_up.fetch_add(bytes.len() as u64, Relaxed);
        if list.staged > MUCH_STAGING {
            self.submit(list)?;
        }
        Ok(self.memory(buffer, None))
    }

    fn run(&self, plan: &Plan, counts: Counts, inputs: &[&Memory]) -> Result<Memory> {
        let device = &self.opened.device;
        device.check("an operation")?;
        let shaders = self.shaders.clone().unwrap_or_else(registry::read);
        let dispatches = lower(plan, &device.capabilities, &shaders)?;
        let list = &mut *lock(&self.list);
        let output = match plan.graph.outputs.first().map(|id| (plan.storage[id.0], plan.graph.value(*id))) {
            Some((Storage::Buffer(place), value)) => {
                (place, (value.shape.elements(counts) * value.dtype.size()).next_multiple_of(4) as u64)
            }
            _ => return Err(Error::InvalidArgument("a plan on arrays computes its output".into())),
        };
        let guard = GUARDED.load(Relaxed).then_some(output.1);
        let size = |(place, buffer): (usize, &crate::graph::Buffer)| match (place == output.0, guard) {
            (true, Some(guard)) => guard + GUARD,
            (true, None) => output.1,
            _ => buffer.bytes(counts) as u64,
        };
        let run = Run {
            limits: &device.capabilities,
            counts: self.counts(list, counts)?,
            inputs: inputs.iter().map(|memory| self.input(list, memory)).collect::<Result<_>>()?,
            buffers: (plan.buffers.iter().enumerate().map(size))
                .map(|bytes| self.result(list, bytes))
                .collect::<Result<_>>()?,
        };
        if let Some(guard) = guard {
            self.mark(list, &run.buffers[output.0], guard)?;
        }
        for dispatch in dispatches {
            self.dispatch(list, dispatch, counts, &run)?;
        }
        list.flops += plan.graph.flops(counts);
        if list.dispatches >= LONG || list.flops > flops_per_submission(device.capabilities.device_type) {
            self.submit(list)?;
        }
        Ok(self.memory(run.buffers[output.0].clone(), guard))
    }

    fn takes_half(&self, op: &Op, operands: &[&Shape], architecture: &str) -> bool {
        // A user's shader for products takes float32.
        let replaced = || {
            let shaders = self.shaders.clone().unwrap_or_else(registry::read);
            shaders.in_place_of(op, operands.len(), architecture).is_some()
        };
        matches!(op, Op::Linear(_)) && linear_matrix::fits(operands, &self.opened.device.capabilities) && !replaced()
    }

    fn download(&self, memory: &Memory, bytes: &mut [u8]) -> Result<()> {
        let device = &self.opened.device;
        device.check("a download")?;
        let held = memory.content::<Held>().ok_or_else(|| Error::Unusable("another device's array".into()))?;
        let from = held.buffer.as_ref().ok_or_else(|| Error::Unusable("the array is freed".into()))?;
        let words = held.guard.map_or(bytes.len().next_multiple_of(4) as u64, |guard| guard + GUARD);
        let ticket;
        let results;
        {
            let list = &mut *lock(&self.list);
            results = self.buffer(list, Kind::Results, words)?;
            list.commands.push(Command::BeforeCopies);
            list.commands.push(Command::Copy {
                from: Slice { buffer: from.clone(), offset: 0, bytes: words },
                to: Slice { buffer: results.clone(), offset: 0, bytes: words },
            });
            list.copied = true;
            self.submit(list)?;
            ticket = list.last;
        }
        device.wait(ticket)?;
        results.map(0, bytes.len() as u64, |memory| bytes.copy_from_slice(memory))?;
        if let Some(guard) = held.guard {
            let whole = results.map(guard, GUARD, |memory| memory.iter().all(|byte| *byte == MARK))?;
            if !whole {
                return Err(Error::Device {
                    device: device.capabilities.name.clone(),
                    call: "reading an array".into(),
                    cause: "a kernel wrote past the end of its result".into(),
                });
            }
        }
        COUNTERS.bytes_down.fetch_add(bytes.len() as u64, Relaxed);
        let list = &mut *lock(&self.list);
        list.let_go();
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.finish(&mut lock(&self.list))
    }

    fn usable(&self) -> bool {
        !self.opened.device.lost() && !self.opened.device.forked()
    }
}
