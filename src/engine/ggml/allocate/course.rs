//! Who takes and gives bytes of a device, one after the other, and how much it must reserve for that.

use std::sync::Arc;

use super::amount::{Amount, Moving, Reach};
use super::blocks::{Address, Blocks};
use super::memory::{Memory, Once};
use super::moves::{self, Move, Name};
use crate::engine::ggml::backend::{Backend, kinds};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Id, Tensor};

/// The moves of every device: the same for all graphs that differ in sizes alone.
#[derive(Clone, Debug)]
pub struct Course {
    /// Tensors by their numbers.
    tensors: Arc<[Id]>,
    devices: Vec<Vec<Stretch>>,
}

/// Moves one after the other, of the devices that make any.
pub type Moves = Vec<(usize, Arc<[Move]>)>;

/// Some of a device, which other courses may have, too.
#[derive(Clone, Debug)]
struct Stretch {
    /// From where its tensors are counted.
    base: u32,
    moves: Arc<[Move]>,
}

/// How many stretches before one are looked at for the like of it: blocks alternate in threes or fours at most.
const WINDOW: usize = 4;

/// What a device reserves at one place of a track, and how that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Bytes here.
    pub here: u64,
    /// Bytes at another place, were everything to go on in the same way.
    there: u64,
    reach: Reach,
}

impl Trend {
    /// Whether it goes on in the same way as far as a place that is so far from here, where 1 is there.
    pub fn reaches(&self, part: f64) -> bool {
        self.reach.back <= part && part <= self.reach.ahead
    }

    /// Bytes at that place, were everything to go on in the same way.
    pub fn at(&self, part: f64) -> u64 {
        let rise = part * (self.there.cast_signed() as f64 - self.here as f64);
        (self.here as f64 + rise).max(0.0) as u64
    }
}

/// Bytes that each tensor of a graph takes on each device, before alignment.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    devices: Vec<Device>,
    /// Per kind of device and tensor.
    of_kinds: Vec<Vec<u64>>,
}

#[derive(Clone, Debug)]
struct Device {
    kind: usize,
    backend: Backend,
}

impl Sizes {
    /// Of all tensors in `graph`.
    pub fn of(graph: &Graph, backends: &[Backend]) -> Self {
        let (kinds, of) = kinds(backends);
        let of_kind = |kind: &&Backend| {
            let size = |tensor: &Tensor| kind.padded(tensor.bytes(), tensor.ty, tensor.ne[0]);
            graph.tensors.iter().map(size).collect()
        };
        let devices = of.into_iter().zip(backends).map(|(kind, backend)| Device { kind, backend: backend.clone() });
        Self { devices: devices.collect(), of_kinds: kinds.iter().map(of_kind).collect() }
    }

    /// Whether nobody has filled it in.
    pub const fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// By tensors, with the device itself.
    fn on(&self, device: usize) -> (&Backend, &[u64]) {
        let Device { kind, backend } = &self.devices[device];
        (backend, &self.of_kinds[*kind])
    }
}

impl Course {
    /// Of nothing yet on so many devices, for these tensors by their numbers.
    pub fn new(devices: usize, tensors: &Arc<[Id]>) -> Self {
        Self { tensors: Arc::clone(tensors), devices: vec![Vec::new(); devices] }
    }

    /// Goes on with these, whose tensors are counted from `base`.
    pub fn go_on(&mut self, base: u32, moves: &Moves) {
        for (device, moves) in moves {
            self.devices[*device].push(Stretch { base, moves: Arc::clone(moves) });
        }
    }

    /// How many devices there are.
    pub const fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Bytes that a device must reserve.
    pub fn reserve(&self, device: usize, sizes: &Sizes) -> u64 {
        let (backend, sizes) = sizes.on(device);
        self.carry_out(device, backend, |id, times| backend.align(times * sizes[id.index()])).reserved()
    }

    /// The same, and how it goes on towards where tensors are as large as `there` says.
    pub fn trend(&self, device: usize, sizes: &Sizes, there: &Sizes) -> Trend {
        let ((backend, here), (_, there)) = (sizes.on(device), there.on(device));
        let size = |id: Id, times: u64| Moving {
            here: backend.align(times * here[id.index()]),
            there: backend.align(times * there[id.index()]),
        };
        let blocks = self.carry_out(device, backend, size);
        let Moving { here, there } = blocks.reserved();
        Trend { here, there, reach: blocks.reach }
    }

    /// Bytes that a device must reserve, and where everything is that is taken there, in order.
    pub fn watch(&self, device: usize, sizes: &Sizes) -> (u64, Vec<Address<u64>>) {
        let (backend, sizes) = sizes.on(device);
        let mut memory = Memory::new(backend.max_buffer);
        let mut taken = Vec::new();
        for Stretch { base, moves } in &self.devices[device] {
            memory.count_from(*base);
            let size = |who, times| backend.align(times * sizes[self.tensor(who, *base).index()]);
            memory.go_on(moves, size, |address| taken.push(address));
        }
        (memory.blocks.reserved(), taken)
    }

