//! Preview of the selected model: layers, devices and verdict.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{BrowseLine, ModelBrowser};
use crate::answer::{parts, verdict};
use crate::library::{ModelOrigin, ModelStatus};
use crate::plan::Plan;
use crate::tui::app::App;
use crate::tui::app::library::ModelRow;
use crate::tui::theme::Hue;
use crate::tui::view::{layers, memory};
use crate::tui::widget::columns::Columns;
use crate::tui::widget::row_writer::{RowWriter, path_end, sentence, shortened, width, wrap};

/// Minimum width for the devices next to the layers.
const WIDE: u16 = 110;

/// Draws the preview into `place`, below a rule.
pub(super) fn draw(app: &App, browse: &ModelBrowser, place: Rect, buffer: &mut Buffer) {
    let row = browse.chosen(&app.library);
    // one for other settings says nothing about these
    let plan = row.filter(|row| !app.library.is_old(row)).and_then(|row| row.status.plan());
    rule(app, row, plan.map(AsRef::as_ref), place, buffer);
    let body = Rect { y: place.y.saturating_add(1), height: place.height.saturating_sub(1), ..place };
    if let Some(plan) = plan {
        let text_only = |row: &ModelRow| row.item.missing_projector().map(|missing| missing.to_string());
        let after = |row: &ModelRow| Some(row.status.fit_summary()?.exact_after.as_ref()?.to_string());
        let remark = |row: &ModelRow| row.item.conversion().or_else(|| text_only(row)).or_else(|| after(row));
        picture(app, plan, row.and_then(remark), body, buffer);
        return;
    }
    sentence(&words(row, browse), body, app.theme.ink(Hue::Dim), buffer);
}

/// `── Qwen3 8B · qwen3 ─────────── 27 of 37 layers on GPU ──`
fn rule(app: &App, row: Option<&ModelRow>, plan: Option<&Plan>, place: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let line = theme.ink(Hue::Border);
    RowWriter::new(buffer, place, 0).put(&"─".repeat(usize::from(place.width)), line);
    let name = match (plan, row) {
        (Some(plan), _) => format!(" {} · {} ", plan.model.name, plan.model.architecture),
        (None, Some(row)) if row.item.origin == ModelOrigin::Recent => {
            format!(" {} ", path_end(&row.item.name, place.width.saturating_sub(6)))
        }
        (None, Some(row)) => format!(" {} ", row.item.name),
        (None, None) => return,
    };
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.skip(2).put(&name, theme.bold(Hue::Text));
    if let Some(plan) = plan {
        let layers_on_gpu = format!(" {} of {} layers on GPU ", plan.on_gpus(), plan.layers.len());
        writer.right("──", line);
        if width(&layers_on_gpu) < writer.room() {
            writer.right(&layers_on_gpu, theme.ink(Hue::Dim));
        }
    }
}

/// `remark` says which one it is, of a model that is listed twice, that it is planned as text only, or what it would be
/// exact after.
fn picture(app: &App, plan: &Plan, remark: Option<String>, body: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let verdict_rows = if body.height >= 8 { 2 } else { 1 };
    // what is loaded beside the model, or which conversion it is, where the layers keep two rows
    let beside_model = Some(parts::sentences(plan).join(". ")).filter(|text| !text.is_empty());
    let beside_model = beside_model.map(|text| format!("With its {text}."));
    let remark = remark.map(|text| format!("{}.", verdict::capitalised(&text))).or(beside_model);
    let part_rows = u16::from(remark.is_some() && body.height >= verdict_rows + 3);
    let above = Rect { height: body.height.saturating_sub(verdict_rows + part_rows), ..body };
    let beside = body.width >= WIDE && above.height >= 3;
    let left = if beside { Rect { width: above.width * 11 / 20, ..above } } else { above };
    // a row for the devices' characters, and one for brackets if there is room
    let under = if left.height >= 4 { 2 } else { 1 };
    let columns =
        Columns::new(Rect { height: left.height.saturating_sub(under), ..left }, plan.layers.len().saturating_sub(1));
    // brackets without a row are clipped
    let mut drawn = Buffer::empty(left.intersection(buffer.area));
    layers::picture(plan, &columns, None, theme, &mut drawn);
    buffer.merge(&drawn);
    if beside {
        let x = left.right().saturating_add(2);
        memory::bars(plan, Rect { x, width: above.right().saturating_sub(x), ..above }, theme, buffer);
    }
    if part_rows > 0 {
        let row = Rect { y: above.bottom(), height: part_rows, ..body };
        let text = shortened(remark.as_deref().unwrap_or_default(), row.width);
        RowWriter::new(buffer, row, 0).put(&text, theme.ink(Hue::Dim));
    }
    let below = Rect { y: above.bottom() + part_rows, height: verdict_rows, ..body };
    let text = format!("{}: {}", plan.outcome().headline(), verdict::sentence(plan, None, None));
    // whole sentences, as many as there is room for
    let mut said = text.as_str();
    let mut lines = wrap(said, below.width);
    while lines.len() > usize::from(verdict_rows)
        && let Some((before, _)) = said.rsplit_once(". ")
    {
        said = before;
        lines = wrap(&format!("{said}."), below.width);
    }
    for (row, line) in (0..verdict_rows).zip(&lines) {
        let last = usize::from(verdict_rows) - 1;
        let line = if usize::from(row) == last { &lines[last..].join(" ") } else { line };
        RowWriter::new(buffer, below, row).put(&shortened(line, below.width), theme.ink(Hue::Text));
    }
}

fn words(row: Option<&ModelRow>, browse: &ModelBrowser) -> String {
    match (row, browse.lines.get(browse.at)) {
        (Some(row), _) => match row.item.on_disk() {
            Some(Err(why)) => format!("It cannot be opened: {why}."),
            _ => match &row.status {
                ModelStatus::Failed(why) if row.item.origin == ModelOrigin::Recent => {
                    format!("{why}. Enter tries again.")
                }
                ModelStatus::Failed(why) => format!("It cannot be planned: {why}."),
                _ => "Planning…".to_owned(),
            },
        },
        (None, Some(BrowseLine::Typed)) => {
            "Searched in order: files, Ollama's local models, the running Ollama, its registry or Hugging Face \
             (hf://owner/repository:QUANT), the catalogue. Only the header is fetched."
                .to_owned()
        }
        _ => String::new(),
    }
}
