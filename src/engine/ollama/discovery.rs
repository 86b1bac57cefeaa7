//! The GPUs that Ollama counts: it asks llama-server for its devices, one backend's folder after the other, and drops
//! some. Source: `discover/runner.go` and `discover/gpu.go`, Ollama, August 2026.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::release::ReleaseTraits;
use crate::machine::{Backend, Gpu, Machine, Os};
use crate::settings::Settings;
use crate::settings::ollama::ServerVariables;
use crate::settings::seen;
use crate::units::Bytes;

/// The one folder with ROCm's backend.
pub(super) const ROCM: &str = "rocm_v7_2";
/// The folder with Vulkan's backend.
pub(super) const VULKAN: &str = "vulkan";

/// Compute capabilities of the build for CUDA 12, which runs on Maxwell and later.
const V12: [(u32, u32); 12] =
    [(5, 0), (5, 2), (6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

/// A GPU that counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CountedGpu {
    /// Its index in the machine.
    pub index: usize,
    /// As Ollama sees it: by this backend, with sizes in whole MiB.
    pub gpu: Gpu,
    /// The folder of the backend that listed it; none on macOS.
    pub folder: Option<&'static str>,
    /// Its number in the variable that makes it visible.
    pub number: usize,
}

/// What Ollama finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Discovery {
    /// The GPUs that count, in its order.
    pub counted: Vec<CountedGpu>,
    /// All devices that its Vulkan backend lists, as indices in the machine.
    pub vulkan: Vec<usize>,
    /// Why GPUs do not count, one sentence each.
    pub notes: Vec<String>,
}

/// The GPUs of `machine` that count.
pub(super) fn discover(machine: &Machine, settings: &Settings, traits: &ReleaseTraits) -> Discovery {
    let listing = Listing { machine, server: &settings.ollama.server, traits };
    let vulkan_all = listing.of(|gpu| gpu.backend == Backend::Vulkan || gpu.listed.also_vulkan);
    let vulkan = listing.visible(vulkan_all.clone(), "GGML_VK_VISIBLE_DEVICES");
    let mut found = listing.cuda();
    found.extend(listing.rocm());
    let others = listing.of(|gpu| matches!(gpu.backend, Backend::Metal | Backend::Sycl | Backend::Plain));
    found.extend(others.into_iter().map(|index| (index, machine_backend(machine, index), None, index)));
    if !listing.server.no_vulkan && listing.wants(VULKAN) {
        let seen: Vec<usize> = found.iter().map(|(index, ..)| *index).collect();
        let is_new = |index: &usize| !seen.iter().any(|&other| listing.is_same(other, *index));
        let number = |index: usize| vulkan_all.iter().position(|&other| other == index).unwrap_or(0);
        found.extend(
            vulkan.iter().copied().filter(is_new).map(|index| (index, Backend::Vulkan, Some(VULKAN), number(index))),
        );
    }
    let mut discovery = Discovery { vulkan, ..Discovery::default() };
    for (index, backend, folder, number) in found {
        let Some(gpu) = machine.gpus.get(index) else { continue };
        let whole = |bytes: Bytes| Bytes(bytes.0 >> 20 << 20);
        let seen = Gpu { backend, total: whole(gpu.total), free: whole(gpu.free), ..gpu.clone() };
        if seen.total > Bytes::ZERO && listing.takes(&seen) {
            discovery.counted.push(CountedGpu { index, gpu: seen, folder, number });
        }
    }
    discovery.notes = listing.left_out(&discovery.counted);
    discovery
}

fn machine_backend(machine: &Machine, index: usize) -> Backend {
    machine.gpus.get(index).map_or(Backend::Plain, |gpu| gpu.backend)
}

/// Index in the machine, backend, its folder, number in the backend's variable.
type Found = (usize, Backend, Option<&'static str>, usize);

struct Listing<'a> {
    machine: &'a Machine,
    server: &'a ServerVariables,
    traits: &'a ReleaseTraits,
}

