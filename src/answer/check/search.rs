//! The search for what explains differences: changes of the request that a log does not always tell are planned, and
//! one that makes rows agree is a reason that holds.

mod trials;

use super::comparison::is_open;
use super::reason::{Reason, is_trial};
use super::rows::{Planned, Shown, plan};
use super::{CPU, CheckedTerm, Compared, Part, log};
use crate::engine::{EngineId, PlanRequest};
use crate::machine::Backend;
use crate::observed::{Load, Mib};
use crate::plan::Plan;
use crate::settings::{CacheType, Context, GpuLayers, Settings};

/// A change of a request.
type Change = Box<dyn Fn(&PlanRequest) -> PlanRequest>;
/// A change, with the reason that it stands for.
type Trial = (Reason, Change);

/// Terms that are compared over all devices too.
const SUMMED: [CheckedTerm; 4] = [CheckedTerm::Model, CheckedTerm::Kv, CheckedTerm::Rs, CheckedTerm::Context];
/// Physical batches that people choose.
const UBATCHES: [u64; 4] = [512, 1024, 2048, 4096];

/// As many coarse figures that agree at once are no chance.
const SEVERAL: usize = 3;

/// What is searched, and what was found so far.
pub struct Search<'a> {
    load: &'a Load,
    shown: Shown<'a>,
    /// Knobs that the user gave, over defaults.
    given: &'a Settings,
    /// Whether the log tells how many layers are on GPUs.
    told_layers: bool,
    /// Whether the log tells caches.
    has_caches: bool,
    /// Reasons that may be tried.
    allowed: &'a dyn Fn(&Reason) -> bool,
    /// The request with every change that is kept.
    now: PlanRequest,
    plan: Planned,
    held: Vec<Reason>,
    plans: Plans,
}

/// Plans that were made, so that none is made twice; none for a request that the engine refuses.
pub type Plans = Vec<(PlanRequest, Option<Planned>)>;

/// What a search comes to.
pub struct Found {
    /// The request with every change that was kept.
    pub request: PlanRequest,
    /// Its plan.
    pub plan: Planned,
    /// The changes.
    pub held: Vec<Reason>,
    /// Whether the log shows one of them by itself.
    pub is_shown: bool,
    /// Every plan that was made.
    pub plans: Plans,
}

