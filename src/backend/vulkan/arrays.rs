//! Arrays in device memory, and plans run on them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::bindings::DescriptorBindingBuilder;
use super::device::Opened;
use super::free_list::Fit;
use super::kernel::Access;
use super::kernels::with_scratch;
use super::lock;
use super::prepared::Ready;
use super::raw::{Grid, Launch, Retains, Slice};
use super::record::BoundDispatch;
use super::registry;
use super::staging::SEGMENT;
use super::work::{GUARD, Work, guarded, unchanged};
use crate::backend::{ArrayEngine, Memory, Narrow, Prepared, UserDispatch};
use crate::graph::Plan;
use crate::ops::Counts;
use crate::process::memory::emptied;
use crate::stats::COUNTERS;
use crate::{Error, Result};

/// Segments that are copied while the host reads one.
const COPIED_AHEAD: usize = 3;

pub(super) struct VulkanArrays {
    opened: Arc<Opened>,
    work: Mutex<Work>,
    /// What arrays held that were dropped while a call was under way.
    dropped: Mutex<Vec<Slice>>,
    /// Passed to the arrays, which free their memory through it.
    own: Weak<VulkanArrays>,
}

/// An array's memory. When the last clone is dropped, it is retained for later results: commands run in order, so that they may
/// reuse it while the device has not finished with it.
struct ArrayMemory {
    slice: Option<Slice>,
    /// Start of its guard band, if it has one.
    guard: Option<u64>,
    arrays: Weak<VulkanArrays>,
}

impl Drop for ArrayMemory {
    fn drop(&mut self) {
        if let Some(arrays) = self.arrays.upgrade()
            && !arrays.opened.device.forked()
        {
            let slice = self.slice.take().filter(|_| self.guard.is_none());
            lock(&arrays.dropped).extend(slice);
            if let Ok(mut work) = arrays.work.try_lock() {
                // A failure is reported by the next submission.
                let _ = work.release_finished();
                arrays.keep_dropped(&mut work);
            }
        }
    }
}

impl VulkanArrays {
    /// Creates an engine that holds at most `memory_limit` bytes of device memory, if there is a limit.
    pub(super) fn new(opened: &Arc<Opened>, memory_limit: Option<u64>) -> Arc<Self> {
        let work = Mutex::new(Work::new(opened, memory_limit));
        let arrays = Arc::new_cyclic(|own| {
            let (opened, dropped) = (opened.clone(), Mutex::default());
            VulkanArrays { opened, work, dropped, own: own.clone() }
        });
        opened.device.retained_by(arrays.own.clone());
        arrays
    }

    /// Begins a call.
    fn work(&self) -> MutexGuard<'_, Work> {
        let mut work = lock(&self.work);
        self.keep_dropped(&mut work);
        work
    }

    /// Retains what dropped arrays held.
    fn keep_dropped(&self, work: &mut Work) {
        let dropped = std::mem::take(&mut *lock(&self.dropped));
        dropped.into_iter().for_each(|slice| work.keep(slice, Fit::Near));
    }

    fn memory(&self, slice: Slice, guard: Option<u64>) -> Memory {
        Memory::new(ArrayMemory { slice: Some(slice), guard, arrays: self.own.clone() })
    }

    /// The first `bytes` of an array, in segments of which the device copies the next while the host reads one.
    fn read_segments(&self, from: &Slice, bytes: usize, content: &mut Vec<u8>) -> Result<()> {
        emptied(content, bytes, "an array on the host")?;
        let (mut first, mut under_way) = (0, VecDeque::with_capacity(COPIED_AHEAD));
        while content.len() < bytes {
            while first < bytes && under_way.len() < COPIED_AHEAD {
                let length = SEGMENT.min(bytes - first);
                let work = &mut *self.work();
                let segment = match work.staging(SEGMENT as u64) {
                    // Those under way are enough.
                    Err(Error::OutOfMemory { .. }) if !under_way.is_empty() => break,
                    made => made?,
                };
                let bytes = length.next_multiple_of(4) as u64;
                let part = Slice { offset: first as u64, bytes, ..from.clone() };
                let ticket = work.copy_out([(part, Slice { bytes, ..segment.clone() })])?;
                under_way.push_back((segment, ticket, length));
                first += length;
            }
            let Some((segment, ticket, length)) = under_way.pop_front() else { break };
            self.opened.device.wait_or_stop(ticket)?;
            segment.buffer.read(0, length as u64, |memory| content.extend_from_slice(memory))?;
            self.work().host.keep(segment, Fit::Near);
        }
        Ok(())
    }

    /// The memory of an operand.
    fn input(&self, work: &mut Work, memory: &Memory) -> Result<Slice> {
        if memory.is_empty() { work.nothing() } else { held(memory, "an operand") }
    }

    /// The memory of a state if it is unshared, or of a copy that replaces it.
    fn own(&self, work: &mut Work, memory: &mut Memory) -> Result<Slice> {
        if memory.is_empty() {
            return work.nothing();
        }
        let from = held(memory, "a state")?;
        if memory.content_mut::<ArrayMemory>().is_some() {
            return Ok(from);
        }
        let copy = work.copy(from)?;
        *memory = self.memory(copy.clone(), None);
        Ok(copy)
    }
}

