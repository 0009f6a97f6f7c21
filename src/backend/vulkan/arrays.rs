//! Arrays in device memory, and plans run on them.
//!
//! A call appends its dispatches to a list; the list is recorded and submitted when something is read, or when it is
//! long or expensive enough. Arrays never change once made, except for unshared states, so only what a list itself
//! writes can be a hazard in it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use super::budget::Budget;
use super::capabilities::Capabilities;
use super::device::Opened;
use super::free_list::{FreeList, Held};
use super::kernel::Access;
use super::limits::flops_per_list;
use super::lock;
use super::prepared::{Bound, Ready, bindable};
use super::profile;
use super::raw::{Buffer, Grid, Kind, Launch, Recording, Slice, Ticket};
use super::record::Commands;
use super::registry;
use super::replay::{Replays, Waiting};
use crate::backend::{ArrayEngine, Memory, Narrow, Prepared, UserDispatch};
use crate::graph::Plan;
use crate::ops::Counts;
use crate::stats::COUNTERS;
use crate::{Error, Result};

/// Number of dispatches at which a list is submitted, so that the device starts early. Fewer while the device is idle,
/// so that little remains when the host waits.
const LONG: usize = 256;
const SHORT: usize = 64;
/// Most lists in flight at once.
const MOST_RECORDINGS: usize = 8;
/// Most packed-batch sizes whose counts are cached on the device.
const MOST_COUNTS: usize = 64;
/// At most this fraction (1/8) of the device's memory is retained for later results.
pub(super) const KEPT: u64 = 8;
/// Bytes of staging memory at which a list is submitted.
const MUCH_STAGING: u64 = 256 << 20;

pub(super) struct VulkanArrays {
    pub(super) opened: Arc<Opened>,
    budget: Arc<Budget>,
    list: Mutex<List>,
    /// Passed to the arrays, which free their memory through it.
    own: Weak<VulkanArrays>,
}

/// The work waiting to be submitted, and the work in flight.
#[derive(Default)]
pub(super) struct List {
    pub(super) commands: Commands,
    flops: u64,
    staged: u64,
    /// In flight, oldest first.
    pub(super) running: VecDeque<Recording>,
    /// Finished and cleared, ready for reuse.
    rested: Vec<Recording>,
    pub(super) last: Ticket,
    counts: HashMap<Counts, Arc<Buffer>>,
    /// Bound in place of operands without elements.
    nothing: Option<Arc<Buffer>>,
    pub(super) free: FreeList,
    pub(super) replays: Replays,
    /// What comes before the commands.
    pub(super) waiting: Option<Waiting>,
}

/// Length in bytes of the guard band behind a result, which must stay unchanged while guard bands are on.
const GUARD: u64 = 256;
const MARK: u8 = 0xA7;

static GUARDED: AtomicBool = AtomicBool::new(false);

/// Turns guard bands on or off: marked bytes behind every result, checked when it is read. For tests.
pub fn guard_bands(on: bool) {
    GUARDED.store(on, Relaxed);
}

/// An array's memory. When the last clone is dropped, it is freed at once if the device has finished with it, and is
/// otherwise retained for the next result of its size: commands run in order, so that result may reuse it.
struct ArrayMemory {
    buffer: Option<Arc<Buffer>>,
    /// Start of its guard band, if it has one.
    guard: Option<u64>,
    arrays: Weak<VulkanArrays>,
}

impl Drop for ArrayMemory {
    fn drop(&mut self) {
        let buffer = self.buffer.take();
        if let Some(arrays) = self.arrays.upgrade()
            && !arrays.opened.device.forked()
            && let Ok(mut list) = arrays.list.try_lock()
        {
            // A failure is reported by the next submission.
            let _ = list.release_finished();
            if let Some(buffer) = buffer.filter(|_| self.guard.is_none()) {
                list.free.keep(buffer, Held::Array, arrays.opened.device.capabilities.memory / KEPT);
            }
        }
    }
}

impl List {
    /// Frees what finished recordings kept alive, after reading their times, and those buffers of dropped arrays that
    /// no command uses any more.
    fn release_finished(&mut self) -> Result<()> {
        let before = self.rested.len();
        // They finish in order, so the first unfinished one ends the search.
        while let Some(oldest) = self.running.front_mut()
            && oldest.finished()?
        {
            profile::add(&oldest.times()?);
            oldest.release()?;
            self.rested.extend(self.running.pop_front());
        }
        if self.rested.len() > before {
            self.free.free_unused();
        }
        Ok(())
    }

    /// Whether all submitted work is done.
    fn idle(&mut self) -> Result<bool> {
        self.release_finished()?;
        Ok(self.running.is_empty())
    }
}

