//! Forwards the crate's log records to Python's `logging`, under the logger `grilly`.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;

struct Bridge;

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("grilly")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (level, message) = (number(record.level()), record.args().to_string());
        // A record that cannot be delivered (exit, a failing handler) must not fail the work that logged it.
        let _ = crate::lock::with(|py| deliver(py, level, &message).map_err(|error| error.write_unraisable(py, None)));
    }

    fn flush(&self) {}
}

/// Python's numeric log levels.
fn number(level: Level) -> u32 {
    match level {
        Level::Error => 40,
        Level::Warn => 30,
        Level::Info => 20,
        Level::Debug => 10,
        Level::Trace => 5,
    }
}

fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("logging")?.call_method1("getLogger", ("grilly",))
}

fn deliver(py: Python<'_>, level: u32, message: &str) -> PyResult<()> {
    logger(py)?.call_method1("log", (level, "%s", message))?;
    Ok(())
}

/// Installs the bridge; under `GRILLY_DEBUG=1` records of every level also go to stderr.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    static BRIDGE: Bridge = Bridge;
    if log::set_logger(&BRIDGE).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
    if grilly::settings::Settings::from_env().is_ok_and(|settings| settings.debug) {
        to_stderr(py)?;
    }
    Ok(())
}

/// From now on also sends records of every level to stderr.
pub(crate) fn to_stderr(py: Python<'_>) -> PyResult<()> {
    static SENT: AtomicBool = AtomicBool::new(false);
    if SENT.swap(true, Relaxed) {
        return Ok(());
    }
    let logging = py.import("logging")?;
    let handler = logging.call_method0("StreamHandler")?;
    let form = logging.call_method1("Formatter", ("%(name)s %(levelname)s: %(message)s",))?;
    handler.call_method1("setFormatter", (form,))?;
    let logger = logger(py)?;
    logger.call_method1("addHandler", (handler,))?;
    logger.call_method1("setLevel", (10,))?;
    Ok(())
}