impl<'a> Search<'a> {
    /// Begins with the request that was compared; only reasons that `allowed` accepts are tried.
    pub fn new(
        (load, shown, given): (&'a Load, Shown<'a>, &'a Settings),
        (placed, plan): (&PlanRequest, &Planned),
        told_layers: bool,
        allowed: &'a dyn Fn(&Reason) -> bool,
        plans: Plans,
    ) -> Self {
        let (now, plan) = (placed.clone(), plan.clone());
        Self { load, shown, given, told_layers, has_caches: false, allowed, now, plan, held: Vec::new(), plans }
    }

    /// The plan of a request, made once.
    fn plan_of(&mut self, request: &PlanRequest) -> Option<Planned> {
        if let Some((_, plan)) = self.plans.iter().find(|(known, _)| known == request) {
            return plan.clone();
        }
        let plan = plan(request, self.shown).ok();
        self.plans.push((request.clone(), plan.clone()));
        plan
    }

    /// Gives rows that agree after some change that change as their reason; the request with all changes that were kept.
    pub fn explain(mut self, rows: &mut [Compared]) -> Found {
        let told = |row: &Compared| matches!(row.term, CheckedTerm::Kv | CheckedTerm::Context);
        self.has_caches = rows.iter().any(told);
        self.find_context(rows);
        self.hold_context(rows);
        let is_shown = self.experts().is_some_and(|experts| self.keep_shown(&experts, rows));
        let mut left = self.trials();
        loop {
            if let Some(split) = self.split(rows) {
                self.keep(&split, rows);
            }
            if !rows.iter().any(is_open) {
                break;
            }
            // one of a group holds
            let mut holds = |search: &mut Self, group: &Vec<Trial>| group.iter().any(|trial| search.keep(trial, rows));
            let Some(found) = left.iter().position(|group| holds(&mut self, group)) else { break };
            drop(left.remove(found));
        }
        if let Some(placement) = self.placement(rows) {
            self.keep(&placement, rows);
        }
        self.combine(rows);
        Found { request: self.now, plan: self.plan, held: self.held, is_shown, plans: self.plans }
    }

    /// Plans a change on top of those that are kept, and keeps it if rows agree with it that did not, or if all devices
    /// together have what the log says.
    fn keep(&mut self, (reason, change): &Trial, rows: &mut [Compared]) -> bool {
        let request = change(&self.now);
        if request == self.now {
            return false;
        }
        let Some(tried) = self.plan_of(&request) else { return false };
        if rows.iter().any(|row| agrees(row, &self.plan) && !agrees(row, &tried)) {
            return false;
        }
        let because = reason.clone().with(&self.held);
        let agreeing = |row: &&mut Compared| is_open(row) && row.part == Part::Model && agrees(row, &tried);
        // small figures of whole MiB agree by chance one by one
        let mut any = rows.iter_mut().filter(agreeing).any(|row| is_evidence(row))
            || rows.iter_mut().filter(agreeing).count() >= SEVERAL;
        if any {
            rows.iter_mut().filter(agreeing).for_each(|row| row.reason = Some(because.clone()));
        }
        let sums =
            |plan: &Planned| SUMMED.into_iter().filter(|term| is_same_sum(rows, |row| plan.of_row(row), *term)).count();
        any |= sums(&tried) > sums(&self.plan);
        if any {
            if matches!(reason, Reason::Release(_)) {
                self.held.retain(|held| !matches!(held, Reason::Release(_)));
            }
            self.held.push(reason.clone());
            (self.now, self.plan) = (request, tried);
        }
        any
    }

    /// The context with which `base` would have caches as large as those in the log, if they grow with it; in steps of
    /// 1024, as people choose it.
    fn context(&self, base: &PlanRequest, rows: &[Compared]) -> Option<u64> {
        const SHORT: u64 = 32_768;
        let of_caches =
            |row: &&Compared| matches!(row.term, CheckedTerm::Kv | CheckedTerm::Context) && row.part == Part::Model;
        let caches: Vec<&Compared> = rows.iter().filter(of_caches).collect();
        let observed: f64 = caches.iter().filter_map(|row| row.observed).map(|mib| mib.0).sum();
        let with_states = caches.iter().any(|row| row.term == CheckedTerm::Context);
        let planned = |tokens: u64| -> Option<f64> {
            let request = base.changed(|settings| settings.ctx = Context::Tokens(tokens));
            let plan = plan(&request, self.shown).ok()?;
            // on all devices, as layers may move with the context
            let held = plan
                .terms
                .iter()
                .filter(|((_, term), _)| *term == CheckedTerm::Kv || with_states && *term == CheckedTerm::Rs);
            Some(held.map(|(_, mib)| mib.0).sum())
        };
        // windows and states do not grow; what does is even
        let (short, long) = (planned(SHORT)?, planned(2 * SHORT)?);
        let tokens = SHORT as f64 * (1.0 + (observed - short) / (long - short));
        let tokens = (tokens / 1024.0).round() * 1024.0;
        let tokens = (long > short && (1024.0..1e9).contains(&tokens)).then_some(tokens as u64)?;
        let off: f64 = caches.iter().map(|row| row.tolerance.0).sum();
        ((planned(tokens)? - observed).abs() <= off).then_some(tokens)
    }

    /// A context, with the number of sequences that it needs, that explains the caches.
    fn find_context(&mut self, rows: &mut [Compared]) {
        let caches = |row: &Compared| matches!(row.term, CheckedTerm::Kv | CheckedTerm::Context) && is_open(row);
        if self.now.settings.ctx != Context::Auto || !rows.iter().any(caches) {
            return;
        }
        let untold = self.load.settings.n_seq_max.is_none() && self.load.command.is_none();
        for sequences in [self.now.settings.parallel, Some(1), Some(2), Some(8)] {
            if sequences != self.now.settings.parallel && !untold {
                continue;
            }
            let base = self.now.changed(|settings| settings.parallel = sequences);
            let Some(tokens) = self.context(&base, rows) else { continue };
            let words = match sequences.filter(|_| sequences != self.now.settings.parallel) {
                Some(sequences) => format!("--ctx {tokens} --parallel {sequences}"),
                None => format!("--ctx {tokens}"),
            };
            let change = setting(move |settings| {
                (settings.ctx, settings.parallel) = (Context::Tokens(tokens), sequences);
            });
            if self.keep(&(Reason::Setting(words), change), rows) {
                return;
            }
        }
    }

    /// Holds the context that the engine chose, if the caches of the log agree with it: with other settings a fit without
    /// the log's free memory would choose another one.
    fn hold_context(&mut self, rows: &[Compared]) {
        let mut caches =
            rows.iter().filter(|row| matches!(row.term, CheckedTerm::Kv | CheckedTerm::Context)).peekable();
        let agree = caches.peek().is_some() && caches.all(|row| agrees(row, &self.plan));
        if self.now.engine != EngineId::LlamaCpp || self.now.settings.ctx != Context::Auto || !agree {
            return;
        }
        let Ok(plan) = self.now.plan() else { return };
        let request = self.now.changed(|settings| settings.ctx = Context::Tokens(plan.settings.ctx));
        let Some(held) = self.plan_of(&request) else { return };
        if rows.iter().all(|row| agrees(row, &self.plan) == agrees(row, &held)) {
            (self.now, self.plan) = (request, held);
        }
    }

    /// Keeps a change that the log shows, whatever else differs, if weights are nearer with it and nothing is lost.
    fn keep_shown(&mut self, (reason, change): &Trial, rows: &[Compared]) -> bool {
        let request = change(&self.now);
        let Some(tried) = self.plan_of(&request) else { return false };
        let off = |plan: &Planned| -> f64 {
            let weights = rows.iter().filter(|row| row.term == CheckedTerm::Model && row.part == Part::Model);
            weights.filter_map(|row| Some((row.observed?.0 - plan.of_row(row).unwrap_or_default().0).abs())).sum()
        };
        if off(&tried) >= off(&self.plan) || rows.iter().any(|row| agrees(row, &self.plan) && !agrees(row, &tried)) {
            return false;
        }
        self.held.push(reason.clone());
        (self.now, self.plan) = (request, tried);
        true
    }

    /// The layers of each GPU that its caches show, where the log tells no split.
    fn split(&self, rows: &[Compared]) -> Option<Trial> {
        if self.shown.names.len() < 2 || !self.now.settings.tensor_split.is_empty() {
            return None;
        }
        let is_open_sum = |term: &CheckedTerm| {
            rows.iter().any(|row| row.term == *term && is_open(row))
                && is_same_sum(rows, |row| self.plan.of_row(row), *term)
        };
        if ![CheckedTerm::Kv, CheckedTerm::Context].iter().any(is_open_sum) {
            return None;
        }
        let held = |name: &String| {
            let is_cache =
                |row: &&Compared| matches!(row.term, CheckedTerm::Kv | CheckedTerm::Rs | CheckedTerm::Context);
            let own = rows.iter().filter(is_cache).filter(|row| row.part == Part::Model && row.device == *name);
            let held: Vec<f64> = own.filter_map(|row| row.observed).map(|mib| mib.0).collect();
            (!held.is_empty()).then(|| held.iter().sum::<f64>())
        };
        let held: Vec<f64> = self.shown.names.iter().map(held).collect::<Option<_>>()?;
        let counts = layers_of(&held, &self.now.plan().ok()?, self.plan.layers.1);
        if self.given.tensor_split != Settings::default().tensor_split {
            return None;
        }
        let text = counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let change = setting(move |settings| settings.tensor_split.clone_from(&counts));
        Some((Reason::CachesShowLayers(text), change))
    }

    /// How many layers, or layers' experts, are in RAM by the weights there, where the log does not tell it.
    fn placement(&self, rows: &[Compared]) -> Option<Trial> {
        let in_ram = rows.iter().find(|row| row.term == CheckedTerm::Model && row.device == CPU && is_open(row))?;
        if self.told_layers || self.shown.names.is_empty() || is_trial(self.load) {
            return None;
        }
        let seen = in_ram.observed?;
        let layers = self.now.model.block_count() as u64;
        let experts = self.now.model.summary().experts.is_some();
        let trial = |count: u64| -> Trial {
            let (option, change) = if experts {
                let change = setting(move |settings| {
                    (settings.n_cpu_moe, settings.gpu_layers) = (Some(count), GpuLayers::All);
                });
                (format!("--n-cpu-moe {count}"), change)
            } else {
                let on = layers + 1 - count;
                (format!("--gpu-layers {on}"), setting(move |settings| settings.gpu_layers = GpuLayers::Count(on)))
            };
            (Reason::Setting(option), change)
        };
        let weights = |count: u64| {
            let plan = plan(&trial(count).1(&self.now), self.shown).ok()?;
            plan.get(CPU, CheckedTerm::Model)
        };
        // more of them need more RAM
        let (mut least, mut most) = (1, layers);
        while least < most {
            let middle = u64::midpoint(least, most);
            if weights(middle)?.0 + in_ram.tolerance.0 < seen.0 { least = middle + 1 } else { most = middle }
        }
        in_ram.is_within(Mib(seen.0 - weights(least)?.0)).then(|| trial(least))
    }

    /// Several changes at once, for compute buffers that no single one explains: the fewest that explain the most.
    fn combine(&mut self, rows: &mut [Compared]) {
        let is_wanted = |row: &&Compared| row.term == CheckedTerm::Compute && row.part == Part::Model && is_open(row);
        if !rows.iter().any(|row| is_wanted(&row)) {
            return;
        }
        // without a word of it in the log, no flash attention together with others would often agree by chance
        let told = |trial: &Trial| !matches!(trial.0, Reason::FlashAttentionOff(None));
        let (programs, users) = self.of_compute();
        let groups: Vec<Vec<Trial>> =
            programs.into_iter().chain(users).filter(|group| group.iter().all(told)).collect();
        // only builds for Metal have the CPU's BLAS too
        let has_blas = self.shown.names.iter().any(|name| log::backend(name).0 == Backend::Metal);
        let is_twice = |row: &Compared, plan: &Planned| has_blas && is_twice(row, plan);
        let mut best: Option<(usize, Vec<Reason>, PlanRequest, Planned)> = None;
        'choices: for number in 0..groups.iter().map(|group| group.len() + 1).product::<usize>() {
            let (mut rest, mut request, mut reasons) = (number, self.now.clone(), self.held.clone());
            for group in &groups {
                let choice = rest % (group.len() + 1);
                rest /= group.len() + 1;
                let Some((reason, change)) = choice.checked_sub(1).and_then(|at| group.get(at)) else { continue };
                let changed = change(&request);
                // the same as without this choice
                if changed == request {
                    continue 'choices;
                }
                if matches!(reason, Reason::Release(_)) {
                    reasons.retain(|held| !matches!(held, Reason::Release(_)));
                }
                reasons.push(reason.clone());
                request = changed;
            }
            let Some(plan) = self.plan_of(&request) else { continue };
            if rows.iter().any(|row| agrees(row, &self.plan) && !agrees(row, &plan)) {
                continue;
            }
            let explained = rows.iter().filter(is_wanted).filter(|row| agrees(row, &plan) || is_twice(row, &plan));
            let count = explained.count();
            let better =
                best.as_ref().is_none_or(|(than, of, ..)| count > *than || count == *than && reasons.len() < of.len());
            if count > 0 && better {
                best = Some((count, reasons, request, plan));
            }
        }
        let Some((_, reasons, request, plan)) = best else { return };
        let together = |reasons: &[Reason]| match reasons {
            [only] => only.clone(),
            all => Reason::Together(all.to_vec()),
        };
        for row in rows.iter_mut().filter(|row| is_wanted(&&**row)) {
            if agrees(row, &plan) {
                row.reason = Some(together(&reasons));
            } else if is_twice(row, &plan) {
                row.reason = Some(together(&[reasons.as_slice(), &[Reason::TwiceOnCpu]].concat()));
            }
        }
        (self.now, self.plan, self.held) = (request, plan, reasons);
    }
}