    /// The blocks of a device as they end; `size` is that of so many times a tensor. Sections that are alike mostly find its
    /// memory as others did, and need not be gone through again.
    fn carry_out<A: Amount>(&self, device: usize, backend: &Backend, size: impl Fn(Id, u64) -> A) -> Blocks<A> {
        let stretches = &self.devices[device];
        let size = |stretch: &Stretch, who, times| size(self.tensor(who, stretch.base), times);
        let same = |one: &Stretch, other: &Stretch| Arc::ptr_eq(&one.moves, &other.moves);
        let same_sizes = |one: &Stretch, other: &Stretch| {
            moves::takes(&one.moves).all(|(who, times)| size(one, who, times) == size(other, who, times))
        };
        let mut memory = Memory::new(backend.max_buffer);
        // by the latest stretches
        let mut past: [(usize, Once<A>); WINDOW] = std::array::from_fn(|_| (usize::MAX, Once::new()));
        for (at, stretch) in stretches.iter().enumerate() {
            memory.count_from(stretch.base);
            let repeated = (at.saturating_sub(WINDOW)..at).rev().find(|&before| {
                let (noted, once) = &past[before % WINDOW];
                let other = &stretches[before];
                *noted == before && same(stretch, other) && memory.was(once) && same_sizes(stretch, other)
            });
            if let Some(before) = repeated {
                memory.repeat(&past[before % WINDOW].1);
                past.swap(before % WINDOW, at % WINDOW);
                past[at % WINDOW].0 = at;
                continue;
            }
            let size = |who, times| size(stretch, who, times);
            if stretches[at + 1..].iter().take(WINDOW).any(|later| same(stretch, later)) {
                let (noted, once) = &mut past[at % WINDOW];
                *noted = at;
                memory.go_on_and_note(&stretch.moves, size, once);
            } else {
                memory.go_on(&stretch.moves, size, |_| {});
            }
        }
        memory.blocks
    }

    /// The tensor by whose size `who` takes bytes.
    fn tensor(&self, who: Name, base: u32) -> Id {
        self.tensors[who.tensor().from(base)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ggml::number::Number;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// What each tensor of a stretch takes here and elsewhere, and how many takes later it is given back.
    type Life = (u64, u64, usize);

    /// Moves of a stretch whose tensors live so; of the first nobody lived before.
    fn moves(lives: &[Life], is_first: bool) -> Arc<[Move]> {
        let count = lives.len();
        let name = |at: usize| Name::new(Number::near((count + at) as u32, count as u32), false);
        let before = |at: usize| Name::new(Number::near(at as u32, count as u32), false);
        let mut moves = Vec::new();
        for now in 0..count {
            moves.push(Move::take(name(now), false, lives[now].2 > 2 * count));
            let gone = |ages: usize| (0..count).filter(move |&at| at + lives[at].2 == now + ages * count);
            moves.extend(gone(0).map(|at| Move::give_back(name(at))));
            moves.extend(gone(1).filter(|_| !is_first).map(|at| Move::give_back(before(at))));
        }
        moves.into()
    }

    proptest! {
        #[test]
        fn what_goes_as_it_went_before_need_not_be_gone_through(
            lives in vec((0..5_u64, 0..5_u64, 0..20_usize), 1..8),
            stretches in 2..9_usize,
            larger in 0..9_usize,
            max_buffer in prop::sample::select(vec![u64::MAX / 2, 1024]),
        ) {
            let count = lives.len();
            let tensors: Arc<[Id]> = (0..((stretches + 1) * count) as u32).map(Id).collect();
            let sizes = |of: fn(&Life) -> u64| {
                let size = |id: &Id| of(&lives[id.index() % count]) * if id.index() / count == larger { 256 } else { 128 };
                let backend = Backend { max_buffer, ..Backend::CUDA };
                Sizes { devices: vec![Device { kind: 0, backend }], of_kinds: vec![tensors.iter().map(size).collect()] }
            };
            let (here, there) = (sizes(|life| life.0), sizes(|life| life.1));
            let course = |next: &dyn Fn() -> Arc<[Move]>| {
                let mut course = Course::new(1, &tensors);
                for at in 0..stretches {
                    let moves = if at == 0 { moves(&lives, true) } else { next() };
                    course.go_on(((at + 1) * count) as u32, &vec![(0, moves)]);
                }
                course
            };
            let same = moves(&lives, false);
            let (alike, each) = (course(&|| Arc::clone(&same)), course(&|| moves(&lives, false)));
            prop_assert_eq!(alike.reserve(0, &here), each.reserve(0, &here));
            prop_assert_eq!(alike.trend(0, &here, &there), each.trend(0, &here, &there));
        }
    }
}
