//! A page as an overlay, scrollable if it is longer than the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use crate::page::{self, Hue, Ink, Page};
use crate::tui::app::App;
use crate::tui::theme::Theme;
use crate::tui::widget::panel;

/// Maximum width of a page.
pub const WIDTH: u16 = 92;

/// Width of the lines of a page on the screen of `app`.
pub fn columns(app: &App) -> usize {
    usize::from(app.regions.screen.width.min(WIDTH).saturating_sub(4))
}

/// Draws `page` as an overlay, from line `scroll` on; clamped to the last full page. Of its choices, `chosen` is
/// highlighted and stays visible.
pub fn draw(app: &App, page: &Page, title: &str, scroll: u16, chosen: Option<usize>, buffer: &mut Buffer) {
    let columns = columns(app);
    let lines = lines(page, columns, chosen, app.theme);
    let count = lines.len() as u16;
    let place = app.regions.overlay(columns as u16 + 4, count.saturating_add(2));
    let visible = place.height.saturating_sub(2);
    let kept = lines.iter().position(|(_, is_chosen)| *is_chosen).map(|line| line as u16);
    let scroll = scroll.max(kept.map_or(0, |line| (line + 1).saturating_sub(visible)));
    let scroll = scroll.min(count.saturating_sub(visible));
    let right_title = if count > visible {
        format!("{} to {} of {count}, ↑↓", scroll + 1, scroll + visible)
    } else {
        "Esc back".to_owned()
    };
    let inner = panel::overlay(buffer, place, title, &right_title, app.theme);
    let lines: Vec<Line> = lines.into_iter().map(|(line, _)| line).collect();
    Paragraph::new(lines).scroll((scroll, 0)).render(inner.intersection(buffer.area), buffer);
}

/// Draws `page` into `area`, from line `scroll` on, and returns the number of its lines.
pub fn within(page: &Page, scroll: u16, area: Rect, theme: Theme, buffer: &mut Buffer) -> u16 {
    let lines: Vec<Line> =
        lines(page, usize::from(area.width), None, theme).into_iter().map(|(line, _)| line).collect();
    let count = lines.len() as u16;
    let scroll = scroll.min(count.saturating_sub(area.height));
    Paragraph::new(lines).scroll((scroll, 0)).render(area.intersection(buffer.area), buffer);
    count
}

/// The lines of `page` in `cells` cells, and whether each is of the chosen block.
pub fn lines(page: &Page, cells: usize, chosen: Option<usize>, theme: Theme) -> Vec<(Line<'static>, bool)> {
    let mut before = None;
    let line = |line: page::Line| {
        let Some(choice) = line.choice else { return (Line::from(spans(&line.spans, theme, false)), false) };
        let is_chosen = chosen == Some(choice);
        let begins = before.replace(choice) != Some(choice);
        // the marker stands where an item has its bullet
        let text = match line.spans.split_first() {
            Some((first, rest)) if first.text == "- " || first.text.trim().is_empty() => rest,
            _ => &line.spans[..],
        };
        let marker = if is_chosen && begins { "▸ " } else { "  " };
        let ink = if is_chosen { theme.bold(Hue::Focus) } else { theme.ink(Hue::Text) };
        let mut all = vec![Span::styled(marker, ink)];
        all.extend(spans(text, theme, is_chosen));
        (Line::from(all).style(if is_chosen { theme.selected() } else { Style::new() }), is_chosen)
    };
    page.lines(cells).into_iter().map(line).collect()
}

fn spans(spans: &[page::Span], theme: Theme, chosen: bool) -> Vec<Span<'static>> {
    let style = |ink: Ink| match ink.hue {
        Hue::Text if chosen => theme.bold(Hue::Focus),
        _ => theme.written(ink),
    };

    spans.iter().map(|span| Span::styled(span.text.clone(), style(span.ink))).collect()
}
