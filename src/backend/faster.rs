//! Whether a GPU inside the processor or the processor itself runs a model faster: measured once for each machine and size of
//! model, then read from a file.
//!
//! File: `grilly/faster.json` in the user's cache folder, a list of [`Row`]s. One that is damaged or cannot be written only means
//! that a later process measures again.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::process::files::{self, Existing};
use crate::{Result, settings};

const NAME: &str = "faster.json";
/// Far above the size of such a file.
const LARGEST_FILE: u64 = 1 << 20;
/// Most calls that are timed on a device, and after how long none begins.
const CALLS: usize = 5;
const ENOUGH: Duration = Duration::from_millis(400);

/// What times belong to: a machine, and a size of model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The version of this library.
    pub version: String,
    /// The GPU's name.
    pub device: String,
    /// Name and version of its driver.
    pub driver: String,
    /// The processor's name.
    pub processor: String,
    /// Threads of the CPU backend.
    pub threads: usize,
    /// Columns of the hidden state.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Columns between the two products of the feed-forward part.
    pub intermediate: usize,
    /// The element type's name.
    pub dtype: String,
    /// What the numbers mean.
    pub numerics: String,
}

/// Seconds that the same batch takes on both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// On the GPU.
    pub gpu: f64,
    /// On the CPU.
    pub cpu: f64,
}

impl Times {
    /// Times of a call on either: the best of a few, the first one included.
    ///
    /// # Errors
    /// The first of a call.
    ///
    /// ```
    /// use grilly::backend::faster::Times;
    /// let sleep = |milliseconds| std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    /// let times = Times::measure(|| Ok(sleep(20)), || Ok(sleep(2)))?;
    /// assert!(times.cpu_is_faster() && times.gpu >= 0.02 && times.cpu >= 0.002);
    /// assert!(!Times::measure(|| Ok(sleep(2)), || Ok(sleep(20)))?.cpu_is_faster());
    /// # Ok::<(), grilly::Error>(())
    /// ```
    pub fn measure(gpu: impl FnMut() -> Result<()>, cpu: impl FnMut() -> Result<()>) -> Result<Self> {
        Ok(Times { gpu: best(gpu)?, cpu: best(cpu)? })
    }

    /// Whether the CPU is faster; as fast as it, the GPU leaves it to other work.
    pub fn cpu_is_faster(&self) -> bool {
        self.cpu < self.gpu
    }
}

/// Seconds of the fastest call.
fn best(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begin, mut best) = (Instant::now(), f64::INFINITY);
    for _ in 0..CALLS {
        let start = Instant::now();
        call()?;
        best = best.min(start.elapsed().as_secs_f64());
        if begin.elapsed() > ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// Times with what they belong to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What they belong to.
    #[serde(flatten)]
    pub subject: Subject,
    /// The times.
    pub seconds: Times,
}

/// Whether times were measured now or earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// By this call.
    Now,
    /// By an earlier one, of this process or another.
    Earlier,
}

/// All times known so far.
pub struct Known {
    file: Option<PathBuf>,
    /// Those of this process, for where the file cannot be written. Locked while measuring: two models at once would slow each
    /// other down.
    own: Mutex<Vec<Row>>,
}

