//! Reasons for what differs: other plans that are tried, and what the log tells.

use super::super::evidence::Evidence;
use super::super::log;
use super::super::reason::{self, Reason};
use super::super::rows::Planned;
use super::super::search::{Found, Plans, Search, same_in_total};
use super::super::{CPU, CheckedTerm, Compared, Part, Uncounted};
use super::Comparison;
use crate::engine::PlanRequest;
use crate::machine::Backend;
use crate::observed::Mib;
use crate::settings::{Outputs, Release};

impl Comparison<'_> {
    /// Gives each row that differs the first reason that holds. Where settings that the log does not tell make its
    /// figures agree, it is compared with a plan of these: the request, its plan and those settings.
    pub(super) fn explain(
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
pub(super) fn same(rows: &[Compared]) -> usize {
    rows.iter().filter(|row| row.is_same()).count()
}

/// Whether a row differs without a reason.
pub fn is_open(row: &Compared) -> bool {
    !row.agrees() && row.reason.is_none()
}
