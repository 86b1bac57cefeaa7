//! The cells of every cache as squares that fill; each square stands for the same number of cells.

use super::{CachesPage, CellCache, CellFill, CellState, StateCache};
use crate::page::chart::signs;
use crate::page::{Hue, Ink, Page, Span, width};
use crate::units::Tokens;

/// Colours of sequences, used in turn; their letters differ too.
const HUES: [Hue; 4] = [Hue::Weights, Hue::Cache, Hue::Graph, Hue::Reserved];
/// Maximum number of cells per square.
const MAX_CELLS_PER_SQUARE: u64 = 1 << 40;

/// The room for the squares.
#[derive(Clone, Copy, Debug)]
pub struct Squares {
    /// Rows.
    pub rows: usize,
    /// Cells of a row.
    pub cells: usize,
}

impl Squares {
    /// The smallest number of cells per square with which all caches fit; or else with which every stream fits into
    /// one row.
    pub fn size(self, page: &CachesPage) -> u64 {
        let width = self.cells.max(1) as u64;
        let rows = |cells: u64| -> u64 {
            let of = |store: &CellCache| {
                let fill = CellFill::new(store, cells);
                fill.squares.div_ceil(width).saturating_mul(fill.streams).saturating_add(1)
            };
            let states = 2 * page.states.len() as u64;
            page.stores.iter().map(of).fold(states, u64::saturating_add)
        };
        let wraps = |cells: u64| page.stores.iter().any(|store| CellFill::new(store, cells).squares > width);
        let mut cells = 1;
        while cells < MAX_CELLS_PER_SQUARE && rows(cells) > self.rows as u64 && wraps(cells) {
            cells *= 2;
        }
        cells
    }

    /// `asked`, limited to the steps of the largest cache.
    pub fn steps(self, page: &CachesPage, size: u64, asked: u64) -> u64 {
        let most = page.stores.iter().filter_map(|store| CellFill::new(store, size).steps()).max();
        most.map_or(asked, |most| asked.min(most))
    }

    /// `1 square = 128 tokens, 4 736 tokens so far`
    pub fn scale(size: u64, steps: u64) -> String {
        let square = if size == 1 { "token".to_owned() } else { "tokens".to_owned() };
        format!("1 square = {} {square}, {} tokens so far", Tokens(size), Tokens(steps.saturating_mul(size)))
    }

    /// Adds the squares of all caches after `asked` steps, with a legend.
    pub fn onto(self, of: &CachesPage, size: u64, asked: u64, page: &mut Page) {
        let steps = self.steps(of, size, asked);
        if of.stores.is_empty() {
            let text = match of.states.as_slice() {
                [] => "Nothing is cached.",
                _ => "No cells to fill: a state has one size, however many tokens its sequence has.",
            };
            page.text(text, Hue::Dim);
        }
        for store in &of.stores {
            let fill = CellFill::new(store, size);
            self.head(store.whose.title(), &description(store), page);
            for stream in 0..fill.streams.min(self.rows as u64) {
                // no more squares than fit
                let most = (self.rows * self.cells) as u64;
                let squares: Vec<_> =
                    (0..fill.squares.min(most)).map(|square| drawn(fill.at(stream, square, steps))).collect();
                squares.chunks(self.cells.max(1)).for_each(|row| page.line(signs(row.iter().copied())));
            }
        }
        for state in &of.states {
            self.head(state.whose.title(), &of_state(state), page);
            let squares = (0..state.sequences).take(self.cells).map(|sequence| drawn(CellState::Seen(sequence)));
            page.line(signs(squares));
        }
    }

    /// The meaning of the letters; empty without cells.
    pub fn legend(self, of: &CachesPage) -> &'static str {
        let legends = match of.stores.as_slice() {
            [] => [""; 2],
            stores if stores.iter().any(|store| store.window.is_some()) => [
                "A B C … sequences, newest highlighted · lower case: outside the window · '·' free",
                "A B C … sequences · a b c … outside the window · '·' free",
            ],
            _ => ["A B C … sequences, newest token highlighted · '·' free"; 2],
        };
        legends.into_iter().find(|text| width(text) <= self.cells).unwrap_or_default()
    }

    /// Adds whose cache it is, with the longest of `texts` that fits.
    fn head(self, whose: &str, texts: &[String], page: &mut Page) {
        let room = self.cells.saturating_sub(width(whose) + 2);
        let text = texts.iter().find(|text| width(text) <= room).or(texts.last());
        let text = text.map_or("", String::as_str);
        page.line(vec![Span::new(&format!("{whose}  "), Hue::Text.bold()), Span::new(text, Hue::Dim)]);
    }
}

/// Descriptions of a cache, from long to short; all include its size.
fn description(store: &CellCache) -> [String; 4] {
    let (cells, bytes) = (Tokens(store.size), store.bytes);
    let window = |words: &str| store.window.map(|window| format!("{words} {}", Tokens(window)));
    let sight = window("window of").unwrap_or_else(|| "all tokens".to_owned());
    let (shared, whose) = match (store.streams, store.sequences) {
        (_, 1) => (String::new(), String::new()),
        (1, all) => (format!(", shared by {all} sequences"), format!(", for {all} sequences")),
        (all, _) => (format!(", separate for {all} sequences"), format!(", for each of {all} sequences")),
    };
    [
        format!("{cells} cells, {sight}{shared} · {} blocks · {bytes}", store.blocks),
        format!("{cells} cells, {sight}{whose} · {bytes}"),
        format!("{cells} cells, {sight} · {bytes}"),
        format!("{cells} cells, {} · {bytes}", window("window").unwrap_or(sight)),
    ]
}

fn of_state(state: &StateCache) -> [String; 2] {
    let StateCache { blocks, sequences, bytes, .. } = state;
    let each = state.of_sequence();
    match sequences {
        1 => [format!("one state, whatever the context · {blocks} blocks · {bytes}"), format!("one state · {bytes}")],
        all => [
            format!("a state of {each} for each of {all} sequences, whatever the context · {blocks} blocks · {bytes}"),
            format!("{all} states · {bytes}"),
        ],
    }
}

fn drawn(square: CellState) -> (char, Ink) {
    let hue = |sequence: u64| HUES[(sequence % HUES.len() as u64) as usize];
    let letter = |sequence: u64| char::from(b'A' + (sequence % 26) as u8);
    match square {
        CellState::Empty => ('·', Hue::Dim.into()),
        CellState::Seen(sequence) => (letter(sequence), hue(sequence).into()),
        CellState::Passed(sequence) => (letter(sequence).to_ascii_lowercase(), Hue::Dim.into()),
        CellState::Newest(sequence) => (letter(sequence), Hue::Focus.bold()),
    }
}
