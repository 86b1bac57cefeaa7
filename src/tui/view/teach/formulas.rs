//! The formulas page: a tree of the plan's formulas, the selected one written out, and a crossover.
//!
//! ```text
//! ╭ Formulas ────────────────────────────────────────╮╭ attention scores ──────────────────────────╮
//! │ ▾ all that is allocated        9.1 GiB 100 % ███ ││ 4·B·C·H = 4·512·8192·32         written    │
//! │   ▸ weights                    4.6 GiB  51 % █▌  │╰────────────────────────────────────────────╯
//! │   ▾ graphs                     0.6 GiB           │╭ Which side wins ───────────────────────────╮
//! │     ▾ graph, some layers …     0.6 GiB           ││        ◆····                     contest   │
//! ╰──────────────────────────────────────────── tree ╯╰────────────────────────────────────────────╯
//! ```

mod crossover;
mod legend;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::page::Page;
use crate::teach::formulas::{Amount, FormulaNode, FormulasPage, NodeRole};
use crate::tui::app::App;
use crate::tui::app::teach::formulas::{Cursor, TreeLine};
use crate::tui::regions::teach::formulas::{PageAreas, first};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::page;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};
use crate::units::{Bytes, grouped};

/// Width of the bar of a share.
const GAUGE: u16 = 6;
/// Width of an amount.
const AMOUNT: u16 = 10;
/// Width of a share in percent.
const SHARE: u16 = 6;
/// Minimum width of a tree with bars and an indent of two cells.
const ROOMY: u16 = 48;

/// Draws the page.
pub fn draw(app: &App, cursor: &Cursor, content: &FormulasPage, area: Rect, buffer: &mut Buffer) {
    if let Some(versus) = &content.versus {
        let inner = panel::frame(buffer, area, "Formulas side by side", "", true, app.theme);
        let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
        let mut shown = Page::default();
        match versus {
            Ok(versus) => versus.onto(&mut shown),
            Err(why) => shown.text(&format!("That engine makes no plan of this model here: {why}."), Hue::Over),
        }
        page::within(&shown, cursor.scroll as u16, inner, app.theme, buffer);
        return;
    }
    let places = PageAreas::new(area, content);
    let lines = cursor.lines(content);
    let at = cursor.line(lines.len());
    tree(&lines, at, content.whole.bytes(), places.tree, app.theme, buffer);
    if let Some(line) = lines.get(at) {
        written(line.node, content.whole.bytes(), places.written, app.theme, buffer);
    }
    if let Some((crossover, along)) = cursor.crossover(content).filter(|_| places.crossover.height > 2) {
        crossover::draw(crossover, along, places.crossover, app.theme, buffer);
    }
    if places.legend.height > 2 {
        legend::draw(content, places.legend, app.theme, buffer);
    }
}

fn tree(lines: &[TreeLine<'_>], at: usize, whole: Bytes, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, "Formulas", "→ opens", false, theme);
    let first = first(at, lines.len(), inner.height);
    for (row, line) in (0..inner.height).zip(lines.iter().skip(first)) {
        let chosen = first + usize::from(row) == at;
        let text = match (chosen, line.node.role) {
            (true, _) => theme.bold(Hue::Focus),
            (false, NodeRole::Loses) => theme.ink(Hue::Dim),
            (false, _) => theme.ink(Hue::Text),
        };
        if chosen {
            buffer.set_style(Rect { y: inner.y + row, height: 1, ..inner }, theme.selected());
        }
        let sign = match (line.node.parts.is_empty(), line.open) {
            (true, _) => "·",
            (false, true) => "▼",
            (false, false) => "▶",
        };
        let (gauge, step) = if inner.width < ROOMY { (0, 1) } else { (1 + GAUGE, 2) };
        let place = Rect { width: inner.width.saturating_sub(AMOUNT + 1 + SHARE + gauge), ..inner };
        let mut writer = RowWriter::new(buffer, place, row);
        writer.skip((line.depth as u16 * step).min(place.width / 2)).put(sign, theme.ink(Hue::Dim)).skip(1);
        if line.node.role == NodeRole::Loses {
            writer.put("○ ", text);
        }
        let name = match line.node.amount {
            // letters and parts of terms have no name: show the formula
            Amount::Number(_) | Amount::Fraction(_) => &line.node.formula,
            Amount::Bytes(_) => &line.node.name,
        };
        writer.put(name, text);
        let beside = Rect { x: place.right(), width: inner.width - place.width, ..inner };
        figures(line.node, whole, beside, row, theme, text, buffer);
    }
}

fn figures(
    node: &FormulaNode,
    whole: Bytes,
    area: Rect,
    row: u16,
    theme: Theme,
    ink: ratatui::style::Style,
    buffer: &mut Buffer,
) {
    let amount = node.amount.to_string();
    let mut writer = RowWriter::new(buffer, area, row);
    writer.skip((AMOUNT + 1).saturating_sub(width(&amount))).put(&amount, ink);
    let Some(share) = node.share_of(whole) else { return };
    let text = share.to_string();
    writer.skip(SHARE.saturating_sub(width(&text))).put(&text, ink);
    if writer.room() < GAUGE {
        return;
    }
    let cells = ((share.0 * f64::from(GAUGE)).round().clamp(0.0, f64::from(GAUGE))) as u16;
    let y = area.y + row;
    for x in 0..cells {
        if let Some(cell) = buffer.cell_mut((area.right().saturating_sub(GAUGE) + x, y)) {
            cell.set_symbol("▄").set_style(theme.ink(Hue::Graph));
        }
    }
}

/// Draws the formula at the cursor, written out.
fn written(node: &FormulaNode, whole: Bytes, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let inner = panel::frame(buffer, area, &node.name, "", true, theme);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    let mut lines: Vec<(String, Hue)> = Vec::new();
    let mut say = |text: &str, hue| lines.extend(wrap(text, inner.width).into_iter().map(|line| (line, hue)));
    say(&node.formula, Hue::Text);
    if node.numbers != node.formula {
        say(&format!("= {}", node.numbers), Hue::Dim);
    }
    let result = match node.amount {
        Amount::Bytes(bytes) => format!("= {} bytes, {bytes}", grouped(bytes.0, '\u{2009}')),
        amount => format!("= {amount}"),
    };
    let share = node.share_of(whole).map(|share| format!("{share} of the allocated memory"));
    let counts =
        (node.role == NodeRole::Loses).then(|| "Not counted: the other branch is larger or in use.".to_owned());
    let last: Vec<String> = [Some(result), share, counts].into_iter().flatten().collect();
    // the result stays visible below a long formula
    let tail: Vec<(String, Hue)> =
        last.iter().flat_map(|text| wrap(text, inner.width)).map(|line| (line, Hue::Graph)).collect();
    let room = usize::from(inner.height).saturating_sub(tail.len());
    if lines.len() > room {
        lines.truncate(room);
        if let Some((last, _)) = lines.last_mut() {
            *last = format!("{last}…");
        }
    }
    for (row, (line, hue)) in (0..inner.height).zip(lines.iter().chain(&tail)) {
        RowWriter::new(buffer, inner, row).put(line, theme.ink(*hue));
    }
}
