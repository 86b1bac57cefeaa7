//! The filters of the model list, and their bar.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::ModelBrowser;
use super::list::ListColumn;
use crate::catalogue::Use;
use crate::library::{ModelFilter, ModelOrigin};
use crate::model::Modalities;
use crate::plan::Outcome;
use crate::tui::action::Command;
use crate::tui::app::library::ModelRow;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::short;

/// What models can be asked for, in turn.
const USES: [Use; 6] = [Use::Code, Use::Reasoning, Use::Chat, Use::Translation, Use::Ocr, Use::Embedding];

/// Which models are filtered out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BrowseFilter {
    /// Models beyond these limits.
    pub limits: ModelFilter,
    /// Models that are not local.
    pub here: bool,
    /// Models of other families than this one.
    pub family: Option<String>,
}

impl BrowseFilter {
    /// Whether any filter is set.
    pub(super) fn any(&self) -> bool {
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

    /// The next use, the first after none and none after the last.
    pub(super) fn next_use(&mut self) {
        let now = self.limits.uses.first().and_then(|now| USES.iter().position(|one| one == now));
        let next = USES.get(now.map_or(0, |now| now + 1));
        self.limits.uses = next.copied().into_iter().collect();
    }

    pub(super) fn keeps(&self, row: &ModelRow, need: Option<u64>) -> bool {
        keeps(&self.limits, row, need)
            && (!self.here || is_here(row))
            && self.family.as_ref().is_none_or(|family| row.item.family() == *family)
    }
}

/// Whether `limits` keep a model where the context `need` is needed; one that is not planned yet is kept.
pub(super) fn keeps(limits: &ModelFilter, row: &ModelRow, need: Option<u64>) -> bool {
    row.status.plan().is_none_or(|plan| limits.keeps(&row.item, plan, row.status.fit_summary(), need))
}

/// Whether a model can be opened without downloading its header.
pub(super) fn is_here(row: &ModelRow) -> bool {
    !matches!(row.item.origin, ModelOrigin::Catalogue | ModelOrigin::Repository)
}

/// A filter, or the sort order, on the bar.
struct Filter {
    /// The key that toggles it.
    key: &'static str,
    /// Its label.
    word: String,
    /// The same where there is little room; nothing for what is off.
    short: String,
    /// Whether it is on; none for the sort order.
    on: Option<bool>,
    /// The sign before its label.
    sign: &'static str,
    /// The command of a mouse press on it.
    command: Command,
}

impl Filter {
    /// Its width; without a word, that of its key.
    fn cells(&self) -> u16 {
        if self.word.is_empty() {
            return width(self.key);
        }
        width(self.key) + 1 + width(self.sign) + width(&self.word)
    }
}

/// How many models the filters hide.
fn hidden(count: usize) -> String {
    format!("{count} hidden")
}

impl ModelBrowser {
    /// The filters, from left to right, and their places in the bar `row`.
    fn filters(&self, row: Rect) -> [(Filter, Rect); 8] {
        let only = &self.only;
        let family = only.family.as_deref();
        let sort = if self.sort == ListColumn::Origin { "best" } else { self.sort.title() };
        let order = format!("order: {sort}{}", if self.reversed { ", reversed" } else { "" });
        let is_default = self.sort == ListColumn::Origin && !self.reversed;
        let arrow = if self.reversed == self.sort.ascends() { "▾" } else { "▴" };
        let filter = |key, word: &str, short: &str, on: Option<bool>, command| {
            let sign = on.map_or("", |on| if on { "● " } else { "○ " });
            let short = if on == Some(false) { "" } else { short };
            Filter { key, word: word.to_owned(), short: short.to_owned(), on, sign, command }
        };
        let (fits, short_fits) = match only.limits.fits {
            None | Some(Outcome::LayersInRam) => ("fits", "fits"),
            Some(Outcome::ExpertsInRam) => ("layers in VRAM", "layers"),
            Some(_) => ("all in VRAM", "VRAM"),
        };
        let kind = if only.limits.experts == Some(false) { "dense" } else { "experts" };
        let modality = if only.limits.reads.audio { "audio" } else { "vision" };
        let reads = Some(only.limits.reads != Modalities::default());
        let wanted = only.limits.uses.first().map(|wanted| wanted.name());
        let need = self.need.map(short);
        let context = format!("context: {}", need.as_deref().unwrap_or("as planned"));
        let of_family = family.map_or_else(|| "family".to_owned(), |family| format!("family {family}"));
        let short_order = if is_default { String::new() } else { format!("{sort}{arrow}") };
        let mut filters = [
            filter("^F", fits, short_fits, Some(only.limits.fits.is_some()), Command::OnlyFitting),
            filter("^X", kind, kind, Some(only.limits.experts.is_some()), Command::OnlyKind),
            filter("^N", &context, need.as_deref().unwrap_or_default(), None, Command::JudgeBy),
            filter("^L", "local", "local", Some(only.here), Command::OnlyHere),
            filter("^P", modality, modality, reads, Command::OnlyModality),
            filter("^T", wanted.unwrap_or("use"), wanted.unwrap_or_default(), Some(wanted.is_some()), Command::OnlyUse),
            filter("^G", &of_family, family.unwrap_or_default(), Some(family.is_some()), Command::OnlyFamily),
            filter("^S", &order, &short_order, None, Command::Sort),
        ];
        // where there is no room for all, what is off keeps its key alone, so that what is set is never hidden
        let hidden = if self.hidden > 0 { width(&hidden(self.hidden)) + 2 } else { 0 };
        let too_wide =
            |filters: &[Filter]| filters.iter().map(|one| one.cells() + 2).sum::<u16>() + hidden > row.width + 2;
        for at in (0..filters.len()).rev() {
            let is_off = filters[at].on == Some(false) || is_default && filters[at].command == Command::Sort;
            if is_off && too_wide(&filters) {
                filters[at].word.clear();
            }
        }
        if too_wide(&filters) {
            for filter in &mut filters {
                (filter.word, filter.sign) = (std::mem::take(&mut filter.short), "");
            }
        }
        let mut x = row.x;
        filters.map(|filter| {
            let cells = filter.cells();
            let place = Rect { x, width: cells, ..row }.intersection(row);
            x = x.saturating_add(cells + 2);
            (filter, place)
        })
    }

    /// The command of the filter at this position of the bar `row`.
    pub(super) fn filter_at(&self, row: Rect, at: Position) -> Option<Command> {
        self.filters(row).into_iter().find(|(_, place)| place.contains(at)).map(|(filter, _)| filter.command)
    }

    /// Draws the filters with their keys; active ones have a sign and are highlighted.
    pub(super) fn draw_filters(&self, row: Rect, theme: Theme, buffer: &mut Buffer) {
        let mut end = row.x;
        for (Filter { key, word, on, sign, .. }, place) in self.filters(row) {
            let ink = if on == Some(true) { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
            let mut writer = RowWriter::new(buffer, place, 0);
            writer.put(key, theme.ink(Hue::Text));
            if !word.is_empty() {
                writer.skip(1).put(sign, ink).put(&word, ink);
            }
            end = place.right().saturating_add(2);
        }
        let rest = Rect { x: end, width: row.right().saturating_sub(end), ..row };
        if self.hidden > 0 {
            RowWriter::new(buffer, rest, 0).right(&hidden(self.hidden), theme.ink(Hue::Cache));
            return;
        }
        let description = ["context: the most with all in VRAM"];
        if let Some(description) = description.into_iter().find(|description| width(description) <= rest.width) {
            RowWriter::new(buffer, rest, 0).right(description, theme.ink(Hue::Dim));
        }
    }
}
