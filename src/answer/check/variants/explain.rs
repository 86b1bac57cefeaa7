//! Reasons for what differs still once other plans were tried.

use super::super::planned::{CPU, Planned};
use super::super::reason::{self, Reason};
use super::super::{CheckedTerm, Compared, Part, machine, search, settings};
use super::{Base, is_open};
use crate::engine::PlanRequest;
use crate::machine::Backend;
use crate::observed::Mib;
use crate::settings::{Outputs, Release};

impl Base<'_> {
    /// What the log tells of rows that no other plan explains.
    pub(super) fn explain_rest(
        &self,
        rows: &mut [Compared],
        placed: &PlanRequest,
        plan: &Planned,
        assumed: &[&'static str],
    ) {
        let elsewhere = search::same_in_total(rows);
        let told = self.load.layers_on_gpus().is_some() || settings::placement(self.load, &self.names).is_some();
        let own = self.own_placement().is_some();
        let one_device = self.names.is_empty();
        let in_ram = |row: &Compared| row.term == CheckedTerm::Model && row.device == CPU;
        Self::explain_whole_mapping(rows, plan);
        // where RAM holds no more than planned, all layers are on GPUs
        let all = !rows.iter().any(|row| in_ram(row) && !row.agrees());
        let told = told || all && rows.iter().any(in_ram) || self.asked_for_all();
        let cells = self.load.contexts.first().is_some_and(|context| !context.caches.is_empty());
        self.explain_beside(rows, placed, plan);
        for row in rows.iter_mut().filter(|row| is_open(row)) {
            let other_file = !self.asked.is_same_file;
            row.reason = match row.term {
                CheckedTerm::Model if reason::is_trial(self.load) && !self.asked_for_all() => Some(Reason::FitTrial),
                term if elsewhere.contains(&term) => Some(Reason::OtherDevices),
                CheckedTerm::Model if other_file && (told || one_device) => Some(Reason::Mixture),
                CheckedTerm::Model if told || one_device => Some(Reason::OtherFile),
                CheckedTerm::Model | CheckedTerm::Kv | CheckedTerm::Rs if !told && !own && !one_device => {
                    Some(Reason::UntoldLayers)
                }
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

    /// Metal maps the file in one piece, whose span a table counts: the weights that RAM has lie within it.
    fn explain_whole_mapping(rows: &mut [Compared], plan: &Planned) {
        let in_ram = plan.get(CPU, CheckedTerm::Model).unwrap_or_default();
        let is_metal = |row: &Compared| machine::backend(&row.device).0 == Backend::Metal;
        for row in rows.iter_mut().filter(|row| row.term == CheckedTerm::Model && is_open(row) && is_metal(row)) {
            if in_ram.0 > 0.0 && row.is_within(Mib(row.difference().0 - in_ram.0)) {
                row.reason = Some(Reason::MappedSpan);
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
            row.reason = Some(match (row.part, row.term) {
                (Part::Projector, CheckedTerm::Model) => Reason::OtherProjector,
                (Part::Draft, CheckedTerm::Model) => Reason::Mixture,
                _ if settings::is_older(self.load) => Reason::OlderBuild(self.load.build.or(self.load.older_than)),
                (part, _) => Reason::OtherBeside(part),
            });
        }
    }
}
