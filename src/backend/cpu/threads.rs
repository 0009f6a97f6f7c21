//! A program's own thread pool, and how the rows of a step are distributed over it.

use rayon::prelude::*;

use super::simd::Standard;
use crate::exit::{self, Request};
use crate::{Error, Result};

/// Processors this process may use; affinity and cgroup quotas (v1 and v2) are respected.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The threads of one program.
pub struct Threads {
    /// `None` for one thread: the caller's own thread does the work.
    pool: Option<rayon::ThreadPool>,
    count: usize,
    /// The process that created the pool: a child of `fork` has the pool's memory but none of its threads.
    process: u32,
}

impl Threads {
    /// Starts `count` threads, or as many as the process may use.
    ///
    /// # Errors
    /// `InvalidArgument` for zero; `Unsupported` when the system cannot create threads.
    pub fn new(count: Option<usize>) -> Result<Self> {
        let count = count.unwrap_or_else(available);
        if count == 0 {
            return Err(Error::InvalidArgument("num_threads is 0, expected at least 1".into()));
        }
        let build =
            || rayon::ThreadPoolBuilder::new().num_threads(count).thread_name(|i| format!("grilly-cpu-{i}")).build();
        let pool = (count > 1)
            .then(build)
            .transpose()
            .map_err(|e| Error::unsupported(format!("{count} CPU threads"), e.to_string()))?;
        Ok(Threads { pool, count, process: crate::process::id() })
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether this process created the threads, rather than the process it was forked from.
    pub fn owned(&self) -> bool {
        crate::process::id() == self.process
    }

    /// Runs `work` on the pool and waits for it.
    ///
    /// # Errors
    /// `Unusable` in a forked child of the process that created the pool.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        if crate::process::id() != self.process {
            return Err(Error::Unusable(format!(
                "the model was loaded in process {} and this is its fork {}: load it again here",
                self.process,
                crate::process::id()
            )));
        }
        Ok(match &self.pool {
            Some(pool) => exit::on(pool, work),
            None => work(),
        })
    }
}

/// The threads of one step: the calling thread alone, or all threads of its pool. Never changes a bit of the result:
/// pieces are whole rows or whole columns, and no sum is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Team {
    /// The calling thread alone.
    Alone,
    /// That many threads.
    All(usize),
}

impl Team {
    /// Number of threads.
    pub fn size(self) -> usize {
        match self {
            Team::Alone => 1,
            Team::All(threads) => threads,
        }
    }

    /// Splits `out` into pieces of whole rows, at least `least` rows each, and passes each to `work` with the index of
    /// its first row; after a request to stop no more of them.
    pub fn rows(self, out: &mut [f32], columns: usize, least: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
        let done = self.try_rows(out, columns, least, |first, piece| {
            work(first, piece);
            Ok(())
        });
        // A request to stop is seen after the step.
        debug_assert!(matches!(done, Ok(()) | Err(Error::Interrupted)));
    }

    /// As [`Team::rows`], for work that may fail.
    ///
    /// # Errors
    /// The errors of `work`, and `Interrupted`.
    pub fn try_rows(
        self,
        out: &mut [f32],
        columns: usize,
        least: usize,
        work: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let rows = out.len() / columns;
        let piece = rows.div_ceil(self.size()).max(least);
        let most = (MOST_ELEMENTS / columns).max(least);
        if self == Team::Alone || piece >= rows {
            return if most >= rows { work(0, out) } else { one_by_one(out, columns, (0, most), &work) };
        }
        side_by_side(out, columns, (piece, most), &work)
    }
}

/// Elements that a thread computes without looking for a request to stop: some tenths of a second of most products, and so many
/// that reading the weights once more for the next ones takes little.
const MOST_ELEMENTS: usize = 1 << 21;

type Work<'a> = &'a (dyn Fn(usize, &mut [f32]) -> Result<()> + Sync);

/// Passes pieces of so many rows to the threads of a pool. One function for all work, of which a process has some fifty: what it
/// takes of rayon is compiled once.
fn side_by_side(out: &mut [f32], columns: usize, (piece, most): (usize, usize), work: Work<'_>) -> Result<()> {
    let request = Request::current();
    let standard = Standard::held();
    let pieces = out.par_chunks_mut(piece * columns).enumerate();
    pieces.try_for_each(|(i, rows)| {
        let _standard = standard.then(Standard::enter);
        request.serve(|| one_by_one(rows, columns, (i * piece, most), work))
    })
}

/// Passes pieces of at most so many rows one after the other, the first of which has the index `first`.
fn one_by_one(out: &mut [f32], columns: usize, (first, most): (usize, usize), work: Work<'_>) -> Result<()> {
    out.chunks_mut(most * columns).enumerate().try_for_each(|(i, rows)| {
        exit::check()?;
        work(first + i * most, rows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_threads_are_refused() {
        assert!(matches!(Threads::new(Some(0)), Err(Error::InvalidArgument(_))));
    }

    #[test]
    fn every_row_is_worked_on_once() {
        let threads = Threads::new(Some(3)).unwrap();
        for rows in [0usize, 1, 2, 3, 7, 100] {
            let mut out = vec![0.0; rows * 5];
            threads
                .run(|| {
                    Team::All(3).rows(&mut out, 5, 2, |first, piece| {
                        for (i, row) in piece.chunks_mut(5).enumerate() {
                            row.iter_mut().for_each(|x| *x += (first + i + 1) as f32);
                        }
                    });
                })
                .unwrap();
            assert!(out.chunks(5).enumerate().all(|(i, row)| row == [(i + 1) as f32; 5]), "{rows} rows");
        }
    }
}
