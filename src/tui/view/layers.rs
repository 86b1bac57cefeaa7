//! The layers panel: one column per layer with its device below, and the output layer separately.
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::machine::DeviceKind;
use crate::plan::{LayerPlan, Outcome, Plan};
use crate::tui::app::{App, Detection};
use crate::tui::regions::{Panel, inside};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::bar::BarPart;
use crate::tui::widget::columns::{self, ColumnHeights, Columns, ELSEWHERE};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};
use crate::units::Bytes;

/// Maximum height of the output layer relative to the blocks; taller ones are cut.
const TALLEST_OUTPUT: f64 = 1.5;

/// Width of the legend right of the columns.
const KEY: u16 = 19;

/// The space right of the columns, if it is enough for the legend.
fn key(columns: &Columns) -> Option<Rect> {
    let x = columns.output_x.saturating_add(columns.output_width).saturating_add(2);
    let width = columns.area.right().saturating_sub(x);
    (width >= KEY).then_some(Rect { x, width, ..columns.area })
}

/// Draws the panel.
pub fn draw(app: &App, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.panels.regions.layers);
    let focused = app.panels.focus == Panel::Layers;
    let Some(plan) = &app.request.plan else {
        let inner = panel::frame(buffer, area, Panel::Layers.title(), "", focused, theme);
        empty(app, inner, buffer);
        return;
    };
    let blocks = plan.layers.len().saturating_sub(1);
    let columns = columns(area, blocks);
    let mut right_title = format!("{} of {} on GPU", plan.on_gpus(), plan.layers.len());
    if columns.per_column > 1 {
        right_title = format!("{right_title}, {} per col", columns.per_column);
    }
    if matches!(plan.outcome(), Outcome::PartsInRam | Outcome::ExpertsInRam) {
        right_title = format!("{right_title}, part in RAM");
    }
    panel::frame(buffer, area, Panel::Layers.title(), &right_title, focused, theme);
    let key = key(&columns);
    match key {
        Some(place) => draw_key(app, plan, place, buffer),
        None => legend(app, plan, focused, buffer),
    }
    let scale = picture(plan, &columns, focused.then_some(app.panels.cursors.layer), theme, buffer);
    axis(buffer, area, &columns, scale, theme);
}

/// Draws the layers of `plan` on `columns` with their devices below, and brackets if there is a row for them. Returns
/// the bytes at full height.
pub fn picture(plan: &Plan, columns: &Columns, cursor: Option<usize>, theme: Theme, buffer: &mut Buffer) -> Bytes {
    let blocks = plan.layers.len().saturating_sub(1);
    let groups: Vec<LayerColumn> = groups(plan, columns);
    let tallest = groups.iter().filter(|group| group.first < blocks).map(LayerColumn::all).max().unwrap_or_default();
    let output = groups.last().map(LayerColumn::all).unwrap_or_default();
    let scale = if output.share_of(tallest).0 <= TALLEST_OUTPUT { tallest.max(output) } else { tallest };
    let scale = if scale == Bytes::ZERO { output } else { scale };
    for group in &groups {
        let (x, cells) = columns.place(group.first);
        let in_ram = has_layers_in_ram(plan) && is_ram(plan, group.device);
        let elsewhere = if in_ram { group.weights } else { group.elsewhere };
        let stack = ColumnHeights {
            weights: group.weights.share_of(scale).0,
            elsewhere: elsewhere.share_of(scale).0,
            cache: group.cache.share_of(scale).0,
        };
        columns::draw(buffer, columns.area, x, cells, stack, theme);
        if in_ram {
            let area = Rect { x, width: cells, ..columns.area };
            shade(buffer, area.intersection(columns.area));
        }
        let chosen = cursor.is_some_and(|layer| group.holds(layer));
        device_row(buffer, columns, group, plan, chosen, theme);
    }
    brackets(buffer, columns, &groups, plan, theme);
    scale
}

/// Whether some layers are in RAM and others on GPUs.
fn has_layers_in_ram(plan: &Plan) -> bool {
    (1..plan.layers.len()).contains(&plan.on_gpus())
}

fn is_ram(plan: &Plan, device: usize) -> bool {
    plan.devices.get(device).is_some_and(|device| device.kind == DeviceKind::Cpu)
}

/// What stands for full cells of layers in RAM.
const SHADE: &str = "▒";

/// Layers in RAM have a texture of their own beside their colour.
fn shade(buffer: &mut Buffer, area: Rect) {
    for place in area.intersection(buffer.area).positions() {
        if let Some(cell) = buffer.cell_mut(place).filter(|cell| cell.symbol() == "█") {
            cell.set_symbol(SHADE);
        }
    }
}

