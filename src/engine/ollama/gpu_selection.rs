//! The GPUs that a model is loaded on. Source: `selectLlamaServerPlacement`, `server/sched.go`, Ollama, August 2026.

use std::cmp::Reverse;

use super::discovery::CountedGpu;
use crate::machine::{Backend, Gpu};
use crate::units::Bytes;

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
            "1 of {} GPUs: Ollama expects the model to need {}, which is within 80 % of the {} of GPU{}, and uses that \
             GPU alone",
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
