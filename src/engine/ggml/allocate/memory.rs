//! A device's memory while moves are carried out.

use super::amount::Amount;
use super::blocks::{Address, Blocks, Buffers};
use super::moves::{self, Move, Name, Step};

/// Bytes that were taken.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken<A> {
    address: Address<A>,
    bytes: A,
}

/// Who has bytes.
type Holder<A> = (Name, Taken<A>);

/// What is free, and what will be given back.
pub struct Memory<A: Amount> {
    pub blocks: Blocks<A>,
    held: Vec<Holder<A>>,
    /// From where tensors are counted.
    base: u32,
}

/// How it went when moves were carried out.
#[derive(Debug)]
pub struct Once<A> {
    before: Buffers<A>,
    after: Buffers<A>,
    /// Who had bytes before, and who has some after it, those who have the same bytes by the same name apart.
    gone: Vec<Holder<A>>,
    come: Vec<Holder<A>>,
}

impl<A: Amount> Memory<A> {
    /// All is free.
    pub fn new(max_buffer: u64) -> Self {
        Self { blocks: Blocks::new(max_buffer), held: Vec::new(), base: 0 }
    }

    /// Tensors are counted from there from now on.
    pub fn count_from(&mut self, base: u32) {
        for (who, _) in &mut self.held {
            *who = who.renumbered(|number| number.counted_from(self.base, base));
        }
        self.base = base;
    }

    /// Carries `moves` out. `size` says how much so many times a tensor is; `taken` is told where everything is.
    pub fn go_on(&mut self, moves: &[Move], size: impl Fn(Name, u64) -> A, taken: impl FnMut(Address<A>)) {
        self.follow(moves, size, taken, |_| {});
    }

    /// The same, and notes how that goes.
    pub fn go_on_and_note(&mut self, moves: &[Move], size: impl Fn(Name, u64) -> A, once: &mut Once<A>) {
        let Once { before, after, gone, come } = once;
        gone.clear();
        come.clear();
        before.clone_from(self.blocks.buffers());
        let left = self.follow(moves, size, |_| {}, |holder| gone.push(holder));
        after.clone_from(self.blocks.buffers());
        come.extend_from_slice(&self.held[left..]);
    }

    /// Carries `moves` out; those of before who have bytes no longer, or by another name, are `gone`. Returns how many of
    /// them are left: they come first.
    fn follow(
        &mut self,
        moves: &[Move],
        size: impl Fn(Name, u64) -> A,
        mut taken: impl FnMut(Address<A>),
        mut gone: impl FnMut(Holder<A>),
    ) -> usize {
        let mut old = self.held.len();
        let mut remove = |held: &mut Vec<Holder<A>>, who| {
            let at = holder(held, who);
            if at >= old {
                return held.swap_remove(at).1;
            }
            gone(held[at]);
            old -= 1;
            held.swap(at, old);
            held.swap_remove(old).1
        };
        for step in moves::steps(moves) {
            match step {
                Step::Take { who, times, comes_back } => {
                    let bytes = size(who, times);
                    let address = self.blocks.allocate(bytes);
                    taken(address);
                    if comes_back {
                        self.held.push((who, Taken { address, bytes }));
                    }
                }
                Step::GiveBack(who) => {
                    let Taken { address, bytes } = remove(&mut self.held, who);
                    self.blocks.free(address, bytes);
                }
                Step::HandOver { from, to } => {
                    let taken = remove(&mut self.held, from);
                    self.held.push((to, taken));
                }
            }
        }
        old
    }

    /// Whether it is as it was once: the same is free, and those who gave bytes back then have the same.
    pub fn was(&self, once: &Once<A>) -> bool {
        let is_there = |one: &Holder<A>| self.held.iter().rev().any(|holder| holder == one);
        self.blocks.were(&once.before, &once.after) && once.gone.iter().all(is_there)
    }

    /// Does again what was done then.
    pub fn repeat(&mut self, once: &Once<A>) {
        self.blocks.become_like(&once.after);
        for (who, _) in &once.gone {
            self.held.swap_remove(holder(&self.held, *who));
        }
        self.held.extend_from_slice(&once.come);
    }
}

impl<A> Once<A> {
    /// Nothing.
    pub const fn new() -> Self {
        Self { before: Vec::new(), after: Vec::new(), gone: Vec::new(), come: Vec::new() }
    }
}

/// Where that one is among those who have bytes: mostly among the latest.
#[expect(clippy::expect_used, reason = "nobody gives back or hands over what nobody took")]
fn holder<A>(held: &[Holder<A>], who: Name) -> usize {
    held.iter().rposition(|(holder, _)| *holder == who).expect("it has bytes")
}
