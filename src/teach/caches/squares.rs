//! The cells of every cache as squares that fill as tokens arrive: sequences take turns, and cells outside a window are
//! overwritten. Each square stands for the same number of cells.
//!
//! The state is a pure function of the number of steps, so that it can be stepped in both directions.

use super::{CachesPage, CellCache, StateCache};
use crate::page::chart::signs;
use crate::page::{Hue, Ink, Page, Span, width};
use crate::units::Tokens;

/// A cache drawn as squares of several cells each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellFill {
    /// Cells per square.
    pub cells: u64,
    /// Squares per stream.
    pub squares: u64,
    /// Streams.
    pub streams: u64,
    sequences: u64,
    /// Size of the sliding window in squares; `None` for full attention.
    window: Option<u64>,
}

/// The content of a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// Empty.
    Empty,
    /// Tokens of this sequence that its newest token attends to.
    Seen(u64),
    /// Tokens of this sequence outside its window, until they are overwritten.
    Passed(u64),
    /// The square of this sequence that was filled last.
    Newest(u64),
}

impl CellFill {
    /// `store` with `cells` cells per square.
    pub fn new(store: &CellCache, cells: u64) -> Self {
        let cells = cells.max(1);
        let squares = store.size.div_ceil(cells).max(1);
        let window = store.window.map(|window| window.div_ceil(cells).max(1));
        let streams = store.streams.max(1);
        Self { cells, squares, streams, sequences: store.sequences.max(1), window }
    }

    /// Steps until the cache is full; `None` for sliding windows, which never fill up.
    pub fn steps(&self) -> Option<u64> {
        self.window.is_none().then(|| {
            let each = if self.streams > 1 { self.sequences } else { 1 };
            self.squares.saturating_mul(each)
        })
    }

    /// The content of `square` in `stream` after `steps` squares were filled. Sequences take turns.
    pub fn at(&self, stream: u64, square: u64, steps: u64) -> CellState {
        let steps = self.steps().map_or(steps, |most| steps.min(most));
        if steps == 0 || square >= self.squares || stream >= self.streams {
            return CellState::Empty;
        }
        let newest = steps - 1;
        let latest = if self.streams > 1 {
            self.in_own_stream(stream, square, newest)
        } else {
            latest(square, newest, self.squares)
        };
        let Some(step) = latest else { return CellState::Empty };
        let (sequence, position) = (step % self.sequences, step / self.sequences);
        if step == newest {
            return CellState::Newest(sequence);
        }
        // the last step of this sequence
        let last = newest - (newest + self.sequences - sequence) % self.sequences;
        let looks_back = last / self.sequences - position;
        if self.window.is_some_and(|window| looks_back >= window) {
            CellState::Passed(sequence)
        } else {
            CellState::Seen(sequence)
        }
    }

    /// The last step that filled `square` of the sequence's own stream.
    fn in_own_stream(&self, stream: u64, square: u64, newest: u64) -> Option<u64> {
        let turns = newest.checked_sub(stream)? / self.sequences;
        Some(latest(square, turns, self.squares)? * self.sequences + stream)
    }
}

/// The last number up to `newest` that is `square` modulo `squares`.
fn latest(square: u64, newest: u64, squares: u64) -> Option<u64> {
    let back = (newest % squares + squares - square) % squares;
    newest.checked_sub(back)
}

/// Colours of sequences, used in turn; their letters differ too.
const HUES: [Hue; 4] = [Hue::Weights, Hue::Cache, Hue::Graph, Hue::Reserved];
/// Cells of the box of a state.
const BOX: usize = 4;
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
            // a box for each sequence
            let shown = (0..state.sequences).take(self.cells / BOX);
            page.line(signs(shown.flat_map(|sequence| {
                let edge = |sign: char| (sign, Hue::Dim.into());
                [edge('['), drawn(CellState::Seen(sequence)), edge(']'), edge(' ')]
            })));
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::CacheOwner;
    use super::*;
    use crate::units::Bytes;

    fn store(size: u64, streams: u64, sequences: u64, window: Option<u64>) -> CellCache {
        CellCache { whose: CacheOwner::LlamaCpp, blocks: 1, size, streams, sequences, window, bytes: Bytes::ZERO }
    }

    fn squares(fill: &CellFill, steps: u64) -> Vec<CellState> {
        let all = (0..fill.streams).flat_map(|stream| (0..fill.squares).map(move |square| (stream, square)));
        all.map(|(stream, square)| fill.at(stream, square, steps)).collect()
    }

    /// Number of squares with tokens that are attended to.
    fn seen(fill: &CellFill, steps: u64) -> u64 {
        let is_seen = |state: &CellState| matches!(state, CellState::Seen(_) | CellState::Newest(_));
        squares(fill, steps).iter().filter(|state| is_seen(state)).count() as u64
    }

    #[test]
    fn sequences_take_turns_in_shared_cells() {
        use CellState::{Empty, Newest, Seen};
        let fill = CellFill::new(&store(4, 1, 2, None), 1);
        assert_eq!(squares(&fill, 0), [Empty; 4]);
        assert_eq!(squares(&fill, 3), [Seen(0), Seen(1), Newest(0), Empty]);
        // a full cache takes no more
        assert_eq!(squares(&fill, 9), squares(&fill, 4));
    }

    #[test]
    fn sequences_fill_their_own_streams() {
        use CellState::{Empty, Newest, Seen};
        let fill = CellFill::new(&store(2, 2, 2, None), 1);
        assert_eq!(squares(&fill, 3), [Seen(0), Newest(0), Seen(1), Empty]);
    }

    #[test]
    fn cells_outside_the_window_are_overwritten() {
        use CellState::{Newest, Passed, Seen};
        let fill = CellFill::new(&store(4, 1, 1, Some(2)), 1);
        assert_eq!(squares(&fill, 4), [Passed(0), Passed(0), Seen(0), Newest(0)]);
        assert_eq!(squares(&fill, 5), [Newest(0), Passed(0), Passed(0), Seen(0)]);
        assert_eq!(fill.steps(), None);
    }

    proptest! {
        #[test]
        fn no_more_than_the_window_is_attended_to(
            size in 1..200_u64, sequences in 1..6_u64, unified: bool, window in 1..100_u64, cells in 1..9_u64,
            steps in 0..2000_u64,
        ) {
            let streams = if unified { 1 } else { sequences };
            let fill = CellFill::new(&store(size, streams, sequences, Some(window)), cells);
            prop_assert!(seen(&fill, steps) <= window.div_ceil(cells) * sequences);
            let newest = squares(&fill, steps).into_iter().filter(|square| matches!(square, CellState::Newest(_))).count();
            prop_assert_eq!(newest, usize::from(steps > 0));
        }

        #[test]
        fn a_step_fills_one_square(
            size in 1..200_u64, sequences in 1..6_u64, unified: bool, cells in 1..9_u64, steps in 0..2000_u64,
        ) {
            let streams = if unified { 1 } else { sequences };
            let fill = CellFill::new(&store(size, streams, sequences, None), cells);
            prop_assert_eq!(seen(&fill, steps), steps.min(fill.steps().unwrap()));
            let filled = |steps| squares(&fill, steps).into_iter().map(|square| square != CellState::Empty).collect::<Vec<_>>();
            let changed = filled(steps).into_iter().zip(filled(steps + 1)).filter(|(before, after)| before != after);
            prop_assert_eq!(changed.count(), usize::from(steps < fill.steps().unwrap()));
        }
    }
}
