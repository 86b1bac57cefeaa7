//! NVIDIA GPUs through the driver's library NVML, which is loaded at run time. A missing library or driver means no GPU
//! and is reported.

mod card;
mod nvml;

use std::sync::Arc;

use nvml_wrapper::Nvml;

use self::card::NvmlGpu;
use super::visible::{VisibilityRule, visible};
use super::{CollectedGpus, CollectorResult, DetectOptions, FoundGpu, FreeMemoryProbe};
use crate::machine::{Drivers, Ram, drivers};
use crate::units::Bytes;

/// A GPU or one of its MIG instances: index of the card, index among its instances.
type GpuIndex = (usize, Option<usize>);

pub(super) fn collect(options: &DetectOptions, ram: Ram) -> CollectedGpus {
    let (nvml, place) = match nvml::load(options.nvml.as_deref()) {
        Ok(loaded) => loaded,
        Err(reason) => return CollectedGpus { tried: vec![tried(reason)], ..CollectedGpus::default() },
    };
    let driver = nvml.sys_driver_version().ok();
    let branch = driver.as_deref().and_then(|version| drivers::major(version).ok());
    let cuda = nvml.sys_cuda_driver_version().ok();
    let driver = driver.map(|version| format!(", driver {version}")).unwrap_or_default();
    let version = cuda.map(|cuda| format!(", CUDA {}.{}", cuda / 1000, cuda % 1000 / 10)).unwrap_or_default();
    let through = format!("through {place}{driver}{version}");
    let cards: Vec<NvmlGpu> = match nvml.device_count() {
        Ok(count) => (0..count).map(|index| card::nvml_gpu(&nvml, index, cuda, ram)).collect(),
        Err(error) => {
            return CollectedGpus {
                tried: vec![tried(format!("no GPU {through}: {error}"))],
                ..CollectedGpus::default()
            };
        }
    };
    let nvml = Arc::new(nvml);
    let source = format!("NVML ({place})");
    let (picks, mut results) = choose(&cards, options);
    let list: Vec<FoundGpu> = picks.into_iter().filter_map(|pick| found(&cards, pick, &nvml, &source)).collect();
    let outcome = match list.len() {
        1 => format!("1 GPU {through}"),
        n => format!("{n} GPUs {through}"),
    };
    results.insert(0, tried(outcome));
    CollectedGpus { list, tried: results, drivers: Drivers { nvidia: branch, jetpack: None } }
}

fn tried(outcome: String) -> CollectorResult {
    CollectorResult { collector: "nvml", outcome }
}

/// The details of a GPU or MIG instance, with a probe of its free memory.
fn found(cards: &[NvmlGpu], (index, instance): GpuIndex, nvml: &Arc<Nvml>, source: &str) -> Option<FoundGpu> {
    let card = cards.get(index)?;
    let picked = instance.and_then(|instance| card.instances.get(instance));
    let of = picked.map_or(card, |(_, instance)| instance);
    let mut facts = vec![("told by", source.to_owned())];
    facts.extend(of.facts.iter().cloned());
    if picked.is_some() {
        facts.extend(card.facts.iter().filter(|(what, _)| *what != "UUID").cloned());
    }
    let number = picked.map(|&(number, _)| number);
    let probe = free_memory_probe(Arc::clone(nvml), u32::try_from(index).ok()?, number, of.shares_ram);
    Some(FoundGpu { gpu: of.gpu.as_ref().ok()?.clone(), facts, processes: card.processes.clone(), probe })
}

fn free_memory_probe(nvml: Arc<Nvml>, index: u32, instance: Option<u32>, shares_ram: bool) -> FreeMemoryProbe {
    if shares_ram {
        return Box::new(|ram| Ok(ram.free));
    }
    Box::new(move |_| {
        let free = || {
            let device = nvml.device_by_index(index)?;
            let device =
                instance.map_or(Ok(device), |number| nvml.device_by_index(index)?.mig_device_by_index(number))?;
            Ok(Bytes(device.memory_info()?.free))
        };
        free().map_err(|error: nvml_wrapper::error::NvmlError| error.to_string())
    })
}

