//! Pages as Markdown.

use std::fmt;

use super::{Block, Column, Page, Span, Table, layout};
use crate::text::is_printable;

/// Width of charts and bars, which are blocks of plain text.
pub const CELLS: usize = 100;

/// `page` as Markdown: its first heading is the title.
pub fn text(page: &Page) -> String {
    let mut out = String::new();
    let mut before = Form::Gap;
    for (at, (block, _)) in page.blocks().iter().enumerate() {
        let (form, text) = of_block(block, at == 0);
        if before == Form::Plain && form != Form::Plain {
            out += "```\n";
        }
        // items and lines follow each other; all else stands apart
        if !(out.is_empty() || form == before && matches!(form, Form::Item | Form::Plain)) {
            out.push('\n');
        }
        if form == Form::Plain && before != Form::Plain {
            out += "```text\n";
        }
        out += &text;
        before = match (form, before) {
            (Form::Gap, Form::Plain) => Form::Apart,
            (Form::Gap, before) => before,
            (form, _) => form,
        };
    }
    if before == Form::Plain {
        out += "```\n";
    }
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Apart,
    Item,
    Plain,
    Gap,
}

fn of_block(block: &Block, first: bool) -> (Form, String) {
    match block {
        Block::Heading(span) => {
            (Form::Apart, format!("{} {}\n", if first { "#" } else { "##" }, Escaped::of(&span.text)))
        }
        Block::Blank => (Form::Gap, String::new()),
        Block::Text { first, spans } => match first.text.trim() {
            "" => (Form::Apart, inline(spans) + "\n"),
            "-" => (Form::Item, format!("{}{}\n", first.text, inline(spans))),
            name => (Form::Item, format!("- **{}** {}\n", Escaped::of(name), inline(spans))),
        },
        Block::Table(of) => (Form::Apart, table(of)),
        Block::Columns(pages) => (Form::Apart, pages.iter().map(text).collect()),
        Block::Line(_) | Block::Verbatim(_) | Block::Bars(..) => {
            let line = |line: &layout::Line| line.spans.iter().map(|span| span.text.as_str()).collect::<String>();
            let lines = layout::of_block(block, CELLS, layout::Breaks::Words);
            (Form::Plain, lines.iter().map(|of| fenced(line(of).trim_end()) + "\n").collect())
        }
    }
}

fn inline(spans: &[Span]) -> String {
    let one = |span: &Span| {
        let text = Escaped::of(&span.text).to_string();
        if span.ink.bold && !text.trim().is_empty() { format!("**{}**", text.trim()) } else { text }
    };
    spans.iter().map(one).collect::<String>().trim_end().to_owned()
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |column: &Column| if column.right { "---:" } else { "---" }.to_owned();
    let mut out = row(table.columns.iter().map(|column| Escaped::of(&column.title).to_string()).collect());
    out += &row(table.columns.iter().map(rule).collect());
    out.extend(
        table
            .rows
            .iter()
            .map(|cells| row(cells.iter().map(|cell| Escaped::of(cell.text.trim()).to_string()).collect())),
    );
    out
}

/// A line of a block of plain text, which it does not end.
fn fenced(line: &str) -> String {
    // a fence is indented by three blanks at most (CommonMark 0.31, 4.5)
    if line.trim_start().starts_with("```") { format!("    {}", line.trim_start()) } else { line.to_owned() }
}

/// Text in Markdown that means nothing but itself: the one way by which text from elsewhere gets into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escaped(String);

impl Escaped {
    /// `text` with the special characters of Markdown and of HTML escaped, without what is not printable.
    pub fn of(text: &str) -> Self {
        let mut out = String::with_capacity(text.len());
        for c in text.chars().filter(|c| is_printable(*c)) {
            if r"\`*_{}[]<>|#~&$".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
        Self(out)
    }
}

impl fmt::Display for Escaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Hue;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(Escaped::of("a|b_c\n*&lt;").to_string(), r"a\|b\_c\*\&lt;");
    }

    #[test]
    fn headings_and_plain_text_hold_no_tags_and_no_fences() {
        let mut page = Page::default();
        page.heading("GPU0, <img src=x>");
        page.verbatim("```", Hue::Text);
        page.verbatim("<script>", Hue::Text);
        let wanted = "# GPU0, \\<img src=x\\>\n\n```text\n    ```\n<script>\n```\n";
        assert_eq!(text(&page), wanted);
    }

    #[test]
    fn blocks_stand_apart_and_items_follow_each_other() {
        let mut page = Page::default();
        page.heading("A_b");
        page.text("one", Hue::Text);
        page.item("two");
        page.item("three");
        page.line(vec!["│x".into()]);
        page.line(vec!["│y".into()]);
        page.heading("C");
        let wanted = "# A\\_b\n\none\n\n- two\n- three\n\n```text\n│x\n│y\n```\n\n## C\n";
        assert_eq!(text(&page), wanted);
    }
}
