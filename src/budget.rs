//! What comes through a door may cost this much, and no more: a conversation with servers, a text that somebody else wrote.
//!
//! A [`Budget`] is made where something comes in and is handed down; whoever waits, asks, reads or puts something in takes
//! it from there. So a limit is one sum for the whole, wherever it is spent, and stands in one table: the constants of
//! [`Allowance`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is limited besides time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// Requests that are sent.
    Requests,
    /// Bytes that arrive.
    Bytes,
    /// Bytes that variables and macros of a text stand for.
    Expansion,
    /// Words of a text, each as often as it is read.
    Words,
}

/// What something that comes in may take in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// From its beginning to its end; not limited where it is no conversation.
    pub time: Option<Duration>,
    /// See [`Spend::Requests`].
    pub requests: u64,
    /// See [`Spend::Bytes`].
    pub bytes: u64,
    /// See [`Spend::Expansion`].
    pub expansion: u64,
    /// See [`Spend::Words`].
    pub words: u64,
}

impl Allowance {
    const NOTHING: Self = Self { time: None, requests: 0, bytes: 0, expansion: 0, words: 0 };

    /// A question that a program answers from memory, as those on this machine do.
    pub const QUESTION: Self =
        Self { time: Some(Duration::from_secs(5)), requests: 8, bytes: 8 << 20, ..Self::NOTHING };
    /// A list, a manifest, a description.
    pub const DOCUMENT: Self =
        Self { time: Some(Duration::from_mins(1)), requests: 64, bytes: 64 << 20, ..Self::NOTHING };
    /// All that opening a model asks for: its documents, and the headers of its files.
    pub const HEADER: Self =
        Self { time: Some(Duration::from_mins(10)), requests: 16 << 10, bytes: 1 << 30, ..Self::NOTHING };
    /// What is pasted at once, which is read before the next key.
    pub const PASTE: Self = Self { bytes: 1 << 20, ..Self::NOTHING };
    /// A command line, a script, a file that starts servers.
    pub const COMMAND: Self = Self { bytes: 256 << 10, expansion: 256 << 10, words: 32 << 10, ..Self::NOTHING };

    /// Whether `spent` is no more than is allowed.
    ///
    /// # Errors
    /// If it is.
    pub const fn within(&self, what: Spend, spent: u64) -> Result<(), Exceeded> {
        let (allowed, exceeded) = match what {
            Spend::Requests => (self.requests, Exceeded::Requests(self.requests)),
            Spend::Bytes => (self.bytes, Exceeded::Bytes(self.bytes)),
            Spend::Expansion => (self.expansion, Exceeded::Expansion(self.expansion)),
            Spend::Words => (self.words, Exceeded::Words(self.words)),
        };
        if spent <= allowed { Ok(()) } else { Err(exceeded) }
    }
}

/// What is left of an [`Allowance`]; its copies take from the same.
#[derive(Clone, Debug)]
pub struct Budget {
    allowed: Allowance,
    /// When it began, if its time is limited.
    since: Option<Instant>,
    spent: Arc<[AtomicU64; 4]>,
}

/// More was needed than a budget has; displayed as what follows "it ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Exceeded {
    #[error("takes longer than {} s in all", .0.as_secs_f32())]
    Time(Duration),
    #[error("needs more than {0} requests")]
    Requests(u64),
    #[error("is longer than {}", size(*.0))]
    Bytes(u64),
    #[error("stands for more than {} of text, once its variables and macros are put in", size(*.0))]
    Expansion(u64),
    #[error("has more than {0} words to read")]
    Words(u64),
}

fn size(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) }
}

impl Budget {
    /// All of it, from now on.
    pub fn new(allowed: Allowance) -> Self {
        Self { allowed, since: allowed.time.map(|_| Instant::now()), spent: Arc::default() }
    }

    /// The same with less time from now on, if `time` ends sooner.
    #[must_use]
    pub fn sooner(&self, time: Option<Duration>) -> Self {
        let left = self.allowed.time.zip(self.since).map(|(all, since)| all.saturating_sub(since.elapsed()));
        match (left, time) {
            (left, Some(time)) if left.is_none_or(|left| time < left) => Self {
                allowed: Allowance { time: Some(time), ..self.allowed },
                since: Some(Instant::now()),
                ..self.clone()
            },
            _ => self.clone(),
        }
    }

    /// Takes `count` of it. What was taken too much stays taken: [`Self::whole`] says so later, too.
    ///
    /// # Errors
    /// If less is left.
    pub fn take(&self, what: Spend, count: u64) -> Result<(), Exceeded> {
        let before = self.spent[what as usize].fetch_add(count, Ordering::Relaxed);
        self.allowed.within(what, before.saturating_add(count))
    }

    /// The time that is left; none if it is not limited.
    ///
    /// # Errors
    /// If none is left.
    pub fn time(&self) -> Result<Option<Duration>, Exceeded> {
        let Some((all, since)) = self.allowed.time.zip(self.since) else { return Ok(None) };
        let left = all.checked_sub(since.elapsed()).filter(|left| !left.is_zero());
        left.map(Some).ok_or(Exceeded::Time(all))
    }

    /// Whether no more was taken than it has.
    ///
    /// # Errors
    /// What there was too little of.
    pub fn whole(&self) -> Result<(), Exceeded> {
        let all = [Spend::Requests, Spend::Bytes, Spend::Expansion, Spend::Words];
        all.into_iter()
            .try_for_each(|what| self.allowed.within(what, self.spent[what as usize].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_from_one_sum() {
        let budget = Budget::new(Allowance::COMMAND);
        let copy = budget.clone().sooner(Some(Duration::from_secs(1)));
        assert_eq!(copy.take(Spend::Expansion, 200 << 10), Ok(()));
        assert_eq!(budget.take(Spend::Expansion, 56 << 10), Ok(()));
        assert_eq!(copy.whole(), Ok(()));
        assert_eq!(budget.take(Spend::Expansion, 1), Err(Exceeded::Expansion(256 << 10)));
        assert_eq!(copy.whole(), Err(Exceeded::Expansion(256 << 10)));
        assert_eq!(budget.take(Spend::Words, u64::MAX), Err(Exceeded::Words(32 << 10)));
    }

    #[test]
    fn time_only_gets_less() {
        let question = Budget::new(Allowance::QUESTION);
        let longer = question.sooner(Allowance::HEADER.time);
        assert!(longer.time().unwrap().unwrap() <= Duration::from_secs(5));
        let none = question.sooner(Some(Duration::ZERO));
        assert_eq!(none.time(), Err(Exceeded::Time(Duration::ZERO)));
        assert_eq!(Budget::new(Allowance::COMMAND).time(), Ok(None));
    }
}
