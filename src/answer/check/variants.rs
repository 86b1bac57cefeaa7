//! The request that is compared, and the ones that are tried to explain what differs.

use std::sync::Arc;

use super::machine::ObservedMachine;
use super::planned::{self, Planned};
use super::reason::{self, Reason};
use super::rows::Observed;
use super::split::SplitCheck;
use super::{Check, CheckRequest, CheckedTerm, Compared, ReleaseChoice, machine, settings};
use crate::engine::{EngineError, EngineId, PlanRequest};
use crate::gguf::FileType;
use crate::observed::Load;
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Outputs, Release, Settings};

/// What is known before anything is planned.
pub struct Base<'a> {
    load: &'a Load,
    asked: &'a CheckRequest<'a>,
    observed: Observed,
    names: Vec<String>,
    free_known: bool,
    request: PlanRequest,
}

impl<'a> Base<'a> {
    /// Derives engine, machine and settings.
    ///
    /// # Errors
    /// Never yet; planning is what may fail.
    pub fn new(load: &'a Load, asked: &'a CheckRequest<'a>) -> Result<Self, EngineError> {
        let engine = asked.engine.unwrap_or_else(|| settings::engine(load));
        let ObservedMachine { mut machine, mut names, free_known } = machine::of(load, asked.machine);
        // `-sm none` uses one GPU
        if load.settings.split_mode.as_deref() == Some("none") && asked.machine.gpus.is_none() {
            let main = usize::try_from(load.settings.main_gpu.unwrap_or(0)).unwrap_or(usize::MAX);
            if main < machine.gpus.len() {
                (machine.gpus, names) = (vec![machine.gpus.swap_remove(main)], vec![names.swap_remove(main)]);
            }
        }
        let mut wanted = settings::of(load, engine);
        (asked.knobs)(&mut wanted);
        let request = PlanRequest::new(engine, Arc::clone(&asked.model), machine, wanted);
        Ok(Self { load, asked, observed: Observed::of(load), names, free_known, request })
    }

    /// Plans, compares, and looks for reasons.
    ///
    /// # Errors
    /// When the engine cannot plan this.
    pub fn check(self) -> Result<Check, EngineError> {
        let own = self.own_placement();
        let (release, placed, plan) = self.chosen(own.as_ref())?;
        let mut rows = self.observed.beside(&plan, &self.names);
        let assumed = self.assumed();
        self.explain(&mut rows, &placed, &plan, &assumed);
        let split = SplitCheck::of(self.load, own.as_ref(), &plan);
        let mut lacking = self.observed.lacks();
        lacking.retain(|_| self.load.estimate.is_none());
        Ok(Check { request: placed, names: self.names, release, rows, split, lacking, assumed })
    }

    /// The request as the program decides it itself, if the log tells what it decides by.
    fn own_placement(&self) -> Option<PlanRequest> {
        let estimates = self.request.engine != EngineId::LlamaCpp;
        let asked = self.request.settings.gpu_layers != GpuLayers::Auto;
        let decides = asked || estimates || settings::is_fitted(self.load);
        (decides && (self.free_known || asked)).then(|| self.request.clone())
    }

    /// The request with the placement that the log tells.
    fn told_placement(&self) -> Option<PlanRequest> {
        let (layers, shares) = settings::placement(self.load, &self.names)?;
        Some(self.request.changed(|settings| {
            settings.gpu_layers = layers;
            if settings.tensor_split.is_empty() {
                settings.tensor_split = shares;
            }
        }))
    }

