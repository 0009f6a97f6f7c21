//! When a run has its folder, and its checkpoints there.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Files, Run};
use crate::Result;
use crate::train::checkpoint::write_tokenizer;
use crate::train::folder::{Folder, steps};
use crate::train::metrics::Metrics;
use crate::train::{Checkpoint, keep_newest};

impl Run {
    /// Takes the folder, unless the run has it.
    pub(super) fn take(&mut self) -> Result<()> {
        if self.own.is_some() {
            return Ok(());
        }
        let own = Folder::take(&self.folder)?;
        let files = Files { text: &[], folder: &self.folder };
        match &mut self.metrics {
            None => {
                files.check_new()?;
                // A file that is in the way is found before the steps, not after.
                write_tokenizer(&own, self.trainer.vocabulary().json())?;
                self.metrics = Some(Metrics::begun(&own)?);
            }
            Some(metrics) => {
                if let Some(step) = steps(&self.folder)?.pop().filter(|newest| Some(*newest) > self.saved) {
                    let problem = format!("has a checkpoint of step {step} by another run; resume it");
                    return Err(files.fault(problem));
                }
                metrics.again(&own)?;
            }
        }
        self.own = Some(own);
        Ok(())
    }

    /// Lets other runs use the folder. The next step takes it again.
    pub fn release(&mut self) {
        self.own = None;
    }

    /// Writes a checkpoint of the steps so far, unless the newest one has as many, and removes the oldest.
    ///
    /// # Errors
    /// As [`Checkpoint::write`] and [`Run::advance`], and `NotFinite` after a step that failed with it.
    pub fn save(&mut self) -> Result<()> {
        if self.saved == Some(self.trainer.steps_done()) && self.pending.is_none() {
            return Ok(());
        }
        let held = self.own.is_some();
        let saved = self.take().and_then(|()| self.saved());
        if !held {
            self.release();
        }
        saved
    }

    fn saved(&mut self) -> Result<()> {
        if self.trainer.steps_read() < self.trainer.steps_done() {
            self.pending = Some(self.step()?);
        }
        self.complete()?;
        let step = self.trainer.steps_done();
        if let Some(own) = self.own.as_ref().filter(|_| self.saved != Some(step)) {
            let (data, metrics) = (Some(self.text.clone()), self.metrics.as_ref().map(Metrics::covered));
            Checkpoint { data, metrics, ..self.trainer.checkpoint()? }.write_to(own)?;
            self.saved = Some(step);
            keep_newest(&self.folder, self.trainer.options().keep)?;
        }
        Ok(())
    }

    /// Writes a checkpoint to a folder: as [`Run::save`] to that of the run.
    ///
    /// # Errors
    /// As [`Run::save`].
    pub fn save_to(&mut self, folder: &Path) -> Result<()> {
        let same = |found: PathBuf| fs::canonicalize(&self.folder).is_ok_and(|own| own == found);
        if fs::canonicalize(folder).is_ok_and(same) {
            return self.save();
        }
        self.trainer.checkpoint()?.write(folder).map(drop)
    }
}
