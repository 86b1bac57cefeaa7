//! The order of the model list, and what a search finds.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use super::filters::{BrowseFilter, keeps};
use super::list::ListColumn;
use crate::catalogue;
use crate::library::{ModelFilter, ModelOrigin, Standing};
use crate::tui::app::library::ModelRow;

/// Added to a context that fits on GPUs, so that it sorts before any that needs RAM.
const GPU: u64 = 1 << 62;

impl ListColumn {
    /// Whether it ascends by default: words do, numbers do not.
    pub(super) const fn ascends(self) -> bool {
        matches!(self, Self::Origin | Self::Name | Self::Quantisation)
    }

    /// What it sorts `row` by; none if that is not known.
    fn key(self, row: &ModelRow, need: Option<u64>) -> Option<SortKey> {
        let plan = row.status.plan();
        let summary = row.status.fit_summary();
        Some(SortKey::Number(match self {
            Self::Origin => 0,
            Self::Name => return Some(SortKey::Text(row.item.name.to_lowercase())),
            Self::Quantisation => return plan?.model.file_type.clone().map(SortKey::Text),
            Self::Parameters => plan?.model.parameters,
            Self::Size => plan?.model.bytes.0,
            Self::Trained => plan?.model.context_train.unwrap_or(0),
            // rounded to nine decimals
            Self::Verdict => {
                let plan = plan.filter(|plan| need.is_none_or(|tokens| plan.model.is_trained_for(tokens)))?;
                (plan.totals.gpu.share_of(plan.totals.all).0 * 1e9) as u64
            }
            Self::Fits => {
                let summary = summary?;
                summary.context_in_vram.map_or(summary.context_in_ram.unwrap_or(0), |tokens| tokens | GPU)
            }
            // rounded to thousandths
            Self::Speed => (summary?.speed.as_ref()?.shown() * 1e3) as u64,
        }))
    }
}

/// Where a model of the catalogue or of a repository stands; none for the others, which come first and keep their order.
fn standing(row: &ModelRow) -> Option<Standing> {
    let is_offered = matches!(row.item.origin, ModelOrigin::Catalogue | ModelOrigin::Repository);
    let plan = row.status.plan().map(AsRef::as_ref);
    is_offered.then(|| Standing::of(&row.item, plan, row.status.fit_summary()))
}

/// What rows are sorted by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Text(String),
    Number(u64),
}

/// The indices of the listed `rows`, in the order `sort`, which may be reversed; `need` is the context needed.
pub(super) fn arranged(
    rows: &[ModelRow],
    search: &str,
    (sort, reversed): (ListColumn, bool),
    only: &BrowseFilter,
    need: Option<u64>,
) -> Vec<usize> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    let (limits, words) = ModelFilter::typed(search);
    let pattern = Pattern::parse(&words, CaseMatching::Ignore, Normalization::Smart);
    let mut letters = Vec::new();
    let mut score = |row: &ModelRow| -> Option<u32> {
        let names = std::iter::once(&row.item.name).chain(&row.item.aliases);
        names.filter_map(|name| pattern.score(Utf32Str::new(name, &mut letters), &mut matcher)).max()
    };
    let mut found: Vec<_> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| only.keeps(row, need) && keeps(&limits, row, need))
        .filter_map(|(index, row)| Some((score(row)?, sort.key(row, need), index)))
        .collect();
    if sort == ListColumn::Origin {
        // of the catalogue's models what runs well and is most capable comes first
        let standings: Vec<Option<Standing>> = rows.iter().map(standing).collect();
        let standing = |index: usize| standings.get(index).copied().flatten();
        found.sort_by(|&(a_score, _, a), &(b_score, _, b)| {
            let best = match (standing(a), standing(b)) {
                (Some(a), Some(b)) => a.compare(&b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            b_score.cmp(&a_score).then(best)
        });
        if reversed {
            found.reverse();
        }
    } else {
        let turned = sort.ascends() == reversed;
        found.sort_by(|(_, a, _), (_, b, _)| match (a, b) {
            (Some(a), Some(b)) if turned => b.cmp(a),
            (Some(a), Some(b)) => a.cmp(b),
            // rows without data come last in either direction
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
    }
    // what is typed as a name of its own stands first, in any order
    let meant = catalogue::described_by(&words).map(|(entry, _)| entry.name.as_str());
    let is_meant = |index: usize| {
        let is_of_catalogue =
            |row: &ModelRow| row.item.origin == ModelOrigin::Catalogue && Some(&*row.item.name) == meant;
        rows.get(index).is_some_and(|row| row.item.name.eq_ignore_ascii_case(&words) || is_of_catalogue(row))
    };
    let (first, others): (Vec<usize>, Vec<usize>) =
        found.into_iter().map(|(.., index)| index).partition(|index| !words.is_empty() && is_meant(*index));
    first.into_iter().chain(others).collect()
}