    /// The release and placement to compare with: the nearest release, else the one that agrees best; the program's own
    /// placement where it is the one in the log, else what the log tells.
    fn chosen(
        &self,
        own: Option<&PlanRequest>,
    ) -> Result<(Option<ReleaseChoice>, PlanRequest, Planned), EngineError> {
        let told = self.told_placement();
        let seen = self.load.layers_on_gpus();
        let mut places: Vec<PlanRequest> = own.cloned().into_iter().chain(told).collect();
        if places.is_empty() {
            // nothing says how layers were placed: all of them, as llama.cpp would with room
            places.push(self.request.clone());
        }
        let runs = !self.request.engine.facts().releases.is_empty();
        let known = match self.asked.release {
            Some(release) => Some((release, None, true)),
            None => settings::release(self.load).map(|(release, of)| (release, Some(of), false)),
        };
        let releases: Vec<Option<Release>> = match &known {
            _ if !runs => vec![None],
            Some((release, ..)) => vec![Some(*release)],
            None => Release::ALL.into_iter().map(Some).collect(),
        };
        let mut best: Option<(i64, PlanRequest, Planned)> = None;
        let mut error = None;
        for release in releases {
            for place in &places {
                let request = place.changed(|settings| settings.release = release);
                match planned::plan(&request, &self.names) {
                    Ok(plan) => {
                        let score = self.score(&plan, seen);
                        if best.as_ref().is_none_or(|(than, ..)| score > *than) {
                            best = Some((score, request, plan));
                        }
                    }
                    Err(why) => error = error.or(Some(why)),
                }
            }
        }
        let unplanned = || EngineError::Settings("there is nothing to plan".to_owned());
        let Some((_, request, plan)) = best else { return Err(error.unwrap_or_else(unplanned)) };
        let release = request.settings.release.map(|release| {
            let (nearest_to, is_given) = known.map_or((None, false), |(_, of, given)| (of, given));
            ReleaseChoice { release, nearest_to, is_given }
        });
        Ok((release, request, plan))
    }

    /// How well a plan agrees: the layers first, then the number of terms, then the sum of differences.
    fn score(&self, plan: &Planned, seen: Option<(u64, u64)>) -> i64 {
        let rows = self.observed.beside(plan, &self.names);
        let layers = seen.is_none_or(|(on, _)| on == plan.layers.0 as u64);
        let exact = rows.iter().filter(|row| row.is_exact()).count() as i64;
        let off: f64 = rows.iter().filter(|row| !row.agrees()).map(|row| row.difference().0.abs()).sum();
        i64::from(layers) * (1 << 50) + exact * (1 << 40) - off.min(1e9) as i64
    }

