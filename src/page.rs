//! An answer as a page: headings, sentences, pairs, tables, bars. One value, drawn by several renderers: terminal
//! ([`terminal`]), Markdown ([`markdown`]), pictures ([`svg`]), and the planner's screen.
//!
//! To add something that pages show: a [`Block`], its lines in `layout`, and its form in Markdown.

pub mod chart;
pub mod glyphs;
mod layout;
pub mod live;
pub mod markdown;
pub mod palette;
pub mod svg;
pub mod terminal;

pub use layout::{Breaks, Line, joined, width, wrap};
pub use palette::Hue;

use crate::text::one_line;
use crate::units::{Bytes, grouped};

/// A size with its exact number of bytes.
pub fn exactly(bytes: Bytes) -> String {
    format!("{bytes} · {} bytes", grouped(bytes.0, '\u{2009}'))
}

/// How text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// Its colour.
    pub hue: Hue,
    /// Whether the letters are bold.
    pub bold: bool,
    /// The colour behind them, if it is not the page's.
    pub ground: Option<Hue>,
}

impl From<Hue> for Ink {
    fn from(hue: Hue) -> Self {
        Self { hue, bold: false, ground: None }
    }
}

impl Hue {
    /// Bold letters of this colour.
    pub const fn bold(self) -> Ink {
        Ink { hue: self, bold: true, ground: None }
    }
}

/// Text of one ink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text: one line, without control characters.
    pub text: String,
    /// Its ink.
    pub ink: Ink,
}

impl Span {
    /// `text` on one line, in `ink`.
    pub fn new(text: &str, ink: impl Into<Ink>) -> Self {
        Self { text: one_line(text).into_owned(), ink: ink.into() }
    }
}

impl From<&str> for Span {
    fn from(text: &str) -> Self {
        Self::new(text, Hue::Text)
    }
}

impl From<String> for Span {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading, with a blank line before it unless it is the first.
    Heading(Span),
    /// A blank line.
    Blank,
    /// A paragraph. Its first line begins with `first`, the others are indented by as many cells.
    Text {
        /// A margin, a bullet, or the name of a pair.
        first: Span,
        /// The text.
        spans: Vec<Span>,
    },
    /// A line that is never wrapped.
    Line(Vec<Span>),
    /// A line of a file: if it is too long it continues on the next line, indented.
    Verbatim(Span),
    /// Rows of cells.
    Table(Table),
    /// Bars of one scale, each of at most this many cells.
    Bars(Vec<Bar>, usize),
    /// Pages side by side.
    Columns(Vec<Page>),
}

/// Rows of cells in aligned columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// The cells, row by row.
    pub rows: Vec<Vec<Span>>,
    /// Cells between columns.
    pub gap: usize,
    /// Whether the titles of columns, if they have any, stand above.
    pub head: bool,
    /// What becomes of it where it is too wide.
    pub narrow: Narrow,
}

/// What becomes of a table that is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// The cells of the column with this index are cut.
    Cut(usize),
    /// After this many columns, the others follow below each row, with their titles.
    Below(usize),
    /// Columns that do not fit are in further tables, each with the first column.
    Split,
    /// Nothing.
    Keep,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What is above its cells, or before one that follows below its row.
    pub title: String,
    /// Its least width.
    pub width: usize,
    /// Whether its cells end at its right edge.
    pub right: bool,
}

impl Column {
    /// A column of text.
    pub fn left(title: &str, width: usize) -> Self {
        Self { title: title.to_owned(), width, right: false }
    }

    /// A column of figures.
    pub fn right(title: &str, width: usize) -> Self {
        Self { title: title.to_owned(), width, right: true }
    }
}

/// A bar: parts from the left, each a share of the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What stands before it.
    pub label: Span,
    /// The share that each part fills, its sign, and its colour.
    pub parts: Vec<(f64, String, Hue)>,
    /// What stands after it.
    pub value: Span,
}

/// An answer, block by block. Some blocks can be chosen on a screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    blocks: Vec<(Block, bool)>,
}

impl Page {
    /// Its blocks, and whether each can be chosen.
    pub fn blocks(&self) -> &[(Block, bool)] {
        &self.blocks
    }

    /// Adds a block.
    pub fn push(&mut self, block: Block) {
        self.blocks.push((block, false));
    }

    /// Adds a block that can be chosen.
    pub fn choice(&mut self, block: Block) {
        self.blocks.push((block, true));
    }

    /// Adds the blocks of `other`.
    pub fn append(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        self.push(Block::Heading(Span::new(text, Hue::Focus.bold())));
    }

    /// Adds a blank line.
    pub fn blank(&mut self) {
        self.push(Block::Blank);
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str, ink: impl Into<Ink>) {
        self.spans("", vec![Span::new(text, ink)]);
    }

    /// Adds a paragraph of several inks, behind `first`.
    pub fn spans(&mut self, first: &str, spans: Vec<Span>) {
        self.push(Block::Text { first: first.into(), spans });
    }

    /// Adds a paragraph indented by `indent` cells.
    pub fn text_indented(&mut self, text: &str, indent: usize, ink: impl Into<Ink>) {
        self.spans(&" ".repeat(indent), vec![Span::new(text, ink)]);
    }

    /// Adds an item of a list.
    pub fn item(&mut self, text: &str) {
        self.spans("- ", vec![text.into()]);
    }

    /// Adds a name of `names` cells and what it is.
    pub fn pair(&mut self, name: &str, names: usize, what: &str, ink: impl Into<Ink>) {
        let first = Span::new(&format!("{name:<names$} "), Hue::Dim);
        self.push(Block::Text { first, spans: vec![Span::new(what, ink)] });
    }

    /// Adds a line of a file.
    pub fn verbatim(&mut self, text: &str, hue: Hue) {
        self.push(Block::Verbatim(Span::new(&text.replace('\t', "    "), hue)));
    }

    /// Adds a line that is not wrapped.
    pub fn line(&mut self, spans: Vec<Span>) {
        self.push(Block::Line(spans));
    }

    /// Adds a table whose columns stand two cells apart.
    pub fn table(&mut self, columns: Vec<Column>, rows: Vec<Vec<Span>>, narrow: Narrow) {
        self.push(Block::Table(Table { columns, rows, gap: 2, head: true, narrow }));
    }

    /// Its lines in `cells` cells, of which no word sticks out.
    pub fn lines(&self, cells: usize) -> Vec<Line> {
        layout::lines(self, cells, Breaks::Anywhere)
    }
}
