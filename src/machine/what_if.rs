//! The user's changes to a machine, kept separately from it: detection and live memory still update the machine
//! underneath, and every change can be undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Backend, Gpu, Link, MAX_GPUS, Machine, Origin, Os, Ram, file, rpc};
use crate::units::{Bandwidth, Bytes};

/// All changes; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// A machine used instead of the detected one.
    pub replacement: Option<NamedMachine>,
    /// Changes of main memory.
    pub ram: RamChange,
    /// By index into the base machine's GPUs.
    changes: BTreeMap<usize, GpuChange>,
    /// Additional GPUs, after those of the base machine.
    added: Vec<GpuChange>,
}

/// A saved machine or preset.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedMachine {
    /// The name that it was saved under.
    pub name: String,
    /// The machine.
    pub machine: Arc<Machine>,
}

/// Changes of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuChange {
    /// Not used.
    pub off: bool,
    /// Another card in its place.
    pub card: Option<Gpu>,
    /// Free memory, instead of what the driver reports.
    pub free: Option<Bytes>,
    /// Part of the free memory reserved for the desktop.
    pub desktop: Bytes,
    /// Part of the free memory reserved for another model.
    pub other: Bytes,
    /// How it is connected.
    pub link: Option<Link>,
}

/// Changes of main memory; `None` keeps a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RamChange {
    /// Total memory.
    pub total: Option<Bytes>,
    /// Free memory.
    pub free: Option<Bytes>,
    /// Free swap space.
    pub swap: Option<Bytes>,
    /// Bandwidth.
    pub bandwidth: Option<Bandwidth>,
}

/// A GPU of the machine or an added one, whether used or switched off.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSlot {
    /// The GPU with its changes.
    pub gpu: Gpu,
    /// Free memory before reserves.
    pub free: Bytes,
    /// Its changes.
    pub change: GpuChange,
    /// Its index in the base machine; none if it was added.
    pub found: Option<usize>,
}

impl GpuSlot {
    /// How it differs from the base machine, in one word; none if it does not.
    pub fn state(&self) -> Option<&'static str> {
        match (self.found, &self.change) {
            (_, GpuChange { off: true, .. }) => Some("off"),
            (None, _) if self.gpu.computer.is_some() => Some("joined"),
            (None, _) => Some("added"),
            (Some(_), change) if *change == GpuChange::default() => None,
            (Some(_), _) => Some("changed"),
        }
    }
}

impl GpuChange {
    fn over(&self, gpu: &Gpu) -> (Gpu, Bytes) {
        let mut gpu = self.card.as_ref().unwrap_or(gpu).clone();
        let free = self.free.map_or(gpu.free, |free| free.min(gpu.total));
        gpu.free = free - self.desktop - self.other;
        gpu.link = self.link.or(gpu.link);
        (gpu, free)
    }
}

impl RamChange {
    fn over(self, ram: Ram) -> Ram {
        let total = self.total.unwrap_or(ram.total);
        // memory in use stays the same unless free memory is set
        let free = self.free.unwrap_or(total - (ram.total - ram.free)).min(total);
        Ram { total, free, swap_free: self.swap.unwrap_or(ram.swap_free), bandwidth: self.bandwidth.or(ram.bandwidth) }
    }
}

impl WhatIf {
    /// Only another machine instead of the detected one, or no change at all.
    pub fn replacement(replacement: Option<NamedMachine>) -> Self {
        Self { replacement, ..Self::default() }
    }

    /// Whether there are no changes.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The base machine that the changes apply to: the replacement, or else `found`.
    pub fn base<'a>(&'a self, found: &'a Machine) -> &'a Machine {
        self.replacement.as_ref().map_or(found, |named| &named.machine)
    }

