//! What taking and giving back has come to, at one place of a track: blocks that are alike find a device's memory as others
//! did, in the same course and under other placements, and leave it as those did.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::HashMap;

use super::amount::Amount;
use super::course::Stretch;
use super::memory::Memory;
use super::name::Name;
use super::turnover::Turnover;

/// Of devices of one kind.
#[derive(Debug)]
pub struct Past<A: Amount> {
    standings: Standings,
    went: Vec<Went<A>>,
    /// The latest of each step.
    latest: HashMap<Step, usize>,
    /// Those of whom something is known: nobody else comes to have their address.
    kept: Vec<Arc<Turnover>>,
    memory: Memory<A>,
    /// How that stands.
    now: usize,
}

/// Every way in which memory stood, each once, in words one after the other.
#[derive(Debug, Default)]
struct Standings {
    words: Vec<u64>,
    /// Where the words of each begin.
    starts: Vec<usize>,
    numbers: HashMap<u64, usize>,
}

/// A turnover, by its address; how memory stands before it; and how much further on tensors are counted from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Step {
    turnover: usize,
    standing: usize,
    shift: u32,
}

/// What it came to.
#[derive(Clone, Copy, Debug)]
struct Went<A: Amount> {
    /// From where their tensors are counted.
    base: u32,
    /// How memory stands then.
    standing: usize,
    /// How far along a track it goes the same way.
    reach: A::Reach,
    /// The one before it of the same step.
    before: Option<usize>,
}

impl<A: Amount> Past<A> {
    /// Of nothing, for devices whose buffers may be so large.
    pub fn new(max_buffer: u64) -> Self {
        let (went, latest, kept) = Default::default();
        let memory = Memory::new(max_buffer);
        let mut standings = Standings::default();
        let now = standings.number(&memory);
        Self { standings, went, latest, kept, memory, now }
    }

    /// What a device must reserve for all of these, and how far along a track that goes the same way. `size` is that of so
    /// many times a tensor, counted from a base.
    pub fn carry_out(&mut self, stretches: &[Stretch], size: impl Fn(u32, Name, u64) -> A) -> (A, A::Reach) {
        let (mut standing, mut base, mut reach) = (0, 0, A::EVERYWHERE);
        for stretch in stretches {
            let went = self.go_on(standing, base, stretch, &size);
            (standing, base, reach) = (went.standing, went.base, A::both(reach, went.reach));
        }
        self.stand(standing);
        (self.memory.blocks.reserved(), reach)
    }

    /// Lets memory stand so.
    fn stand(&mut self, standing: usize) {
        if self.now != standing {
            self.memory.read(self.standings.words_of(standing));
            self.now = standing;
        }
    }

    /// What a stretch comes to behind one whose tensors are counted from `before`.
    fn go_on(
        &mut self,
        standing: usize,
        before: u32,
        stretch: &Stretch,
        size: &impl Fn(u32, Name, u64) -> A,
    ) -> Went<A> {
        let &Stretch { base, ref turnover } = stretch;
        let step = Step { turnover: Arc::as_ptr(turnover).addr(), standing, shift: base.wrapping_sub(before) };
        let latest = self.latest.get(&step).copied();
        let known = || std::iter::successors(latest.map(|at| self.went[at]), |went| Some(self.went[went.before?]));
        if let Some(went) = known().find(|went| went.base == base) {
            return went;
        }
        let same_sizes =
            |other: u32| turnover.takes().all(|(who, times)| size(base, who, times) == size(other, who, times));
        let alike = known().find(|went| same_sizes(went.base));
        if latest.is_none() {
            self.kept.push(Arc::clone(turnover));
        }
        let (standing, reach) = alike.map_or_else(
            || {
                let renamed = |who: Name| who.counted_from(before, base);
                self.find_out(standing, turnover, renamed, |who, times| size(base, who, times))
            },
            |went| (went.standing, went.reach),
        );
        let went = Went { base, standing, reach, before: latest };
        self.latest.insert(step, self.went.len());
        self.went.push(went);
        went
    }

    /// How memory stands after a turnover, and how far along a track it goes the same way, where nobody knows.
    fn find_out(
        &mut self,
        standing: usize,
        turnover: &Turnover,
        renamed: impl Fn(Name) -> Name,
        size: impl Fn(Name, u64) -> A,
    ) -> (usize, A::Reach) {
        self.stand(standing);
        let memory = &mut self.memory;
        memory.blocks.reach = A::EVERYWHERE;
        turnover.carry_out(memory, renamed, size, |_| {});
        self.now = self.standings.number(memory);
        (self.now, memory.blocks.reach)
    }
}

impl Standings {
    fn words_of(&self, standing: usize) -> &[u64] {
        let end = self.starts.get(standing + 1).copied().unwrap_or(self.words.len());
        &self.words[self.starts[standing]..end]
    }

    /// Which of all ways to stand this is.
    fn number<A: Amount>(&mut self, memory: &Memory<A>) -> usize {
        let (next, start) = (self.starts.len(), self.words.len());
        memory.write(&mut self.words);
        self.starts.push(start);
        let mut hash = self.numbers.hasher().hash_one(&self.words[start..]);
        loop {
            let number = *self.numbers.entry(hash).or_insert(next);
            if number == next {
                return next;
            }
            if self.words_of(number) == &self.words[start..] {
                self.words.truncate(start);
                self.starts.pop();
                return number;
            }
            hash = hash.wrapping_add(1);
        }
    }
}
