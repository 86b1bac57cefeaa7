//! Writes text along one row, never past its end.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

/// Width of `text` in cells.
pub fn width(text: &str) -> u16 {
    Span::raw(text).width().min(usize::from(u16::MAX)) as u16
}

/// A position in one row of a buffer.
pub struct RowWriter<'a> {
    buffer: &'a mut Buffer,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> RowWriter<'a> {
    /// At the left end of row `row` of `area`; a row outside writes nothing.
    pub fn new(buffer: &'a mut Buffer, area: Rect, row: u16) -> Self {
        let area = area.intersection(buffer.area);
        let y = area.y.saturating_add(row);
        let end = if row < area.height { area.right() } else { area.x };
        Self { x: area.x, y, end, buffer }
    }

    /// Cells left in the row.
    pub const fn room(&self) -> u16 {
        self.end.saturating_sub(self.x)
    }

    /// The column of the next character.
    pub const fn x(&self) -> u16 {
        self.x
    }

    /// Writes `text`; an ellipsis replaces what does not fit.
    pub fn put(&mut self, text: &str, style: Style) -> &mut Self {
        let room = self.room();
        if room == 0 {
            return self;
        }
        let (x, _) = self.buffer.set_stringn(self.x, self.y, text, usize::from(room), style);
        if width(text) > room
            && let Some(cell) = self.buffer.cell_mut((self.end - 1, self.y))
        {
            cell.set_symbol("…").set_style(style);
        }
        self.x = x;
        self
    }

    /// As [`Self::put`] for a path or an address: its end says which file it is, so its beginning is cut.
    pub fn put_path(&mut self, path: &str, style: Style) -> &mut Self {
        let cut = path_end(path, self.room());
        self.put(&cut, style)
    }

    /// Writes `text` at the right end of the row, if it fits with a space before it.
    pub fn right(&mut self, text: &str, style: Style) -> &mut Self {
        let wanted = width(text);
        if wanted < self.room() || (wanted == self.room() && wanted > 0) {
            self.end -= wanted;
            self.buffer.set_stringn(self.end, self.y, text, usize::from(wanted), style);
        }
        self
    }

    /// Skips `cells` cells.
    pub const fn skip(&mut self, cells: u16) -> &mut Self {
        let x = self.x.saturating_add(cells);
        self.x = if x > self.end { self.end } else { x };
        self
    }

    /// Moves to screen column `x`, never back.
    pub const fn to(&mut self, x: u16) -> &mut Self {
        if x > self.x {
            self.x = if x > self.end { self.end } else { x };
        }
        self
    }
}

/// Draws `text` into `area`, wrapped; what does not fit is left out. Returns the number of its lines.
pub fn sentence(text: &str, area: Rect, style: Style, buffer: &mut Buffer) -> u16 {
    let lines = wrap(text, area.width);
    for (row, line) in (0..area.height).zip(&lines) {
        RowWriter::new(buffer, area, row).put(line, style);
    }
    lines.len() as u16
}

/// The end of `path` in at most `cells` cells, behind an ellipsis: whole folders if possible.
pub fn path_end(path: &str, cells: u16) -> String {
    if width(path) <= cells {
        return path.to_owned();
    }
    let fits = |start: &usize| width(&path[*start..]) < cells;
    let folders = path.match_indices(['/', '\\']).map(|(start, _)| start).find(fits);
    let letters = || path.char_indices().map(|(start, _)| start).find(fits);
    folders
        .filter(|start| start + 1 < path.len())
        .or_else(letters)
        .map_or_else(String::new, |start| format!("…{}", &path[start..]))
}

/// `text` cut to `cells` cells with an ellipsis: after a word, or within it if the first word is too long.
pub fn shortened(text: &str, cells: u16) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let fits = |end: &usize| width(&text[..*end]) < cells;
    let words = text.match_indices(' ').map(|(end, _)| end).take_while(fits).last();
    let letters = || text.char_indices().map(|(end, _)| end).take_while(fits).last();
    match words.or_else(letters) {
        Some(end) => format!("{}…", text[..end].trim_end_matches([',', '·', ' '])),
        None => String::new(),
    }
}

