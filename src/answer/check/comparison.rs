//! The comparison of a load with a plan: the request that is compared, and what is known before anything is planned.

mod quantisation;
mod reasons;

use std::sync::Arc;

use super::estimate::{self, EstimateCheck};
use super::log::{self, ObservedMachine};
use super::rows::{self, Observed, Planned, Shown, SplitCheck};
use super::{Check, CheckRequest, ReleaseChoice, WhyRelease};
use crate::engine::{EngineError, EngineId, PlanRequest};
use crate::observed::{Load, TablePhase};
use crate::settings::{Context, DraftSettings, GpuLayers, Release, Settings, SplitMode};
pub use reasons::is_open;

/// A load, and the request that it is compared with.
pub struct Comparison<'a> {
    load: &'a Load,
    asked: &'a CheckRequest<'a>,
    observed: Observed,
    names: Vec<String>,
    free_known: bool,
    request: PlanRequest,
    estimate: Option<EstimateCheck>,
    /// Knobs that the user gave, over defaults.
    given: Settings,
}

impl<'a> Comparison<'a> {
    /// Derives engine, machine and settings.
    pub fn new(load: &'a Load, asked: &'a CheckRequest<'a>) -> Self {
        let engine = asked.engine.unwrap_or_else(|| log::engine(load));
        let estimate = asked.engine.is_none_or(|engine| engine == EngineId::Ollama011);
        let estimate = if estimate { estimate::check(load, asked) } else { None };
        let ObservedMachine { mut machine, mut names, free_known } = log::machine(load, asked.machine);
        // `-sm none` uses one GPU
        if load.settings.split_mode.as_deref() == Some("none") && asked.machine.gpus.is_none() {
            let main = usize::try_from(load.settings.main_gpu.unwrap_or(0)).unwrap_or(usize::MAX);
            if main < machine.gpus.len() {
                (machine.gpus, names) = (vec![machine.gpus.swap_remove(main)], vec![names.swap_remove(main)]);
            }
        }
        let mut wanted = log::settings(load, engine);
        if load.settings.n_rs_seq.is_some_and(|saved| saved > 0) {
            // its context keeps further states, and computes more outputs
            wanted.draft = log::draft(load, &asked.model).unwrap_or_default();
        }
        wanted = log::by_place(wanted, &names);
        wanted.devices = wanted.devices.take().or_else(|| log::devices(load, &names));
        (asked.knobs)(&mut wanted);
        let mut request = PlanRequest::new(engine, Arc::clone(&asked.model), machine, wanted);
        if request.settings.split_mode != SplitMode::Layer && request.plan().is_err() {
            request = request.changed(|settings| settings.split_mode = SplitMode::Layer);
        }
        let mut given = Settings::default();
        (asked.knobs)(&mut given);
        given.release = asked.release.or(given.release);
        Self { load, asked, observed: Observed::of(load), names, free_known, request, estimate, given }
    }

    /// Plans, compares, and looks for reasons.
    ///
    /// # Errors
    /// When the engine cannot plan this.
    pub fn check(self) -> Result<Check, EngineError> {
        let own = self.own_placement();
        let (release, placed, plan) = self.chosen(own.as_ref())?;
        let mut rows = self.observed.beside(&plan, &self.names);
        let quantisation = self.quantisation(&placed, &rows);
        let (quantisation, adopted) = quantisation.unzip();
        let (placed, plan) = match adopted {
            Some((request, other)) => {
                let adopted = (request, Planned { beside: plan.beside, ..other });
                rows = self.observed.beside(&adopted.1, &self.names);
                adopted
            }
            None => (placed, plan),
        };
        let (placed, plan, inferred) = self.explain(&mut rows, placed, plan);
        let assumed = self.assumed(&placed.settings);
        let split = SplitCheck::of(self.layers_on_gpus(), own.as_ref(), &plan);
        let check = Check {
            request: placed,
            names: self.names,
            release,
            quantisation,
            rows,
            split,
            assumed,
            inferred,
            inferred_context: None,
        };
        Ok(match self.estimate {
            Some(estimate) => with_estimate(check, estimate),
            None => check,
        })
    }

    /// The request as the program decides it itself, if the log tells what it decides by.
    fn own_placement(&self) -> Option<PlanRequest> {
        let estimates = self.request.engine != EngineId::LlamaCpp;
        let asked = self.request.settings.gpu_layers != GpuLayers::Auto;
        let decides = asked || estimates || log::is_fitted(self.load);
        (decides && (self.free_known || asked)).then(|| self.request.clone())
    }

