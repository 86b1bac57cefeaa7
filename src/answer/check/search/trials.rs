//! What is tried: changes of a request that a log does not always tell.

use super::{Change, Search, Trial, UBATCHES, cache_type, setting};
use crate::answer::check::log;
use crate::answer::check::reason::Reason;
use crate::machine::{Backend, Gpu, Machine};
use crate::settings::{CacheType, FlashAttn, GpuLayers, Outputs, Release};

impl Search<'_> {
    /// Changes of the request that a log does not always tell, the likeliest first; of each group one holds.
    pub(super) fn trials(&self) -> Vec<Vec<Trial>> {
        let seen = &self.load.settings;
        let unwritten = self.load.command.is_none();
        let mut groups: Vec<Vec<Trial>> = Vec::new();
        if seen.n_seq_max.is_none() && unwritten && self.given.parallel.is_none() {
            let sequences = |sequences| {
                let change = setting(move |settings| settings.parallel = Some(sequences));
                (Reason::Setting(format!("--parallel {sequences}")), change)
            };
            groups.push([1, 2, 4, 8].map(sequences).into());
        }
        if self.is_type_open() {
            groups.push([CacheType::Q8_0, CacheType::Q4_0, CacheType::Bf16, CacheType::F32].map(cache_type).into());
        }
        if unwritten && !self.given.swa_full {
            groups.push(vec![(Reason::FullSizeWindows, setting(|settings| settings.swa_full = true))]);
        }
        for group in &mut groups {
            group.retain(|(reason, _)| (self.allowed)(reason));
        }
        let (releases, others) = self.of_compute();
        // what the log's program is stands before what its user chose
        let mut all = releases;
        all.extend(groups);
        all.extend(others);
        all
    }

    /// Whether nothing tells the type of the caches.
    fn is_type_open(&self) -> bool {
        let given = self.given.cache_type_k.is_some() || self.given.cache_type_v.is_some();
        self.load.settings.cache_type_k.is_none() && self.load.command.is_none() && !given
    }

    /// Blocks whose experts are in RAM, as the graph of a token shows: it goes to RAM and back for each of them.
    pub(super) fn experts(&self) -> Option<Trial> {
        let splits = self.load.contexts.first()?.splits_of_a_token?;
        let told = self.now.settings.n_cpu_moe.is_some() || self.load.command.is_some();
        if told || self.shown.names.is_empty() || self.now.model.summary().experts.is_none() {
            return None;
        }
        let straight = 1 + self.shown.names.len() as u64;
        let away = splits.checked_sub(straight).filter(|&more| more > 1)? / 2;
        // the first blocks may have none
        let with_experts = self.now.model.header.tensors.iter().filter(|tensor| tensor.name.contains("_exps."));
        let block = |name: &str| name.strip_prefix("blk.")?.split('.').next()?.parse::<u64>().ok();
        let count = away + with_experts.filter_map(|tensor| block(&tensor.name)).min()?;
        let change = setting(move |settings| {
            (settings.n_cpu_moe, settings.gpu_layers) = (Some(count), GpuLayers::All);
        });
        Some((Reason::Setting(format!("--n-cpu-moe {count}")), change))
    }

    /// Changes that move compute buffers, of each group one holds: those of the program, and those of its user.
    pub(super) fn of_compute(&self) -> (Vec<Vec<Trial>>, Vec<Vec<Trial>>) {
        let seen = &self.load.settings;
        let (unwritten, given) = (self.load.command.is_none(), self.given);
        let runs = !self.now.engine.facts().releases.is_empty();
        let mut programs: Vec<Vec<Trial>> = Vec::new();
        let mut users: Vec<Vec<Trial>> = Vec::new();
        if runs && given.release.is_none() {
            let release = |release| (Reason::Release(release), setting(move |s| s.release = Some(release)));
            programs.push(log::possible_releases(self.load).map(release).collect());
        }
        if runs && given.outputs == Outputs::default() && log::may_compute_all(self.load) {
            programs.push(vec![(Reason::AllOutputs, setting(|settings| settings.outputs = Outputs::Ubatch))]);
        }
        if runs && self.load.build.is_none_or(|build| Release::nearest_to_build(build) != Release::default()) {
            programs.push(vec![(Reason::NothingBesides, plain(|_| true))]);
        }
        let over_rpc = |gpu: &Gpu| gpu.computer.is_some();
        if runs && self.now.machine.gpus.iter().any(over_rpc) {
            programs.insert(0, vec![(Reason::PlainServers, plain(over_rpc))]);
        }
        if runs && self.load.contexts.first().is_some_and(|context| context.settings.sched_copies > Some(1)) {
            programs.push(vec![(Reason::UnreadInputs, setting(|settings| settings.unread_inputs = Some(true)))]);
        }
        if runs && self.shown.names.len() > 1 && self.now.settings.pipeline_refused.is_none() {
            let change = setting(|settings| settings.pipeline_refused = Some(true));
            programs.push(vec![(Reason::NoPipeline, change)]);
        }
        if seen.n_ubatch.is_none() && unwritten && given.ubatch.is_none() {
            let ubatch = |ubatch: u64| {
                let change = setting(move |settings| {
                    settings.ubatch = Some(ubatch);
                    settings.batch = settings.batch.map(|batch| batch.max(ubatch));
                });
                (Reason::Setting(format!("--ubatch {ubatch}")), change)
            };
            // without one it is 512
            let planned = self.now.settings.ubatch.unwrap_or(UBATCHES[0]);
            users.push(UBATCHES.into_iter().filter(|&other| other != planned).map(ubatch).collect());
        }
        let asked = [seen.flash_attn, Some(given.flash_attn)].contains(&Some(FlashAttn::On));
        if seen.flash_attn_in_use.is_none() && !asked {
            let why = self.load.flash_attention_off().map(str::to_owned);
            let off = setting(|settings| settings.flash_attn = FlashAttn::Off);
            users.push(vec![(Reason::FlashAttentionOff(why), off)]);
        }
        if !self.has_caches && self.is_type_open() {
            users.push([CacheType::Q8_0, CacheType::Q4_0].map(cache_type).into());
        }
        for groups in [&mut programs, &mut users] {
            for group in groups.iter_mut() {
                group.retain(|(reason, _)| (self.allowed)(reason));
            }
            groups.retain(|group| !group.is_empty());
        }
        (programs, users)
    }
}

/// GPUs that need nothing besides results.
fn plain(which: impl Fn(&Gpu) -> bool + 'static) -> Change {
    Box::new(move |request| {
        let mut machine = Machine::clone(&request.machine);
        machine.gpus.iter_mut().filter(|gpu| which(gpu)).for_each(|gpu| gpu.backend = Backend::Plain);
        request.on_machine(machine)
    })
}
