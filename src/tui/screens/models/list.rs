//! The columns of the model list, and its rows.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;

use super::ModelBrowser;
use crate::answer::FitSummary;
use crate::library::{ModelOrigin, ModelStatus};
use crate::page::palette::sign;
use crate::plan::{Outcome, Plan};
use crate::tui::app::library::ModelRow;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::list;
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::{parameters, short};

/// A column of the list; the list can be sorted by each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListColumn {
    Name,
    /// Sorted by it: recent models, local models, the catalogue with the best first; while searching, the best match first.
    #[default]
    Origin,
    Parameters,
    Quantisation,
    Size,
    Trained,
    /// Sorted by it: by the share on GPUs.
    Verdict,
    Fits,
    Speed,
}

/// All columns, from left to right.
const COLUMNS: [ListColumn; 9] = [
    ListColumn::Name,
    ListColumn::Origin,
    ListColumn::Parameters,
    ListColumn::Quantisation,
    ListColumn::Size,
    ListColumn::Trained,
    ListColumn::Verdict,
    ListColumn::Fits,
    ListColumn::Speed,
];

impl ListColumn {
    /// Its title.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Origin => "where",
            Self::Parameters => "params",
            Self::Quantisation => "quant",
            Self::Size => "size",
            Self::Trained => "trained",
            Self::Verdict => "verdict",
            Self::Fits => "context",
            Self::Speed => "tok/s",
        }
    }

    /// The column to sort by after this one: those of [`COLUMNS`], with the default order first.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Origin => Self::Name,
            Self::Name => Self::Parameters,
            _ => COLUMNS.into_iter().skip_while(|&column| column != self).nth(1).unwrap_or_default(),
        }
    }

    /// Width including a gap to the left, and the minimum width of a list that shows it, in a list `wide` cells wide.
    const fn cells(self, wide: u16) -> (u16, u16) {
        match self {
            Self::Name => (0, 0),
            Self::Origin => (16, 116),
            // with the active ones
            Self::Parameters if wide >= 92 => (16, 0),
            Self::Parameters => (9, 64),
            Self::Quantisation => (10, 86),
            Self::Size => (10, 0),
            Self::Trained if wide >= 130 => (9, 102),
            Self::Trained => (8, 102),
            Self::Verdict => (17, 0),
            Self::Fits => (8, 0),
            Self::Speed if wide >= 130 => (17, 76),
            Self::Speed => (11, 76),
        }
    }

    /// The columns that fit into `row`, and their places.
    pub(super) fn within(row: Rect) -> Vec<(Self, Rect)> {
        let shown = COLUMNS.into_iter().filter(|column| column.cells(row.width).1 <= row.width);
        let shown: Vec<Self> = shown.collect();
        let width = |&column: &Self| match column {
            Self::Name => Constraint::Fill(1),
            _ => Constraint::Length(column.cells(row.width).0),
        };
        let places = Layout::horizontal(shown.iter().map(width)).split(row);
        shown.into_iter().zip(places.iter().copied()).collect()
    }

    /// Whether its cells begin at its left, after a gap; those of the others end at its right.
    const fn is_left(self) -> bool {
        matches!(self, Self::Origin | Self::Quantisation | Self::Verdict)
    }
}

