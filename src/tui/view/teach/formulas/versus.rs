//! The formulas of two engines side by side.
//!
//! ```text
//! ╭ Formulas side by side ────────────────────────────────────────────────────╮
//! │ Ollama ≤ 0.24                       │ llama.cpp, release 2026-11           │
//! │ caches                      3.0 GiB │ caches             3.2 GiB  0.2 more │
//! │   KV cache of 32 blocks     3.0 GiB │   KV cache …                         │
//! │   C·(D_k + D_v)·H_kv·P              │   n·elements·2·N                     │
//! ╰────────────────────────────────────────────────────────────────────────────╯
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::teach::formulas::{FormulasDifference, PartDifference, SideLine, more};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width};

/// A row: the text of both sides with the figure at its end, and its style.
type Row = ([(String, String); 2], Style);

/// Draws the page, scrolled by `scroll` rows as far as there are more.
pub(super) fn draw(versus: &FormulasDifference, scroll: usize, area: Rect, theme: Theme, buffer: &mut Buffer) {
    let title = format!("allocated: {} and {}, {}", versus.whole[0], versus.whole[1], more(versus.whole));
    let inner = panel::frame(buffer, area, "Formulas side by side", &title, true, theme);
    let each = inner.width.saturating_sub(3) / 2;
    let sides = [
        Rect { x: inner.x + 1, width: each.saturating_sub(1), ..inner },
        Rect { x: inner.x + each + 2, width: each, ..inner },
    ];
    let rows = rows(versus, theme);
    let room = usize::from(inner.height.saturating_sub(1));
    let first = scroll.min(rows.len().saturating_sub(room));
    for (side, engine) in sides.iter().zip(&versus.engines) {
        RowWriter::new(buffer, *side, 0).put(&shortened(engine, side.width), theme.bold(Hue::Focus));
    }
    for (y, (texts, ink)) in (1..inner.height).zip(rows.iter().skip(first)) {
        for (side, (text, figure)) in sides.iter().zip(texts) {
            let mut writer = RowWriter::new(buffer, *side, y);
            let names = side.width.saturating_sub(width(figure) + u16::from(!figure.is_empty()));
            writer.put(&shortened(text, names), *ink);
            writer.right(figure, *ink);
        }
    }
    for y in inner.top()..inner.bottom() {
        if let Some(cell) = buffer.cell_mut((inner.x + each + 1, y)) {
            cell.set_symbol("│").set_style(theme.ink(Hue::Border));
        }
    }
}

fn rows(versus: &FormulasDifference, theme: Theme) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in &versus.parts {
        if !rows.is_empty() {
            rows.push((Default::default(), theme.ink(Hue::Text)));
        }
        let [here, there] = part.bytes;
        let name = part.name.clone();
        let beside = format!("{there}, {}", more(part.bytes));
        rows.push(([(name.clone(), here.to_string()), (name, beside)], theme.bold(Hue::Text)));
        if part.is_same() {
            let same = || ("  the same formulas".to_owned(), String::new());
            rows.push(([same(), same()], theme.ink(Hue::Dim)));
        } else {
            terms(part, theme, &mut rows);
        }
    }
    rows
}

/// The lines below a kind of memory: names with figures, and below each its formula.
fn terms(part: &PartDifference, theme: Theme, rows: &mut Vec<Row>) {
    // the first line is the kind itself
    let [left, right] = part.sides.each_ref().map(|lines| lines.iter().skip(1).collect::<Vec<&SideLine>>());
    for at in 0..left.len().max(right.len()) {
        let both = [left.get(at), right.get(at)];
        let named = |line: &&SideLine| {
            let mark = if line.counted { "" } else { "○ " };
            (format!("{}{mark}{}", "  ".repeat(line.depth), line.name), line.amount.to_string())
        };
        rows.push((both.map(|line| line.map(named).unwrap_or_default()), theme.ink(Hue::Text)));
        let formula = |line: &&SideLine| {
            let formula = if line.formula == line.name { "" } else { &line.formula };
            (format!("{}{formula}", "  ".repeat(line.depth)), String::new())
        };
        let formulas = both.map(|line| line.map(formula).unwrap_or_default());
        if formulas.iter().any(|(text, _)| !text.trim().is_empty()) {
            rows.push((formulas, theme.ink(Hue::Dim)));
        }
    }
}
