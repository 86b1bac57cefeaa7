//! What is asked of a device's memory, one after the other.

use crate::engine::ggml::number::Number;

/// Who has bytes of a device: a tensor of the graph, or a copy of one there. The several copies of a pipeline share a name,
/// for they are never given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(u32);

/// Set where it is a copy.
const COPY: u32 = 1 << 28;

impl Name {
    /// Of the tensor itself, or of its copy.
    pub const fn new(tensor: Number, is_copy: bool) -> Self {
        Self(tensor.0 | if is_copy { COPY } else { 0 })
    }

    /// The tensor that is as large.
    pub const fn tensor(self) -> Number {
        Number(self.0 & !COPY)
    }

    /// The same by other numbers.
    #[must_use]
    pub fn renumbered(self, number: impl FnOnce(Number) -> Number) -> Self {
        Self(number(self.tensor()).0 | self.0 & COPY)
    }
}

/// What is asked of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move(u32);

/// What moves say.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// So many times a tensor's bytes are taken; whether they will ever be given back.
    Take { who: Name, times: u64, comes_back: bool },
    /// They are given back.
    GiveBack(Name),
    /// They become another's.
    HandOver { from: Name, to: Name },
}

/// Set where bytes are given back, else they are taken.
const GIVES_BACK: u32 = 1 << 31;
/// Set where the tensor takes its bytes twice.
const DOUBLED: u32 = 1 << 30;
/// Set where bytes become those of the next move's tensor.
const HANDS_OVER: u32 = GIVES_BACK | DOUBLED;
/// Set where bytes are taken for good.
const KEPT: u32 = 1 << 29;

impl Move {
    /// Bytes for whoever has this name, or twice as many, for good or until they are given back.
    pub fn take(name: Name, doubled: bool, kept: bool) -> Self {
        Self(name.0 | if doubled { DOUBLED } else { 0 } | if kept { KEPT } else { 0 })
    }

    /// What was taken by this name goes back.
    pub const fn give_back(name: Name) -> Self {
        Self(name.0 | GIVES_BACK)
    }

    /// What was taken by one name is another's from now on: two moves that belong together.
    pub const fn hand_over([from, to]: [Name; 2]) -> [Self; 2] {
        [Self(from.0 | HANDS_OVER), Self(to.0)]
    }

    const fn name(self) -> Name {
        Name(self.0 & !(HANDS_OVER | KEPT))
    }

    /// The same by other numbers.
    #[must_use]
    pub fn renumbered(self, number: impl FnOnce(Number) -> Number) -> Self {
        Self(self.name().renumbered(number).0 | self.0 & (HANDS_OVER | KEPT))
    }
}

/// What `moves` say, one after the other.
pub fn steps(moves: &[Move]) -> impl Iterator<Item = Step> + '_ {
    let mut moves = moves.iter();
    std::iter::from_fn(move || {
        let step = moves.next()?;
        let who = step.name();
        Some(match step.0 & HANDS_OVER {
            HANDS_OVER => Step::HandOver { from: who, to: moves.next()?.name() },
            GIVES_BACK => Step::GiveBack(who),
            doubled => Step::Take { who, times: if doubled == 0 { 1 } else { 2 }, comes_back: step.0 & KEPT == 0 },
        })
    })
}

/// Who takes how many times its bytes.
pub fn takes(moves: &[Move]) -> impl Iterator<Item = (Name, u64)> + '_ {
    steps(moves).filter_map(|step| if let Step::Take { who, times, .. } = step { Some((who, times)) } else { None })
}