    fn shown(&self) -> Shown<'_> {
        self.observed.shown(&self.names)
    }

    /// What a draft and a projector take that the log shows.
    fn beside(&self, placed: &PlanRequest) -> Option<rows::Beside> {
        let draft = log::draft(self.load, &placed.model);
        let projector = self.asked.projector.clone().filter(|_| log::has_projector(self.load));
        if draft.is_none() && projector.is_none() && placed.settings.loras.is_empty() {
            return None;
        }
        let with = |draft: Option<DraftSettings>| {
            let request = placed.changed(|settings| {
                settings.projector.clone_from(&projector);
                if let Some(draft) = draft.clone() {
                    settings.draft = draft;
                }
            });
            rows::beside(&request, &self.names)
        };
        // a draft that this release refuses takes no projector with it
        with(draft).or_else(|| with(None))
    }

    /// The request with the placement that the log tells.
    fn told_placement(&self) -> Option<PlanRequest> {
        let (layers, shares) = log::placement(self.load, &self.names)?;
        let summary = self.request.model.summary();
        let fitted = log::fitted(self.load).filter(|_| summary.experts.is_some());
        let overflowing = fitted.map(|fitted| fitted.overflowing).filter(|&blocks| blocks > 0);
        // blocks that draft may be counted by one side only
        let has_all = |on: u64| on as usize > summary.layers.saturating_sub(summary.nextn_layers);
        let layers = match layers {
            GpuLayers::Count(on) if self.load.layers_on_gpus().is_none() && has_all(on) => GpuLayers::All,
            layers => layers,
        };
        Some(self.request.changed(|settings| {
            settings.gpu_layers = layers;
            settings.n_cpu_moe = settings.n_cpu_moe.or(overflowing);
            if settings.tensor_split.is_empty() {
                settings.tensor_split = shares;
            }
        }))
    }

    /// Layers on GPUs in the log. Without a GPU llama.cpp counts there what would be on one.
    fn layers_on_gpus(&self) -> Option<(u64, u64)> {
        self.load.layers_on_gpus().filter(|_| !self.request.machine.gpus.is_empty())
    }

    /// The release and placement to compare with: the nearest release, else the one that agrees best; the program's own
    /// placement where it is the one in the log, else what the log tells.
    fn chosen(&self, own: Option<&PlanRequest>) -> Result<(Option<ReleaseChoice>, PlanRequest, Planned), EngineError> {
        let told = self.told_placement();
        let seen = self.layers_on_gpus();
        let mut places: Vec<PlanRequest> = own.cloned().into_iter().chain(told).collect();
        let trial =
            self.load.table_phase == Some(TablePhase::Fit) && seen.is_none() && log::fitted(self.load).is_none();
        if places.is_empty() || trial {
            // the fit begins with all layers on GPUs; so does llama.cpp where it has room
            places.push(self.request.changed(|settings| settings.gpu_layers = GpuLayers::All));
        }
        let runs = !self.request.engine.facts().releases.is_empty();
        let (known, why) = match (self.asked.release, log::release(self.load)) {
            (Some(release), _) => (Some(release), WhyRelease::Given),
            (None, Some((Some(release), of))) => (Some(release), WhyRelease::Nearest(of)),
            (None, unknown) => (None, WhyRelease::Agrees(unknown.map(|(_, of)| of))),
        };
        let releases: Vec<Option<Release>> = match known {
            _ if !runs => vec![None],
            Some(release) => vec![Some(release)],
            None => log::possible_releases(self.load).map(Some).collect(),
        };
        let mut best: Option<((bool, usize, i64), PlanRequest, Planned)> = None;
        let mut error = None;
        for release in releases {
            for place in &places {
                let request = place.changed(|settings| settings.release = release);
                match rows::plan(&request, self.shown()) {
                    Ok(plan) => {
                        let plan = Planned { beside: self.beside(&request).unwrap_or_default(), ..plan };
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
        Ok((request.settings.release.map(|release| ReleaseChoice { release, why }), request, plan))
    }

    /// How well a plan agrees: the layers first, then the number of terms, then the sum of differences.
    fn score(&self, plan: &Planned, seen: Option<(u64, u64)>) -> (bool, usize, i64) {
        let rows = self.observed.beside(plan, &self.names);
        let layers = seen.is_none_or(|(on, _)| on == plan.layers.0 as u64);
        let exact = rows.iter().filter(|row| row.is_same()).count();
        let off: f64 = rows.iter().filter(|row| !row.agrees()).map(|row| row.difference().0.abs()).sum();
        (layers, exact, -(off.min(1e9) as i64))
    }

    /// Settings that change memory and are not in the log.
    fn assumed(&self, planned: &Settings) -> Vec<&'static str> {
        let Settings { ctx, parallel, ubatch, cache_type_k, .. } = planned;
        let told = [
            ("the context", *ctx != Context::Auto),
            ("the number of sequences", parallel.is_some()),
            ("the ubatch", ubatch.is_some() || self.request.engine != EngineId::LlamaCpp),
            ("the cache type", cache_type_k.is_some()),
        ];
        if self.load.command.is_some() {
            // what a command does not say is the default
            return Vec::new();
        }
        told.into_iter().filter(|(_, told)| !told).map(|(name, _)| name).collect()
    }

    /// Whether as many layers were asked for as there are.
    fn asked_for_all(&self) -> bool {
        let layers = self.request.model.block_count() as u64 + 1;
        match self.request.settings.gpu_layers {
            GpuLayers::All => true,
            GpuLayers::Count(count) => count >= layers,
            GpuLayers::Auto => false,
        }
    }
}

/// A comparison with the rows of an estimate; where there are no others, it is one of the estimate alone.
fn with_estimate(mut check: Check, estimate: EstimateCheck) -> Check {
    if check.rows.is_empty() {
        (check.request, check.split) = (estimate.request, estimate.split);
        (check.release, check.assumed) = (None, Vec::new());
    }
    check.rows.extend(estimate.rows);
    check.inferred_context = estimate.inferred_context;
    check
}