impl Listing<'_> {
    fn of(&self, is: impl Fn(&Gpu) -> bool) -> Vec<usize> {
        self.machine.gpus.iter().enumerate().filter(|(_, gpu)| is(gpu)).map(|(index, _)| index).collect()
    }

    /// Whether `OLLAMA_LLM_LIBRARY` leaves `folder`.
    fn wants(&self, folder: &str) -> bool {
        self.server.llm_library.as_deref().is_none_or(|only| only == folder)
    }

    /// Those of `gpus` that `variable` leaves, in its order; a number that is none of theirs ends the list.
    fn visible(&self, gpus: Vec<usize>, variable: &str) -> Vec<usize> {
        let Some(value) = self.server.inherited.get(variable) else { return gpus };
        value.split(',').map_while(|number| gpus.get(number.trim().parse::<usize>().ok()?).copied()).collect()
    }

    fn cuda(&self) -> Vec<Found> {
        let all = self.of(|gpu| gpu.backend == Backend::Cuda);
        let cards = self.visible(all.clone(), "CUDA_VISIBLE_DEVICES");
        let by_folder: BTreeMap<&'static str, Vec<usize>> = self
            .cuda_folders(&cards)
            .into_iter()
            .filter(|(folder, _)| self.wants(folder))
            .map(|(folder, runs)| (folder, cards.iter().copied().filter(|&card| self.runs(card, runs)).collect()))
            .collect();
        let sorted = |cards: &Vec<usize>| {
            let mut cards = cards.clone();
            cards.sort_unstable();
            cards
        };
        let mut lists = by_folder.iter().collect::<Vec<_>>();
        // the newest where all list the same; else the oldest, and from the others what it lacks
        if lists.iter().all(|(_, cards)| lists.first().is_some_and(|(_, first)| sorted(first) == sorted(cards))) {
            lists.sort_by_key(|(folder, _)| Reverse(**folder));
        }
        let mut found: Vec<Found> = Vec::new();
        for (folder, cards) in lists {
            for &card in cards {
                if !found.iter().any(|(other, ..)| *other == card) {
                    let number = all.iter().position(|&other| other == card).unwrap_or(0);
                    found.push((card, Backend::Cuda, Some(*folder), number));
                }
            }
        }
        found
    }

    /// The folders of builds for CUDA, and which compute capabilities each runs on.
    fn cuda_folders(&self, cards: &[usize]) -> Vec<(&'static str, Build)> {
        if self.machine.os == Os::Linux
            && let Some(jetpack) = self.jetpack(cards)
        {
            return match jetpack {
                5 => vec![("cuda_jetpack5", Build::JetPack5)],
                6 => vec![("cuda_jetpack6", Build::JetPack6)],
                _ => vec![("cuda_v13", Build::V13)],
            };
        }
        vec![("cuda_v12", Build::V12), ("cuda_v13", Build::V13)]
    }

    /// The `JetPack` of a Jetson. If that is not stated, its card tells: with version 5 the driver has none.
    fn jetpack(&self, cards: &[usize]) -> Option<u32> {
        let drivers = self.machine.drivers;
        let jetson = |card: &usize| self.machine.gpus.get(*card).filter(|gpu| gpu.integrated)?.compute;
        drivers.jetpack.or_else(|| match cards.iter().find_map(jetson)? {
            (7, 2) => Some(5),
            (8, 7) if drivers.nvidia == Some(0) => Some(5),
            (8, 7) => Some(6),
            _ => None,
        })
    }

    /// Whether a build runs on a card, with the driver that is there; what is unknown is new enough.
    fn runs(&self, card: usize, build: Build) -> bool {
        let Some(gpu) = self.machine.gpus.get(card) else { return false };
        let driver = self.machine.drivers.nvidia.filter(|&driver| driver > 0).unwrap_or(u32::MAX);
        let compute = gpu.compute;
        match build {
            Build::JetPack5 => compute.is_none_or(|compute| [(7, 2), (8, 7)].contains(&compute)),
            Build::JetPack6 => compute.is_none_or(|compute| compute == (8, 7)),
            Build::V13 => driver >= 580 && compute.is_none_or(|compute| compute >= (7, 5)),
            Build::V12 => {
                let old = compute.is_some_and(|compute| compute < (7, 0));
                let least = match old {
                    true => 570,
                    false if self.traits.driver_for_all => 550,
                    false => 0,
                };
                driver >= least && compute.is_none_or(|compute| V12.contains(&compute))
            }
        }
    }

    fn rocm(&self) -> Vec<Found> {
        if !self.wants(ROCM) && !self.wants("rocm") {
            return Vec::new();
        }
        let all = self.of(|gpu| gpu.backend == Backend::Rocm);
        let mut left = all.clone();
        if self.machine.os != Os::Windows {
            left = self.visible(left, "ROCR_VISIBLE_DEVICES");
        }
        // without its own variable HIP reads CUDA's
        let hip = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
        if let Some(name) = hip.into_iter().find(|name| self.server.inherited.contains_key(*name)) {
            left = self.visible(left, name);
        }
        let number = |index: usize| all.iter().position(|&other| other == index).unwrap_or(0);
        left.into_iter().map(|index| (index, Backend::Rocm, Some(ROCM), number(index))).collect()
    }

    /// Whether two GPUs of the machine are the same card, listed by two backends.
    fn is_same(&self, one: usize, other: usize) -> bool {
        let (Some(a), Some(b)) = (self.machine.gpus.get(one), self.machine.gpus.get(other)) else { return false };
        one == other
            || match (&a.listed.pci, &b.listed.pci) {
                (Some(a), Some(b)) => a == b,
                _ => a.backend != b.backend && a.name == b.name && a.total == b.total,
            }
    }

    /// Whether Ollama takes a GPU: most integrated ones only if it is told to.
    fn takes(&self, gpu: &Gpu) -> bool {
        let by_rule = match gpu.backend {
            Backend::Metal | Backend::Plain => return true,
            Backend::Cuda => true,
            Backend::Rocm => is_gfx1151(gpu),
            Backend::Vulkan | Backend::Sycl => false,
        };
        !gpu.integrated || self.server.igpu_enable.unwrap_or(by_rule)
    }

    /// Why GPUs do not count, one sentence each.
    fn left_out(&self, counted: &[CountedGpu]) -> Vec<String> {
        let mut notes = Vec::new();
        for (index, gpu) in self.machine.gpus.iter().enumerate() {
            let same = counted.iter().find(|one| self.is_same(one.index, index));
            match same {
                Some(one) if one.index == index && one.gpu.backend == gpu.backend => {}
                Some(one) if one.index == index => notes.push(format!(
                    "GPU{index} {} is used through {}: {}",
                    gpu.name,
                    one.gpu.backend.name(),
                    self.why_not(gpu)
                )),
                Some(one) => notes.push(format!(
                    "GPU{index} {} does not count: it is GPU{}, which {} lists too",
                    gpu.name,
                    one.index,
                    gpu.backend.name()
                )),
                None => notes.push(format!("GPU{index} {} is not used by Ollama: {}", gpu.name, self.why_not(gpu))),
            }
        }
        notes
    }

    fn why_not(&self, gpu: &Gpu) -> String {
        let driver = self.machine.drivers.nvidia.unwrap_or_default();
        if gpu.total < Bytes::mib(1) {
            return "it has no memory".to_owned();
        }
        if gpu.integrated && !self.takes(gpu) {
            return match self.server.igpu_enable {
                Some(_) => "OLLAMA_IGPU_ENABLE leaves out integrated GPUs".to_owned(),
                None => "it is integrated, and OLLAMA_IGPU_ENABLE=1 is not set".to_owned(),
            };
        }
        if let Some(only) = &self.server.llm_library {
            return format!("{} leaves out the other backends", seen::assigned("OLLAMA_LLM_LIBRARY", only));
        }
        let hidden = ["CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"];
        match gpu.backend {
            Backend::Vulkan if self.server.no_vulkan => return "OLLAMA_VULKAN=0 leaves out Vulkan".to_owned(),
            Backend::Cuda if (1..580).contains(&driver) => {
                return format!("NVIDIA's driver {driver} is too old for it: update the driver");
            }
            _ => {}
        }
        match hidden.into_iter().find(|name| self.server.inherited.contains_key(*name)) {
            Some(name) => format!("{name} hides it"),
            None => "no backend of Ollama's supports it".to_owned(),
        }
    }
}

