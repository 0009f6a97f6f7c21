//! The command buffers of a device: those in flight, and finished ones to record again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::device::Opened;
use super::profile;
use super::raw::{Device, Recording, Ticket};
use super::record::Commands;
use crate::Result;

/// Most recordings in flight at once.
const MOST: usize = 8;

/// Command buffers of a device, which are recorded again once the device has finished with them.
///
/// A recording may be submitted as often as wanted, and afterwards be returned to the pool. Calls for arrays and a training
/// step run by the same pool.
///
/// ```
/// use grilly::backend::vulkan::{BufferKind, BufferSlice, CommandBufferPool, Commands, OpenDevice};
/// # let settings = grilly::settings::Settings { allow_cpu_vulkan: true, ..Default::default() };
/// # let Ok(device) = OpenDevice::open(None, &settings) else { return };
/// let [from, to] = [BufferKind::Staging, BufferKind::Results].map(|kind| device.buffer(kind, 4).unwrap());
/// let (mut pool, mut commands) = (CommandBufferPool::new(&device), Commands::default());
/// commands.copy_written([(BufferSlice::from(&from), BufferSlice::from(&to))]);
/// let mut recording = pool.record(&mut commands).unwrap();
/// for number in 1..=3u8 {
///     from.map(0, 4, |bytes| bytes.fill(number)).unwrap();
///     pool.submit(&mut [&mut recording]).unwrap();
///     pool.wait().unwrap();
///     assert_eq!(to.read(0, 4, |bytes| bytes[3]).unwrap(), number);
/// }
/// pool.give_back(recording);
/// ```
pub struct CommandBufferPool {
    device: Arc<Device>,
    /// In flight, oldest first.
    running: VecDeque<Recording>,
    /// Finished and cleared.
    rested: Vec<Recording>,
    last: Ticket,
}

impl CommandBufferPool {
    /// An empty pool.
    pub fn new(device: &Opened) -> Self {
        let (running, rested, last) = Default::default();
        CommandBufferPool { device: device.device.clone(), running, rested, last }
    }

    /// Records commands in a finished command buffer or in a new one; the list is empty then.
    ///
    /// # Errors
    /// `Device` for a command that does not match its operands, or a driver error; the list is then as it was.
    pub fn record(&mut self, commands: &mut Commands) -> Result<Recording> {
        self.release_finished()?;
        let earlier = match self.rested.pop() {
            None if self.running.len() >= MOST => self.running.pop_front(),
            rested => rested,
        };
        let mut recording = earlier.map_or_else(|| Recording::new(&self.device), Ok)?;
        match commands.record(&mut recording, profile::timing()) {
            Ok(()) => Ok(recording),
            Err(error) => {
                self.rest(recording);
                Err(error)
            }
        }
    }

    /// Submits recordings, which run in order, in one call, once their last submissions are finished.
    ///
    /// # Errors
    /// `OutOfMemory`, or a device fault.
    pub fn submit(&mut self, recordings: &mut [&mut Recording]) -> Result<()> {
        for recording in recordings.iter() {
            self.device.wait_unless_reached(recording.ticket())?;
        }
        self.last = self.device.submit(recordings)?;
        Ok(())
    }

    /// Waits until the last submission is finished, and so all before it.
    ///
    /// # Errors
    /// A device fault.
    pub fn wait(&self) -> Result<()> {
        self.device.wait(self.last)
    }

    /// Returns a recording that is not needed any more; what it uses is freed once it is finished.
    pub fn give_back(&mut self, mut recording: Recording) {
        if recording.ticket() == Ticket::default() {
            drop(recording.give_back());
            self.rest(recording);
        } else {
            self.running.push_back(recording);
        }
    }

    /// Returns a recording that is not in flight and has no commands.
    pub(super) fn rest(&mut self, recording: Recording) {
        self.rested.push(recording);
    }

    /// The last submission.
    pub(super) fn last(&self) -> Ticket {
        self.last
    }

    /// Whether no recording that was given back is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Waits, unless the caller is to stop, until less than the most are in flight.
    pub(super) fn wait_for_room(&self) -> Result<()> {
        match self.running.front().filter(|_| self.rested.is_empty() && self.running.len() >= MOST) {
            Some(oldest) if !self.device.reached(oldest.ticket())? => self.device.wait_or_stop(oldest.ticket()),
            _ => Ok(()),
        }
    }

    /// Frees what finished recordings kept alive, after reading their times. Returns whether there were any.
    pub(super) fn release_finished(&mut self) -> Result<bool> {
        let before = self.rested.len();
        // They finish in order, so the first unfinished one ends the search.
        while let Some(oldest) = self.running.front_mut()
            && oldest.finished()?
        {
            profile::add(&oldest.times()?);
            oldest.release()?;
            self.rested.extend(self.running.pop_front());
        }
        Ok(self.rested.len() > before)
    }
}
