//! Who takes and gives bytes of a device, one after the other, and how much it must reserve for that.

use std::sync::Arc;

use super::amount::{Moving, Reach};
use super::blocks::Address;
use super::memory::Memory;
use super::name::Name;
use super::past::Past;
use super::turnover::Turnover;
use crate::engine::ggml::backend::{Backend, kinds};
use crate::engine::ggml::graph::Graph;
use crate::engine::ggml::tensor::{Id, Tensor};

/// What every device gives and takes back: the same for all graphs that differ in sizes alone.
#[derive(Clone, Debug)]
pub struct Course {
    /// Tensors by their numbers.
    tensors: Arc<[Id]>,
    devices: Vec<Vec<Stretch>>,
}

/// What is taken and given back one after the other, of the devices that have to do with it.
pub type Turnovers = Vec<(usize, Arc<Turnover>)>;

/// Some of a device, which other courses may have, too.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// From where its tensors are counted.
    pub base: u32,
    pub turnover: Arc<Turnover>,
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
#[derive(Clone, Debug)]
pub struct Sizes {
    /// The kinds of the devices, each once.
    pub kinds: Vec<Backend>,
    /// Which of them each device is of.
    pub of_devices: Vec<usize>,
    /// Per kind and tensor.
    of_kinds: Vec<Vec<u64>>,
}

impl Sizes {
    /// Of all tensors in `graph`.
    pub fn of(graph: &Graph, backends: &[Backend]) -> Self {
        let (kinds, of_devices) = kinds(backends);
        let bytes: Vec<u64> = graph.tensors.iter().map(Tensor::bytes).collect();
        let of_kind = |kind: &&Backend| {
            let all = graph.tensors.iter().zip(&bytes);
            all.map(|(tensor, bytes)| kind.padded(*bytes, tensor.ty, tensor.ne[0])).collect()
        };
        let of_kinds = kinds.iter().map(of_kind).collect();
        Self { kinds: kinds.into_iter().cloned().collect(), of_devices, of_kinds }
    }

    /// By tensors, with the device itself.
    fn on(&self, device: usize) -> (&Backend, &[u64]) {
        let kind = self.of_devices[device];
        (&self.kinds[kind], &self.of_kinds[kind])
    }
}

impl Course {
    /// Of nothing yet on so many devices, for these tensors by their numbers.
    pub fn new(devices: usize, tensors: &Arc<[Id]>) -> Self {
        Self { tensors: Arc::clone(tensors), devices: vec![Vec::new(); devices] }
    }

    /// Goes on with these, whose tensors are counted from `base`.
    pub fn go_on(&mut self, base: u32, turnovers: &Turnovers) {
        for (device, turnover) in turnovers {
            self.devices[*device].push(Stretch { base, turnover: Arc::clone(turnover) });
        }
    }

    /// How many devices there are.
    pub const fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Bytes that a device must reserve, by the `past` of its kind under these sizes.
    pub fn reserve(&self, device: usize, sizes: &Sizes, past: &mut Past<u64>) -> u64 {
        let (backend, sizes) = sizes.on(device);
        let size = |base, who, times| backend.align(times * sizes[self.tensor(who, base).index()]);
        past.carry_out(&self.devices[device], size).0
    }

    /// The same, and how it goes on towards where tensors are as large as `there` says.
    pub fn trend(&self, device: usize, sizes: &Sizes, there: &Sizes, past: &mut Past<Moving>) -> Trend {
        let ((backend, here), (_, there)) = (sizes.on(device), there.on(device));
        let size = |base, who, times| {
            let at = self.tensor(who, base).index();
            Moving { here: backend.align(times * here[at]), there: backend.align(times * there[at]) }
        };
        let (Moving { here, there }, reach) = past.carry_out(&self.devices[device], size);
        Trend { here, there, reach }
    }

    /// Bytes that a device must reserve, and where everything is that is taken there, in order.
    pub fn watch(&self, device: usize, sizes: &Sizes) -> (u64, Vec<Address<u64>>) {
        let (backend, sizes) = sizes.on(device);
        let (mut memory, mut before) = (Memory::new(backend.max_buffer), 0);
        let mut taken = Vec::new();
        for &Stretch { base, ref turnover } in &self.devices[device] {
            let renamed = |who: Name| who.counted_from(before, base);
            let size = |who, times| backend.align(times * sizes[self.tensor(who, base).index()]);
            turnover.carry_out(&mut memory, renamed, size, |address| taken.push(address));
            before = base;
        }
        (memory.blocks.reserved(), taken)
    }

    /// The tensor by whose size `who` takes bytes.
    fn tensor(&self, who: Name, base: u32) -> Id {
        self.tensors[who.tensor().from(base)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ggml::allocate::Ledger;
    use crate::engine::ggml::number::Number;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// What each tensor of a stretch takes here and elsewhere, and how many takes later it is given back.
    type Life = (u64, u64, usize);

    /// That of a stretch whose tensors live so; of the first nobody lived before.
    fn turnover(lives: &[Life], is_first: bool) -> Arc<Turnover> {
        let count = lives.len();
        let name = |at: usize| Name::new(Number::near((count + at) as u32, count as u32), false);
        let before = |at: usize| Name::new(Number::near(at as u32, count as u32), false);
        let mut ledger = Ledger::default();
        let mut taken = Vec::new();
        for now in 0..count {
            taken.push(ledger.take(name(now), false, lives[now].2 <= 2 * count));
            let gone = |ages: usize| (0..count).filter(move |&at| at + lives[at].2 == now + ages * count);
            gone(0).for_each(|at| ledger.give_back(taken[at]));
            for at in gone(1).filter(|_| !is_first) {
                let which = ledger.had(before(at));
                ledger.give_back(which);
            }
        }
        Arc::new(ledger.turnover(|name| name))
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
                Sizes { kinds: vec![backend], of_devices: vec![0], of_kinds: vec![tensors.iter().map(size).collect()] }
            };
            let (here, there) = (sizes(|life| life.0), sizes(|life| life.1));
            let course = |next: &dyn Fn() -> Arc<Turnover>| {
                let mut course = Course::new(1, &tensors);
                for at in 0..stretches {
                    let turnover = if at == 0 { turnover(&lives, true) } else { next() };
                    course.go_on(((at + 1) * count) as u32, &vec![(0, turnover)]);
                }
                course
            };
            let same = turnover(&lives, false);
            let (alike, each) = (course(&|| Arc::clone(&same)), course(&|| turnover(&lives, false)));
            let mut past = Past::new(max_buffer);
            let mut reserve = |course: &Course| {
                let alone = course.reserve(0, &here, &mut Past::new(max_buffer));
                [alone, course.reserve(0, &here, &mut past), course.watch(0, &here).0]
            };
            let reserved = reserve(&alike);
            prop_assert_eq!(reserved, [reserved[0]; 3]);
            prop_assert_eq!(reserve(&each), reserved);
            let mut past = Past::new(max_buffer);
            let mut trend = |course: &Course| {
                let alone = course.trend(0, &here, &there, &mut Past::new(max_buffer));
                [alone, course.trend(0, &here, &there, &mut past)]
            };
            let trends = trend(&alike);
            prop_assert_eq!(trends, [trends[0]; 2]);
            prop_assert_eq!(trend(&each), trends);
        }
    }
}