impl Known {
    /// Those of the user.
    pub fn of_user() -> &'static Self {
        static KNOWN: OnceLock<Known> = OnceLock::new();
        KNOWN.get_or_init(|| Known::new(settings::cache_folder().map(|folder| folder.join(NAME))))
    }

    /// Those of a file, if there is one.
    pub fn new(file: Option<PathBuf>) -> Self {
        Known { file, own: Mutex::default() }
    }

    /// The file's rows of this version; none if it is missing, unreadable or damaged.
    pub fn rows(&self) -> Vec<Row> {
        let read = || {
            let file = self.file.as_ref()?;
            // Checked before opening: opening a pipe would block until its other end opens.
            let about = std::fs::metadata(file).ok()?;
            let bytes = (about.is_file() && about.len() <= LARGEST_FILE).then(|| std::fs::read(file).ok())??;
            serde_json::from_slice(&bytes).ok()
        };
        let rows: Vec<Row> = read().unwrap_or_default();
        let usable = |row: &Row| {
            let seconds = [row.seconds.gpu, row.seconds.cpu];
            row.subject.version == env!("CARGO_PKG_VERSION") && seconds.iter().all(|time| *time > 0.0)
        };
        rows.into_iter().filter(usable).collect()
    }

    /// The known times, or else those that `measure` gives, which are then known.
    ///
    /// # Errors
    /// That of `measure`.
    pub fn times(&self, subject: &Subject, measure: impl FnOnce() -> Result<Times>) -> Result<(Times, When)> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = self.rows().iter().chain(&*own).find(|row| row.subject == *subject) {
            return Ok((row.seconds, When::Earlier));
        }
        let seconds = measure()?;
        own.push(Row { subject: subject.clone(), seconds });
        // What other processes have written meanwhile stays.
        let mut rows = self.rows();
        let others: Vec<Row> =
            own.iter().filter(|row| rows.iter().all(|r| r.subject != row.subject)).cloned().collect();
        rows.extend(others);
        self.write(&rows);
        Ok((seconds, When::Now))
    }

    fn write(&self, rows: &[Row]) {
        let Some((folder, file)) = self.file.as_ref().and_then(|file| Some((file.parent()?, file))) else { return };
        let text = serde_json::to_string_pretty(rows).unwrap_or_default() + "\n";
        if let Err(cause) = files::write(folder, &[(NAME, text)], Existing::Replace) {
            log::debug!(target: "grilly", "times {} not written: {cause}", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::Error;

    fn subject(hidden: usize) -> Subject {
        let text = |text: &str| text.to_owned();
        Subject {
            version: text(env!("CARGO_PKG_VERSION")),
            device: text("a GPU"),
            driver: text("a driver 1.0"),
            processor: text("a processor"),
            threads: 4,
            hidden,
            layers: 6,
            intermediate: 4 * hidden,
            dtype: text("float32"),
            numerics: text("run"),
        }
    }

    const GPU_FASTER: Times = Times { gpu: 0.001, cpu: 0.002 };
    const CPU_FASTER: Times = Times { gpu: 0.002, cpu: 0.001 };

    fn not_again() -> Result<Times> {
        panic!("measured again")
    }

    #[test]
    fn the_faster_one_is_found_in_little_time() {
        for (gpu, cpu) in [(150, 1), (1, 150)] {
            let (mut calls, start) = ([0, 0], Instant::now());
            let [on_gpu, on_cpu] = &mut calls;
            let call = |count: &mut usize, time| {
                *count += 1;
                sleep(Duration::from_millis(time));
                Ok(())
            };
            let times = Times::measure(|| call(on_gpu, gpu), || call(on_cpu, cpu)).unwrap();
            assert_eq!(times.cpu_is_faster(), cpu < gpu, "{times:?}");
            calls.sort_unstable();
            // The slow one is called until the time is over.
            assert!((1..=3).contains(&calls[0]) && calls[1] == CALLS, "{calls:?}");
            assert!(start.elapsed() >= ENOUGH);
        }
        assert!(!Times { gpu: 0.5, cpu: 0.5 }.cpu_is_faster());
        let failed = Times::measure(|| Err(Error::Interrupted), || panic!("after a failure"));
        assert!(matches!(failed, Err(Error::Interrupted)));
    }

    #[test]
    fn times_are_measured_once_for_each_subject() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join(NAME);
        let known = || Known::new(Some(file.clone()));
        let first = known();
        assert_eq!(first.times(&subject(8), || Ok(CPU_FASTER)).unwrap(), (CPU_FASTER, When::Now));
        assert_eq!(first.times(&subject(8), not_again).unwrap(), (CPU_FASTER, When::Earlier));
        assert_eq!(first.times(&subject(16), || Ok(GPU_FASTER)).unwrap(), (GPU_FASTER, When::Now));
        // Of another process, and of another driver there.
        assert_eq!(known().times(&subject(8), not_again).unwrap(), (CPU_FASTER, When::Earlier));
        assert_eq!(known().times(&subject(16), not_again).unwrap(), (GPU_FASTER, When::Earlier));
        let newer = Subject { driver: "a driver 1.1".into(), ..subject(8) };
        assert_eq!(known().times(&newer, || Ok(GPU_FASTER)).unwrap(), (GPU_FASTER, When::Now));
        assert_eq!(known().rows().len(), 3);
        assert!(matches!(known().times(&subject(32), || Err(Error::Interrupted)), Err(Error::Interrupted)));
        assert_eq!(std::fs::read_dir(folder.path().join("deep")).unwrap().count(), 1, "no unfinished file stays");
    }

    #[test]
    fn what_cannot_be_read_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NAME);
        let known = || Known::new(Some(file.clone()));
        known().times(&subject(8), || Ok(CPU_FASTER)).unwrap();
        let good = std::fs::read_to_string(&file).unwrap();
        let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(good.contains(&version));
        let damaged = [
            good[..good.len() / 2].to_owned(),
            String::new(),
            good.replace(&version, "\"version\": \"0.1\""),
            good.replace("0.001", "-0.001"),
            good.replace("0.001", "\"fast\""),
        ];
        for text in damaged {
            std::fs::write(&file, text).unwrap();
            assert_eq!(known().times(&subject(8), || Ok(GPU_FASTER)).unwrap(), (GPU_FASTER, When::Now));
            assert_eq!(known().times(&subject(8), not_again).unwrap(), (GPU_FASTER, When::Earlier));
        }
    }

    #[test]
    fn without_a_file_a_process_measures_once() {
        let blocker = tempfile::NamedTempFile::new().unwrap();
        for file in [None, Some(blocker.path().join("below").join(NAME))] {
            let known = Known::new(file);
            assert_eq!(known.times(&subject(8), || Ok(CPU_FASTER)).unwrap(), (CPU_FASTER, When::Now));
            assert_eq!(known.times(&subject(8), not_again).unwrap(), (CPU_FASTER, When::Earlier));
        }
    }
}
