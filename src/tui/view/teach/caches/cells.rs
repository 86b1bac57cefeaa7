//! The cells of every cache as they fill; each square stands for the same number of cells.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::teach::caches::{CachesPage, CellCache, CellFill, CellState, StateCache};
use crate::tui::app::App;
use crate::tui::app::teach::caches::{Cursor, Playback};
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, width, wrap};
use crate::units::Tokens;

/// Colours of sequences, used in turn; their letters differ too.
const HUES: [Hue; 4] = [Hue::Weights, Hue::Cache, Hue::Graph, Hue::Focus];
/// Maximum number of cells per square.
const MAX_CELLS_PER_SQUARE: u64 = 1 << 40;

pub(super) fn draw(app: &App, cursor: Cursor, content: &CachesPage, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme;
    let wide = Rect { width: area.width.saturating_sub(4), height: area.height.saturating_sub(3), ..area };
    let cells = cells_of_a_square(content, wide);
    let steps = steps(content, cells, cursor.steps);
    let square =
        if cells == 1 { "1 square = 1 token".to_owned() } else { format!("1 square = {} tokens", Tokens(cells)) };
    let pace = match cursor.pace {
        Playback::Paused => theme.about_keys(", Space: play"),
        Playback::Running => theme.about_keys(", Space: pause"),
    };
    let so_far = format!("{square}, {} so far", Tokens(steps.saturating_mul(cells)));
    let title = if content.stores.is_empty() { "States" } else { "Cells" };
    let right_titles = if content.stores.is_empty() {
        ["1 square = 1 state".to_owned(), String::new()]
    } else {
        [format!("{square}, {} tokens so far{pace}", Tokens(steps.saturating_mul(cells))), so_far]
    };
    let right_title = panel::fitting(area, title, right_titles.iter().map(String::as_str));
    let inner = panel::frame(buffer, area, title, right_title, true, theme);
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    let mut row = 0;
    if content.stores.is_empty() {
        let text = match content.states.as_slice() {
            [] => "Nothing is cached.",
            _ => "No cells to fill: a state has one size, however many tokens its sequence has.",
        };
        for line in wrap(text, inner.width) {
            RowWriter::new(buffer, inner, row).put(&line, theme.ink(Hue::Dim));
            row += 1;
        }
    }
    for store in &content.stores {
        row = one(store, &CellFill::new(store, cells), steps, row, inner, theme, buffer);
    }
    for state in &content.states {
        row = states(state, row, inner, theme, buffer);
    }
    if content.stores.is_empty() {
        return;
    }
    let legends = if content.stores.iter().any(|store| store.window.is_some()) {
        [
            "A B C … sequences, newest highlighted · lower case: outside the window · '·' free",
            "A B C … sequences · a b c … outside the window · '·' free",
        ]
    } else {
        ["A B C … sequences, newest token highlighted · '·' free"; 2]
    };
    if let Some(legend) = legends.iter().find(|text| width(text) <= inner.width).filter(|_| row < inner.height) {
        RowWriter::new(buffer, inner, inner.height - 1).put(legend, theme.ink(Hue::Dim));
    }
}

/// The smallest number of cells per square with which all caches fit; or else with which every stream fits into one
/// row.
fn cells_of_a_square(content: &CachesPage, area: Rect) -> u64 {
    let width = u64::from(area.width.max(1));
    let rows = |cells: u64| -> u64 {
        let of = |store: &CellCache| {
            let fill = CellFill::new(store, cells);
            fill.squares.div_ceil(width).saturating_mul(fill.streams).saturating_add(1)
        };
        let states = 2 * content.states.len() as u64;
        content.stores.iter().map(of).fold(states, u64::saturating_add)
    };
    let wraps = |cells: u64| content.stores.iter().any(|store| CellFill::new(store, cells).squares > width);
    let mut cells = 1;
    while cells < MAX_CELLS_PER_SQUARE && rows(cells) > u64::from(area.height) && wraps(cells) {
        cells *= 2;
    }
    cells
}

/// `asked`, limited to the steps of the largest cache.
fn steps(content: &CachesPage, cells: u64, asked: u64) -> u64 {
    let most = content.stores.iter().filter_map(|store| CellFill::new(store, cells).steps()).max();
    most.map_or(asked, |most| asked.min(most))
}

/// Draws a heading and the squares; returns the next row.
fn one(
    store: &CellCache,
    fill: &CellFill,
    steps: u64,
    mut row: u16,
    area: Rect,
    theme: Theme,
    buffer: &mut Buffer,
) -> u16 {
    let mut writer = RowWriter::new(buffer, area, row);
    writer.put(store.whose.title(), theme.bold(Hue::Text)).skip(2);
    let texts = description(store);
    let text = texts.iter().find(|text| width(text) <= writer.room()).or(texts.last());
    writer.put(text.map_or("", String::as_str), theme.ink(Hue::Dim));
    row += 1;
    for stream in 0..fill.streams {
        let mut x = 0;
        for square in 0..fill.squares {
            if x >= area.width {
                (x, row) = (0, row + 1);
            }
            if row >= area.height {
                return row;
            }
            let (sign, ink) = drawn(fill.at(stream, square, steps), theme);
            if let Some(cell) = buffer.cell_mut((area.x + x, area.y + row)) {
                cell.set_char(sign).set_style(ink);
            }
            x += 1;
        }
        row += 1;
    }
    row
}

/// Draws a heading and a square for each sequence; returns the next row.
fn states(state: &StateCache, row: u16, area: Rect, theme: Theme, buffer: &mut Buffer) -> u16 {
    let StateCache { whose, blocks, sequences, bytes } = state;
    if row < area.height {
        let mut writer = RowWriter::new(buffer, area, row);
        writer.put(whose.title(), theme.bold(Hue::Text)).skip(2);
        let each = state.of_sequence();
        let texts = match sequences {
            1 => {
                [format!("one state, whatever the context · {blocks} blocks · {bytes}"), format!("one state · {bytes}")]
            }
            all => [
                format!(
                    "a state of {each} for each of {all} sequences, whatever the context · {blocks} blocks · {bytes}"
                ),
                format!("{all} states · {bytes}"),
            ],
        };
        let text = texts.iter().find(|text| width(text) <= writer.room()).or(texts.last());
        writer.put(text.map_or("", String::as_str), theme.ink(Hue::Dim));
    }
    for (x, sequence) in (0..area.width).zip(0..*sequences) {
        let (sign, ink) = drawn(CellState::Seen(sequence), theme);
        if let Some(cell) = buffer.cell_mut((area.x + x, area.y + row + 1)).filter(|_| row + 1 < area.height) {
            cell.set_char(sign).set_style(ink);
        }
    }
    row.saturating_add(2)
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

fn drawn(square: CellState, theme: Theme) -> (char, ratatui::style::Style) {
    let hue = |sequence: u64| HUES[(sequence % HUES.len() as u64) as usize];
    let letter = |sequence: u64| char::from(b'A' + (sequence % 26) as u8);
    match square {
        CellState::Empty => ('·', theme.ink(Hue::Dim)),
        CellState::Seen(sequence) => (letter(sequence), theme.ink(hue(sequence))),
        CellState::Passed(sequence) => (letter(sequence).to_ascii_lowercase(), theme.ink(Hue::Dim)),
        CellState::Newest(sequence) => (letter(sequence), theme.on(hue(sequence))),
    }
}
