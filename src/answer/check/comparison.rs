//! The request that is compared, and the ones that are tried to explain what differs.

use std::sync::Arc;

use super::estimate::{self, EstimateCheck};
use super::evidence::Evidence;
use super::log::{self, ObservedMachine};
use super::reason::{self, Reason};
use super::rows::{self, Observed, Planned, Shown, SplitCheck};
use super::search::{Found, Plans, Search, same_in_total};
use super::{CPU, Check, CheckRequest, CheckedTerm, Compared, Part, ReleaseChoice, Uncounted, WhyRelease};
use crate::engine::{EngineError, EngineId, PlanRequest, PreparedModel};
use crate::gguf::FileType;
use crate::machine::Backend;
use crate::model::mixture::{PublishedFile, Quantisation};
use crate::observed::{Load, Mib, TablePhase};
use crate::settings::{Context, DraftSettings, GpuLayers, Outputs, Release, Settings, SplitMode};

/// What is known before anything is planned.
pub struct Base<'a> {
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

impl<'a> Base<'a> {
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

    /// Gives each row that differs the first reason that holds. Where settings that the log does not tell make its
    /// figures agree, it is compared with a plan of these: the request, its plan and those settings.
    fn explain(
        &self,
        rows: &mut Vec<Compared>,
        placed: PlanRequest,
        plan: Planned,
    ) -> (PlanRequest, Planned, Vec<Reason>) {
        for row in rows.iter_mut().filter(|row| !row.is_same()) {
            row.reason = reason::of_row(row, self.load);
        }
        let told_layers = self.layers_on_gpus().is_some() || self.asked_for_all();
        let texts = (self.load, self.shown(), &self.given);
        let (mut placed, mut plan, mut inferred) = (placed, plan, Vec::new());
        let mut tried = rows.clone();
        let untold = |reason: &Reason| self.is_untold(reason);
        let mut found = Search::new(texts, (&placed, &plan), told_layers, &untold, Plans::new()).explain(&mut tried);
        let plans = std::mem::take(&mut found.plans);
        let beside = plan.beside.clone();
        let now = self.observed.beside(&Planned { beside, ..found.plan.clone() }, &self.names);
        if found.is_shown || !found.held.is_empty() && same(&now) > same(rows) {
            (placed, plan) = self.adopt(rows, &tried, &found);
            let held = &found.held;
            for reason in rows.iter_mut().filter_map(|row| row.reason.as_mut()) {
                *reason = reason.as_held(held);
            }
            inferred = held.iter().map(|reason| reason.as_held(held)).collect();
        }
        Search::new(texts, (&placed, &plan), told_layers || !inferred.is_empty(), &|_| true, plans).explain(rows);
        self.explain_rest(rows, &placed, &plan);
        (placed, plan, inferred)
    }

    /// Reasons for what differs still once other plans were tried: what the log tells of it.
    fn explain_rest(&self, rows: &mut [Compared], placed: &PlanRequest, plan: &Planned) {
        let load = self.load;
        let told = self.layers_on_gpus().is_some() || log::placement(load, &self.names).is_some();
        let blocks_in_ram = blocks_in_ram(placed, plan);
        let told = told || placed.settings.n_cpu_moe.is_some();
        let all_on_gpus = plan.layers.0 == plan.layers.1 && !blocks_in_ram && shows_all_on_gpus(rows);
        let other_in_ram = |row: &Compared| row.term == CheckedTerm::Model && row.device == CPU && is_open(row);
        let evidence = Evidence {
            load,
            placed,
            plan,
            assumed: &self.assumed(&placed.settings),
            same_in_total: same_in_total(rows),
            told_layers: told || all_on_gpus || self.asked_for_all(),
            asked_for_all: self.asked_for_all(),
            decided: self.own_placement().is_some(),
            one_device: self.names.is_empty(),
            other_file: !self.asked.is_same_file,
            has_other_weights: !self.asked.is_same_file && told && blocks_in_ram && rows.iter().any(other_in_ram),
        };
        Self::explain_whole_mapping(rows, plan);
        explain_other_order(rows);
        self.explain_beside(rows, placed, plan);
        evidence.explain(rows);
    }

    /// Metal maps the file in one piece, whose span a table counts: the weights that RAM has lie within it.
    fn explain_whole_mapping(rows: &mut [Compared], plan: &Planned) {
        let in_ram = plan.get(CPU, CheckedTerm::Model).unwrap_or_default();
        let is_metal = |row: &Compared| log::backend(&row.device).0 == Backend::Metal;
        for row in rows.iter_mut().filter(|row| row.term == CheckedTerm::Model && is_open(row) && is_metal(row)) {
            if in_ram.0 > 0.0 && row.is_within(Mib(row.difference().0 - in_ram.0)) {
                row.reason = Some(reason::MAPPED_SPAN);
            }
        }
    }

