//! SVG drawing primitives; coordinates are in pixels from the upper left corner.

use std::fmt::Write;

use crate::export::caption::Caption;
use crate::page::palette::{Hue, Tone};
use crate::text::is_printable;
use textwrap::{Options, WordSplitter};

/// Width of every picture.
pub(super) const WIDTH: f64 = 880.0;
/// Margin around the content.
pub(super) const MARGIN: f64 = 28.0;

/// Pictures are for paper.
const TONE: Tone = Tone::Light;
/// The colour of the paper.
const PAPER: &str = "#ffffff";

/// The colour of `hue`, as on the planner's screen.
fn rgb(hue: Hue) -> String {
    let (r, g, b) = hue.rgb(TONE);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Which point of a text its position refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture filled from top to bottom.
pub(super) struct SvgCanvas {
    shapes: String,
    /// Lower edge of what is drawn so far.
    pub(super) y: f64,
}

impl SvgCanvas {
    pub(super) const fn new() -> Self {
        Self { shapes: String::new(), y: MARGIN }
    }

    pub(super) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, hue: Hue) {
        if width <= 0.0 || height <= 0.0 {
            return;
        }
        let (x, y, width, height) = (number(x), number(y), number(width), number(height));
        let fill = rgb(hue);
        // writing to a String cannot fail
        let _ = writeln!(self.shapes, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#);
    }

    /// A pale rectangle, for text on it.
    pub(super) fn tint(&mut self, x: f64, y: f64, width: f64, height: f64, hue: Hue) {
        let (x, y, width, height, fill) = (number(x), number(y), number(width), number(height), rgb(hue));
        let place = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#);
        let _ = writeln!(self.shapes, r#"<rect {place} fill="{fill}" fill-opacity="0.3"/>"#);
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), hue: Hue, dashed: bool) {
        let (x1, y1, x2, y2, stroke) = (number(x1), number(y1), number(x2), number(y2), rgb(hue));
        let dashes = if dashed { r#" stroke-dasharray="5 4""# } else { "" };
        let _ = writeln!(self.shapes, r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{stroke}"{dashes}/>"#);
    }

    /// The area between `points` and `base`.
    pub(super) fn area(&mut self, points: &[(f64, f64)], base: &[(f64, f64)], hue: Hue) {
        let path: Vec<String> =
            points.iter().chain(base.iter().rev()).map(|&(x, y)| format!("{} {}", number(x), number(y))).collect();
        if path.len() > 2 {
            let _ = writeln!(self.shapes, r#"<path d="M{}Z" fill="{}"/>"#, path.join("L"), rgb(hue));
        }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, size: u8, anchor: Anchor, hue: Hue, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y, fill, text) = (number(x), number(y), rgb(hue), escaped(text));
        let _ =
            writeln!(self.shapes, r#"<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{anchor}>{text}</text>"#);
    }

    /// A heading with a line below it.
    pub(super) fn heading(&mut self, heading: &str, below: &str) {
        self.text(MARGIN, self.y + 16.0, 20, Anchor::Start, Hue::Text, heading);
        self.text(MARGIN, self.y + 38.0, 13, Anchor::Start, Hue::Dim, below);
        self.y += 56.0;
    }

    /// A sentence, wrapped.
    pub(super) fn sentence(&mut self, text: &str) {
        const COLUMNS: usize = 108;
        let options = Options::new(COLUMNS).break_words(false).word_splitter(WordSplitter::NoHyphenation);
        for line in textwrap::wrap(text, options) {
            self.text(MARGIN, self.y + 14.0, 14, Anchor::Start, Hue::Text, &line);
            self.y += 20.0;
        }
        self.y += 6.0;
    }

    /// What the picture is about, in small letters, wrapped.
    pub(super) fn caption(&mut self, caption: &Caption) {
        const COLUMNS: usize = 130;
        let options = Options::new(COLUMNS).break_words(false).word_splitter(WordSplitter::NoHyphenation);
        for line in textwrap::wrap(&caption.to_string(), options) {
            self.text(MARGIN, self.y + 11.0, 11, Anchor::Start, Hue::Dim, &line);
            self.y += 15.0;
        }
    }

    /// A legend of the colours.
    pub(super) fn legend(&mut self, words: &[(Hue, &str)]) {
        let mut x = MARGIN;
        for (hue, word) in words {
            self.rect(x, self.y + 3.0, 12.0, 12.0, *hue);
            self.text(x + 18.0, self.y + 13.5, 13, Anchor::Start, Hue::Dim, word);
            x += 40.0 + 7.4 * word.chars().count() as f64;
        }
        self.y += 26.0;
    }

    /// The complete SVG document.
    pub(super) fn finish(self, title: &str) -> String {
        let height = number(self.y + MARGIN - 8.0);
        let (title, white, faint) = (escaped(title), PAPER, rgb(Hue::Ground));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"10\" fill=\"{white}\" stroke=\"{faint}\"/>\n{}</svg>\n",
            self.shapes
        )
    }
}

fn number(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Escapes text for XML, without the characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| is_printable(*c) && !matches!(c, '\u{fffe}' | '\u{ffff}')) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