impl VulkanArrays {
    /// Creates an engine that holds at most `memory_limit` bytes of device memory, if there is a limit.
    pub(super) fn new(opened: &Arc<Opened>, memory_limit: Option<u64>) -> Arc<Self> {
        let memory = memory_limit.unwrap_or(u64::MAX).min(opened.device.capabilities.memory / 16 * 15);
        Arc::new_cyclic(|own| VulkanArrays {
            opened: opened.clone(),
            budget: Budget::new(memory),
            list: Mutex::default(),
            own: own.clone(),
        })
    }

    fn memory(&self, buffer: Arc<Buffer>, guard: Option<u64>) -> Memory {
        Memory::new(ArrayMemory { buffer: Some(buffer), guard, arrays: self.own.clone() })
    }

    /// Adds a copy of the marks to the start of a buffer's guard band.
    fn mark(&self, list: &mut List, buffer: &Arc<Buffer>, guard: u64) -> Result<()> {
        let marks = self.buffer(list, Kind::Staging, GUARD)?;
        marks.map(0, GUARD, |memory| memory.fill(MARK))?;
        list.commands.copy(Slice::start(&marks, GUARD), Slice { offset: guard, ..Slice::start(buffer, GUARD) });
        Ok(())
    }

    /// Allocates a buffer. When memory is short, waits for all work and frees unneeded buffers first.
    fn buffer(&self, list: &mut List, kind: Kind, bytes: u64) -> Result<Arc<Buffer>> {
        let device = &self.opened.device;
        match Buffer::new(device, kind, bytes.next_multiple_of(16), &self.budget) {
            Err(Error::OutOfMemory { .. })
                if !(list.commands.is_empty()
                    && list.waiting.is_none()
                    && list.running.is_empty()
                    && list.free.is_empty()
                    && list.replays.is_empty()) =>
            {
                self.finish(list)?;
                list.replays.clear();
                list.free.clear();
                Buffer::new(device, kind, bytes.next_multiple_of(16), &self.budget)
            }
            made => made,
        }
    }

    /// Memory for a dispatch's result.
    pub(super) fn result(&self, list: &mut List, bytes: u64) -> Result<Arc<Buffer>> {
        let bytes = bytes.max(4).next_multiple_of(16);
        match list.free.take(bytes).filter(|_| !GUARDED.load(Relaxed)) {
            Some(buffer) => Ok(buffer),
            None => self.buffer(list, Kind::Arrays, bytes),
        }
    }

    /// Submits the pending work.
    pub(super) fn submit(&self, list: &mut List) -> Result<()> {
        let after = self.recorded(list)?;
        let waiting = list.waiting.take();
        self.submit_waiting(list, waiting, after)
    }

    /// The pending work, recorded.
    pub(super) fn recorded(&self, list: &mut List) -> Result<Option<Recording>> {
        if list.commands.is_empty() {
            return Ok(None);
        }
        let device = &self.opened.device;
        let commands = list.commands.take();
        (list.flops, list.staged) = (0, 0);
        list.release_finished()?;
        let earlier = match list.rested.pop() {
            None if list.running.len() >= MOST_RECORDINGS => list.running.pop_front(),
            rested => rested,
        };
        let mut recording = earlier.map_or_else(|| Recording::new(device), Ok)?;
        recording.record(commands, profile::timing())?;
        Ok(Some(recording))
    }

    /// Submits the list if it is long, or long enough for an idle device.
    fn submit_long(&self, list: &mut List) -> Result<()> {
        if list.commands.dispatches >= LONG || (list.commands.dispatches >= SHORT && list.idle()?) {
            return self.submit(list);
        }
        Ok(())
    }

    /// Appends the dispatches of a plan to the list and returns its buffers; those at some places have guard bands, from
    /// this byte on.
    fn appended(
        &self,
        list: &mut List,
        ready: &Ready,
        inputs: &[Arc<Buffer>],
        states: &[Arc<Buffer>],
        guard: impl Fn(usize) -> Option<u64>,
    ) -> Result<Vec<Arc<Buffer>>> {
        let mut buffers = Vec::with_capacity(ready.sizes.len());
        for (place, bytes) in ready.sizes.iter().enumerate() {
            let buffer = self.result(list, guard(place).map_or(*bytes, |end| end + GUARD))?;
            if let Some(guard) = guard(place) {
                self.mark(list, &buffer, guard)?;
            }
            buffers.push(buffer);
        }
        let heavy = flops_per_list(&self.opened.device.capabilities);
        ready.dispatches(&Bound { inputs, states, buffers: &buffers }, |launch, grid, slices, flops| {
            list.commands.dispatch(launch, grid, slices);
            list.flops += flops;
            if list.flops > heavy { self.submit(list) } else { Ok(()) }
        })?;
        Ok(buffers)
    }