/// The visible GPUs that respond, in the order of use, and notes on the others.
fn choose(cards: &[NvmlGpu], options: &DetectOptions) -> (Vec<GpuIndex>, Vec<CollectorResult>) {
    let instances =
        cards.iter().enumerate().flat_map(|(card, of)| (0..of.instances.len()).map(move |i| (card, Some(i))));
    let all: Vec<GpuIndex> = (0..cards.len()).map(|card| (card, None)).chain(instances).collect();
    let uuid = |&(card, instance): &GpuIndex| {
        let card = cards.get(card)?;
        let of = instance.map_or(Some(card), |instance| Some(&card.instances.get(instance)?.1))?;
        Some(of.uuid.as_str())
    };
    let uuids: Vec<&str> = all.iter().filter_map(uuid).collect();
    let rule = VisibilityRule {
        name: "CUDA_VISIBLE_DEVICES",
        program: "CUDA",
        prefixes: &["GPU-", "MIG-"],
        countable: cards.len(),
    };
    let visible = visible(&rule, options.cuda_visible_devices.as_deref(), &uuids);
    let mut results: Vec<CollectorResult> = visible.note.map(tried).into_iter().collect();
    if by_number(options) && differ(cards) && options.cuda_device_order.as_deref() != Some("PCI_BUS_ID") {
        results.push(tried(
            "CUDA orders different GPUs by speed, the driver by PCI address: name them by UUID, or set \
             CUDA_DEVICE_ORDER=PCI_BUS_ID"
                .to_owned(),
        ));
    }
    for (index, card) in cards.iter().enumerate() {
        if let Err(reason) = &card.gpu {
            results.push(tried(format!("GPU {index} of the driver is left out: {reason}")));
        }
    }
    let picks = visible.indices.iter().filter_map(|&index| all.get(index).copied());
    let picks: Vec<GpuIndex> =
        picks.filter(|&(card, _)| cards.get(card).is_some_and(|card| card.gpu.is_ok())).collect();
    (visible_mig_instances(cards, &picks, &mut results), results)
}

/// Applies CUDA's rule for GPUs in MIG mode: a program sees a single instance and then no other GPU.
/// NVIDIA Multi-Instance GPU User Guide r570, "CUDA Device Enumeration".
fn visible_mig_instances(cards: &[NvmlGpu], picks: &[GpuIndex], results: &mut Vec<CollectorResult>) -> Vec<GpuIndex> {
    let is_mig = |card: usize| cards.get(card).is_some_and(|card| card.mig_enabled);
    let usable = |&(card, instance): &GpuIndex| {
        let own = cards.get(card).map_or(0, |card| card.instances.len());
        match instance {
            Some(instance) => Some((card, Some(instance))),
            None if !is_mig(card) => Some((card, None)),
            None => (own > 0).then_some((card, Some(0))),
        }
    };
    for (card, _) in picks.iter().filter(|pick| usable(pick).is_none()) {
        results.push(tried(format!("GPU {card} of the driver is left out: MIG is on, but it has no instance")));
    }
    let picks: Vec<GpuIndex> = picks.iter().filter_map(usable).collect();
    let Some(&instance) = picks.iter().find(|(_, instance)| instance.is_some()) else { return picks };
    let others: usize = cards.iter().map(|card| card.instances.len().max(usize::from(!card.mig_enabled))).sum();
    if others > 1 {
        results.push(tried(format!(
            "a CUDA program sees a single MIG instance and no other GPU; the other {} are left out: choose one by \
             its UUID in CUDA_VISIBLE_DEVICES",
            others - 1
        )));
    }
    vec![instance]
}

fn by_number(options: &DetectOptions) -> bool {
    options.cuda_visible_devices.as_deref().is_some_and(|list| {
        list.contains(|c: char| c.is_ascii_digit()) && !list.contains("GPU-") && !list.contains("MIG-")
    })
}