    /// Every GPU of the base machine and every added one, used or not, in order.
    pub fn slots(&self, found: &Machine) -> Vec<GpuSlot> {
        let none = GpuChange::default();
        let there = self.base(found).gpus.iter().enumerate();
        let there = there.map(|(at, gpu)| (Some(at), gpu, self.changes.get(&at).unwrap_or(&none)));
        let added = self.added.iter().filter_map(|change| Some((None, change.card.as_ref()?, change)));
        let slot = |(found, gpu, change): (Option<usize>, &Gpu, &GpuChange)| {
            let (gpu, free) = change.over(gpu);
            GpuSlot { gpu, free, change: change.clone(), found }
        };
        there.chain(added).map(slot).collect()
    }

    /// The machine with all changes; with any change it counts as described.
    pub fn over(&self, found: &Machine) -> Machine {
        if self.is_nothing() {
            return found.clone();
        }
        let base = self.base(found);
        let mut gpus: Vec<Gpu> =
            self.slots(found).into_iter().filter(|slot| !slot.change.off).map(|slot| slot.gpu).collect();
        gpus.sort_by_key(|gpu| gpu.computer.is_some());
        let os = system(base, &gpus);
        Machine {
            disk: base.disk,
            os,
            cpu: base.cpu,
            gpus,
            ram: self.ram.over(base.ram),
            origin: Origin::Described,
            drivers: base.drivers,
        }
    }

    /// The changes of the GPU at `slot`; none if there is no such slot.
    pub fn change(&mut self, slot: usize, found: &Machine) -> Option<&mut GpuChange> {
        let there = self.base(found).gpus.len();
        match slot.checked_sub(there) {
            None => Some(self.changes.entry(slot).or_default()),
            Some(added) => self.added.get_mut(added),
        }
    }

    /// Adds a GPU after the others and returns its slot.
    ///
    /// # Errors
    /// If the maximum number of GPUs is reached.
    pub fn add(&mut self, gpu: Gpu, found: &Machine) -> Result<usize, String> {
        let slots = self.base(found).gpus.len() + self.added.len();
        if slots >= MAX_GPUS {
            return Err(format!("There are {slots} GPUs already, which is the maximum."));
        }
        self.added.push(GpuChange { card: Some(gpu), ..GpuChange::default() });
        Ok(slots)
    }

    /// Adds the GPUs of `machine` over RPC, under the name `computer`.
    ///
    /// # Errors
    /// As [`rpc::rpc_gpus`], [`rpc::join`] and [`Self::add`].
    pub fn join(&mut self, computer: &str, machine: &Machine, found: &Machine) -> Result<(), String> {
        let joining = rpc::rpc_gpus(computer, machine)?;
        let mut all: Vec<Gpu> = self.slots(found).into_iter().map(|slot| slot.gpu).collect();
        rpc::join(&mut all, joining.clone())?;
        // all or none
        super::check_count(all.len())?;
        joining.into_iter().try_for_each(|gpu| self.add(gpu, found).map(drop))
    }

    /// Removes an added GPU; switches off one of the base machine.
    pub fn remove(&mut self, slot: usize, found: &Machine) {
        let there = self.base(found).gpus.len();
        match slot.checked_sub(there) {
            Some(added) if added < self.added.len() => drop(self.added.remove(added)),
            Some(_) => {}
            None => self.changes.entry(slot).or_default().off = true,
        }
    }

    /// Undoes the changes of the GPU at `slot`.
    pub fn restore(&mut self, slot: usize, found: &Machine) {
        let there = self.base(found).gpus.len();
        match slot.checked_sub(there).and_then(|added| self.added.get_mut(added)) {
            Some(change) => *change = GpuChange { card: change.card.take(), ..GpuChange::default() },
            None => drop(self.changes.remove(&slot)),
        }
    }

    /// Drops changes without effect, so that the machine counts as detected again.
    pub fn drop_no_ops(&mut self) {
        self.changes.retain(|_, change| *change != GpuChange::default());
    }
}

/// Metal implies macOS, and other GPUs exclude it; otherwise the base machine's system.
fn system(base: &Machine, gpus: &[Gpu]) -> Os {
    if gpus.iter().any(|gpu| gpu.backend == Backend::Metal) {
        Os::MacOs
    } else if base.os == Os::MacOs && !gpus.is_empty() {
        Os::Linux
    } else {
        base.os
    }
}

