//! Text style of the terminal: width, colours, and the glyphs of bars.

use std::io::IsTerminal;

use textwrap::{Options, WordSplitter};

use crate::page::palette::{self, ColourDepth, Tone};
use crate::page::{Page, terminal};

pub(super) use crate::page::palette::Hue;

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

/// The non-breaking space.
pub(super) const NBSP: char = '\u{a0}';

/// Minimum width of a table and maximum width of a line that is easy to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 80..=120;
/// Minimum width of a line.
const MIN_LINE: usize = 30;
/// Minimum width of text after an indent.
const MIN_TEXT: usize = 20;

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

    /// `facts` in indented lines, which break only between facts.
    pub(super) fn below(&self, indent: usize, facts: &[String]) -> String {
        let unbroken: Vec<_> = facts.iter().map(|fact| fact.replace(' ', &NBSP.to_string())).collect();
        self.wrap(&" ".repeat(indent), &unbroken.join(&format!("{NBSP}· ")))
    }

    /// `text` in `hue`, if there are colours.
    pub(super) fn paint(&self, hue: Hue, text: &str) -> String {
        self.escaped(text, |depth, tone| palette::colour(hue, tone, depth).escape())
    }

    /// `page` as text.
    pub(super) fn page(&self, page: &Page) -> String {
        terminal::text(page, self.lines, self.colours)
    }

    /// `text` in bold letters, if there are any.
    pub(super) fn strong(&self, text: &str) -> String {
        self.escaped(text, |_, _| "1".to_owned())
    }

    fn escaped(&self, text: &str, code: impl Fn(ColourDepth, Tone) -> String) -> String {
        self.colours
            .map_or_else(|| text.to_owned(), |(depth, tone)| format!("\u{1b}[{}m{text}\u{1b}[0m", code(depth, tone)))
    }

    /// `text` in lines of at most the width; the first begins with `first`, the others are indented by its width. Words
    /// joined by [`NBSP`] stay on one line.
    pub(super) fn wrap(&self, first: &str, text: &str) -> String {
        let indent = textwrap::core::display_width(first);
        // long words, such as paths, stay whole for copying
        let options = Options::new(self.lines.saturating_sub(indent).max(MIN_TEXT));
        let options = options.break_words(false).word_splitter(WordSplitter::NoHyphenation);
        let text: Vec<_> = text.split_ascii_whitespace().collect();
        let mut out = String::new();
        for (number, line) in textwrap::wrap(&text.join(" "), options).iter().enumerate() {
            if number == 0 {
                out += first;
            } else {
                out.extend(std::iter::repeat_n(' ', indent));
            }
            out += &line.replace(NBSP, " ");
            out.push('\n');
        }
        out
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
        let style = Style { lines: 24, ..Style::PLAIN };
        assert_eq!(style.wrap("- ", "one two three four five six seven"), "- one two three four\n  five six seven\n");
        assert_eq!(style.wrap("", ""), "\n");
        assert_eq!(
            style.wrap("", "六四五七一三二八九 二十四"),
            "六四五七一三二八九\n二十四\n",
            "by cells, not by letters"
        );
        assert_eq!(style.wrap("名 ", "one two three four five six"), "名 one two three four\n   five six\n");
        let path = "/a/path/that/is/longer/than/a/line";
        assert_eq!(style.wrap("", &format!("see {path}")), format!("see\n{path}\n"));
        // the thin space in numbers does not break
        assert_eq!(style.wrap("", "a context of tokens 24\u{2009}576"), "a context of tokens\n24\u{2009}576\n");
    }

    #[test]
    fn text_is_painted_only_with_colours() {
        assert_eq!(Style::PLAIN.paint(Hue::Over, "x"), "x");
        let colourful = Style { colours: Some((ColourDepth::Sixteen, Tone::Dark)), ..Style::PLAIN };
        assert_eq!(colourful.paint(Hue::Over, "x"), "\u{1b}[91mx\u{1b}[0m");
    }
}