/// `name` and `fact` in at most `cells` cells. The name is cut first, down to a few letters.
pub fn named(name: &str, fact: &str, cells: u16) -> String {
    /// Shortest name worth showing, with its ellipsis.
    const MIN_NAME: u16 = 6;
    let room = cells.saturating_sub(width(fact));
    if width(name).saturating_add(width(fact)) <= cells {
        return format!("{name}{fact}");
    }
    if room < MIN_NAME { shortened(name, cells) } else { shortened(name, room) + fact }
}

/// Breaks `text` into lines of at most `cells` cells, at spaces if possible, but never between a number and its unit.
pub fn wrap(text: &str, cells: u16) -> Vec<String> {
    crate::page::wrap(text, usize::from(cells))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_stays_on_its_row() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        RowWriter::new(&mut buffer, Rect::new(2, 0, 4, 1), 0).put("abcdef", Style::new());
        RowWriter::new(&mut buffer, Rect::new(2, 0, 4, 1), 1).put("hidden", Style::new());
        RowWriter::new(&mut buffer, Rect::new(40, 40, 4, 1), 0).put("outside", Style::new()).right("x", Style::new());
        assert_eq!(buffer, Buffer::with_lines(["  abc…  ", "        "]));
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("all 33 layers are on it", 10), ["all 33", "layers are", "on it"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("模型 千問", 5), ["模型", "千問"]);
        assert!(wrap("", 0).is_empty());
        assert_eq!(wrap("all of 64.0 GiB, or 3 %", 12), ["all of", "64.0 GiB, or", "3 %"]);
    }

    #[test]
    fn names_are_cut_between_words() {
        assert_eq!(shortened("RTX PRO 6000 Blackwell", 22), "RTX PRO 6000 Blackwell");
        assert_eq!(shortened("RTX PRO 6000 Blackwell", 13), "RTX PRO 6000…");
        assert_eq!(shortened("RTX PRO 6000 Blackwell", 12), "RTX PRO…");
        assert_eq!(shortened("Blackwell", 6), "Black…");
        assert_eq!(
            (shortened("é", 0), shortened("", 0), shortened("éé", 1)),
            (String::new(), String::new(), "…".into())
        );
    }

    #[test]
    fn paths_are_cut_at_the_front() {
        let path = "/home/me/models/qwen3-8b.gguf";
        assert_eq!(path_end(path, 29), path);
        assert_eq!(path_end(path, 28), "…/me/models/qwen3-8b.gguf");
        assert_eq!(path_end(path, 15), "…/qwen3-8b.gguf");
        assert_eq!(path_end(path, 14), "…qwen3-8b.gguf");
        assert_eq!(path_end(path, 8), "…8b.gguf");
        assert_eq!(path_end("/a/folder/", 7), "…older/", "a slash alone says nothing");
        assert_eq!((path_end("/六/四五", 4), path_end("é", 0)), ("…四五".replace('四', ""), String::new()));
    }

    #[test]
    fn facts_after_a_name_are_kept() {
        assert_eq!(named("Llama 3.1 8B", " · Q4_K_M", 40), "Llama 3.1 8B · Q4_K_M");
        assert_eq!(named("Llama 3.1 8B", " · Q4_K_M", 17), "Llama… · Q4_K_M");
        assert_eq!(named("Llama 3.1 8B", " · Q4_K_M", 12), "Llama 3.1 8B");
        assert_eq!(named("é", "è", 0), "");
    }

    proptest! {
        #[test]
        fn lines_fit_and_lose_nothing(text in "[a-zé中👍 ,·0-9%]{0,60}", cells in 2u16..30) {
            let lines = wrap(&text, cells);
            prop_assert!(lines.iter().all(|line| width(line) <= cells), "{lines:?}");
            let bare = |text: &str| text.replace(' ', "");
            prop_assert_eq!(bare(&lines.concat()), bare(&text));
        }

        #[test]
        fn shortened_text_fits(text in "[a-zé中 ,·]{0,30}", fact in "[a-z ·]{0,12}", cells in 0u16..40) {
            prop_assert!(width(&shortened(&text, cells)) <= cells);
            prop_assert!(width(&named(&text, &fact, cells)) <= cells);
        }
    }
}
