//! A row of the model list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::answer::FitSummary;
use crate::library::{ModelOrigin, ModelStatus};
use crate::plan::{Outcome, Plan};
use crate::tui::app::browse::{ModelBrowser, SortOrder};
use crate::tui::app::library::ModelRow;
use crate::tui::regions::models::{ListColumn, ModelsRegions};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::{RowWriter, width};
use crate::units::{parameters, short};

/// Draws the titles of the columns; the sorted one has an arrow.
pub fn head(browse: &ModelBrowser, page: &ModelsRegions, theme: Theme, buffer: &mut Buffer) {
    for (column, place) in page.columns(page.head.y) {
        let sorted = SortOrder::by(column) == browse.sort && browse.sort != SortOrder::Default;
        let down = browse.sort.ascends() == browse.reversed;
        let sign = if !sorted {
            ""
        } else if down {
            "▾"
        } else {
            "▴"
        };
        let ink = if sorted { theme.bold(Hue::Focus) } else { theme.ink(Hue::Dim) };
        let title = match (column, browse.need) {
            (ListColumn::Verdict, Some(tokens)) => format!("at {}", short(tokens)),
            _ => column.title().to_owned(),
        };
        let title = title + sign;
        let mut writer = RowWriter::new(buffer, place, 0);
        match column {
            ListColumn::Name => writer.skip(4).put(&title, ink),
            ListColumn::Origin | ListColumn::Quantisation | ListColumn::Verdict => writer.skip(2).put(&title, ink),
            _ => writer.right(&title, ink),
        };
    }
}

/// Draws `row` at `place`, where the context `need` is needed. If its status is `old`, for other settings, what depends
/// on them is `…`.
pub fn draw(
    row: &ModelRow,
    (old, need): (bool, Option<u64>),
    page: &ModelsRegions,
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
    let ink = match (chosen, broken) {
        (true, _) => theme.bold(Hue::Focus),
        (false, None) => theme.ink(Hue::Text),
        (false, Some(_)) => theme.ink(Hue::Dim),
    };
    let columns = page.columns(place.y);
    if let Some((_, name)) = columns.first() {
        let (sign, hue) = origin(row.item.origin);
        let mut writer = RowWriter::new(buffer, *name, 0);
        writer.put(if chosen { "▸ " } else { "  " }, ink).put(sign, theme.ink(hue)).skip(1);
        let room = writer.room().saturating_sub(width(&row.item.name) + 1);
        if let Some((words, letters)) = row.item.modalities().words().filter(|_| broken.is_none()) {
            let mark = if width(words) <= room { words } else { letters };
            writer.right(&format!(" {mark}"), theme.ink(Hue::Dim));
        }
        match row.item.origin {
            // a file; of a name on a server the beginning says more
            ModelOrigin::Recent if row.item.name.to_lowercase().ends_with(".gguf") => {
                writer.put_path(&row.item.name, ink)
            }
            _ => writer.put(&row.item.name, ink),
        };
    }
    if let Some(why) = broken {
        let start = columns.get(1).map_or(place.x, |(_, next)| next.x);
        let rest = Rect { x: start, width: place.right().saturating_sub(start), ..place };
        RowWriter::new(buffer, rest, 0).put(" ✗ ", theme.ink(Hue::Over)).put(why, theme.ink(Hue::Over));
        return;
    }
    for (column, place) in columns.into_iter().skip(1) {
        let mut writer = RowWriter::new(buffer, place, 0);
        if column == ListColumn::Origin {
            writer.skip(2).put(row.item.origin.name(), theme.ink(Hue::Dim));
            continue;
        }
        let Some(plan) = row.status.plan() else {
            writer.right("·", theme.ink(Hue::Dim));
            continue;
        };
        let model = &plan.model;
        // which quantisation is best depends on the machine
        let chosen_for =
            row.item.origin == ModelOrigin::Catalogue && matches!(column, ListColumn::Quantisation | ListColumn::Size);
        let judged = matches!(column, ListColumn::Verdict | ListColumn::Fits | ListColumn::Speed);
        if old && (chosen_for || judged) {
            if matches!(column, ListColumn::Quantisation | ListColumn::Verdict) {
                writer.skip(2).put("…", theme.ink(Hue::Dim));
            } else {
                writer.right("…", theme.ink(Hue::Dim));
            }
            continue;
        }
        let _writer = match column {
            ListColumn::Name | ListColumn::Origin => continue,
            ListColumn::Parameters if place.width > 9 => writer.right(&model.parameters_text(), ink),
            ListColumn::Parameters => writer.right(&parameters(model.parameters), ink),
            ListColumn::Quantisation => writer.skip(2).put(model.file_type.as_deref().unwrap_or("?"), ink),
            ListColumn::Size => writer.right(&model.bytes.to_string(), ink),
            ListColumn::Trained => {
                writer.right(&model.context_train.map_or_else(|| "?".to_owned(), short), theme.ink(Hue::Dim))
            }
            ListColumn::Verdict => {
                let (words, style) = verdict(plan, need, theme);
                writer.skip(2).put(&words, style)
            }
            ListColumn::Fits => match row.status.fit_summary() {
                Some(summary) => writer.right(&fits(summary), ink),
                None => writer.right("…", theme.ink(Hue::Dim)),
            },
            ListColumn::Speed => {
                let speed = row.status.fit_summary().and_then(|summary| summary.speed.as_deref());
                writer.right(&speed.map_or_else(|| "–".to_owned(), |speed| speed.range().to_string()), ink)
            }
        };
    }
}

/// The sign of a model's origin: filled if it is local.
const fn origin(origin: ModelOrigin) -> (&'static str, Hue) {
    match origin {
        ModelOrigin::Store(_) => ("●", Hue::Fine),
        ModelOrigin::Running => ("◆", Hue::Fine),
        ModelOrigin::Recent => ("◆", Hue::Dim),
        ModelOrigin::Catalogue => ("○", Hue::Dim),
    }
}

/// `✓ VRAM`, `▲ layers 63 %`, and `✗ trained 4k` where that is too little.
fn verdict(plan: &Plan, need: Option<u64>, theme: Theme) -> (String, Style) {
    if let Some(trained) =
        plan.model.context_train.filter(|_| need.is_some_and(|need| !plan.model.is_trained_for(need)))
    {
        return (format!("✗ trained {}", short(trained)), theme.ink(Hue::Over));
    }
    let (sign, hue) = crate::page::palette::sign(plan.outcome());
    let share = match plan.outcome() {
        Outcome::LayersInRam | Outcome::ExpertsInRam | Outcome::PartsInRam => {
            format!(" {}", plan.totals.gpu.share_of(plan.totals.all))
        }
        _ => String::new(),
    };
    (format!("{sign} {}{share}", plan.in_ram_short()), theme.ink(hue))
}

/// The largest context with all in VRAM, or in brackets the largest with layers in RAM.
fn fits(summary: &FitSummary) -> String {
    match (summary.context_in_vram, summary.context_fits) {
        (Some(tokens), _) => short(tokens),
        (None, Some(tokens)) => format!("({})", short(tokens)),
        (None, None) => "–".to_owned(),
    }
}