/// Draws the axis up to `scale`.
fn axis(buffer: &mut Buffer, panel: Rect, columns: &Columns, scale: Bytes, theme: Theme) {
    let place = Rect { x: panel.x + 1, width: columns.area.x.saturating_sub(panel.x + 2), ..columns.area };
    if place.width < AXIS - 1 || place.height < 2 {
        return;
    }
    for row in 0..place.height {
        let text = match row {
            0 => scale.to_string(),
            _ if row + 1 == place.height => "0".to_owned(),
            _ if row * 2 == place.height || row * 2 == place.height - 1 => Bytes(scale.0 / 2).to_string(),
            _ => String::new(),
        };
        let sign = if text.is_empty() { "│" } else { "┤" };
        let mut writer = RowWriter::new(buffer, place, row);
        writer.right(sign, theme.ink(Hue::Border)).right(&text, theme.ink(Hue::Dim));
    }
}

/// Draws the legend right of the columns: the selected layer, and the colours.
fn draw_key(app: &App, plan: &Plan, place: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let Some(layer) = plan.layers.get(app.panels.cursors.layer) else { return };
    let mut writer = RowWriter::new(buffer, place, 1);
    writer.put(&plan.layer_name(app.panels.cursors.layer), theme.bold(Hue::Text)).put(" → ", theme.ink(Hue::Dim));
    writer.put(plan.device_name(layer.device), theme.device(layer.device, plan.devices.len()));
    for (row, (part, bytes)) in (2..).zip([(BarPart::Cache, layer.cache), (BarPart::Weights, layer.weights)]) {
        let (sample, ink) = part.sample(theme);
        let mut writer = RowWriter::new(buffer, place, row);
        writer
            .put(sample, ink)
            .skip(1)
            .put(&format!("{:<8}{:>8}", part.word(), bytes.to_string()), theme.ink(Hue::Text));
    }
    if layer.elsewhere() > Bytes::ZERO {
        let ((sample, ink), word) = elsewhere_sample(theme);
        let text = format!("{word:<9}{:>7}", layer.elsewhere().to_string());
        RowWriter::new(buffer, place, 4).put(sample, ink).skip(1).put(&text, theme.ink(Hue::Text));
    }
}

/// The layers that share a column.
struct LayerColumn {
    first: usize,
    last: usize,
    weights: Bytes,
    elsewhere: Bytes,
    cache: Bytes,
    /// The device of the first layer, and whether others are on a different one.
    device: usize,
    mixed: bool,
}

impl LayerColumn {
    /// The mean of `layers`, since columns may hold different numbers of layers.
    fn of(first: usize, layers: &[LayerPlan]) -> Self {
        let count = layers.len().max(1) as u64;
        let mean = |part: fn(&LayerPlan) -> Bytes| Bytes(layers.iter().map(part).sum::<Bytes>().0 / count);
        let device = layers.first().map_or(0, |layer| layer.device);
        Self {
            first,
            last: first + layers.len().saturating_sub(1),
            weights: mean(|layer| layer.weights),
            elsewhere: mean(LayerPlan::elsewhere),
            cache: mean(|layer| layer.cache),
            device,
            mixed: layers.iter().any(|layer| layer.device != device),
        }
    }

    fn all(&self) -> Bytes {
        self.weights + self.cache
    }

    fn holds(&self, layer: usize) -> bool {
        (self.first..=self.last).contains(&layer)
    }
}

fn groups(plan: &Plan, columns: &Columns) -> Vec<LayerColumn> {
    let (blocks, output) = plan.layers.split_at(plan.layers.len().saturating_sub(1));
    let shared = blocks
        .chunks(columns.per_column)
        .enumerate()
        .map(|(i, layers)| LayerColumn::of(i * columns.per_column, layers));
    shared.chain((!output.is_empty()).then(|| LayerColumn::of(blocks.len(), output))).collect()
}

/// The character for a device below its layers.
pub fn glyph(plan: &Plan, device: usize) -> char {
    match plan.devices.get(device).map(|device| device.kind) {
        Some(DeviceKind::Gpu) => char::from_digit(device as u32 % 36, 36).unwrap_or('?'),
        _ => 'R',
    }
}

fn device_row(buffer: &mut Buffer, columns: &Columns, group: &LayerColumn, plan: &Plan, chosen: bool, theme: Theme) {
    let (x, cells) = columns.place(group.first);
    let y = columns.area.bottom();
    let symbol = if group.mixed { '/' } else { glyph(plan, group.device) };
    let style = if chosen {
        theme.bold(Hue::Focus).add_modifier(Modifier::REVERSED)
    } else {
        theme.device(group.device, plan.devices.len())
    };
    for x in x..x.saturating_add(cells).min(columns.area.right()) {
        if let Some(cell) = buffer.cell_mut((x, y)) {
            cell.set_char(symbol).set_style(style);
        }
    }
}

