//! Tokenizing in parts, so that later parts are tokenized while a device computes earlier ones.

use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, Scope};

use crate::text::tokenizer::Tokens;
use crate::{Error, Result};

/// Bytes per part, about two batches: large enough to share among threads, small enough to start soon.
const BYTES: usize = 256 << 10;
/// Maximum number of tokenized parts waiting in the channel.
const AHEAD: usize = 2;

/// Whether to wait for a part that is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Wait,
    Look,
}

/// The tokens of all texts, in order.
pub(super) struct Parts<'a> {
    from: From<'a>,
    /// Parts not yet taken.
    left: usize,
}

enum From<'a> {
    /// Each part is tokenized when taken, as there are no free threads.
    Turn(Box<dyn Iterator<Item = Result<Vec<Tokens>>> + 'a>),
    /// A thread tokenizes ahead.
    Thread(Receiver<Result<Vec<Tokens>>>),
}

impl<'a> Parts<'a> {
    /// Tokenizes each part when it is taken.
    pub(super) fn in_turn(bytes: &[usize], tokenize: impl Fn(Range<usize>) -> Result<Vec<Tokens>> + 'a) -> Self {
        let parts = cut(bytes);
        Parts { left: parts.len(), from: From::Turn(Box::new(parts.into_iter().map(tokenize))) }
    }

    /// Tokenizes parts on a thread of the scope while the caller does other work.
    pub(super) fn ahead<'scope>(
        scope: &'scope Scope<'scope, '_>,
        bytes: &[usize],
        tokenize: impl Fn(Range<usize>) -> Result<Vec<Tokens>> + Clone + Send + 'scope + 'a,
    ) -> Self {
        let parts = cut(bytes);
        let left = parts.len();
        if left < 2 {
            return Parts::in_turn(bytes, tokenize);
        }
        let (send, receive) = sync_channel(AHEAD);
        let work = tokenize.clone();
        let thread = Builder::new().name("grilly-tokenizer".into()).spawn_scoped(scope, move || {
            for tokens in parts.into_iter().map(work) {
                let failed = tokens.is_err();
                // After a failed run there is no receiver.
                if send.send(tokens).is_err() || failed {
                    return;
                }
            }
        });
        match thread {
            Ok(_) => Parts { left, from: From::Thread(receive) },
            Err(_) => Parts::in_turn(bytes, tokenize),
        }
    }

    /// Number of parts not yet taken.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The next part; `None` if there is no further part, or none that is ready.
    pub(super) fn take(&mut self, patience: Patience) -> Option<Result<Vec<Tokens>>> {
        if self.left == 0 {
            return None;
        }
        let part = match &mut self.from {
            From::Turn(parts) => parts.next(),
            From::Thread(receive) if patience == Patience::Look => receive.try_recv().ok(),
            From::Thread(receive) => Some(
                receive
                    .recv()
                    .unwrap_or_else(|_| Err(Error::Unusable("the tokenizer's thread ended before its work".into()))),
            ),
        };
        self.left -= usize::from(part.is_some());
        part
    }
}

/// Splits texts of so many bytes into ranges of about [`BYTES`] each.
pub(super) fn cut(bytes: &[usize]) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut sum) = (Vec::new(), 0, 0);
    for (place, own) in bytes.iter().enumerate() {
        sum += own;
        if sum >= BYTES || place + 1 == bytes.len() {
            parts.push(start..place + 1);
            (start, sum) = (place + 1, 0);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(part: Range<usize>) -> Result<Vec<Tokens>> {
        if part.contains(&900) {
            return Err(Error::InvalidArgument("text 900".into()));
        }
        Ok(part.map(|text| Tokens { ids: vec![text as u32], type_ids: vec![0], expansion: 0 }).collect())
    }

    fn all(mut parts: Parts<'_>) -> (Vec<u32>, Option<String>) {
        let mut ids = Vec::new();
        while let Some(part) = parts.take(Patience::Wait) {
            match part {
                Ok(part) => ids.extend(part.into_iter().map(|text| text.ids[0])),
                Err(error) => return (ids, Some(error.to_string())),
            }
        }
        assert_eq!(parts.left(), 0);
        (ids, None)
    }

    #[test]
    fn every_text_comes_once_in_its_order() {
        let texts: Vec<usize> = (0..800).map(|i| i * 5).collect();
        let whole: Vec<u32> = (0..800).collect();
        assert!(cut(&texts).len() > 3 && cut(&[]).is_empty());
        assert_eq!(all(Parts::in_turn(&texts, tokens)), (whole.clone(), None));
        assert_eq!(std::thread::scope(|scope| all(Parts::ahead(scope, &texts, tokens))), (whole, None));
    }

    #[test]
    fn a_fault_ends_the_parts_and_a_taker_who_leaves_ends_the_thread() {
        let texts = [2000; 2000];
        let (before, fault) = std::thread::scope(|scope| all(Parts::ahead(scope, &texts, tokens)));
        assert_eq!(fault.as_deref(), Some("text 900"));
        assert!(before.len() <= 900 && before.iter().copied().eq(0..before.len() as u32), "{}", before.len());
        std::thread::scope(|scope| drop(Parts::ahead(scope, &texts, tokens)));
    }
}
