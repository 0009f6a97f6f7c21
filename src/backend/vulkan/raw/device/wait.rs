//! Waits for submissions.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::{Duration, Instant};

use ash::vk;

use super::{Device, Ticket};
use crate::stats::COUNTERS;
use crate::{Error, Result, exit};

/// How often a wait checks for a lost device, the end of the process or the caller's stop.
const LOOK_UP: Duration = Duration::from_millis(100);

/// How long destruction waits for the device before it leaks instead.
const PATIENCE: Duration = Duration::from_secs(10);

impl Device {
    /// Whether a submission is finished.
    ///
    /// # Errors
    /// A driver error.
    pub fn reached(&self, ticket: Ticket) -> Result<bool> {
        if ticket.0 <= self.seen.load(Acquire) {
            return Ok(true);
        }
        // SAFETY: the semaphore lives as long as the device.
        let value = unsafe { self.handle.get_semaphore_counter_value(self.timeline) };
        let value = value.map_err(|cause| self.failure("vkGetSemaphoreCounterValue", cause))?;
        self.seen.fetch_max(value, AcqRel);
        Ok(value >= ticket.0)
    }

    /// Waits until a submission is finished.
    ///
    /// # Errors
    /// As [`Device::check`], or a driver error.
    pub fn wait(&self, ticket: Ticket) -> Result<()> {
        self.wait_while(ticket, || Ok(()))
    }

    /// As [`Device::wait`], but also ended by the caller: for waits after which nothing else is done. The device goes on.
    ///
    /// # Errors
    /// As [`Device::wait`], and [`exit::check`].
    pub fn wait_or_stop(&self, ticket: Ticket) -> Result<()> {
        self.wait_while(ticket, exit::check)
    }

    fn wait_while(&self, ticket: Ticket, wanted: fn() -> Result<()>) -> Result<()> {
        COUNTERS.waits.fetch_add(1, Relaxed);
        loop {
            self.check("a wait")?;
            if self.wait_for(ticket, LOOK_UP)? {
                return Ok(());
            }
            wanted()?;
        }
    }

    /// As [`Device::wait`], but neither checked nor counted for a submission that is known to be finished.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub fn wait_unless_reached(&self, ticket: Ticket) -> Result<()> {
        if self.reached(ticket)? { Ok(()) } else { self.wait(ticket) }
    }

    pub(super) fn wait_for(&self, ticket: Ticket, time: Duration) -> Result<bool> {
        let (semaphores, values) = ([self.timeline], [ticket.0]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore lives as long as the device.
        match unsafe { self.handle.wait_semaphores(&info, time.as_nanos() as u64) } {
            Ok(()) => {
                self.seen.fetch_max(ticket.0, AcqRel);
                Ok(true)
            }
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(cause) => Err(self.failure("vkWaitSemaphores", cause)),
        }
    }

    /// Waits for a limited time until the resources of a submission may be destroyed. `false` means that they must be
    /// leaked.
    pub(in super::super) fn settle(&self, ticket: Ticket) -> bool {
        if self.forked() {
            return false;
        }
        let started = Instant::now();
        loop {
            let closing = exit::begun();
            match self.wait_for(ticket, if closing { Duration::ZERO } else { LOOK_UP }) {
                Ok(true) => return true,
                Ok(false) if started.elapsed() < PATIENCE && !closing => {}
                Ok(false) => return false,
                // A lost device executes nothing more.
                Err(Error::DeviceLost { .. }) => return true,
                Err(_) => return false,
            }
        }
    }
}