/// The memory of an array, called `what` in the message.
fn held(memory: &Memory, what: &str) -> Result<Slice> {
    let slice = memory.content::<ArrayMemory>().and_then(|held| held.slice.clone());
    slice.ok_or_else(|| Error::InvalidArgument(format!("{what} is another device's array")))
}

impl Retains for VulkanArrays {
    fn release(&self) {
        if let Ok(mut work) = self.work.try_lock()
            && !self.opened.device.forked()
        {
            let _ = work.release_finished();
            self.keep_dropped(&mut work);
            work.release_idle();
        }
    }
}

impl ArrayEngine for VulkanArrays {
    fn upload(&self, bytes: &[u8]) -> Result<Memory> {
        self.opened.device.check("an upload")?;
        let array = self.work().upload(bytes)?;
        COUNTERS.bytes_up.fetch_add(bytes.len() as u64, Relaxed);
        Ok(self.memory(array, None))
    }

    fn prepare(&self, plan: Plan, counts: Counts, narrow: Narrow) -> Result<Prepared> {
        self.opened.device.check("an operation")?;
        let (memory, budget) = {
            let work = &mut *self.work();
            (work.counts(counts)?, work.budget.clone())
        };
        let plan = with_scratch(Arc::new(plan), &self.opened.device.capabilities);
        Ok(Prepared::new(Ready::new(&plan, (counts, memory), narrow, &self.opened, &budget)?))
    }

    fn run(&self, prepared: &Prepared, inputs: &[&Memory], states: &mut [Memory]) -> Result<Vec<Memory>> {
        self.opened.device.check("an operation")?;
        let ready: &Ready = prepared.content()?;
        let work = &mut *self.work();
        let guarded = guarded();
        let inputs = inputs.iter().map(|memory| self.input(work, memory)).collect::<Result<_>>()?;
        let states = states.iter_mut().map(|memory| self.own(work, memory)).collect::<Result<_>>()?;
        let buffers = work.run(ready, inputs, states, guarded)?;
        COUNTERS.kiloflops_vulkan.fetch_add(ready.flops.div_ceil(1000), Relaxed);
        let places = &ready.prepared.outputs;
        // Two outputs may be one buffer.
        let mut outputs: Vec<Memory> = Vec::with_capacity(places.len());
        for (number, place) in places.iter().enumerate() {
            let same = places[..number].iter().position(|earlier| earlier == place);
            let own = || self.memory(buffers[*place].clone(), guarded.then_some(ready.sizes[*place]));
            outputs.push(same.map_or_else(own, |earlier| outputs[earlier].clone()));
        }
        // Intermediate results are retained after the steps, like dropped arrays.
        let between = buffers.into_iter().enumerate().filter(|(place, _)| !places.contains(place));
        between.for_each(|(_, memory)| work.keep(memory, ready.fit()));
        Ok(outputs)
    }

