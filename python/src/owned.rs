//! Values that live on a device.

use std::mem;

use pyo3::prelude::*;

use crate::error::PyResult;
use crate::lock;
use crate::text::Name;
use grilly::embed::Route;
use grilly::{Error, Result, process};

/// A value on a device of the process that made it. In a fork it cannot be used, and dropping it frees nothing: the
/// device belongs to the parent process.
pub(crate) struct Owned<T> {
    /// `None` only during drop.
    value: Option<T>,
    process: u32,
}

impl<T> Owned<T> {
    /// The value, called `what` in the message.
    ///
    /// # Errors
    /// `Unusable` in a fork.
    pub(crate) fn get(&self, what: &str) -> Result<&T> {
        self.value.as_ref().filter(|_| self.process == process::id()).ok_or_else(|| {
            Error::Unusable(format!("the {what} was made before this process was forked; make it again here"))
        })
    }

    /// Takes the value for its owner's `drop`; nothing in a fork.
    pub(crate) fn take(&mut self) -> Option<T> {
        let value = self.value.take();
        if self.process == process::id() {
            return value;
        }
        mem::forget(value);
        None
    }
}

impl<T> From<T> for Owned<T> {
    fn from(value: T) -> Self {
        Owned { value: Some(value), process: process::id() }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A loaded model.
pub(crate) struct Loaded(Owned<grilly::Model>);

impl From<grilly::Model> for Loaded {
    fn from(model: grilly::Model) -> Self {
        Loaded(model.into())
    }
}

impl Loaded {
    /// The model.
    ///
    /// # Errors
    /// `Unusable` in a fork.
    pub(crate) fn get(&self) -> Result<&grilly::Model> {
        self.0.get("model")
    }

    /// The route that a task chooses; without a task and a default route the first.
    ///
    /// # Errors
    /// `InvalidArgument` for a task that chooses none, and as [`Loaded::get`].
    pub(crate) fn route(&self, task: Option<&Name>) -> Result<&Route> {
        let model = self.get()?;
        task.map_or_else(|| Ok(model.usual()), |task| model.route(Some(&task.0)))
    }

    /// Runs short work on the model without the interpreter's lock.
    ///
    /// # Errors
    /// As [`Loaded::get`].
    pub(crate) fn briefly<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&grilly::Model) -> T + Send,
    ) -> PyResult<T> {
        let model = self.get()?;
        Ok(lock::briefly_without(py, || work(model)))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let mut model = self.0.take();
        // Waiting for the device with the lock held would block threads that log.
        Python::try_attach(|py| lock::briefly_without(py, || model = None));
    }
}