    /// Reasons for what is loaded beside the model: another release, or outputs for a whole ubatch.
    fn explain_beside(&self, rows: &mut [Compared], placed: &PlanRequest, plan: &Planned) {
        let is_wanted = |row: &&mut Compared| is_open(row) && row.part != Part::Model;
        if plan.beside.is_empty() || !rows.iter_mut().any(|row| is_wanted(&row)) {
            return;
        }
        for outputs in [placed.settings.outputs, Outputs::Ubatch] {
            for release in Release::ALL {
                let request =
                    placed.changed(|settings| (settings.release, settings.outputs) = (Some(release), outputs));
                let Some(then) = self.beside(&request) else { continue };
                let mut reasons = Vec::new();
                if placed.settings.release != Some(release) {
                    reasons.push(Reason::Release(release));
                }
                if placed.settings.outputs != outputs {
                    reasons.push(Reason::AllOutputs);
                }
                let Some(last) = reasons.pop() else { continue };
                let because = last.with(&reasons);
                for row in rows.iter_mut().filter(is_wanted) {
                    let then = then.get(&(row.device.clone(), row.part, row.term)).copied().unwrap_or_default();
                    if row.observed.is_some_and(|seen| row.is_within(Mib(seen.0 - then.0))) {
                        row.reason = Some(because.clone());
                    }
                }
            }
        }
        for row in rows.iter_mut().filter(is_wanted) {
            row.reason = Some(reason::of_beside(row, self.load));
        }
    }

    /// Whether a log leaves open what a reason is about.
    fn is_untold(&self, reason: &Reason) -> bool {
        match reason {
            Reason::Setting(_)
            | Reason::CachesShowLayers(_)
            | Reason::PlainServers
            | Reason::UnreadInputs
            | Reason::NoPipeline => true,
            Reason::AllOutputs => log::outputs_untold(self.load),
            Reason::Release(_) => {
                let is_told = log::release(self.load).is_some_and(|(release, _)| release.is_some());
                self.asked.release.is_none() && !is_told
            }
            _ => false,
        }
    }

