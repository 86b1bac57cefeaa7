//! Filters and sort orders of the model list.

use std::cmp::{Ordering, Reverse};

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::library::ModelFilter;
use crate::library::ModelOrigin;
use crate::model::{Modalities, ModelSummary};
use crate::plan::Outcome;
use crate::tui::app::library::ModelRow;
use crate::tui::regions::models::ListColumn;

/// Sort orders of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Recent models, local models, the catalogue; while searching, the best match first.
    #[default]
    Default,
    /// By name.
    Name,
    /// By parameters, descending.
    Parameters,
    /// By quantisation.
    Quantisation,
    /// By size, descending.
    Size,
    /// By trained context, descending.
    Trained,
    /// By share on GPUs, descending.
    Share,
    /// By the largest context that fits, descending.
    Fits,
    /// By speed, descending.
    Speed,
}

impl SortOrder {
    const ALL: [Self; 9] = [
        Self::Default,
        Self::Name,
        Self::Parameters,
        Self::Quantisation,
        Self::Size,
        Self::Trained,
        Self::Share,
        Self::Fits,
        Self::Speed,
    ];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Name => "name",
            Self::Parameters => "params",
            Self::Quantisation => "quant",
            Self::Size => "size",
            Self::Trained => "trained",
            Self::Share => "verdict",
            Self::Fits => "context",
            Self::Speed => "tok/s",
        }
    }

    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        let at = Self::ALL.iter().position(|&sort| sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The sort order of a column.
    pub const fn by(column: ListColumn) -> Self {
        match column {
            ListColumn::Name => Self::Name,
            ListColumn::Origin => Self::Default,
            ListColumn::Parameters => Self::Parameters,
            ListColumn::Quantisation => Self::Quantisation,
            ListColumn::Size => Self::Size,
            ListColumn::Trained => Self::Trained,
            ListColumn::Verdict => Self::Share,
            ListColumn::Fits => Self::Fits,
            ListColumn::Speed => Self::Speed,
        }
    }

    /// Whether it ascends by default: words do, numbers do not.
    pub const fn ascends(self) -> bool {
        matches!(self, Self::Default | Self::Name | Self::Quantisation)
    }

    /// The order of two rows; rows without data come last in either direction.
    fn compare(self, a: &ModelRow, b: &ModelRow, reversed: bool, need: Option<u64>) -> Ordering {
        let turn = |order: Ordering| if self.ascends() == reversed { order.reverse() } else { order };
        let keyed = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => turn(a.cmp(&b)),
            (a, b) => Reverse(a.is_some()).cmp(&Reverse(b.is_some())),
        };
        let of = |key: fn(&ModelSummary) -> u64| {
            let key = |row: &ModelRow| row.status.plan().map(|plan| key(&plan.model));
            keyed(key(a), key(b))
        };
        match self {
            Self::Default => turn(Ordering::Equal),
            Self::Name => turn(a.item.name.to_lowercase().cmp(&b.item.name.to_lowercase())),
            Self::Quantisation => {
                let word = |row: &ModelRow| row.status.plan().and_then(|plan| plan.model.file_type.clone());
                match (word(a), word(b)) {
                    (Some(a), Some(b)) => turn(a.cmp(&b)),
                    (a, b) => Reverse(a.is_some()).cmp(&Reverse(b.is_some())),
                }
            }
            Self::Parameters => of(|model| model.parameters),
            Self::Size => of(|model| model.bytes.0),
            Self::Trained => of(|model| model.context_train.unwrap_or(0)),
            Self::Speed => {
                // thousandths, to compare as an integer
                let speed = |row: &ModelRow| {
                    let speed = row.status.fit_summary()?.speed.as_ref()?;
                    Some((speed.tokens_per_second * 1e3) as u64)
                };
                keyed(speed(a), speed(b))
            }
            Self::Share => {
                // rounded to nine decimals, to compare as an integer
                let share = |row: &ModelRow| {
                    let plan = row.status.plan()?;
                    let fits = need.is_none_or(|tokens| plan.model.is_trained_for(tokens));
                    fits.then(|| (plan.totals.gpu.share_of(plan.totals.all).0 * 1e9) as u64)
                };
                keyed(share(a), share(b))
            }
            Self::Fits => {
                let tokens = |row: &ModelRow| {
                    let summary = row.status.fit_summary()?;
                    Some(summary.context_in_vram.map_or(summary.context_fits.unwrap_or(0), |tokens| tokens | GPU))
                };
                keyed(tokens(a), tokens(b))
            }
        }
    }
}

/// Added to a context that fits on GPUs, so that it sorts before any that needs RAM.
const GPU: u64 = 1 << 62;

/// Which models are filtered out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowseFilter {
    /// Models beyond these limits.
    pub limits: ModelFilter,
    /// Models that are not local.
    pub here: bool,
    /// Models of other families than this one.
    pub family: Option<String>,
}

impl BrowseFilter {
    /// Whether any filter is set.
    pub fn any(&self) -> bool {
        self.limits.any() || self.here || self.family.is_some()
    }

    /// The next choice of how a model must fit.
    pub(super) const fn next_fit(&mut self) {
        self.limits.fits = match self.limits.fits {
            None => Some(Outcome::LayersInRam),
            Some(Outcome::LayersInRam) => Some(Outcome::ExpertsInRam),
            Some(Outcome::ExpertsInRam) => Some(Outcome::Vram),
            Some(_) => None,
        };
    }

    /// The next choice of models with and without experts.
    pub(super) const fn next_kind(&mut self) {
        self.limits.experts = match self.limits.experts {
            None => Some(true),
            Some(true) => Some(false),
            Some(false) => None,
        };
    }

    /// The next choice of what models read: images, sounds, or whatever.
    pub(super) const fn next_modality(&mut self) {
        let Modalities { vision, audio } = self.limits.reads;
        self.limits.reads = Modalities { vision: !vision && !audio, audio: vision };
    }

    fn keeps(&self, row: &ModelRow, need: Option<u64>) -> bool {
        keeps(&self.limits, row, need)
            && (!self.here || is_here(row))
            && self.family.as_ref().is_none_or(|family| row.item.family() == *family)
    }
}

/// Whether `limits` keep a model where the context `need` is needed; one that is not planned yet is kept.
fn keeps(limits: &ModelFilter, row: &ModelRow, need: Option<u64>) -> bool {
    row.status.plan().is_none_or(|plan| limits.keeps(&plan.model, row.item.modalities(), plan.mainly(), need))
}

/// Whether a model can be opened without downloading its header.
pub fn is_here(row: &ModelRow) -> bool {
    row.item.origin != ModelOrigin::Catalogue
}

/// The indices of the listed `rows`, in the order `sort`, which may be reversed; `need` is the context needed.
pub fn arranged(
    rows: &[ModelRow],
    search: &str,
    (sort, reversed): (SortOrder, bool),
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
    let mut found: Vec<(u32, usize)> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| only.keeps(row, need) && keeps(&limits, row, need))
        .filter_map(|(index, row)| Some((score(row)?, index)))
        .collect();
    if sort == SortOrder::Default {
        found.sort_by_key(|&(score, _)| Reverse(score));
        if reversed {
            found.reverse();
        }
    } else {
        found.sort_by(|&(_, a), &(_, b)| sort.compare(&rows[a], &rows[b], reversed, need));
    }
    found.into_iter().map(|(_, index)| index).collect()
}