/// Draws the titles of the columns; the sorted one has an arrow. Speeds are for `depth` tokens in the cache.
pub(super) fn head(browse: &ModelBrowser, depth: u64, row: Rect, theme: Theme, buffer: &mut Buffer) {
    for (column, place) in ListColumn::within(row) {
        let sorted = column == browse.sort && column != ListColumn::default();
        let sign = match (sorted, browse.sort.ascends() == browse.reversed) {
            (false, _) => "",
            (true, true) => "▾",
            (true, false) => "▴",
        };
        let ink = if sorted { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let title = match (column, browse.need) {
            (ListColumn::Verdict, Some(tokens)) => format!("at {}{sign}", short(tokens)),
            (ListColumn::Speed, _) => format!("{}{sign}", speed_title(depth, place.width)),
            _ => format!("{}{sign}", column.title()),
        };
        let mut writer = RowWriter::new(buffer, place, 0);
        match column {
            ListColumn::Name => writer.skip(4).put(&title, ink),
            _ if column.is_left() => writer.skip(2).put(&title, ink),
            _ => writer.right(&title, ink),
        };
    }
}

/// `≈ tok/s at 64k`, `≈ tok/s, empty`; in few cells without the unit's sign.
fn speed_title(depth: u64, cells: u16) -> String {
    match (depth, cells > 12) {
        (0, true) => "≈ tok/s, empty".to_owned(),
        (0, false) => "tok/s at 0".to_owned(),
        (depth, true) => format!("≈ tok/s at {}", short(depth)),
        (depth, false) => format!("tok/s {}", short(depth)),
    }
}

/// Draws `row` at `place`, where the context `need` is needed. If its status is `old`, for other settings, what depends
/// on them is `…`.
pub(super) fn draw(
    row: &ModelRow,
    (old, need): (bool, Option<u64>),
    place: Rect,
    chosen: bool,
    theme: Theme,
    buffer: &mut Buffer,
) {
    let broken = match (&row.status, row.item.on_disk()) {
        (_, Some(Err(why))) => Some(why),
        (ModelStatus::Failed(why), _) => Some(why.as_str()),
        _ => None,
    };
    let (ink, dim) = (list::ink(place, chosen, theme, buffer), theme.ink(Hue::Dim));
    let ink = if broken.is_some() && !chosen { dim } else { ink };
    for (column, cell) in ListColumn::within(place) {
        let mut writer = RowWriter::new(buffer, cell, 0);
        match (column, broken) {
            (ListColumn::Name, _) => {
                name(row, broken.is_some(), if chosen { "▸ " } else { "  " }, ink, theme, &mut writer);
            }
            (_, Some(why)) => {
                let rest = Rect { width: place.right().saturating_sub(cell.x), ..cell };
                RowWriter::new(buffer, rest, 0).put(" ✗ ", theme.ink(Hue::Over)).put(why, theme.ink(Hue::Over));
                return;
            }
            (_, None) => {
                let (text, ink) = match text(row, column, (old, need), cell.width) {
                    (text, Some(hue)) => (text, theme.ink(hue)),
                    (text, None) => (text, ink),
                };
                // what is not known yet is in the middle of no column
                if column.is_left() && text != "·" {
                    writer.skip(2).put(&text, ink);
                } else {
                    writer.right(&text, ink);
                }
            }
        }
    }
}

/// Draws the first column: the sign of the origin, the name, and what the model reads besides text.
fn name(row: &ModelRow, broken: bool, mark: &str, ink: Style, theme: Theme, writer: &mut RowWriter<'_>) {
    let name = &row.item.name;
    let (sign, hue) = origin(row.item.origin);
    writer.put(mark, ink).put(sign, theme.ink(hue)).skip(1);
    let room = writer.room().saturating_sub(width(name) + 1);
    if let Some((words, letters)) = row.item.mark().filter(|_| !broken) {
        let mark = if width(words) <= room { words } else { letters };
        writer.right(&format!(" {mark}"), theme.ink(Hue::Dim));
    }
    match row.item.origin {
        // a file; of a name on a server the beginning says more
        ModelOrigin::Recent if name.to_lowercase().ends_with(".gguf") => writer.put_path(name, ink),
        // its end is the quantisation
        ModelOrigin::Repository => writer.put_path(name, ink),
        _ => writer.put(name, ink),
    };
}

/// The text of a cell `cells` wide, and its colour if it is not the row's.
fn text(row: &ModelRow, column: ListColumn, (old, need): (bool, Option<u64>), cells: u16) -> (String, Option<Hue>) {
    let dim = |text: &str| (text.to_owned(), Some(Hue::Dim));
    // which quantisation of one is best depends on the machine
    let offered = row.item.origin == ModelOrigin::Catalogue;
    let changes = match column {
        ListColumn::Quantisation | ListColumn::Size => offered,
        ListColumn::Verdict | ListColumn::Fits | ListColumn::Speed => true,
        _ => false,
    };
    let summary = row.status.fit_summary();
    match (column, row.status.plan()) {
        (ListColumn::Name, _) => (row.item.name.clone(), None),
        (ListColumn::Origin, _) => dim(row.item.origin.name()),
        (_, None) => dim("·"),
        (_, Some(_)) if old && changes => dim("…"),
        (ListColumn::Parameters, Some(plan)) if cells > 9 => (plan.model.parameters_text(), None),
        (ListColumn::Parameters, Some(plan)) => (parameters(plan.model.parameters), None),
        (ListColumn::Quantisation, Some(plan)) => {
            (plan.model.file_type.clone().unwrap_or_else(|| "?".to_owned()), None)
        }
        (ListColumn::Size, Some(plan)) => (plan.model.bytes.to_string(), None),
        (ListColumn::Trained, Some(plan)) => dim(&plan.model.context_train.map_or_else(|| "?".to_owned(), short)),
        (ListColumn::Verdict, Some(plan)) => {
            let (words, hue) = verdict(plan, need);
            (words, Some(hue))
        }
        (ListColumn::Fits, Some(_)) => summary.map_or_else(|| dim("…"), |summary| (fits(summary), None)),
        (ListColumn::Speed, Some(_)) => {
            let pace = |summary: &FitSummary| {
                summary.pace(usize::from(cells.saturating_sub(1))).unwrap_or_else(|| "–".to_owned())
            };
            summary.map_or_else(|| dim("…"), |summary| (pace(summary), None))
        }
    }
}

/// The sign of a model's origin: filled if it is local.
const fn origin(origin: ModelOrigin) -> (&'static str, Hue) {
    match origin {
        ModelOrigin::Store(_) => ("●", Hue::Fine),
        ModelOrigin::Running => ("◆", Hue::Fine),
        ModelOrigin::Repository | ModelOrigin::Folder => ("○", Hue::Fine),
        ModelOrigin::Recent => ("◆", Hue::Dim),
        ModelOrigin::Catalogue => ("○", Hue::Dim),
    }
}

/// `✓ VRAM`, `▲ layers 63 %`, and `✗ trained 4k` where that is too little.
fn verdict(plan: &Plan, need: Option<u64>) -> (String, Hue) {
    if let Some(trained) =
        plan.model.context_train.filter(|_| need.is_some_and(|need| !plan.model.is_trained_for(need)))
    {
        return (format!("✗ trained {}", short(trained)), Hue::Over);
    }
    let (sign, hue) = sign(plan.outcome());
    let share = match plan.outcome() {
        Outcome::LayersInRam | Outcome::ExpertsInRam | Outcome::PartsInRam => {
            format!(" {}", plan.totals.gpu.share_of(plan.totals.all))
        }
        _ => String::new(),
    };
    (format!("{sign} {}{share}", plan.in_ram_short()), hue)
}

/// The largest context with all in VRAM, or in RAM where there are no GPUs.
fn fits(summary: &FitSummary) -> String {
    summary.context().map_or_else(|| "–".to_owned(), short)
}
