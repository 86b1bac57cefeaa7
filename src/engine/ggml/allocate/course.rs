//! Who takes and gives bytes of a device, one after the other, and how much it must reserve for that.

use super::amount::{Amount, Moving, Reach};
use super::blocks::{Address, Blocks};
use crate::engine::ggml::backend::{Backend, kinds};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Id, Tensor};

/// What is asked of a device's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move(u32);

/// Set where bytes are given back: the rest is which of the device's takes that was. Else the rest is the tensor that takes
/// them.
const GIVES_BACK: u32 = 1 << 31;
/// Set where the tensor takes its bytes twice.
const DOUBLED: u32 = 1 << 30;

impl Move {
    /// Bytes for a tensor as large as `original`, or for two.
    pub fn take(original: Id, doubled: bool) -> Self {
        Self(original.0 | if doubled { DOUBLED } else { 0 })
    }

    /// What was taken as the device's `take`-th goes back.
    pub const fn give_back(take: u32) -> Self {
        Self(take | GIVES_BACK)
    }
}

/// The moves of every device: the same for all graphs that differ in sizes alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    devices: Vec<Vec<Move>>,
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
    /// Of moves per device.
    pub fn new(moves: &[Vec<Move>]) -> Self {
        Self { devices: moves.to_vec() }
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
        let (blocks, _) = carry_out(&self.devices[device], backend, size);
        let Moving { here, there } = blocks.reserved();
        Trend { here, there, reach: blocks.reach }
    }

    /// The blocks of a device as they end, and where everything is that is taken there, in order.
    pub fn carry_out(&self, device: usize, sizes: &Sizes) -> (Blocks<u64>, Vec<Taken<u64>>) {
        let Device { kind, backend } = &sizes.devices[device];
        carry_out(&self.devices[device], backend, |id, times| backend.align(times * sizes.of_kinds[*kind][id]))
    }
}

/// `size` is that of so many times a tensor.
fn carry_out<A: Amount>(
    moves: &[Move],
    backend: &Backend,
    size: impl Fn(usize, u64) -> A,
) -> (Blocks<A>, Vec<Taken<A>>) {
    let mut blocks = Blocks::new(backend.max_buffer);
    let mut taken: Vec<Taken<A>> = Vec::with_capacity(moves.len() / 2 + 1);
    for &Move(of) in moves {
        if of & GIVES_BACK != 0 {
            let Taken { address, bytes } = taken[(of & !GIVES_BACK) as usize];
            blocks.free(address, bytes);
        } else {
            let times = if of & DOUBLED == 0 { 1 } else { 2 };
            let bytes = size((of & !DOUBLED) as usize, times);
            taken.push(Taken { address: blocks.allocate(bytes), bytes });
        }
    }
    (blocks, taken)
}
