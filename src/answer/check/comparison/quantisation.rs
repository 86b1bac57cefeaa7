//! The quantisation that a log shows: what llama-quantize makes, or a file that was published.

use super::super::rows::{self, Planned};
use super::super::{CheckedTerm, Compared};
use super::Comparison;
use crate::engine::{PlanRequest, PreparedModel};
use crate::gguf::FileType;
use crate::model::mixture::{PublishedFile, Quantisation};
use crate::model::quantise::Quantiser;
use crate::observed::Mib;

impl Comparison<'_> {
    /// The quantisation whose weights are those in the log, if the model is not the file itself and its own are not:
    /// what llama-quantize makes, or a file that was published. With the request and its plan.
    pub(super) fn quantisation(
        &self,
        placed: &PlanRequest,
        rows: &[Compared],
    ) -> Option<(Quantisation, (PlanRequest, Planned))> {
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
        let quantiser = Quantiser::of(&placed.opened);
        let types =
            FileType::ALL.iter().filter_map(|to| Some((off(quantiser.bytes_in(*to).ok()?.0), WeightsTried::Type(*to))));
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
    pub(super) fn request(&self, placed: &PlanRequest) -> Option<(Quantisation, PlanRequest)> {
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
