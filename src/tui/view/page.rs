//! An overlay with text, scrollable if it is longer than the screen.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::app::App;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};

/// Maximum width of a page.
pub const WIDTH: u16 = 92;

/// A page of text lines.
pub struct TextPage {
    theme: Theme,
    lines: Vec<Line<'static>>,
    columns: u16,
    /// A line that stays visible when scrolling.
    kept: Option<u16>,
}

impl TextPage {
    /// An empty page for the screen of `app`.
    pub fn new(app: &App) -> Self {
        let columns = app.regions.screen.width.min(WIDTH).saturating_sub(4);
        Self { theme: app.theme, lines: Vec::new(), columns, kept: None }
    }

    /// Width of a line.
    pub const fn columns(&self) -> u16 {
        self.columns
    }

    /// An empty page for one of two columns.
    pub fn half(app: &App) -> Self {
        let whole = Self::new(app);
        Self { columns: (whole.columns.saturating_sub(2)) / 2, ..whole }
    }

    /// The lines of `left` and `right` side by side.
    pub fn beside(left: Self, right: Self) -> Self {
        let (theme, half, columns) = (left.theme, usize::from(left.columns), left.columns + right.columns + 2);
        let count = left.lines.len().max(right.lines.len());
        let mut lines = left.lines;
        lines.resize(count, Line::default());
        for (line, beside) in lines.iter_mut().zip(right.lines) {
            let filled = line.width();
            for span in &mut line.spans {
                span.style = line.style.patch(span.style);
            }
            line.style = Style::default();
            line.push_span(Span::raw(" ".repeat((half + 2).saturating_sub(filled))));
            line.spans
                .extend(beside.spans.into_iter().map(|span| Span { style: beside.style.patch(span.style), ..span }));
        }
        Self { theme, lines, columns, kept: None }
    }

    /// Number of lines so far.
    pub const fn height(&self) -> usize {
        self.lines.len()
    }

    /// Adds a heading, with a blank line before it unless it is the first.
    pub fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.blank();
        }
        self.lines.push(Line::styled(text.to_owned(), self.theme.bold(Hue::Focus)));
    }

    /// Adds a blank line.
    pub fn blank(&mut self) {
        self.lines.push(Line::default());
    }

    /// Adds wrapped text.
    pub fn text(&mut self, text: &str, hue: Hue) {
        let style = self.theme.ink(hue);
        self.lines.extend(wrap(text, self.columns).into_iter().map(|line| Line::styled(line, style)));
    }

    /// Adds a line of a file; if it is too long it continues on the next line, indented.
    pub fn verbatim(&mut self, text: &str, hue: Hue) {
        let style = self.theme.ink(hue);
        let text = text.replace('\t', "    ");
        if width(&text) <= self.columns {
            self.lines.push(Line::styled(text, style));
            return;
        }
        let indent = text.len() - text.trim_start().len();
        let room = self.columns.saturating_sub(indent as u16 + 2);
        for (at, piece) in wrap(&text, room).into_iter().enumerate() {
            let margin = if at == 0 { indent } else { indent + 2 };
            self.lines.push(Line::styled(format!("{}{piece}", " ".repeat(margin)), style));
        }
    }

    /// Adds wrapped text, indented by `indent` cells.
    pub fn text_indented(&mut self, text: &str, indent: u16, hue: Hue) {
        let (style, margin) = (self.theme.ink(hue), " ".repeat(usize::from(indent)));
        let lines = wrap(text, self.columns.saturating_sub(indent));
        self.lines.extend(lines.into_iter().map(|line| Line::styled(format!("{margin}{line}"), style)));
    }

    /// Adds a name of `names` cells and a wrapped text.
    pub fn pair(&mut self, name: &str, names: u16, what: &str, style: Style) {
        let names = usize::from(names);
        let room = self.columns.saturating_sub(names as u16 + 1);
        let mut first = Some(name);
        for line in wrap(what, room) {
            let name = first.take().unwrap_or_default();
            self.lines.push(Line::from(vec![
                Span::styled(format!("{name:<names$} "), self.theme.ink(Hue::Dim)),
                Span::styled(line, style),
            ]));
        }
    }

    /// Adds an entry of a list; the selected one is highlighted and stays visible.
    pub fn choice(&mut self, chosen: bool, mut spans: Vec<Span<'static>>) {
        let ink = if chosen { self.theme.bold(Hue::Focus) } else { self.theme.ink(Hue::Text) };
        spans.insert(0, Span::styled(if chosen { "▸ " } else { "  " }, ink));
        let mut line = Line::from(spans);
        if chosen {
            self.kept = Some(self.lines.len() as u16);
            line.style = self.theme.selected();
        }
        self.lines.push(line);
    }

    /// Adds a line unchanged.
    pub fn line(&mut self, line: Line<'static>) {
        self.lines.push(line);
    }

    /// Draws the page as an overlay, from line `scroll` on; clamped to the last full page.
    pub fn draw(&self, app: &App, title: &str, scroll: u16, buffer: &mut Buffer) {
        let count = self.lines.len() as u16;
        let place = app.regions.overlay(self.columns + 4, count.saturating_add(2));
        let visible = place.height.saturating_sub(2);
        let scroll = scroll.max(self.kept.map_or(0, |line| (line + 1).saturating_sub(visible)));
        let scroll = scroll.min(count.saturating_sub(visible));
        let right_title = if count > visible {
            format!("{} to {} of {count}, ↑↓", scroll + 1, scroll + visible)
        } else {
            "Esc back".to_owned()
        };
        let inner = panel::overlay(buffer, place, title, &right_title, self.theme);
        for (row, line) in self.lines.iter().skip(usize::from(scroll)).take(usize::from(visible)).enumerate() {
            let mut writer = RowWriter::new(buffer, inner, row as u16);
            for span in &line.spans {
                writer.put(&span.content, line.style.patch(span.style));
            }
        }
    }
}
