//! A page as lines of a given width.

use std::ops::Range;

use textwrap::core::{Word, display_width};
use textwrap::{Options, WordSeparator, WordSplitter};

use super::palette::Hue;
use super::{Bar, Block, Column, Narrow, Page, Span, Table};

/// Least cells of a bar beside its label.
const BESIDE: usize = 24;
/// Least width of text after an indent.
const MIN_TEXT: usize = 20;
/// The space at which no line breaks.
const NBSP: char = '\u{a0}';

/// Where lines break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// Between words, and in those longer than a line.
    Anywhere,
    /// Between words: paths stay whole for copying.
    Words,
    /// At any space, also between a number and its unit.
    Spaces,
}

/// A line of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its text.
    pub spans: Vec<Span>,
    /// Which of the choices it belongs to.
    pub choice: Option<usize>,
    /// Whether it is a head of choices, or a row above them in the same columns.
    pub above_choices: bool,
}

impl Line {
    fn of(spans: Vec<Span>) -> Self {
        Self { spans, choice: None, above_choices: false }
    }

    /// Its width in cells.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| display_width(&span.text)).sum()
    }
}

/// Width of `text` in cells.
pub fn width(text: &str) -> usize {
    display_width(text)
}

/// The lines of `page` in `cells` cells.
pub(super) fn lines(page: &Page, cells: usize, breaks: Breaks) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut choices = 0..;
    for (block, can_be_chosen) in page.blocks() {
        let choice = if *can_be_chosen { choices.next() } else { None };
        let above_choices = choice.is_none() && choices.start == 0 && matches!(block, Block::Table(_));
        if matches!(block, Block::Heading(_)) && !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(of_block(block, cells, breaks).into_iter().map(|line| Line { choice, above_choices, ..line }));
    }
    lines
}

pub(super) fn of_block(block: &Block, cells: usize, breaks: Breaks) -> Vec<Line> {
    match block {
        Block::Blank => vec![Line::default()],
        Block::Line(spans) => vec![Line::of(spans.clone())],
        Block::Text { first, spans } => text(first, spans, cells, breaks),
        Block::Verbatim(span) if breaks == Breaks::Anywhere => verbatim(span, cells),
        Block::Heading(span) | Block::Verbatim(span) => vec![Line::of(vec![span.clone()])],
        Block::Table(table) => rows(table, cells, breaks),
        Block::Bars(bars, most) => bars_of(bars, *most, cells),
        Block::Columns(pages) => columns(pages, cells, breaks),
    }
}

fn text(first: &Span, spans: &[Span], cells: usize, breaks: Breaks) -> Vec<Line> {
    let indent = display_width(&first.text);
    let room = cells.saturating_sub(indent).max(if breaks == Breaks::Anywhere { 1 } else { MIN_TEXT });
    let whole: String = spans.iter().map(|span| span.text.as_str()).collect();
    let margin = || Span { text: " ".repeat(indent), ..first.clone() };
    let (mut lines, mut from) = (Vec::new(), 0);
    for line in wrapped(&whole, room, breaks) {
        // lines follow each other, with nothing but spaces between them
        let start = whole.get(from..).and_then(|rest| rest.find(&line)).map_or(from, |at| from + at);
        from = start + line.len();
        let before = if lines.is_empty() { first.clone() } else { margin() };
        let cut = cut(spans, start..from).map(|span| Span { text: span.text.replace(NBSP, " "), ..span });
        lines.push(Line::of(std::iter::once(before).chain(cut).filter(|span| !span.text.is_empty()).collect()));
    }
    lines
}

/// The part of `spans` between two bytes of their text.
fn cut(spans: &[Span], part: Range<usize>) -> impl Iterator<Item = Span> + '_ {
    let mut from = 0;
    spans.iter().filter_map(move |span| {
        let start = from;
        from += span.text.len();
        let within = part.start.clamp(start, from) - start..part.end.clamp(start, from) - start;
        Some(Span { text: span.text.get(within)?.to_owned(), ink: span.ink })
    })
}

fn verbatim(span: &Span, cells: usize) -> Vec<Line> {
    if display_width(&span.text) <= cells {
        return vec![Line::of(vec![span.clone()])];
    }
    let indent = span.text.len() - span.text.trim_start().len();
    let pieces = wrap(&span.text, cells.saturating_sub(indent + 2));
    let line = |(at, piece): (usize, String)| {
        let margin = if at == 0 { indent } else { indent + 2 };
        Line::of(vec![Span { text: " ".repeat(margin) + &piece, ..span.clone() }])
    };
    pieces.into_iter().enumerate().map(line).collect()
}

