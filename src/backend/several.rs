//! Several devices of one kind that share a program's batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use super::{BatchLimits, Executable, Feed, Pending};
use crate::{Error, Result};

/// A device among several; its programs share this.
pub struct Member {
    /// The device's name, for the log.
    pub name: String,
    /// It failed and gets no more batches.
    pub lost: AtomicBool,
}

impl Member {
    /// A device that works.
    pub fn new(name: String) -> Arc<Self> {
        Arc::new(Member { name, lost: AtomicBool::new(false) })
    }

    /// Takes note of an error: after a fault of the device others get its batches.
    pub fn note(&self, error: &Error) {
        if error.is_device_fault() && !self.lost.swap(true, SeqCst) {
            log::warn!(target: "grilly", "{} failed: {error}", self.name);
        }
    }

    fn works(&self) -> bool {
        !self.lost.load(SeqCst)
    }
}

/// A program on each of several devices: a batch goes to the one with the fewest in flight.
pub struct Several(Vec<One>);

struct One {
    member: Arc<Member>,
    program: Arc<dyn Executable>,
    under_way: Arc<AtomicUsize>,
}

impl Several {
    /// The same program on each device; not empty.
    pub fn new(programs: impl IntoIterator<Item = (Arc<Member>, Arc<dyn Executable>)>) -> Self {
        let one = |(member, program)| One { member, program, under_way: Arc::default() };
        Several(programs.into_iter().map(one).collect())
    }

    fn working(&self) -> impl Iterator<Item = &One> {
        self.0.iter().filter(|one| one.member.works())
    }
}

impl Executable for Several {
    fn limits(&self) -> BatchLimits {
        let all = self.working().map(|one| one.program.limits());
        let both = |a: BatchLimits, b: BatchLimits| BatchLimits {
            tokens: a.tokens.min(b.tokens),
            longest_text: a.longest_text.min(b.longest_text),
            in_flight: a.in_flight + b.in_flight,
        };
        all.reduce(both).unwrap_or_else(|| self.0[0].program.limits())
    }

    fn submit(&self, feed: &Feed<'_>) -> Result<Pending> {
        let one = self.working().min_by_key(|one| one.under_way.load(SeqCst)).unwrap_or(&self.0[0]);
        let member = one.member.clone();
        let counted = Counted::new(&one.under_way);
        let pending = one.program.submit(feed).inspect_err(|error| member.note(error))?;
        Ok(Pending::new(move |reader| {
            let _until_read = counted;
            pending.read(reader).inspect_err(|error| member.note(error))
        }))
    }

    fn goes_on(&self) -> bool {
        self.working().next().is_some()
    }
}

/// A batch in flight, until dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ops::Counts;

    /// Notes the batches that it starts, and fails those that it is told to.
    struct Noted {
        started: Arc<Mutex<Vec<usize>>>,
        fails: bool,
        in_flight: usize,
    }

    impl Executable for Noted {
        fn limits(&self) -> BatchLimits {
            BatchLimits { tokens: 100 * self.in_flight, longest_text: 50, in_flight: self.in_flight }
        }

        fn submit(&self, feed: &Feed<'_>) -> Result<Pending> {
            self.started.lock().unwrap().push(feed.counts.texts);
            let fails = self.fails;
            Ok(Pending::new(move |reader| match fails {
                true => Err(Error::DeviceLost { device: "a".into(), during: "wait".into() }),
                false => reader(0, &[1.0]),
            }))
        }
    }

    /// Two devices, of which the first may fail, with three batches in flight at once, then two.
    fn two(fails: bool) -> (Several, [Arc<Mutex<Vec<usize>>>; 2]) {
        let started = <[Arc<Mutex<Vec<usize>>>; 2]>::default();
        let programs = [(fails, 3), (false, 2)].into_iter().zip(&started);
        let programs = programs.map(|((fails, in_flight), started)| {
            let program: Arc<dyn Executable> = Arc::new(Noted { started: started.clone(), fails, in_flight });
            (Member::new("a".into()), program)
        });
        (Several::new(programs), started)
    }

    fn feed(texts: usize) -> Feed<'static> {
        Feed { counts: Counts::new(texts, texts), inputs: Vec::new(), outputs: vec![0] }
    }

    #[test]
    fn a_batch_goes_to_the_device_with_the_fewest_in_flight() {
        let (several, started) = two(false);
        let limits = several.limits();
        assert_eq!((limits.tokens, limits.longest_text, limits.in_flight), (200, 50, 5));
        let mut pending: Vec<Pending> = (1..=4).map(|texts| several.submit(&feed(texts)).unwrap()).collect();
        // The second device's batches end, one of them unread.
        assert_eq!(pending.remove(1).wait().unwrap(), [[1.0]]);
        drop(pending.remove(2));
        let _more: Vec<Pending> = (5..=6).map(|texts| several.submit(&feed(texts)).unwrap()).collect();
        assert_eq!(started.map(|started| started.lock().unwrap().clone()), [vec![1, 3], vec![2, 4, 5, 6]]);
    }

    #[test]
    fn a_device_that_fails_gets_no_more_batches() {
        let (several, started) = two(true);
        assert!(several.submit(&feed(1)).unwrap().wait().unwrap_err().is_device_fault() && several.goes_on());
        assert_eq!(several.limits().in_flight, 2);
        let results = (2..=4).map(|texts| several.submit(&feed(texts)).unwrap().wait());
        assert!(results.into_iter().all(|result| result.is_ok()));
        assert_eq!(started.map(|started| started.lock().unwrap().clone()), [vec![1], vec![2, 3, 4]]);
    }
}
