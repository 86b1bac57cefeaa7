//! The GPUs visible to llama-server. Source: `selectLlamaServerPlacement`, `server/sched.go`, Ollama, August 2026.

use std::cmp::Reverse;

use crate::machine::{Backend, Gpu, Machine};
use crate::units::Bytes;

/// GPUs as indices in the machine, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GpuSelection {
    pub gpus: Vec<usize>,
    /// Why not all of them, as one sentence.
    pub note: Option<String>,
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

/// The GPUs for a model with a prediction of `predicted` bytes: a single one with memory to spare, or else the best
/// group with the same backend.
pub(super) fn select_gpus(machine: &Machine, predicted: u64, spread: bool) -> GpuSelection {
    let all: Vec<usize> = (0..machine.gpus.len()).collect();
    if all.len() <= 1 {
        return GpuSelection { gpus: all, note: None };
    }
    let groups = groups(&machine.gpus);
    let single = if spread { None } else { single_gpu(machine, &groups, predicted) };
    if let Some((index, gpu)) = single {
        let note = format!(
            "1 of {} GPUs: Ollama expects the model to need {}, which is within 80 % of the {} of GPU{index}, and \
             uses that GPU alone",
            all.len(),
            Bytes(predicted),
            Bytes(available([gpu], machine.ram.free)),
        );
        return GpuSelection { gpus: vec![index], note: Some(note) };
    }
    let members = |group: &Vec<usize>| group.iter().filter_map(|&index| machine.gpus.get(index)).collect::<Vec<_>>();
    let rank = |group: &Vec<usize>| {
        let gpus = members(group);
        (gpus.iter().any(|gpu| !gpu.integrated), available(gpus, machine.ram.free))
    };
    // the first of equals
    let best = groups.iter().min_by_key(|group| Reverse(rank(group))).cloned().unwrap_or_default();
    let note = (best.len() < all.len()).then(|| {
        let backend = best.first().and_then(|&index| machine.gpus.get(index)).map_or("", |gpu| gpu.backend.name());
        let (chosen, of) = (best.len(), all.len());
        format!("{chosen} of {of} GPUs: Ollama uses one backend at a time, and {backend} has the most memory available")
    });
    GpuSelection { gpus: best, note }
}

/// Indices of GPUs with the same backend, in order of first appearance.
fn groups(gpus: &[Gpu]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Backend, Vec<usize>)> = Vec::new();
    for (index, gpu) in gpus.iter().enumerate() {
        match groups.iter_mut().find(|(backend, _)| *backend == gpu.backend) {
            Some((_, group)) => group.push(index),
            None => groups.push((gpu.backend, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The GPU that fits the model with a fifth to spare: discrete before integrated, then by available memory; the first
/// of equals.
fn single_gpu<'m>(machine: &'m Machine, groups: &[Vec<usize>], predicted: u64) -> Option<(usize, &'m Gpu)> {
    if predicted == 0 {
        return None;
    }
    let room = |gpu: &Gpu| available([gpu], machine.ram.free);
    let gpus = groups.iter().flatten().filter_map(|&index| Some((index, machine.gpus.get(index)?)));
    gpus.filter(|(_, gpu)| predicted <= share(room(gpu), 80))
        .min_by_key(|(_, gpu)| (gpu.integrated, Reverse(room(gpu))))
}
