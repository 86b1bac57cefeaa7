//! Pages as text of a terminal or a file.

use super::palette::{self, ColourDepth, Hue, Tone};
use super::{Breaks, Ink, Page, layout};

/// `page` in lines of `cells` cells, broken between words or at any space, in colours if there are any.
pub fn text(page: &Page, cells: usize, breaks: Breaks, colours: Option<(ColourDepth, Tone)>) -> String {
    let mut out = String::new();
    for line in layout::lines(page, cells, breaks) {
        out.extend(line.spans.iter().map(|span| painted(&span.text, span.ink, colours)));
        out.push('\n');
    }
    out
}

/// `text` in `ink`, if there are colours.
pub fn painted(text: &str, ink: Ink, colours: Option<(ColourDepth, Tone)>) -> String {
    let Some((depth, tone)) = colours.filter(|_| !text.trim().is_empty()) else { return text.to_owned() };
    // the text's own colour, on whatever background there is
    let plain = matches!(ink.hue, Hue::Text | Hue::Focus);
    let codes = [
        ink.bold.then(|| "1".to_owned()),
        (!plain).then(|| palette::colour(ink.hue, tone, depth).escape()),
        ink.ground.map(|hue| palette::colour(hue, tone, depth).behind()),
    ];
    let codes: Vec<String> = codes.into_iter().flatten().collect();
    if codes.is_empty() { text.to_owned() } else { format!("\u{1b}[{}m{text}\u{1b}[0m", codes.join(";")) }
}