    /// Takes what was found as the plan; rows that agree by it keep it as their reason.
    fn adopt(&self, rows: &mut Vec<Compared>, tried: &[Compared], found: &Found) -> (PlanRequest, Planned) {
        let plan = Planned { beside: self.beside(&found.request).unwrap_or_default(), ..found.plan.clone() };
        let mut now = self.observed.beside(&plan, &self.names);
        for row in &mut now {
            let before =
                tried.iter().find(|old| (&old.device, old.part, old.term) == (&row.device, row.part, row.term));
            row.reason = match before {
                Some(old) if row.is_same() && !old.is_same() => old.reason.clone(),
                _ if row.is_same() => None,
                _ => reason::of_row(row, self.load),
            };
        }
        *rows = now;
        (found.request.clone(), plan)
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

    /// The quantisation whose weights are those in the log, if the model is not the file itself and its own are not:
    /// what llama-quantize makes, or a file that was published. With the request and its plan.
    fn quantisation(&self, placed: &PlanRequest, rows: &[Compared]) -> Option<(Quantisation, (PlanRequest, Planned))> {
        /// The sizes next to the log's are planned.
        const NEXT: usize = 4;
        /// A published file that agrees in total but not by device may have other types in some layers.
        const OFF_BY_DEVICE: f64 = 0.03;
        let differs = rows.iter().any(|row| row.term == CheckedTerm::Model && row.planned.is_some() && !row.agrees());
        if self.asked.is_same_file || !differs {
            return None;
        }
        let weights = || rows.iter().filter(|row| row.term == CheckedTerm::Model && row.planned.is_some());
        let seen: f64 = weights().filter_map(|row| row.observed).map(|mib| mib.0).sum();
        let planned: f64 =
            weights().filter(|row| row.observed.is_some()).filter_map(|row| row.planned).map(|mib| mib.0).sum();
        let own = placed.model.bytes.0 as f64;
        let off = |bytes: u64| (bytes as f64 / own * planned - seen).abs();
        let types = FileType::ALL
            .iter()
            .filter_map(|to| Some((off(placed.opened.bytes_in(*to).ok()?.0), WeightsTried::Type(*to))));
        let files = placed.opened.published_files();
        let files = files.map(|file| (off(file.tensor_bytes()), WeightsTried::File(file)));
        let mut tried: Vec<(f64, WeightsTried)> = types.collect();
        let mut published: Vec<(f64, WeightsTried)> = files.collect();
        for candidates in [&mut tried, &mut published] {
            candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
            candidates.truncate(NEXT);
        }
        let plans: Vec<(Quantisation, (PlanRequest, Planned))> = tried
            .iter()
            .chain(&published)
            .filter_map(|(_, weights)| {
                let (name, request) = weights.request(placed)?;
                let plan = rows::plan(&request, self.shown()).ok()?;
                Some((name, (request, plan)))
            })
            .collect();
        let then = |plan: &Planned, row: &Compared| plan.of_row(row).unwrap_or_default();
        let same = |plan: &Planned| {
            weights().all(|row| row.observed.is_none_or(|seen| row.is_within(Mib(seen.0 - then(plan, row).0))))
        };
        // of a published file the sum is known better than the layers
        let same_sum = |plan: &Planned| {
            let sum: f64 = weights().filter(|row| row.observed.is_some()).map(|row| then(plan, row).0).sum();
            let tolerance: f64 = weights().map(|row| row.tolerance.0).sum();
            let near = |row: &Compared| {
                row.observed.is_none_or(|seen| (seen.0 - then(plan, row).0).abs() <= OFF_BY_DEVICE * seen.0.max(1.0))
            };
            (sum - seen).abs() <= tolerance && weights().all(near)
        };
        let found = plans.iter().position(|(_, (_, plan))| same(plan));
        let is_published = |name: Quantisation| name.file_type().is_none();
        let found = found.or_else(|| plans.iter().position(|(name, (_, plan))| is_published(*name) && same_sum(plan)));
        found.and_then(|at| plans.into_iter().nth(at))
    }
}

/// Weights that a log may show.
enum WeightsTried {
    /// As llama-quantize makes them.
    Type(FileType),
    /// Those of a published file.
    File(PublishedFile),
}

impl WeightsTried {
    /// The request with these weights.
    fn request(&self, placed: &PlanRequest) -> Option<(Quantisation, PlanRequest)> {
        let (name, model) = match self {
            Self::Type(to) => (Quantisation::from(*to), placed.opened.in_quantisation(*to).ok()?),
            Self::File(file) => {
                let name = file.quantisation()?;
                (name, placed.opened.as_published(name, file).ok()?)
            }
        };
        let model = PreparedModel::from(model).with_draft(placed.opened.draft().cloned());
        Some((name, placed.quantised_as(name, model.into())))
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

/// Whether a plan has weights of blocks in RAM beside GPUs: more than all others are.
fn blocks_in_ram(placed: &PlanRequest, plan: &Planned) -> bool {
    let others = placed.model.header.tensors.iter().filter(|tensor| !tensor.name.starts_with("blk."));
    let others = Mib::of(others.map(|tensor| tensor.bytes).sum());
    let in_ram = plan.get(CPU, CheckedTerm::Model).unwrap_or_default();
    !placed.machine.gpus.is_empty() && in_ram.0 > others.0 + 0.01
}

/// Whether no weights are in RAM that the plan, with all layers on GPUs, has not there: RAM has as much as planned, or the
/// GPUs no less.
fn shows_all_on_gpus(rows: &[Compared]) -> bool {
    let sums = |in_ram: bool| {
        let of = rows.iter().filter(|row| row.term == CheckedTerm::Model && row.part == Part::Model);
        let of: Vec<_> = of.filter(|row| (row.device == CPU) == in_ram).collect();
        let off: f64 = of.iter().map(|row| row.tolerance.0).sum();
        let seen = of.iter().map(|row| row.observed.map(|mib| mib.0)).sum::<Option<f64>>().filter(|_| !of.is_empty());
        Some((seen?, of.iter().filter_map(|row| row.planned).map(|mib| mib.0).sum::<f64>(), off))
    };
    sums(true).is_some_and(|(seen, planned, off)| (seen - planned).abs() <= off)
        || sums(false).is_some_and(|(seen, planned, off)| seen + off >= planned)
}

/// Where every GPU has the weights that are planned, so that they are those of the file, more of the mapped file in RAM
/// is what lies between them: the file has them in another order.
fn explain_other_order(rows: &mut [Compared]) {
    let is_weight = |row: &&Compared| row.term == CheckedTerm::Model && row.part == Part::Model;
    let mut on_gpus = rows.iter().filter(is_weight).filter(|row| row.device != CPU).peekable();
    if on_gpus.peek().is_none() || !on_gpus.all(Compared::is_same) {
        return;
    }
    let in_ram = rows.iter_mut().filter(|row| is_weight(&&**row) && row.device == CPU && row.is_mapped);
    for row in in_ram.filter(|row| is_open(row) && row.difference().0 > 0.0) {
        (row.uncounted, row.reason) = (Some(Uncounted::Mapped), Some(reason::MAPPED_SPAN));
    }
}

/// Rows that are the same.
fn same(rows: &[Compared]) -> usize {
    rows.iter().filter(|row| row.is_same()).count()
}

/// Whether a row differs without a reason.
pub fn is_open(row: &Compared) -> bool {
    !row.agrees() && row.reason.is_none()
}