/// `└── RAM ──┘└──── GPU0 ────┘ out` below the columns.
fn brackets(buffer: &mut Buffer, columns: &Columns, groups: &[LayerColumn], plan: &Plan, theme: Theme) {
    let y = columns.area.bottom().saturating_add(1);
    let Some((output, blocks)) = groups.split_last() else { return };
    let mut from = 0;
    while let Some(first) = blocks.get(from) {
        let same = |group: &&LayerColumn| group.device == first.device && !group.mixed && !first.mixed;
        let count = blocks[from..].iter().take_while(same).count().max(1);
        let start = columns.x(from);
        let end = columns.x(from + count - 1) + columns.thickness();
        let style = theme.device(first.device, plan.devices.len());
        bracket(buffer, Rect::new(start, y, end.saturating_sub(start), 1), plan.device_name(first.device), style);
        from += count;
    }
    let word = if columns.output_width >= 3 { "out" } else { "o" };
    let place = Rect::new(columns.output_x, y, columns.output_width, 1);
    RowWriter::new(buffer, place, 0).put(word, theme.device(output.device, plan.devices.len()));
}

fn bracket(buffer: &mut Buffer, place: Rect, name: &str, style: Style) {
    let label = format!(" {name} ");
    let mut writer = RowWriter::new(buffer, place, 0);
    match place.width {
        0 => {}
        1 => drop(writer.put("│", style)),
        cells if cells >= width(&label) + 2 => {
            let dashes = cells - 2 - width(&label);
            let line = |n: u16| "─".repeat(usize::from(n));
            writer.put("└", style).put(&line(dashes / 2), style).put(&label, style);
            writer.put(&line(dashes - dashes / 2), style).put("┘", style);
        }
        cells => drop(writer.put("└", style).put(&"─".repeat(usize::from(cells - 2)), style).put("┘", style)),
    }
}

/// Draws the legend on the lower edge: the colours, or the selected layer.
fn legend(app: &App, plan: &Plan, focused: bool, buffer: &mut Buffer) {
    let (theme, area) = (app.theme, app.panels.regions.layers);
    let row = Rect {
        x: area.x.saturating_add(2),
        y: area.bottom().saturating_sub(1),
        width: area.width.saturating_sub(4),
        height: 1,
    };
    let mut writer = RowWriter::new(buffer, row, 0);
    if let Some(layer) = plan.layers.get(app.panels.cursors.layer).filter(|_| focused) {
        let name = plan.layer_name(app.panels.cursors.layer);
        writer.put(&format!(" {name} → {} ", plan.device_name(layer.device)), theme.bold(Hue::Focus));
        let elsewhere_sample = Some((ELSEWHERE.1, layer.elsewhere())).filter(|(_, bytes)| *bytes > Bytes::ZERO);
        // never truncate figures
        for (word, bytes) in [("weights", layer.weights), ("cache", layer.cache)].into_iter().chain(elsewhere_sample) {
            let text = format!(" {word} {bytes} ");
            if width(&text) > writer.room() {
                break;
            }
            writer.put(&text, theme.ink(Hue::Text));
        }
        return;
    }
    let parts = [BarPart::Weights, BarPart::Cache].map(|part| (part.sample(theme), part.word()));
    let elsewhere = plan.layers.iter().any(|layer| layer.elsewhere() > Bytes::ZERO);
    let in_ram = has_layers_in_ram(plan).then(|| ((SHADE, theme.ink(Hue::Ram)), "in RAM"));
    for ((sample, ink), word) in parts.into_iter().chain(elsewhere.then(|| elsewhere_sample(theme))).chain(in_ram) {
        writer.put(" ", ink).put(sample, ink).put(" ", ink).put(word, theme.ink(Hue::Dim)).put(" ", ink);
    }
}

/// Sample and name of weights on other devices.
fn elsewhere_sample(theme: Theme) -> ((&'static str, Style), &'static str) {
    let (texture, word) = ELSEWHERE;
    ((if theme.textured() { texture } else { "■" }, theme.ink(Hue::Ram)), word)
}

fn empty(app: &App, inner: Rect, buffer: &mut Buffer) {
    let text = match (&app.request.refused, app.found_machine.detection == Detection::Running) {
        (Some(error), _) => error.to_string(),
        (None, _) if app.request.model.is_none() => "No model. Press o to open one.".to_owned(),
        (None, true) => "Detecting GPUs…".to_owned(),
        (None, false) => String::new(),
    };
    for (row, line) in (1..).zip(wrap(&text, inner.width.saturating_sub(2))) {
        RowWriter::new(buffer, inner, row).skip(1).put(&line, app.theme.ink(Hue::Dim));
    }
}

/// Width of the axis left of the columns.
pub const AXIS: u16 = 10;

/// The columns in `panel` for a model of `blocks` blocks.
pub fn columns(panel: Rect, blocks: usize) -> Columns {
    let inner = inside(panel);
    let air = u16::from(inner.height >= 10);
    let beside = |axis: u16| Rect {
        x: inner.x.saturating_add(axis),
        y: inner.y.saturating_add(air),
        width: inner.width.saturating_sub(axis + 1),
        height: inner.height.saturating_sub(2 + air),
    };
    let (with, without) = (Columns::new(beside(AXIS), blocks), Columns::new(beside(1), blocks));
    // show the axis only if the columns keep their width
    let free = inner.width >= 60 && (with.pitch, with.per_column) == (without.pitch, without.per_column);
    if free { with } else { without }
}