fn rows(table: &Table, cells: usize, breaks: Breaks) -> Vec<Line> {
    let breaks = if breaks == Breaks::Anywhere { Breaks::Words } else { breaks };
    let mut widths = widths(table);
    let over = (widths.iter().sum::<usize>() + table.gap * widths.len().saturating_sub(1)).saturating_sub(cells);
    let all: Vec<usize> = (0..widths.len()).collect();
    match table.narrow {
        Narrow::Split if over > 0 => {
            let each = widths.iter().skip(1).max().copied().unwrap_or(0) + table.gap;
            let side_by_side = (cells.saturating_sub(widths[0]) / each).max(1);
            let tables = all[1..].chunks(side_by_side).map(|some| {
                let some: Vec<usize> = std::iter::once(0).chain(some.iter().copied()).collect();
                of_columns(table, &some, &widths, cells, breaks).concat()
            });
            tables.collect::<Vec<_>>().join(&Line::default())
        }
        Narrow::Below(keys) if over > 0 => {
            let indent = Span::from("  ");
            let mut lines = of_columns(table, &all[..keys], &widths, cells, breaks);
            let heads = lines.len() - table.rows.len();
            for (line, row) in lines.iter_mut().skip(heads).zip(&table.rows) {
                let facts = row.iter().zip(&table.columns).skip(keys);
                let facts = facts.filter(|(cell, _)| !cell.text.trim().is_empty());
                let facts = facts.map(|(cell, column)| format!("{} {}", column.title, cell.text).trim().to_owned());
                line.extend(text(&indent, &[Span::from(joined(facts))], cells, breaks));
            }
            lines.concat()
        }
        Narrow::Cut(at) if over > 0 => {
            widths[at] = widths[at].saturating_sub(over).max(1);
            of_columns(table, &all, &widths, cells, breaks).concat()
        }
        _ => of_columns(table, &all, &widths, cells, breaks).concat(),
    }
}

/// Joins facts so that lines break only between them.
pub fn joined(facts: impl IntoIterator<Item = String>) -> String {
    let unbroken: Vec<String> = facts.into_iter().map(|fact| fact.replace(' ', &NBSP.to_string())).collect();
    unbroken.join(&format!("{NBSP}· "))
}

/// The widths of the columns. The last cell of a row with fewer cells is a sentence, which has none.
fn widths(table: &Table) -> Vec<usize> {
    let whole = |row: &&Vec<Span>| row.len() == table.columns.len();
    let widest = |at: usize| table.rows.iter().filter(whole).map(|row| display_width(&row[at].text)).max();
    let columns = table.columns.iter().enumerate();
    columns.map(|(at, c)| c.width.max(display_width(&c.title)).max(widest(at).unwrap_or(0))).collect()
}

impl Table {
    /// Its head, if it has one, and each row as a table of its own, in the same columns: so that rows can be chosen.
    pub fn in_rows(self) -> (Option<Block>, Vec<Block>) {
        let widths = widths(&self);
        let columns =
            self.columns.iter().zip(&widths).map(|(column, width)| Column { width: *width, ..column.clone() });
        let columns: Vec<Column> = columns.collect();
        let of = |head, rows| Block::Table(Self { columns: columns.clone(), rows, head, ..self.clone() });
        let head = self.has_head().then(|| of(true, Vec::new()));
        let rows = self.rows.iter().map(|row| of(false, vec![row.clone()])).collect();
        (head, rows)
    }

    fn has_head(&self) -> bool {
        self.head && self.columns.iter().any(|column| !column.title.is_empty())
    }
}

/// The lines of each row in some columns, after those of the head.
fn of_columns(table: &Table, columns: &[usize], widths: &[usize], cells: usize, breaks: Breaks) -> Vec<Vec<Line>> {
    let aligned = |row: &[Span], columns: &[usize]| {
        let mut spans = Vec::new();
        for &at in columns.iter().filter(|&&at| at < row.len()) {
            if !spans.is_empty() {
                spans.push(Span::from(" ".repeat(table.gap)));
            }
            let (cell, width) = (&row[at], widths[at]);
            let fits = display_width(&cell.text) <= width;
            let text = if fits { cell.text.clone() } else { shortened(&cell.text, width) };
            let blank = " ".repeat(width.saturating_sub(display_width(&text)));
            let text = if table.columns[at].right { blank + &text } else { text + &blank };
            spans.push(Span { text, ink: cell.ink });
        }
        Line::of(spans)
    };
    let line = |row: &Vec<Span>| match row.split_last() {
        Some((sentence, before)) if row.len() < table.columns.len() => {
            let first: String = aligned(before, columns).spans.into_iter().map(|span| span.text).collect();
            text(&Span::from(first + &" ".repeat(table.gap)), std::slice::from_ref(sentence), cells, breaks)
        }
        _ => vec![trimmed(aligned(row, columns))],
    };
    let head: Vec<Span> = table.columns.iter().map(|column| Span::new(&column.title, Hue::Text.bold())).collect();
    table.has_head().then(|| line(&head)).into_iter().chain(table.rows.iter().map(line)).collect()
}