    /// Settings that change memory and are not in the log.
    fn assumed(&self) -> Vec<&'static str> {
        let Settings { ctx, parallel, ubatch, cache_type_k, .. } = &self.request.settings;
        let told = [
            ("the context", *ctx != Context::Auto || self.load.fit.context.is_some()),
            ("the number of sequences", parallel.is_some()),
            ("the ubatch", ubatch.is_some() || self.request.engine != EngineId::LlamaCpp),
            ("the cache type", cache_type_k.is_some() || self.load.command.is_some()),
        ];
        told.into_iter().filter(|(_, told)| !told).map(|(name, _)| name).collect()
    }

    /// Gives each row that differs the first reason that holds.
    fn explain(&self, rows: &mut [Compared], placed: &PlanRequest, plan: &Planned, assumed: &[&'static str]) {
        for row in rows.iter_mut().filter(|row| !row.is_exact()) {
            row.reason = reason::of_row(row, self.load);
        }
        let open = |rows: &[Compared]| rows.iter().any(|row| !row.agrees() && row.reason.is_none());
        for (reason, request) in self.trials(placed) {
            if !open(rows) {
                break;
            }
            let Ok(tried) = planned::plan(&request, &self.names) else { continue };
            for row in rows.iter_mut().filter(|row| !row.agrees() && row.reason.is_none()) {
                let Some(seen) = row.observed else { continue };
                let then = tried.get(&row.device, row.term).unwrap_or_default();
                if row.is_within(crate::observed::Mib(seen.0 - then.0)) {
                    row.reason = Some(reason.clone());
                }
            }
        }
        if !self.asked.is_same_file && rows.iter().any(|row| !row.agrees() && row.term == CheckedTerm::Model) {
            let mixture = self.mixture(placed, rows);
            for row in rows.iter_mut().filter(|row| !row.agrees() && row.reason.is_none()) {
                if row.term == CheckedTerm::Model {
                    row.reason.clone_from(&mixture);
                }
            }
        }
        for row in rows.iter_mut().filter(|row| !row.agrees() && row.reason.is_none()) {
            row.reason = reason::of_request(row, self.load, placed, plan, assumed);
        }
    }

    /// Changes of the request that a log does not always tell, the likeliest first.
    fn trials(&self, placed: &PlanRequest) -> Vec<(Reason, PlanRequest)> {
        let settings = &placed.settings;
        let mut trials = Vec::new();
        let mut add = |reason: Reason, change: &dyn Fn(&mut Settings)| {
            let request = placed.changed(change);
            if request != *placed {
                trials.push((reason, request));
            }
        };
        let others: Vec<Release> = match settings.release {
            Some(now) => Release::ALL.into_iter().filter(|release| *release != now).collect(),
            None => Vec::new(),
        };
        for &release in &others {
            add(Reason::Release(release), &|settings| settings.release = Some(release));
        }
        if settings.release.is_some() && settings.outputs == Outputs::Parallel {
            add(Reason::AllOutputs(None), &|settings| settings.outputs = Outputs::Ubatch);
            for &release in &others {
                add(Reason::AllOutputs(Some(release)), &|settings| {
                    (settings.outputs, settings.release) = (Outputs::Ubatch, Some(release));
                });
            }
        }
        add(Reason::FullSizeWindows, &|settings| settings.swa_full = true);
        if self.load.settings.flash_attn_in_use.is_none() {
            let why = self.load.flash_attention_off().map(str::to_owned);
            add(Reason::FlashAttentionOff(why), &|settings| settings.flash_attn = FlashAttn::Off);
        }
        if self.load.settings.n_seq_max.is_none() {
            for sequences in [1, 2, 4, 8] {
                add(Reason::Setting(format!("--parallel {sequences}")), &|settings| settings.parallel = Some(sequences));
            }
        }
        if self.load.settings.n_ubatch.is_none() {
            for ubatch in [512, 1024, 2048, 4096] {
                add(Reason::Setting(format!("--ubatch {ubatch}")), &|settings| {
                    settings.ubatch = Some(ubatch);
                    settings.batch = settings.batch.map(|batch| batch.max(ubatch));
                });
            }
        }
        if self.load.settings.cache_type_k.is_none() {
            for ty in [CacheType::Q8_0, CacheType::Q4_0, CacheType::Bf16, CacheType::F32] {
                add(Reason::Setting(format!("--kv-type {ty}")), &|settings| {
                    (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
                });
            }
        }
        trials
    }

    /// The quantisation whose weights are those in the log; else that the file's types differ.
    fn mixture(&self, placed: &PlanRequest, rows: &[Compared]) -> Option<Reason> {
        let sum = |of: &dyn Fn(&Compared) -> f64| -> f64 {
            rows.iter().filter(|row| row.term == CheckedTerm::Model && row.planned.is_some()).map(of).sum()
        };
        let seen = sum(&|row| row.observed.unwrap_or_default().0);
        let planned = sum(&|row| row.planned.unwrap_or_default().0);
        let near = |file_type: &FileType| {
            let bytes = placed.opened.quantised_bytes(*file_type).ok()?.0 as f64 / f64::from(1 << 20);
            // what the log does not tell, such as embeddings in RAM, is in the file too
            let scale = planned / (placed.model.bytes.0 as f64 / f64::from(1 << 20));
            Some(((bytes * scale - seen).abs(), *file_type))
        };
        let mut types: Vec<(f64, FileType)> = FileType::ALL.iter().filter_map(near).collect();
        types.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, file_type) in types.into_iter().take(4) {
            let Some(request) = placed.quantised(file_type) else { continue };
            let Ok(plan) = planned::plan(&request, &self.names) else { continue };
            let same = rows.iter().filter(|row| row.term == CheckedTerm::Model && row.observed.is_some()).all(|row| {
                let then = plan.get(&row.device, row.term).unwrap_or_default();
                row.is_within(crate::observed::Mib(row.observed.unwrap_or_default().0 - then.0))
            });
            if same {
                return Some(Reason::Quantisation(file_type));
            }
        }
        Some(Reason::Mixture)
    }
}
