//! The numbers of a step that ran: loss and norm, and what follows from them.

use super::{ADVICE, Step, Trainer};
use crate::array::Array;
use crate::dtype::DType;
use crate::train::update::Outcome;
use crate::train::{Batch, LossScale};
use crate::{Error, Result, exit};

/// A step that ran and whose numbers are not read yet.
pub(super) struct Unread {
    pub(super) batch: Batch,
    pub(super) number: u64,
    pub(super) rate: f64,
    /// Of each device, in the order of the batches.
    pub(super) outcomes: Vec<Outcome>,
}

/// The only element of each array; all are of one engine.
pub(super) fn read(arrays: &[Array]) -> Result<Vec<f32>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let mut bytes = vec![Vec::new(); arrays.len()];
    first.engine().read(&arrays.iter().collect::<Vec<_>>(), &mut bytes)?;
    Ok(bytes.iter().map(|bytes| bytemuck::pod_read_unaligned(bytes)).collect())
}

impl Trainer {
    /// Reads the numbers of the last step. Without memory for that nothing is lost: they can be read when there is some.
    pub(super) fn read_step(&mut self, unread: Unread) -> Result<Step> {
        let number = unread.number;
        // The parameters are those of the next step already.
        let read = exit::undivided(|| self.read_numbers(&unread));
        match &read {
            Ok((_, scale)) => (self.step, self.loss_scale) = (number, *scale),
            Err(Error::OutOfMemory { .. }) => (self.step, self.unread) = (number, Some(unread)),
            Err(Error::NotFinite(failure)) => {
                self.step = number;
                self.failed = Some((Error::NotFinite, failure.clone()));
            }
            Err(error) => self.note(number, error),
        }
        Ok(read?.0)
    }

    /// The numbers of a step that ran, and the loss scale after it.
    ///
    /// # Errors
    /// `NotFinite` if the parameters are not usable after it.
    fn read_numbers(&self, unread: &Unread) -> Result<(Step, Option<LossScale>)> {
        let Unread { number, rate, outcomes, .. } = unread;
        let mut numbers = Vec::new();
        for outcome in &outcomes[1..] {
            numbers.extend(read(&outcome.losses)?);
        }
        let mut first: Vec<Array> = outcomes[0].losses.clone();
        first.push(outcomes[0].norm.clone());
        let mut first = read(&first)?;
        let norm = first.pop().unwrap_or(f32::NAN);
        numbers.splice(0..0, first);
        let loss = (numbers.iter().copied().map(f64::from).sum::<f64>() / numbers.len() as f64) as f32;
        let mut scale = self.loss_scale;
        let can_fall = scale.as_ref().is_some_and(LossScale::can_fall);
        if !(loss.is_finite() && (norm.is_finite() || can_fall)) {
            let first = self.first_not_finite(&outcomes[0]).unwrap_or_default();
            let failure =
                format!("step {number}: the loss is {loss} and the norm of the gradients {norm}{first}{ADVICE}");
            return Err(Error::NotFinite(failure));
        }
        if let Some(scale) = &mut scale {
            scale.after(norm.is_finite());
        }
        Ok((Step { step: *number, loss, norm, rate: *rate }, scale))
    }

    /// What an error says of the first gradient that is not finite, if they can be read.
    fn first_not_finite(&self, outcome: &Outcome) -> Option<String> {
        let gradients = self.own.update.gradients(outcome).and_then(|gradients| gradients.read()).ok()?;
        let (of, _) = self.arena.parts(&gradients).find(|(_, bytes)| !DType::F32.is_finite(bytes))?;
        Some(format!("; the first gradient that is not finite is that of {}", of.name))
    }

    /// The loss scale after the steps so far.
    pub(super) fn current_scale(&self) -> Result<Option<LossScale>> {
        self.unread.as_ref().map_or(Ok(self.loss_scale), |unread| Ok(self.read_numbers(unread)?.1))
    }

    /// Takes note of a device that failed in a step, or was not updated as others were.
    pub(super) fn note(&mut self, step: u64, error: &Error) {
        if error.is_device_fault() || matches!(error, Error::Unusable(_)) {
            let failure = format!("step {step} was not finished: {error}; resume from the last checkpoint");
            self.failed = Some((Error::Unusable, failure));
        }
    }
}