/// Numbers without a unit from here on are bytes.
const BARE_GIB: f64 = 1_048_576.0;

/// Parses a size of at most `max`. A bare number is GiB: nobody means so few bytes.
///
/// # Errors
/// One sentence on what is wrong with it.
pub fn size(what: &str, text: &str, max: Option<Bytes>) -> Result<Bytes, String> {
    let is_bare = text.trim().parse::<f64>().is_ok_and(|number| number < BARE_GIB);
    let text = if is_bare { &format!("{} GiB", text.trim()) } else { text };
    let bytes: Bytes = text.parse().map_err(|error| format!("{what}: {error}"))?;
    file::plausible(what, bytes)?;
    match max.filter(|max| bytes > *max) {
        Some(max) => Err(format!("{what}: {bytes} is more than the total of {max}")),
        None => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn gpu(name: &str, gib: u64, backend: Backend) -> Gpu {
        Gpu {
            name: name.to_owned(),
            backend,
            total: Bytes::gib(gib),
            free: Bytes::gib(gib - 1),
            integrated: false,
            compute: None,
            driver_major: None,
            computer: None,
            vulkan: None,
            listed: crate::machine::Listed::default(),
            dedicated: None,
            driver_memory: None,
            display: None,
            link: None,
        }
    }

    fn found() -> Machine {
        Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: vec![gpu("A", 24, Backend::Cuda), gpu("B", 12, Backend::Cuda)],
            ram: Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::gib(2), bandwidth: None },
            origin: Origin::Detected,
            drivers: crate::machine::Drivers::default(),
        }
    }

    fn names(machine: &Machine) -> Vec<&str> {
        machine.gpus.iter().map(|gpu| gpu.name.as_str()).collect()
    }

    #[test]
    fn a_machine_without_changes_counts_as_detected() {
        let mut what_if = WhatIf::default();
        assert_eq!(what_if.over(&found()), found());
        what_if.change(0, &found()).unwrap().off = true;
        assert_eq!(what_if.over(&found()).origin, Origin::Described);
        what_if.change(0, &found()).unwrap().off = false;
        what_if.drop_no_ops();
        assert_eq!(what_if.over(&found()).origin, Origin::Detected);
    }

    #[test]
    fn gpus_are_switched_off_changed_replaced_added_and_removed() {
        let found = found();
        let mut what_if = WhatIf::default();
        what_if.change(0, &found).unwrap().off = true;
        let second = what_if.change(1, &found).unwrap();
        (second.free, second.desktop, second.other) = (Some(Bytes::gib(10)), Bytes::gib(1), Bytes::gib(2));
        let added = what_if.add(gpu("C", 48, Backend::Rocm), &found).unwrap();
        let machine = what_if.over(&found);
        assert_eq!((names(&machine), machine.gpus[0].free), (vec!["B", "C"], Bytes::gib(7)));
        let slots = what_if.slots(&found);
        assert_eq!(slots.iter().map(GpuSlot::state).collect::<Vec<_>>(), [Some("off"), Some("changed"), Some("added")]);
        assert_eq!((slots[1].free, slots[1].found, slots[2].found), (Bytes::gib(10), Some(1), None));

        what_if.change(1, &found).unwrap().card = Some(gpu("M", 48, Backend::Metal));
        assert_eq!(what_if.over(&found).os, Os::MacOs);
        what_if.remove(added, &found);
        what_if.restore(0, &found);
        what_if.restore(1, &found);
        assert_eq!(what_if.over(&found), found);
        what_if.remove(9, &found);
        assert!(what_if.change(9, &found).is_none());
    }

    #[test]
    fn live_memory_of_the_base_machine_still_counts() {
        let mut what_if = WhatIf::default();
        what_if.change(1, &found()).unwrap().desktop = Bytes::gib(1);
        let mut moved = found();
        moved.gpus[1].free = Bytes::gib(3);
        moved.ram.free = Bytes::gib(9);
        let machine = what_if.over(&moved);
        assert_eq!((machine.gpus[1].free, machine.ram.free), (Bytes::gib(2), Bytes::gib(9)));
        // GPUs that are detected later come before added ones
        let mut early = WhatIf::default();
        early.add(gpu("C", 48, Backend::Cuda), &Machine { gpus: Vec::new(), ..found() }).unwrap();
        assert_eq!(names(&early.over(&found())), ["A", "B", "C"]);
    }

    #[test]
    fn memory_in_use_stays_when_the_total_changes() {
        let ram = RamChange { total: Some(Bytes::gib(128)), ..RamChange::default() };
        assert_eq!(WhatIf { ram, ..WhatIf::default() }.over(&found()).ram.free, Bytes::gib(124));
        let ram = RamChange { total: Some(Bytes::gib(2)), ..RamChange::default() };
        assert_eq!(WhatIf { ram, ..WhatIf::default() }.over(&found()).ram.free, Bytes::ZERO);
    }

    #[test]
    fn another_machine_replaces_the_detected_one() {
        let other = Machine { gpus: vec![gpu("X", 80, Backend::Cuda)], origin: Origin::Described, ..found() };
        let replacement = Some(NamedMachine { name: "dream".to_owned(), machine: Arc::new(other) });
        let mut what_if = WhatIf { replacement, ..WhatIf::default() };
        what_if.add(gpu("Y", 80, Backend::Cuda), &found()).unwrap();
        assert_eq!(names(&what_if.over(&found())), ["X", "Y"]);
    }

    #[test]
    fn computers_join_once_and_their_gpus_can_be_switched_off() {
        let mut what_if = WhatIf::default();
        what_if.join("garage", &found(), &found()).unwrap();
        assert!(what_if.join("garage", &found(), &found()).unwrap_err().contains("already joined"));
        what_if.change(2, &found()).unwrap().off = true;
        let machine = what_if.over(&found());
        let computers: Vec<_> = machine.gpus.iter().map(|gpu| gpu.computer.as_deref()).collect();
        assert_eq!((names(&machine), computers), (vec!["A", "B", "B"], vec![None, None, Some("garage")]));
        assert_eq!(what_if.slots(&found())[3].state(), Some("joined"));
    }

    #[test]
    fn the_number_of_gpus_is_limited() {
        let mut what_if = WhatIf::default();
        let full =
            (0..300).map(|_| what_if.add(gpu("C", 8, Backend::Cuda), &found())).take_while(Result::is_ok).count();
        assert_eq!(full, MAX_GPUS - 2);
    }

    #[rstest]
    #[case("-1GiB", "-1GiB")]
    #[case("lots", "lots")]
    #[case("4096TiB", "1 PiB")]
    #[case("25GiB", "more than the total")]
    fn absurd_sizes_are_refused(#[case] text: &str, #[case] part: &str) {
        let error = size("free", text, Some(Bytes::gib(24))).unwrap_err();
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }

    proptest! {
        #[test]
        fn free_memory_never_exceeds_the_total(
            free in prop::option::of(any::<u64>()), desktop in any::<u64>(), other in any::<u64>(),
            total in prop::option::of(any::<u64>()), stated in prop::option::of(any::<u64>()),
        ) {
            let mut what_if = WhatIf::default();
            let change = what_if.change(0, &found()).unwrap();
            (change.free, change.desktop, change.other) = (free.map(Bytes), Bytes(desktop), Bytes(other));
            what_if.ram = RamChange { total: total.map(Bytes), free: stated.map(Bytes), ..RamChange::default() };
            let machine = what_if.over(&found());
            prop_assert!(machine.gpus.iter().all(|gpu| gpu.free <= gpu.total));
            prop_assert!(machine.ram.free <= machine.ram.total);
        }
    }
}
