//! Text style of the terminal: width, colours, and the glyphs of bars.

use std::io::IsTerminal;

use crate::page::palette::{ColourDepth, Tone};
use crate::page::{Breaks, Hue, Page, terminal};

/// The glyphs of bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarGlyphs {
    /// No bars: the output goes to a file or a pipe.
    None,
    Ascii,
    Unicode,
}

/// Style of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Width of tables.
    pub width: usize,
    /// Width of lines: at most the terminal's.
    pub lines: usize,
    /// The depth of colours and the background; none where there are no colours.
    pub colours: Option<(ColourDepth, Tone)>,
    pub bars: BarGlyphs,
}

/// Minimum width of a table and maximum width of a line that is easy to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 80..=120;
/// Minimum width of a line.
const MIN_LINE: usize = 30;

impl Style {
    /// Text for a file or a pipe: no colours, no bars, 80 columns.
    pub(super) const PLAIN: Self = Self { width: 80, lines: 80, colours: None, bars: BarGlyphs::None };

    /// The style for standard output.
    pub(super) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::PLAIN;
        }
        let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::of_terminal(width, &variable)
    }

    /// The style for standard error; none if that is no terminal.
    pub(super) fn of_stderr() -> Option<Self> {
        let width = || crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
        std::io::stderr().is_terminal().then(|| Self::of_terminal(width(), &|_| None))
    }

    fn of_terminal(width: usize, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let dumb = term == "dumb" || !takes_escapes();
        let plain = dumb || variable("NO_COLOR").is_some();
        let colours = (!plain).then(|| (ColourDepth::of_terminal(variable), Tone::of_terminal(variable)));
        let lines = width.clamp(MIN_LINE, *WIDTHS.end());
        let width = width.clamp(*WIDTHS.start(), *WIDTHS.end());
        Self { width, lines, colours, bars: if dumb { BarGlyphs::Ascii } else { BarGlyphs::Unicode } }
    }

    /// Whether the terminal is narrower than a table: values move below the names.
    pub(super) const fn is_narrow(&self) -> bool {
        self.lines < self.width
    }

    /// An answer as text.
    pub(super) fn page(&self, page: &Page) -> String {
        terminal::text(page, self.lines, Breaks::Words, self.colours)
    }

    /// A report as text.
    pub(super) fn report(&self, page: &Page) -> String {
        terminal::text(page, self.lines, Breaks::Spaces, self.colours)
    }

    /// A report of one paragraph.
    pub(super) fn paragraph(&self, text: &str) -> String {
        let mut page = Page::default();
        page.text(text, Hue::Text);
        self.report(&page)
    }
}

/// Whether the terminal takes escape sequences. A console of Windows must first be told to.
#[cfg(windows)]
pub(super) fn takes_escapes() -> bool {
    crossterm::ansi_support::supports_ansi()
}

/// Whether the terminal takes escape sequences.
#[cfg(not(windows))]
pub(super) const fn takes_escapes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Style {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Style::of_terminal(100, &get)
    }

    #[test]
    fn colour_depth_by_environment() {
        let depth = |variables: &[_]| of(variables).colours.map(|(depth, _)| depth);
        assert_eq!(depth(&[("TERM", "xterm")]), Some(ColourDepth::Sixteen));
        assert_eq!(depth(&[("TERM", "xterm-256color")]), Some(ColourDepth::Indexed));
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Some(ColourDepth::True));
        assert_eq!(depth(&[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]), None);
        let dumb = of(&[("TERM", "dumb"), ("COLORTERM", "truecolor")]);
        assert_eq!((dumb.colours, dumb.bars), (None, BarGlyphs::Ascii));
    }

    #[test]
    fn lines_are_narrower_than_tables_on_narrow_terminals() {
        let at = |columns| Style::of_terminal(columns, &|_| None);
        assert_eq!(
            [40, 100, 300].map(|columns| (at(columns).width, at(columns).lines)),
            [(80, 40), (100, 100), (120, 120)]
        );
    }

    #[test]
    fn text_is_wrapped_with_a_hanging_indent() {
        let wrap = |first: &str, text: &str| {
            let mut page = Page::default();
            page.spans(first, vec![text.into()]);
            Style { lines: 24, ..Style::PLAIN }.report(&page)
        };
        assert_eq!(wrap("- ", "one two three four five six seven"), "- one two three four\n  five six seven\n");
        let letters = wrap("", "六四五七一三二八九 二十四");
        assert_eq!(letters, "六四五七一三二八九\n二十四\n", "by cells, not by letters");
        assert_eq!(wrap("名 ", "one two three four five six"), "名 one two three four\n   five six\n");
        let path = "/a/path/that/is/longer/than/a/line";
        assert_eq!(wrap("", &format!("see {path}")), format!("see\n{path}\n"));
        // the thin space in numbers does not break
        assert_eq!(wrap("", "a context of tokens 24\u{2009}576"), "a context of tokens\n24\u{2009}576\n");
    }

    #[test]
    fn text_is_painted_only_with_colours() {
        let painted = |style: Style| {
            let mut page = Page::default();
            page.text("x", Hue::Over);
            style.report(&page)
        };
        assert_eq!(painted(Style::PLAIN), "x\n");
        let colourful = Style { colours: Some((ColourDepth::Sixteen, Tone::Dark)), ..Style::PLAIN };
        assert_eq!(painted(colourful), "\u{1b}[91mx\u{1b}[0m\n");
    }
}