    fn dispatch(&self, call: &UserDispatch, buffers: &mut [Memory]) -> Result<()> {
        let UserDispatch { variant, groups, push, constants, bytes } = call;
        let device = &self.opened.device;
        let capabilities = &device.capabilities;
        registry::fits(variant, capabilities)?;
        registry::fits_with(variant, constants, capabilities)?;
        if groups.iter().zip(capabilities.workgroup_count).any(|(groups, most)| *groups > most) {
            let most = capabilities.workgroup_count;
            let reason = format!("{groups:?} workgroups, {} allows {most:?}", capabilities.name);
            return Err(Error::unsupported(variant.name, reason));
        }
        let mut pipelines = self.opened.pipelines.get(device, [(*variant, &**constants)])?;
        let work = &mut *self.work();
        let mut slices = DescriptorBindingBuilder::new(variant);
        for ((memory, binding), bytes) in buffers.iter_mut().zip(variant.bindings).zip(bytes) {
            let memory = match binding.access {
                Access::Read => self.input(work, memory)?,
                Access::Write | Access::ReadWrite => self.own(work, memory)?,
            };
            // A shader's `.length()` counts the elements of this range, which no device has empty.
            slices.push(Slice { bytes: (*bytes).max(1), ..memory })?;
        }
        if let (Some(pipeline), false) = (pipelines.pop(), groups.contains(&0)) {
            let push = bytemuck::cast_slice(push).to_vec();
            let launch = Arc::new(Launch { pipeline, push, label: variant.name.into() });
            work.run_one(BoundDispatch { launch, grid: Grid::Direct(*groups), buffers: slices.build()?, flops: 0 })?;
        }
        Ok(())
    }

    fn device(&self) -> Option<&Arc<Opened>> {
        Some(&self.opened)
    }

    fn download(&self, parts: &[(&Memory, usize)], to: &mut [Vec<u8>]) -> Result<()> {
        let device = &self.opened.device;
        device.check("a download")?;
        to.iter_mut().for_each(Vec::clear);
        let (mut copies, mut all) = (Vec::with_capacity(parts.len()), 0);
        for (number, (memory, bytes)) in parts.iter().enumerate().filter(|(_, (_, bytes))| *bytes > 0) {
            let held =
                memory.content::<ArrayMemory>().ok_or_else(|| Error::Unusable("another device's array".into()))?;
            let from = held.slice.as_ref().ok_or_else(|| Error::Unusable("the array is freed".into()))?;
            if *bytes > SEGMENT && held.guard.is_none() {
                self.read_segments(from, *bytes, &mut to[number])?;
                continue;
            }
            let words = held.guard.map_or(bytes.next_multiple_of(4) as u64, |guard| guard + GUARD);
            copies.push((number, Slice { bytes: words, ..from.clone() }, all, held.guard));
            all += words;
        }
        if !copies.is_empty() {
            let (results, ticket) = {
                let work = &mut *self.work();
                let results = work.staging(all)?;
                let copies = copies.iter().map(|(_, from, offset, _)| {
                    (from.clone(), Slice { offset: *offset, bytes: from.bytes, ..results.clone() })
                });
                let ticket = work.copy_out(copies)?;
                (results, ticket)
            };
            // What was recorded is submitted, and its recording keeps what it uses.
            device.wait_or_stop(ticket)?;
            for (number, _, offset, guard) in copies {
                let bytes = parts[number].1;
                let content = &mut to[number];
                emptied(content, bytes, "an array on the host")?;
                results.buffer.read(offset, bytes as u64, |memory| content.extend_from_slice(memory))?;
                if let Some(guard) = guard
                    && !results.buffer.read(offset + guard, GUARD, unchanged)?
                {
                    return Err(device.misuse("reading an array", "a kernel wrote past the end of its result".into()));
                }
            }
            self.work().host.keep(results, Fit::Near);
        }
        let bytes: usize = to.iter().map(Vec::len).sum();
        COUNTERS.bytes_down.fetch_add(bytes as u64, Relaxed);
        self.work().release_finished()
    }

    fn synchronize(&self) -> Result<()> {
        let last = {
            let work = &mut *self.work();
            work.submit()?;
            work.pool.last()
        };
        self.opened.device.wait_or_stop(last)?;
        self.work().finish()
    }

    fn usable(&self) -> bool {
        !self.opened.device.lost() && !self.opened.device.forked()
    }
}