/// A build of the CUDA backend.
#[derive(Clone, Copy)]
enum Build {
    V12,
    V13,
    JetPack5,
    JetPack6,
}

/// Whether it is ROCm's gfx1151, by its architecture or, where that is unknown, by its name.
pub(super) fn is_gfx1151(gpu: &Gpu) -> bool {
    match &gpu.listed.gfx {
        Some(gfx) => gfx.as_ref() == "gfx1151",
        None => ["8060S", "8050S", "Strix Halo"].iter().any(|name| gpu.name.contains(name)),
    }
}

/// The chosen GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GpuSelection {
    pub chosen: Vec<CountedGpu>,
    /// `--main-gpu`, which comes with `--split-mode none`.
    pub main_gpu: Option<i64>,
    /// Why not all of them, as one sentence.
    pub note: Option<String>,
}

/// What decides.
pub(super) struct SelectionInputs<'a> {
    /// The GPUs that count.
    pub counted: &'a [CountedGpu],
    /// Predicted bytes.
    pub predicted: u64,
    /// `main_gpu`
    pub main_gpu: Option<i64>,
    /// `OLLAMA_SCHED_SPREAD`
    pub spread: bool,
    /// Free system memory.
    pub ram_free: Bytes,
}

/// Bytes available on `gpus` in total; integrated GPUs share the system's memory and cannot use more than is free
/// there.
pub(super) fn available<'g>(gpus: impl IntoIterator<Item = &'g Gpu>, ram_free: Bytes) -> u64 {
    let (mut discrete, mut shared) = (Bytes::ZERO, Bytes::ZERO);
    for gpu in gpus {
        let of_kind = if gpu.integrated { &mut shared } else { &mut discrete };
        *of_kind += gpu.free;
    }
    // zero free RAM means unknown
    let shared = if ram_free > Bytes::ZERO { shared.min(ram_free) } else { shared };
    (discrete + shared).0
}

