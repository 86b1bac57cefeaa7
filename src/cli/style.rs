//! Text style of the terminal: width, colours, and the glyphs of bars.

use std::io::IsTerminal;

use textwrap::{Options, WordSplitter};

use crate::plan::Outcome;

/// A colour by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hue {
    Weights,
    Cache,
    Graph,
    Reserved,
    Over,
    Part,
    Strong,
    Faint,
}

impl Hue {
    /// The colour of a fit status.
    pub(super) const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Vram => Self::Graph,
            Outcome::Tight | Outcome::PartsInRam | Outcome::ExpertsInRam => Self::Part,
            Outcome::LayersInRam | Outcome::Cpu => Self::Cache,
            Outcome::FromDisk | Outcome::DoesNotFit => Self::Over,
        }
    }
}

/// The colours that the terminal supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColourDepth {
    None,
    Sixteen,
    Many,
    All,
}

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
    pub colours: ColourDepth,
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
    pub(super) const PLAIN: Self = Self { width: 80, lines: 80, colours: ColourDepth::None, bars: BarGlyphs::None };

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
        let colours = if dumb || variable("NO_COLOR").is_some() {
            ColourDepth::None
        } else if variable("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit") {
            ColourDepth::All
        } else if term.contains("256color") {
            ColourDepth::Many
        } else {
            ColourDepth::Sixteen
        };
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
        let code = match self.colours {
            ColourDepth::None => return text.to_owned(),
            _ if hue == Hue::Strong => "1",
            _ if hue == Hue::Faint => "2",
            // Okabe and Ito's palette for colour-blind readers, and its nearest neighbours
            ColourDepth::All => match hue {
                Hue::Weights => "38;2;86;180;233",
                Hue::Cache => "38;2;230;159;0",
                Hue::Graph => "38;2;0;158;115",
                Hue::Over => "38;2;213;94;0",
                Hue::Part => "38;2;189;174;0",
                _ => "38;2;153;153;153",
            },
            ColourDepth::Many => match hue {
                Hue::Weights => "38;5;74",
                Hue::Cache => "38;5;214",
                Hue::Graph => "38;5;36",
                Hue::Over => "38;5;166",
                Hue::Part => "38;5;142",
                _ => "38;5;246",
            },
            ColourDepth::Sixteen => match hue {
                Hue::Weights => "34",
                Hue::Cache => "33",
                Hue::Graph => "32",
                Hue::Over => "31",
                Hue::Part => "36",
                _ => "90",
            },
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
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
        assert_eq!(of(&[("TERM", "xterm")]).colours, ColourDepth::Sixteen);
        assert_eq!(of(&[("TERM", "xterm-256color")]).colours, ColourDepth::Many);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]).colours, ColourDepth::All);
        assert_eq!(of(&[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]).colours, ColourDepth::None);
        let dumb = of(&[("TERM", "dumb"), ("COLORTERM", "truecolor")]);
        assert_eq!((dumb.colours, dumb.bars), (ColourDepth::None, BarGlyphs::Ascii));
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
        let colourful = Style { colours: ColourDepth::Sixteen, ..Style::PLAIN };
        assert_eq!(colourful.paint(Hue::Over, "x"), "\u{1b}[31mx\u{1b}[0m");
    }
}
