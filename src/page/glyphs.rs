//! Block characters, and the ASCII replacements for terminals without Unicode.

/// Left blocks of one to eight eighths of a cell.
pub const LEFT: [&str; 8] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Lower blocks of one to eight eighths of a cell.
pub const LOWER: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// ASCII characters, and the characters that each replaces.
const STAND_INS: [(&str, &str); 28] = [
    ("!", "≠"),
    ("-", "─━–—−═░"),
    ("|", "│┃║┊▏▎▍┤├"),
    ("+", "╭╮╰╯┌┐└┘┬┴┼┏┓┗┛▒✓"),
    ("~", "┄╌╍≈"),
    ("&", "◐"),
    ("#", "█▉▊▋▌▄▅▆▇■"),
    ("_", "▁▂▃"),
    ("=", "▓"),
    ("/", "╱▚÷"),
    (".", "·…"),
    ("O", "●"),
    ("L", "◆"),
    ("*", "◇"),
    ("o", "○"),
    (">", "▸▶→›≥"),
    ("<", "◂←‹≤"),
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

/// The ASCII replacement of `symbol`.
pub fn ascii(symbol: &str) -> &'static str {
    let found = STAND_INS.iter().find(|(_, symbols)| symbols.contains(symbol));
    found.map_or("?", |(plain, _)| plain)
}

/// `text` with every character outside ASCII replaced.
pub fn to_ascii(text: &str) -> String {
    let plain = |c: char| if c.is_ascii() { c.to_string() } else { ascii(c.encode_utf8(&mut [0; 4])).to_owned() };
    text.chars().map(plain).collect()
}