/// `percent` of `bytes`.
pub(super) fn share(bytes: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// The GPUs for a model: the one that is asked for, a single one with memory to spare, or else the best group with the
/// same backend.
pub(super) fn select_gpus(inputs: &SelectionInputs<'_>) -> GpuSelection {
    let all = inputs.counted;
    if all.len() <= 1 {
        return GpuSelection { chosen: all.to_vec(), main_gpu: inputs.main_gpu, note: None };
    }
    let groups = groups(all);
    if let Some(index) = inputs.main_gpu {
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        let best = groups.iter().filter_map(|group| group.get(place).copied()).min_by_key(|one| inputs.rank(one));
        let Some(one) = best else {
            let note = format!("no backend has a GPU {index}, so llama-server will refuse main_gpu {index}");
            return GpuSelection { main_gpu: Some(index), note: Some(note), ..inputs.best_group(&groups) };
        };
        let note = format!("1 of {} GPUs: main_gpu {index} is GPU{}, which is used alone", all.len(), one.index);
        return GpuSelection { chosen: vec![one.clone()], main_gpu: Some(0), note: Some(note) };
    }
    if let Some(one) = inputs.single(&groups) {
        let note = format!(
            "1 of {} GPUs: Ollama expects to need {}, within 80 % of the {} of GPU{}, and uses that one alone",
            all.len(),
            Bytes(inputs.predicted),
            Bytes(inputs.room(&one.gpu)),
            one.index,
        );
        return GpuSelection { chosen: vec![one.clone()], main_gpu: Some(0), note: Some(note) };
    }
    inputs.best_group(&groups)
}

impl SelectionInputs<'_> {
    fn room(&self, gpu: &Gpu) -> u64 {
        available([gpu], self.ram_free)
    }

    /// Discrete before integrated, then by available memory.
    fn rank(&self, one: &CountedGpu) -> (bool, Reverse<u64>) {
        (one.gpu.integrated, Reverse(self.room(&one.gpu)))
    }

    /// The GPU that fits the model with a fifth to spare; the first of equals.
    fn single<'g>(&self, groups: &[Vec<&'g CountedGpu>]) -> Option<&'g CountedGpu> {
        if self.spread || self.predicted == 0 {
            return None;
        }
        let fits = |one: &&CountedGpu| self.predicted <= share(self.room(&one.gpu), 80);
        groups.iter().flatten().copied().filter(fits).min_by_key(|one| self.rank(one))
    }

    /// The whole group with a discrete GPU, then with the most available memory; the first of equals.
    fn best_group(&self, groups: &[Vec<&CountedGpu>]) -> GpuSelection {
        let rank = |group: &&Vec<&CountedGpu>| {
            let gpus = group.iter().map(|one| &one.gpu);
            Reverse((gpus.clone().any(|gpu| !gpu.integrated), available(gpus, self.ram_free)))
        };
        let Some(best) = groups.iter().min_by_key(rank) else { return GpuSelection::default() };
        let (chosen, of) = (best.len(), self.counted.len());
        let note = (chosen < of).then(|| {
            let backend = best.first().map_or("", |one| one.gpu.backend.name());
            format!(
                "{chosen} of {of} GPUs: Ollama uses one backend at a time, and {backend} has the most memory available"
            )
        });
        GpuSelection { chosen: best.iter().map(|&one| one.clone()).collect(), main_gpu: None, note }
    }
}

/// GPUs with the same backend, in order of first appearance.
fn groups(gpus: &[CountedGpu]) -> Vec<Vec<&CountedGpu>> {
    let mut groups: Vec<(Backend, Vec<&CountedGpu>)> = Vec::new();
    for one in gpus {
        match groups.iter_mut().find(|(backend, _)| *backend == one.gpu.backend) {
            Some((_, group)) => group.push(one),
            None => groups.push((one.gpu.backend, vec![one])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