/// Without spaces at its end.
fn trimmed(mut line: Line) -> Line {
    while let Some(last) = line.spans.last_mut() {
        last.text.truncate(last.text.trim_end_matches(' ').len());
        if !last.text.is_empty() {
            break;
        }
        line.spans.pop();
    }
    line
}

/// `text` in at most `cells` cells, with an ellipsis.
fn shortened(text: &str, cells: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if display_width(&out) + display_width(c.encode_utf8(&mut [0; 4])) >= cells {
            break;
        }
        out.push(c);
    }
    out + "…"
}

/// Bars of one scale; labels have a row of their own where there is no room beside.
fn bars_of(bars: &[Bar], most: usize, cells: usize) -> Vec<Line> {
    let widest = |of: fn(&Bar) -> &Span| bars.iter().map(|bar| display_width(&of(bar).text)).max().unwrap_or(0);
    let (labels, values) = (widest(|bar| &bar.label), widest(|bar| &bar.value));
    let beside = labels + 1 + values + 1 + most.min(BESIDE) <= cells;
    let room = cells.saturating_sub(values + 1 + if beside { labels + 1 } else { 1 }).min(most);
    let mut lines = Vec::new();
    for bar in bars {
        let mut spans = Vec::new();
        if beside {
            let blank = " ".repeat(labels + 1 - display_width(&bar.label.text));
            spans.push(Span { text: bar.label.text.clone() + &blank, ..bar.label.clone() });
        } else {
            lines.push(Line::of(vec![bar.label.clone()]));
        }
        spans.extend(filled(bar, room));
        spans.push(Span::from(" "));
        spans.push(bar.value.clone());
        lines.push(Line::of(spans));
    }
    lines
}

/// The parts of a bar in `room` cells. Each part is rounded by its end, so that errors do not add up.
pub(super) fn filled(bar: &Bar, room: usize) -> Vec<Span> {
    let (mut end, mut at) = (0.0, 0);
    let mut spans = Vec::new();
    for (share, sign, hue) in &bar.parts {
        end += share;
        let to = ((end * room as f64).round() as usize).min(room);
        spans.push(Span::new(&sign.repeat(to.saturating_sub(at)), *hue));
        at = at.max(to);
    }
    spans
}

fn columns(pages: &[Page], cells: usize, breaks: Breaks) -> Vec<Line> {
    const GAP: usize = 2;
    let each = (cells + GAP) / pages.len().max(1) - GAP;
    let all: Vec<Vec<Line>> = pages.iter().map(|page| lines(page, each, breaks)).collect();
    let line = |row: usize| {
        let mut spans = Vec::new();
        for column in &all {
            let line = column.get(row).cloned().unwrap_or_default();
            let blank = (each + GAP).saturating_sub(line.width());
            spans.extend(line.spans);
            spans.push(Span::from(" ".repeat(blank)));
        }
        trimmed(Line::of(spans))
    };
    (0..all.iter().map(Vec::len).max().unwrap_or(0)).map(line).collect()
}

/// Breaks `text` into lines of at most `cells` cells, at spaces if possible, but never between a number and its unit.
pub fn wrap(text: &str, cells: usize) -> Vec<String> {
    wrapped(text, cells, Breaks::Anywhere)
}

fn wrapped(text: &str, cells: usize, breaks: Breaks) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let separator = if breaks == Breaks::Spaces { WordSeparator::AsciiSpace } else { WordSeparator::Custom(words) };
    let options = Options::new(cells.max(1))
        .break_words(breaks == Breaks::Anywhere)
        .word_separator(separator)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// The words of `text`; a number and its unit are one word.
fn words(text: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "GB", "%"];
    let mut words = text.split_inclusive(' ').peekable();
    let mut start = 0;
    Box::new(std::iter::from_fn(move || {
        let mut end = start;
        while let Some(word) = words.next() {
            end += word.len();
            let unit = words.peek().map(|next| next.trim_end_matches([' ', ',', '.', ':', ';', ')']));
            if !(word.trim_end().ends_with(|c: char| c.is_ascii_digit()) && unit.is_some_and(|u| UNITS.contains(&u))) {
                break;
            }
        }
        let word = text.get(start..end).filter(|word| !word.is_empty());
        start = end;
        word.map(Word::from)
    }))
}
