//! Bytes of a device that are taken and given back, one after the other.

use super::amount::Amount;
use super::blocks::Address;
use super::memory::{Memory, Taken};
use super::name::Name;

/// Bytes, told apart by when they were taken rather than by who has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of somebody who had them before, and gives them back here or hands them over.
    Before(u32),
    /// The how many-th that are taken here.
    Here(u32),
}

impl Which {
    /// The how many-th of its sort.
    pub const fn at(self) -> usize {
        match self {
            Self::Before(at) | Self::Here(at) => at as usize,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    /// So many times a tensor's bytes.
    Take {
        who: Name,
        times: u32,
    },
    GiveBack(Which),
}

/// What is taken and given back, as it is noted.
#[derive(Debug, Default)]
pub struct Ledger {
    deeds: Vec<Deed>,
    before: Vec<Name>,
    /// Who has these, and those that are taken here; none for what was given back, or never will be.
    holders: [Vec<Option<Name>>; 2],
}

/// The same once and for all.
#[derive(Debug)]
pub struct Turnover {
    deeds: Vec<Deed>,
    /// In the order of their names.
    before: Vec<Name>,
    /// Who has which of all these bytes then. In the same order.
    after: Vec<(Name, Which)>,
}

impl Ledger {
    /// Nothing is noted.
    pub fn clear(&mut self) {
        self.deeds.clear();
        self.before.clear();
        self.holders.iter_mut().for_each(Vec::clear);
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.deeds.is_empty() && self.before.is_empty()
    }

    /// A tensor's bytes, or twice as many, for good or until they are given back.
    pub fn take(&mut self, who: Name, doubled: bool, comes_back: bool) -> Which {
        let [_, here] = &mut self.holders;
        self.deeds.push(Deed::Take { who, times: if doubled { 2 } else { 1 } });
        here.push(comes_back.then_some(who));
        Which::Here(here.len() as u32 - 1)
    }

    /// Those that somebody had before.
    pub fn had(&mut self, who: Name) -> Which {
        let [before, _] = &mut self.holders;
        self.before.push(who);
        before.push(Some(who));
        Which::Before(before.len() as u32 - 1)
    }

    /// They are given back.
    pub fn give_back(&mut self, which: Which) {
        self.deeds.push(Deed::GiveBack(which));
        *self.holder(which) = None;
    }

    /// They are another's from now on.
    pub fn hand_over(&mut self, which: Which, to: Name) {
        *self.holder(which) = Some(to);
    }

    fn holder(&mut self, which: Which) -> &mut Option<Name> {
        let [before, here] = &mut self.holders;
        match which {
            Which::Before(_) => &mut before[which.at()],
            Which::Here(_) => &mut here[which.at()],
        }
    }

    /// All of it, with other names.
    pub fn turnover(&self, renamed: impl Fn(Name) -> Name) -> Turnover {
        let mut in_order: Vec<(Name, u32)> = self.before.iter().map(|who| renamed(*who)).zip(0..).collect();
        in_order.sort_unstable();
        let mut places = vec![0; in_order.len()];
        for (place, (_, at)) in (0..).zip(&in_order) {
            places[*at as usize] = place;
        }
        let placed = |which: Which| match which {
            Which::Before(at) => Which::Before(places[at as usize]),
            Which::Here(_) => which,
        };
        let deed = |deed: &Deed| match *deed {
            Deed::Take { who, times } => Deed::Take { who: renamed(who), times },
            Deed::GiveBack(which) => Deed::GiveBack(placed(which)),
        };
        let [before, here] = &self.holders;
        let of_before = before.iter().zip((0..).map(Which::Before));
        let all = of_before.chain(here.iter().zip((0..).map(Which::Here)));
        let mut after: Vec<(Name, Which)> =
            all.filter_map(|(holder, which)| Some((renamed((*holder)?), placed(which)))).collect();
        after.sort_unstable_by_key(|(who, _)| *who);
        let before = in_order.into_iter().map(|(who, _)| who).collect();
        Turnover { deeds: self.deeds.iter().map(deed).collect(), before, after }
    }
}

impl Turnover {
    /// Who takes how many times its bytes.
    pub fn takes(&self) -> impl Iterator<Item = (Name, u64)> {
        self.deeds.iter().filter_map(|deed| match *deed {
            Deed::Take { who, times } => Some((who, times.into())),
            Deed::GiveBack(_) => None,
        })
    }

    /// Carries it out in `memory`, whose names are `renamed` first. `size` says how much so many times a tensor is; `taken`
    /// is told where everything is.
    pub fn carry_out<A: Amount>(
        &self,
        memory: &mut Memory<A>,
        renamed: impl Fn(Name) -> Name,
        size: impl Fn(Name, u64) -> A,
        mut taken: impl FnMut(Address<A>),
    ) {
        let Memory { blocks, held, before, here } = memory;
        before.clear();
        here.clear();
        held.retain_mut(|(who, taken)| {
            *who = renamed(*who);
            let changes_hands = self.before.get(before.len()) == Some(who);
            before.extend(changes_hands.then_some(*taken));
            !changes_hands
        });
        debug_assert_eq!(before.len(), self.before.len(), "nobody gives back what nobody took");
        let of = |before: &[Taken<A>], here: &[Taken<A>], which: Which| match which {
            Which::Before(_) => before[which.at()],
            Which::Here(_) => here[which.at()],
        };
        for deed in &self.deeds {
            match *deed {
                Deed::Take { who, times } => {
                    let bytes = size(who, times.into());
                    let address = blocks.allocate(bytes);
                    taken(address);
                    here.push(Taken { address, bytes });
                }
                Deed::GiveBack(which) => {
                    let Taken { address, bytes } = of(before, here, which);
                    blocks.free(address, bytes);
                }
            }
        }
        held.extend(self.after.iter().map(|&(who, which)| (who, of(before, here, which))));
        held.sort_unstable_by_key(|(who, _)| *who);
    }
}