    fn finish(&self, list: &mut List) -> Result<()> {
        self.submit(list)?;
        self.opened.device.wait(list.last)?;
        list.release_finished()?;
        self.opened.pipelines.save(&self.opened.device);
        Ok(())
    }

    /// The buffer of `memory` if it is unshared, or of a copy that replaces it.
    fn own(&self, list: &mut List, memory: &mut Memory) -> Result<Arc<Buffer>> {
        if memory.is_empty() {
            return self.input(list, memory);
        }
        let from = held(memory, "a state")?;
        if memory.content_mut::<ArrayMemory>().is_some() {
            return Ok(from);
        }
        let bytes = from.bytes;
        let copy = self.buffer(list, Kind::Arrays, bytes)?;
        list.commands.copy_written(Slice::start(&from, bytes), Slice::start(&copy, bytes));
        *memory = self.memory(copy.clone(), None);
        Ok(copy)
    }

    /// The buffer with a batch's counts.
    fn counts(&self, list: &mut List, counts: Counts) -> Result<Arc<Buffer>> {
        if let Some(buffer) = list.counts.get(&counts) {
            return Ok(buffer.clone());
        }
        if list.counts.len() >= MOST_COUNTS {
            list.counts.clear();
        }
        let words = counts.words();
        let bytes = bytemuck::bytes_of(&words);
        let buffer = self.buffer(list, Kind::Inputs, bytes.len() as u64)?;
        buffer.map(0, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        list.counts.insert(counts, buffer.clone());
        Ok(buffer)
    }

    /// An operand's buffer. An operand without elements gets a few bytes, which no kernel uses.
    fn input(&self, list: &mut List, memory: &Memory) -> Result<Arc<Buffer>> {
        if memory.is_empty() {
            let nothing = match list.nothing.take() {
                Some(buffer) => buffer,
                None => self.buffer(list, Kind::Arrays, 16)?,
            };
            return Ok(list.nothing.insert(nothing).clone());
        }
        held(memory, "an operand")
    }
}

/// The buffer of an array, called `what` in the message.
fn held(memory: &Memory, what: &str) -> Result<Arc<Buffer>> {
    let buffer = memory.content::<ArrayMemory>().and_then(|held| held.buffer.clone());
    buffer.ok_or_else(|| Error::InvalidArgument(format!("{what} is another device's array")))
}

impl ArrayEngine for VulkanArrays {
    fn upload(&self, bytes: &[u8]) -> Result<Memory> {
        self.opened.device.check("an upload")?;
        let list = &mut *lock(&self.list);
        let words = bytes.len().next_multiple_of(4) as u64;
        let buffer = self.buffer(list, Kind::Arrays, words)?;
        let staging = self.buffer(list, Kind::Staging, words)?;
        staging.map(0, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        list.commands.copy(Slice::start(&staging, words), Slice::start(&buffer, words));
        list.staged += words;
        COUNTERS.bytes_up.fetch_add(bytes.len() as u64, Relaxed);
        if list.staged > MUCH_STAGING {
            self.submit(list)?;
        }
        Ok(self.memory(buffer, None))
    }

    fn prepare(&self, plan: Plan, counts: Counts, narrow: Narrow) -> Result<Prepared> {
        self.opened.device.check("an operation")?;
        let buffer = self.counts(&mut lock(&self.list), counts)?;
        Ok(Prepared::new(Ready::new(&plan, (counts, buffer), narrow, &self.opened, &self.budget)?))
    }

    fn run(&self, prepared: &Prepared, inputs: &[&Memory], states: &mut [Memory]) -> Result<Vec<Memory>> {
        let device = &self.opened.device;
        device.check("an operation")?;
        let ready: &Ready = prepared.content()?;
        let list = &mut *lock(&self.list);
        let guarded = GUARDED.load(Relaxed);
        let guard = |place: usize| (guarded && ready.outputs.contains(&place)).then_some(ready.sizes[place]);
        let inputs = inputs.iter().map(|memory| self.input(list, memory)).collect::<Result<Vec<_>>>()?;
        let states = states.iter_mut().map(|memory| self.own(list, memory)).collect::<Result<Vec<_>>>()?;
        let replayed = if guarded { None } else { self.replayed(list, ready, &inputs, &states)? };
        let buffers = match replayed {
            Some(buffers) => buffers,
            None => self.appended(list, ready, &inputs, &states, guard)?,
        };
        COUNTERS.kiloflops_vulkan.fetch_add(ready.flops.div_ceil(1000), Relaxed);
        self.submit_long(list)?;
        // Two outputs may be one buffer.
        let mut outputs: Vec<Memory> = Vec::with_capacity(ready.outputs.len());
        for (number, place) in ready.outputs.iter().enumerate() {
            let same = ready.outputs[..number].iter().position(|earlier| earlier == place);
            let own = || self.memory(buffers[*place].clone(), guard(*place));
            outputs.push(same.map_or_else(own, |earlier| outputs[earlier].clone()));
        }
        // Intermediate buffers are released after the steps, like those of dropped arrays.
        let most = device.capabilities.memory / KEPT;
        let between = buffers.into_iter().enumerate().filter(|(place, _)| !ready.outputs.contains(place));
        between.for_each(|(_, buffer)| list.free.keep(buffer, Held::Between, most));
        Ok(outputs)
    }

    fn dispatch(&self, call: &UserDispatch, buffers: &mut [Memory]) -> Result<()> {
        let UserDispatch { variant, groups, push, constants } = call;
        let device = &self.opened.device;
        let capabilities = &device.capabilities;
        registry::fits(variant, capabilities)?;
        if groups.iter().zip(capabilities.workgroup_count).any(|(groups, most)| *groups > most) {
            let most = capabilities.workgroup_count;
            let reason = format!("{groups:?} workgroups, {} allows {most:?}", capabilities.name);
            return Err(Error::unsupported(variant.name, reason));
        }
        let mut pipelines = self.opened.pipelines.get(device, [(*variant, &**constants)])?;
        let list = &mut *lock(&self.list);
        let mut slices = Vec::with_capacity(buffers.len());
        for (memory, binding) in buffers.iter_mut().zip(variant.bindings) {
            let buffer = match binding.access {
                Access::Read => self.input(list, memory)?,
                Access::Write | Access::ReadWrite => self.own(list, memory)?,
            };
            let slice = Slice { offset: 0, bytes: buffer.bytes, buffer };
            slices.push(bindable(variant.name, slice)?);
        }
        if let (Some(pipeline), false) = (pipelines.pop(), groups.contains(&0)) {
            let push = bytemuck::cast_slice(push).to_vec();
            let launch = Launch { pipeline, push, label: variant.name.into() };
            list.commands.dispatch(&Arc::new(launch), Grid::Direct(*groups), slices);
        }
        self.submit_long(list)
    }

    fn capabilities(&self) -> Option<&Capabilities> {
        Some(&self.opened.device.capabilities)
    }

    fn download(&self, parts: &[(&Memory, usize)]) -> Result<Vec<Vec<u8>>> {
        let device = &self.opened.device;
        device.check("a download")?;
        let (mut copies, mut all) = (Vec::with_capacity(parts.len()), 0);
        for (memory, bytes) in parts.iter().filter(|(_, bytes)| *bytes > 0) {
            let held =
                memory.content::<ArrayMemory>().ok_or_else(|| Error::Unusable("another device's array".into()))?;
            let from = held.buffer.as_ref().ok_or_else(|| Error::Unusable("the array is freed".into()))?;
            let words = held.guard.map_or(bytes.next_multiple_of(4) as u64, |guard| guard + GUARD);
            copies.push((Slice::start(from, words), all, held.guard));
            all += words;
        }
        if copies.is_empty() {
            return Ok(vec![Vec::new(); parts.len()]);
        }
        let (results, ticket) = {
            let list = &mut *lock(&self.list);
            let results = self.buffer(list, Kind::Results, all)?;
            for (from, offset, _) in &copies {
                // After the first command everything that was written before can be copied.
                let copy = if *offset == 0 { Commands::copy_written } else { Commands::copy };
                let to = Slice { offset: *offset, ..Slice::start(&results, from.bytes) };
                copy(&mut list.commands, from.clone(), to);
            }
            self.submit(list)?;
            (results, list.last)
        };
        device.wait(ticket)?;
        let (mut copies, mut found) = (copies.into_iter(), Vec::with_capacity(parts.len()));
        for (_, bytes) in parts {
            let mut content = vec![0; *bytes];
            if let Some((_, offset, guard)) = (*bytes > 0).then(|| copies.next()).flatten() {
                results.map(offset, *bytes as u64, |memory| content.copy_from_slice(memory))?;
                let marked = |memory: &mut [u8]| memory.iter().all(|byte| *byte == MARK);
                if let Some(guard) = guard
                    && !results.map(offset + guard, GUARD, marked)?
                {
                    return Err(device.misuse("reading an array", "a kernel wrote past the end of its result".into()));
                }
            }
            COUNTERS.bytes_down.fetch_add(*bytes as u64, Relaxed);
            found.push(content);
        }
        lock(&self.list).release_finished()?;
        Ok(found)
    }

    fn synchronize(&self) -> Result<()> {
        self.finish(&mut lock(&self.list))
    }

    fn usable(&self) -> bool {
        !self.opened.device.lost() && !self.opened.device.forked()
    }
}