fn differ(cards: &[NvmlGpu]) -> bool {
    let names: Vec<_> = cards.iter().filter_map(|card| card.gpu.as_ref().ok()).map(|gpu| &gpu.name).collect();
    names.windows(2).any(|pair| pair.first() != pair.last())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Backend, Gpu};

    fn a_card(name: &str, free: Result<u64, &str>) -> NvmlGpu {
        let gpu = free.map_err(str::to_owned).map(|free| Gpu {
            name: name.to_owned(),
            backend: Backend::Cuda,
            total: Bytes::gib(24),
            free: Bytes::gib(free),
            integrated: false,
            compute: Some((8, 6)),
            driver_major: Some(12),
            computer: None,
            vulkan: None,
            listed: crate::machine::Listed::default(),
            dedicated: None,
            driver_memory: None,
        });
        NvmlGpu {
            uuid: format!("GPU-{name}"),
            gpu,
            facts: Vec::new(),
            processes: Vec::new(),
            shares_ram: false,
            mig_enabled: false,
            instances: Vec::new(),
        }
    }

    fn mig_enabled(name: &str, instances: &[&str]) -> NvmlGpu {
        let instance = |(number, name): (usize, &&str)| {
            (number as u32, NvmlGpu { uuid: format!("MIG-{name}"), ..a_card(name, Ok(4)) })
        };
        let instances = instances.iter().enumerate().map(instance).collect();
        NvmlGpu { mig_enabled: true, instances, ..a_card(name, Ok(1)) }
    }

    fn options(list: Option<&str>) -> DetectOptions {
        let cuda_visible_devices = list.map(str::to_owned);
        DetectOptions { cuda_visible_devices, cuda_device_order: None, ..DetectOptions::here() }
    }

    #[test]
    fn a_gpu_that_does_not_respond_is_left_out_and_reported() {
        let cards = vec![a_card("a", Ok(1)), a_card("b", Err("GPU is lost")), a_card("c", Ok(3))];
        let (picks, results) = choose(&cards, &options(None));
        assert_eq!(picks, [(0, None), (2, None)]);
        assert!(results.iter().any(|tried| tried.outcome.contains("GPU 1 of the driver is left out: GPU is lost")));
    }

    #[test]
    fn visible_device_indices_count_unresponsive_gpus() {
        let cards = [a_card("a", Err("lost")), a_card("b", Ok(2)), a_card("c", Ok(3))];
        let picks = |list| choose(&cards, &options(Some(list))).0.into_iter().map(|(card, _)| card).collect::<Vec<_>>();
        assert_eq!(picks("2,1"), [2, 1]);
        assert_eq!(picks("0"), Vec::<usize>::new());
        assert_eq!(picks("GPU-b"), [1]);
    }

    #[test]
    fn a_program_sees_one_mig_instance() {
        let cards = [mig_enabled("a", &["x", "y"]), a_card("b", Ok(2)), mig_enabled("c", &[])];
        let (picks, results) = choose(&cards, &options(None));
        assert_eq!(picks, [(0, Some(0))]);
        let results: String = results.into_iter().map(|tried| tried.outcome + "\n").collect();
        assert!(
            results.contains("the other 2 are") && results.contains("GPU 2 of the driver is left out: MIG"),
            "{results}"
        );
        assert_eq!(choose(&cards, &options(Some("MIG-y"))).0, [(0, Some(1))]);
        assert_eq!(choose(&cards, &options(Some("1"))).0, [(1, None)]);
        assert_eq!(choose(&cards, &options(Some("2"))).0, []);
    }

    #[test]
    fn indices_of_different_gpus_cause_a_warning_about_their_order() {
        let warned = |options: &DetectOptions, other| {
            let (_, results) = choose(&[a_card("a", Ok(1)), a_card(other, Ok(1))], options);
            results.iter().any(|tried| tried.outcome.contains("PCI_BUS_ID"))
        };
        assert!(warned(&options(Some("1")), "b"));
        assert!(
            !warned(&options(Some("1")), "a") && !warned(&options(None), "b") && !warned(&options(Some("GPU-b")), "b")
        );
        let ordered = DetectOptions { cuda_device_order: Some("PCI_BUS_ID".to_owned()), ..options(Some("1")) };
        assert!(!warned(&ordered, "b"));
    }
}
