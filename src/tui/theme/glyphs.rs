//! The characters that the screen is made of, and what stands for them where only ASCII can be shown.

use ratatui::buffer::Buffer;

/// Left eighths of a cell, from one to eight.
pub const LEFT: [&str; 8] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Lower eighths of a cell, from one to eight.
pub const LOWER: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Replaces every character outside ASCII in `buffer` by its stand-in.
pub fn to_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let plain = ascii(cell.symbol());
            cell.set_symbol(plain);
        }
    }
}

/// What is written in ASCII, and the characters for which it stands.
const STAND_INS: [(&str, &str); 27] = [
    ("!", "≠"),
    ("-", "─━–—−═░"),
    ("|", "│┃║┊▏▎▍┤├"),
    ("+", "╭╮╰╯┌┐└┘┬┴┼┏┓┗┛▒✓"),
    ("~", "┄╌╍≤≥≈"),
    ("#", "█▉▊▋▌▄▅▆▇■"),
    ("_", "▁▂▃"),
    ("=", "▓"),
    ("/", "╱▚÷"),
    (".", "·…"),
    ("O", "●"),
    ("L", "◆"),
    ("*", "◇"),
    ("o", "○"),
    (">", "▸▶→›"),
    ("<", "◂←‹"),
    ("^", "↑▲▔"),
    ("v", "↓▼"),
    ("S", "⇧Σ"),
    ("x", "×✗"),
    ("[", "⌊⌈"),
    ("]", "⌋⌉"),
    ("'", "’‘╵"),
    ("\"", "“”"),
    ("2", "²"),
    ("u", "µ"),
    (" ", "\u{2009}\u{202f}\u{a0}"),
];

/// The ASCII stand-in of one cell's `symbol`.
pub fn ascii(symbol: &str) -> &'static str {
    let found = STAND_INS.iter().find(|(_, symbols)| symbols.contains(symbol));
    found.map_or("?", |(plain, _)| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stand_in_is_one_ascii_cell() {
        for symbol in LEFT.into_iter().chain(LOWER).chain(["─", "●", "→", "ß", "\u{2009}"]) {
            assert!(ascii(symbol).is_ascii() && ascii(symbol).len() == 1, "{symbol}");
        }
    }
}
