//! Pages on the screen: as an overlay, or within an area.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};

use super::panel;
use crate::page::{self, Hue, Ink, Page};
use crate::tui::app::App;
use crate::tui::theme::Theme;

/// Maximum width of a page of text.
pub const WIDTH: u16 = 92;
/// Maximum width of a page with a table.
const WIDE: u16 = 132;

/// A page as an overlay, scrollable if it is longer than the screen.
#[derive(Clone, Debug)]
pub struct Overlay {
    page: Page,
    title: String,
    /// Scrolled lines; clamped to the last full page.
    scroll: u16,
    /// The selected choice, which stays visible.
    chosen: Option<usize>,
    /// The most cells that it covers.
    widest: u16,
}

/// An overlay's lines, the choice that each belongs to, and where they are.
struct Laid {
    lines: Vec<Line<'static>>,
    choices: Vec<Option<usize>>,
    area: Rect,
    scroll: u16,
}

impl Laid {
    /// The line at this position, and the column in it. A press on the border beside a line is one on its first or last
    /// column.
    fn line_and_column(&self, at: Position) -> Option<(usize, usize)> {
        let row = usize::from(at.y.checked_sub(self.area.y + 1)?) + usize::from(self.scroll);
        let inside = at.y + 1 < self.area.bottom() && self.area.contains(at);
        inside.then(|| (row, usize::from(at.x.saturating_sub(self.area.x + 2))))
    }
}

impl Overlay {
    /// `page`, of which nothing can be chosen.
    pub fn new(page: Page, title: &str, scroll: u16) -> Self {
        Self { page, title: title.to_owned(), scroll, chosen: None, widest: WIDTH }
    }

    /// The same with `chosen` selected.
    #[must_use]
    pub fn choosing(self, chosen: usize) -> Self {
        Self { chosen: Some(chosen), ..self }
    }

    /// The same for a table that takes more cells than text.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { widest: WIDE, ..self }
    }

    fn laid(&self, app: &App) -> Laid {
        let columns = usize::from(app.panels.regions.screen.width.min(self.widest).saturating_sub(4));
        let (lines, choices): (Vec<_>, Vec<_>) = lines(&self.page, columns, self.chosen, app.theme).into_iter().unzip();
        let count = lines.len() as u16;
        let area = app.panels.regions.overlay(columns as u16 + 4, count.saturating_add(2));
        let visible = area.height.saturating_sub(2);
        let kept = choices.iter().position(|choice| choice.is_some() && *choice == self.chosen).map(|at| at as u16);
        let scroll = self.scroll.max(kept.map_or(0, |line| (line + 1).saturating_sub(visible)));
        Laid { lines, choices, area, scroll: scroll.min(count.saturating_sub(visible)) }
    }

    /// The area that it covers.
    pub fn area(&self, app: &App) -> Rect {
        self.laid(app).area
    }

    /// The choice drawn at this position.
    pub fn choice_at(&self, app: &App, at: Position) -> Option<usize> {
        let laid = self.laid(app);
        let (row, _) = laid.line_and_column(at)?;
        laid.choices.get(row).copied().flatten()
    }

    /// Which of `words` is drawn at this position, in a line of such words alone.
    pub fn word_at(&self, app: &App, at: Position, words: &[String]) -> Option<usize> {
        let laid = self.laid(app);
        let (row, column) = laid.line_and_column(at)?;
        let line: String = laid.lines.get(row)?.spans.iter().map(|span| &*span.content).collect();
        let others = words.iter().fold(line.clone(), |line, word| line.replace(word.as_str(), ""));
        if !others.trim().is_empty() {
            return None;
        }
        let covers = |(start, word): (usize, &str)| {
            let from = line.get(..start).map_or(0, |before| before.chars().count());
            (from..from + word.chars().count()).contains(&column)
        };
        words.iter().position(|word| line.match_indices(word.as_str()).any(covers))
    }

    /// Draws it.
    pub fn draw(&self, app: &App, buffer: &mut Buffer) {
        let Laid { lines, area, scroll, .. } = self.laid(app);
        let (count, visible) = (lines.len() as u16, area.height.saturating_sub(2));
        let right_title = if count > visible {
            format!("{} to {} of {count}, ↑↓", scroll + 1, scroll + visible)
        } else {
            "Esc back".to_owned()
        };
        let inner = panel::overlay(buffer, area, &self.title, &right_title, app.theme);
        Paragraph::new(lines).scroll((scroll, 0)).render(inner.intersection(buffer.area), buffer);
    }
}

/// Width of the lines of a page on the screen of `app`.
pub fn columns(app: &App) -> usize {
    usize::from(app.panels.regions.screen.width.min(WIDTH).saturating_sub(4))
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

/// The choice of `page` drawn into `area` at this position, as by [`within`], and the column in it.
pub fn choice_within(page: &Page, scroll: u16, area: Rect, theme: Theme, at: Position) -> Option<(usize, u16)> {
    let lines = lines(page, usize::from(area.width), None, theme);
    let scroll = scroll.min((lines.len() as u16).saturating_sub(area.height));
    let row = usize::from(at.y.checked_sub(area.y)?) + usize::from(scroll);
    let (_, choice) = lines.get(row).filter(|_| area.contains(at))?;
    Some(((*choice)?, at.x.checked_sub(area.x)?))
}

/// The lines of `page` in `cells` cells, and the choice that each belongs to.
pub fn lines(page: &Page, cells: usize, chosen: Option<usize>, theme: Theme) -> Vec<(Line<'static>, Option<usize>)> {
    let mut before = None;
    let has_choices = page.blocks().iter().any(|(_, can_be_chosen)| *can_be_chosen);
    let line = |line: page::Line| {
        let Some(choice) = line.choice else {
            let margin = Some(Span::raw("  ")).filter(|_| line.above_choices && has_choices);
            return (margin.into_iter().chain(spans(&line.spans, theme, false)).collect(), None);
        };
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
        (Line::from(all).style(if is_chosen { theme.selected() } else { Style::new() }), Some(choice))
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
