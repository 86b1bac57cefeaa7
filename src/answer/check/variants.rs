//! The request that is compared, and the ones that are tried to explain what differs.

use std::sync::Arc;

use super::estimate::{self, EstimateCheck};
use super::machine::ObservedMachine;
use super::planned::{self, CPU, Planned};
use super::reason::{self, Reason};
use super::rows::Observed;
use super::search::{self, Search};
use super::split::SplitCheck;
use super::{Check, CheckRequest, CheckedTerm, Compared, ReleaseChoice, machine, settings};
use crate::engine::{EngineError, EngineId, PlanRequest};
use crate::gguf::FileType;
use crate::observed::{Load, Mib, TablePhase};
use crate::settings::{Context, GpuLayers, Release, Settings};

/// What is known before anything is planned.
pub struct Base<'a> {
    load: &'a Load,
    asked: &'a CheckRequest<'a>,
    observed: Observed,
    names: Vec<String>,
    free_known: bool,
    request: PlanRequest,
    estimate: Option<EstimateCheck>,
}

impl<'a> Base<'a> {
    /// Derives engine, machine and settings.
    pub fn new(load: &'a Load, asked: &'a CheckRequest<'a>) -> Self {
        let engine = asked.engine.unwrap_or_else(|| settings::engine(load));
        let estimate = asked.engine.is_none_or(|engine| engine == EngineId::Ollama011);
        let estimate = if estimate { estimate::check(load, asked) } else { None };
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
        Self { load, asked, observed: Observed::of(load), names, free_known, request, estimate }
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
        let quantisation = self.quantisation(&placed, &rows);
        let (placed, plan) = match quantisation.and_then(|of| self.requantised(&placed, of)) {
            Some(adopted) => {
                rows = self.observed.beside(&adopted.1, &self.names);
                adopted
            }
            None => (placed, plan),
        };
        self.explain(&mut rows, &placed, &plan, &assumed);
        let split = SplitCheck::of(self.load, own.as_ref(), &plan);
        let check = Check {
            request: placed,
            names: self.names,
            release,
            quantisation,
            rows,
            split,
            assumed,
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
    fn chosen(&self, own: Option<&PlanRequest>) -> Result<(Option<ReleaseChoice>, PlanRequest, Planned), EngineError> {
        let told = self.told_placement();
        let seen = self.load.layers_on_gpus();
        let mut places: Vec<PlanRequest> = own.cloned().into_iter().chain(told).collect();
        let trial = self.load.table_phase == Some(TablePhase::Fit) && seen.is_none();
        if places.is_empty() || trial {
            // the fit begins with all layers on GPUs; so does llama.cpp where it has room
            places.push(self.request.changed(|settings| settings.gpu_layers = GpuLayers::All));
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
        let mut best: Option<((bool, usize, i64), PlanRequest, Planned)> = None;
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
    fn score(&self, plan: &Planned, seen: Option<(u64, u64)>) -> (bool, usize, i64) {
        let rows = self.observed.beside(plan, &self.names);
        let layers = seen.is_none_or(|(on, _)| on == plan.layers.0 as u64);
        let exact = rows.iter().filter(|row| row.is_same()).count();
        let off: f64 = rows.iter().filter(|row| !row.agrees()).map(|row| row.difference().0.abs()).sum();
        (layers, exact, -(off.min(1e9) as i64))
    }

    /// Settings that change memory and are not in the log.
    fn assumed(&self) -> Vec<&'static str> {
        let Settings { ctx, parallel, ubatch, cache_type_k, .. } = &self.request.settings;
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

    /// Gives each row that differs the first reason that holds.
    fn explain(&self, rows: &mut [Compared], placed: &PlanRequest, plan: &Planned, assumed: &[&'static str]) {
        for row in rows.iter_mut().filter(|row| !row.is_same()) {
            row.reason = reason::of_row(row, self.load);
        }
        let told_layers = self.load.layers_on_gpus().is_some() || self.asked_for_all();
        Search::new(self.load, &self.names, placed, plan, told_layers).explain(rows);
        let elsewhere = search::same_in_total(rows);
        let told = self.load.layers_on_gpus().is_some() || settings::placement(self.load, &self.names).is_some();
        let own = self.own_placement().is_some();
        let one_device = self.names.is_empty();
        let in_ram = |row: &Compared| row.term == CheckedTerm::Model && row.device == CPU;
        // where RAM holds no more than planned, all layers are on GPUs
        let all = !rows.iter().any(|row| in_ram(row) && !row.agrees());
        let told = told || all && rows.iter().any(in_ram) || self.asked_for_all();
        let cells = self.load.contexts.first().is_some_and(|context| !context.caches.is_empty());
        for row in rows.iter_mut().filter(|row| is_open(row)) {
            let other_file = !self.asked.is_same_file;
            row.reason = match row.term {
                CheckedTerm::Model if reason::is_trial(self.load) && !self.asked_for_all() => Some(Reason::FitTrial),
                term if elsewhere.contains(&term) => Some(Reason::OtherDevices),
                CheckedTerm::Model if other_file && (told || one_device) => Some(Reason::Mixture),
                CheckedTerm::Model if !told && !own => Some(Reason::UntoldLayers),
                // context and types are told, so only the shape is left
                CheckedTerm::Kv | CheckedTerm::Rs if other_file && cells && told => Some(Reason::OtherShape),
                _ => None,
            };
        }
        if rows.iter().any(|row| row.reason == Some(Reason::OtherShape)) {
            for row in rows.iter_mut().filter(|row| is_open(row) && row.term == CheckedTerm::Compute) {
                row.reason = Some(Reason::OtherShape);
            }
        }
        for row in rows.iter_mut().filter(|row| is_open(row)) {
            row.reason = reason::of_request(row, self.load, placed, plan, assumed);
        }
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

    /// The same request with its model in another quantisation.
    fn requantised(&self, placed: &PlanRequest, to: FileType) -> Option<(PlanRequest, Planned)> {
        let request = placed.quantised(to)?;
        let plan = planned::plan(&request, &self.names).ok()?;
        Some((request, plan))
    }

    /// The quantisation whose weights are those in the log, if the model is not the file itself and its own are not.
    fn quantisation(&self, placed: &PlanRequest, rows: &[Compared]) -> Option<FileType> {
        let differs = rows.iter().any(|row| row.term == CheckedTerm::Model && row.planned.is_some() && !row.agrees());
        if self.asked.is_same_file || !differs {
            return None;
        }
        let weights = || rows.iter().filter(|row| row.term == CheckedTerm::Model && row.planned.is_some());
        let seen: f64 = weights().filter_map(|row| row.observed).map(|mib| mib.0).sum();
        let planned: f64 =
            weights().filter(|row| row.observed.is_some()).filter_map(|row| row.planned).map(|mib| mib.0).sum();
        let own = placed.model.bytes.0 as f64;
        let off = |file_type: &FileType| {
            let bytes = placed.opened.quantised_bytes(*file_type).ok()?.0 as f64;
            Some(((bytes / own * planned - seen).abs(), *file_type))
        };
        let mut types: Vec<(f64, FileType)> = FileType::ALL.iter().filter_map(off).collect();
        types.sort_by(|a, b| a.0.total_cmp(&b.0));
        types.into_iter().take(4).map(|(_, file_type)| file_type).find(|&file_type| {
            self.requantised(placed, file_type).is_some_and(|(_, plan)| {
                weights().all(|row| {
                    let then = plan.get(&row.device, row.term).unwrap_or_default();
                    row.observed.is_none_or(|seen| row.is_within(Mib(seen.0 - then.0)))
                })
            })
        })
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

/// Whether a row differs without a reason.
pub fn is_open(row: &Compared) -> bool {
    !row.agrees() && row.reason.is_none()
}
