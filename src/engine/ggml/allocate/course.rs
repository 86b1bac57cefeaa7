//! Who takes and gives bytes of a device, one after the other, and how much it must reserve for that.

use std::sync::Arc;

use super::amount::{Amount, Moving, Reach};
use super::blocks::{Address, Blocks};
use crate::engine::ggml::backend::{Backend, kinds};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::number::Number;
use crate::engine::ggml::tensor::{Id, Tensor};

/// Who has bytes of a device: a tensor of the graph, or a copy of one there. Each takes some once at most; only the several
/// copies of a pipeline share a name, for they are never given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(u32);

/// Set where it is a copy.
const COPY: u32 = 1 << 29;

impl Name {
    /// Of the tensor itself, or of its copy.
    pub const fn new(tensor: Number, is_copy: bool) -> Self {
        Self(tensor.0 | if is_copy { COPY } else { 0 })
    }

    /// The tensor that is as large.
    const fn tensor(self) -> Number {
        Number(self.0 & !COPY)
    }

    /// The same by other numbers.
    fn renumbered(self, number: impl FnOnce(Number) -> Number) -> Self {
        Self(number(self.tensor()).0 | self.0 & COPY)
    }

    const fn is_copy(self) -> bool {
        self.0 & COPY != 0
    }
}

/// What is asked of a device's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move(u32);

/// Set where bytes are given back, else they are taken.
const GIVES_BACK: u32 = 1 << 31;
/// Set where the tensor takes its bytes twice.
const DOUBLED: u32 = 1 << 30;
/// Set where bytes become those of the next move's tensor.
const HANDS_OVER: u32 = GIVES_BACK | DOUBLED;

impl Move {
    /// Bytes for whoever has this name, or twice as many.
    pub fn take(name: Name, doubled: bool) -> Self {
        Self(name.0 | if doubled { DOUBLED } else { 0 })
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
        Name(self.0 & !HANDS_OVER)
    }

    /// The same by other numbers.
    #[must_use]
    pub fn renumbered(self, number: impl FnOnce(Number) -> Number) -> Self {
        Self(self.name().renumbered(number).0 | self.0 & HANDS_OVER)
    }

    const fn gives_back(self) -> bool {
        self.0 & HANDS_OVER == GIVES_BACK
    }

    const fn hands_over(self) -> bool {
        self.0 & HANDS_OVER == HANDS_OVER
    }

    /// How many times its bytes a tensor takes.
    const fn times(self) -> u64 {
        if self.0 & DOUBLED == 0 { 1 } else { 2 }
    }
}

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

/// Bytes that were taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken<A> {
    pub address: Address<A>,
    pub bytes: A,
}

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
        self.carry_out(device, sizes).0.reserved()
    }

    /// The same, and how it goes on towards where tensors are as large as `there` says.
    pub fn trend(&self, device: usize, sizes: &Sizes, there: &Sizes) -> Trend {
        let Device { kind, backend } = &sizes.devices[device];
        let (here, there) = (&sizes.of_kinds[*kind], &there.of_kinds[*kind]);
        let size = |id: usize, times: u64| Moving {
            here: backend.align(times * here[id]),
            there: backend.align(times * there[id]),
        };
        let (blocks, _) = self.carry_out_by(device, backend, size);
        let Moving { here, there } = blocks.reserved();
        Trend { here, there, reach: blocks.reach }
    }

    /// The blocks of a device as they end, and where everything is that is taken there, in order.
    pub fn carry_out(&self, device: usize, sizes: &Sizes) -> (Blocks<u64>, Vec<Taken<u64>>) {
        let Device { kind, backend } = &sizes.devices[device];
        let sizes = &sizes.of_kinds[*kind];
        self.carry_out_by(device, backend, |id, times| backend.align(times * sizes[id]))
    }

    /// `size` is that of so many times one of the graph's tensors.
    fn carry_out_by<A: Amount>(
        &self,
        device: usize,
        backend: &Backend,
        size: impl Fn(usize, u64) -> A,
    ) -> (Blocks<A>, Vec<Taken<A>>) {
        let stretches = &self.devices[device];
        let mut blocks = Blocks::new(backend.max_buffer);
        let all: usize = stretches.iter().map(|stretch| stretch.moves.len()).sum();
        let mut held = HeldBy::new(self.tensors.len());
        let mut taken: Vec<Taken<A>> = Vec::with_capacity(all / 2 + 1);
        let mut handed_over = None;
        for Stretch { base, moves } in stretches {
            for step in moves.iter() {
                let name = step.name();
                let who = (name.tensor().from(*base), name.is_copy());
                if let Some(take) = handed_over.take() {
                    held.put(who, take);
                } else if step.hands_over() {
                    handed_over = Some(held.remove(who));
                } else if step.gives_back() {
                    let Taken { address, bytes } = taken[held.remove(who) as usize];
                    blocks.free(address, bytes);
                } else {
                    let bytes = size(self.tensors[who.0].index(), step.times());
                    held.put(who, taken.len() as u32);
                    taken.push(Taken { address: blocks.allocate(bytes), bytes });
                }
            }
        }
        (blocks, taken)
    }
}

/// The how many-th take each tensor, or its copy, holds.
struct HeldBy {
    tensors: Vec<u32>,
    /// Few at any time.
    copies: Vec<(usize, u32)>,
}

/// A tensor, or its copy.
type Who = (usize, bool);

impl HeldBy {
    fn new(tensors: usize) -> Self {
        Self { tensors: vec![0; tensors], copies: Vec::new() }
    }

    fn put(&mut self, (tensor, is_copy): Who, take: u32) {
        if is_copy {
            self.copies.push((tensor, take));
        } else {
            self.tensors[tensor] = take;
        }
    }

    fn remove(&mut self, (tensor, is_copy): Who) -> u32 {
        let copy = || self.copies.iter().rposition(|(copied, _)| *copied == tensor);
        let copy = if is_copy { copy() } else { None };
        copy.map_or_else(|| self.tensors[tensor], |at| self.copies.swap_remove(at).1)
    }
}
