//! Block characters, and the ASCII replacements for terminals without Unicode.

use ratatui::buffer::Buffer;

pub use crate::page::glyphs::{LEFT, LOWER, ascii};

/// Replaces every character outside ASCII in `buffer`.
pub fn to_ascii(buffer: &mut Buffer) {
    let width = usize::from(buffer.area.width);
    for row in buffer.content.chunks_mut(width.max(1)) {
        for at in 0..row.len() {
            let Some(cell) = row.get_mut(at).filter(|cell| !cell.symbol().is_ascii()) else { continue };
            let compares = "≤≥".contains(cell.symbol());
            let plain = ascii(cell.symbol());
            cell.set_symbol(plain);
            // `<=` and `>=` take a second cell, if the next one is blank
            if let Some(next) = row.get_mut(at + 1).filter(|next| compares && next.symbol() == " ") {
                next.set_symbol("=");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_takes_the_next_blank_cell() {
        let mut buffer = Buffer::with_lines(["Ollama ≤ 0.24 ≥", " ≥0.30"]);
        to_ascii(&mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["Ollama <=0.24 >", " >0.30"]));
    }

    #[test]
    fn every_stand_in_is_one_ascii_cell() {
        for symbol in LEFT.into_iter().chain(LOWER).chain(["─", "●", "→", "ß", "\u{2009}"]) {
            assert!(ascii(symbol).is_ascii() && ascii(symbol).len() == 1, "{symbol}");
        }
    }
}