/// Layers of each device whose caches come to what it holds, the rest and the output on the last.
fn layers_of(held: &[f64], plan: &Plan, layers: usize) -> Vec<f64> {
    let caches: Vec<f64> = plan.layers.iter().map(|layer| Mib::of(layer.cache).0).collect();
    let (mut at, mut counts) = (0, Vec::with_capacity(held.len()));
    for mib in held.iter().take(held.len().saturating_sub(1)) {
        let (first, mut sum) = (at, 0.0);
        while let Some(cache) =
            caches.get(at).filter(|cache| sum + **cache <= mib + 0.5 + mib * 1e-4 && sum + 0.5 < *mib)
        {
            sum += cache;
            at += 1;
        }
        counts.push((at - first) as f64);
    }
    counts.push(layers.saturating_sub(at) as f64);
    counts
}

/// Another type of K and V.
fn cache_type(ty: CacheType) -> Trial {
    let change = setting(move |settings| (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty)));
    (Reason::Setting(format!("--kv-type {ty}")), change)
}

/// A change of settings.
fn setting(change: impl Fn(&mut Settings) + 'static) -> Change {
    Box::new(move |request| request.changed(&change))
}

fn agrees(row: &Compared, plan: &Planned) -> bool {
    let then = plan.of_row(row).unwrap_or_default();
    row.observed.is_some_and(|seen| row.is_within(Mib(seen.0 - then.0)))
}

/// Whether a figure is told so well that it seldom agrees by chance: to 2 %.
fn is_evidence(row: &Compared) -> bool {
    row.observed.is_some_and(|seen| row.tolerance.0 <= 0.02 * seen.0)
}

/// Whether RAM has the buffer of two backends, as with Metal: the CPU's and that of BLAS.
fn is_twice(row: &Compared, plan: &Planned) -> bool {
    let then = plan.of_row(row).unwrap_or_default();
    row.device == CPU && row.observed.is_some_and(|seen| (seen.0 - 2.0 * then.0).abs() <= 2.0 * row.tolerance.0)
}

/// Whether all devices together have as much of a term in a plan as in the log.
fn is_same_sum(rows: &[Compared], planned: impl Fn(&Compared) -> Option<Mib>, term: CheckedTerm) -> bool {
    let of = || rows.iter().filter(move |row| row.term == term && row.part == Part::Model);
    let planned: f64 = of().filter_map(planned).map(|mib| mib.0).sum();
    let observed: f64 = of().filter_map(|row| row.observed).map(|mib| mib.0).sum();
    let off: f64 = of().map(|row| row.tolerance.0).sum();
    of().count() > 1 && observed > 0.0 && (planned - observed).abs() <= off
}

/// Terms of which all devices together have what is planned.
pub fn same_in_total(rows: &[Compared]) -> Vec<CheckedTerm> {
    SUMMED.into_iter().filter(|term| is_same_sum(rows, |row| row.planned, *term)).collect()
}
