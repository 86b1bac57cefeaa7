//! Pages as Markdown.

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
        // headings are this program's own words
        Block::Heading(span) => (Form::Apart, format!("{} {}\n", if first { "#" } else { "##" }, span.text)),
        Block::Blank => (Form::Gap, String::new()),
        Block::Text { first, spans } => match first.text.trim() {
            "" => (Form::Apart, inline(spans) + "\n"),
            "-" => (Form::Item, format!("{}{}\n", first.text, inline(spans))),
            name => (Form::Item, format!("- **{}** {}\n", escaped(name), inline(spans))),
        },
        Block::Table(of) => (Form::Apart, table(of)),
        Block::Columns(pages) => (Form::Apart, pages.iter().map(text).collect()),
        Block::Line(_) | Block::Verbatim(_) | Block::Bars(..) => {
            let line = |line: &layout::Line| line.spans.iter().map(|span| span.text.as_str()).collect::<String>();
            let lines = layout::of_block(block, CELLS, layout::Breaks::Words);
            (Form::Plain, lines.iter().map(|of| line(of).trim_end().to_owned() + "\n").collect())
        }
    }
}

fn inline(spans: &[Span]) -> String {
    let one = |span: &Span| {
        let text = escaped(&span.text);
        if span.ink.bold && !text.trim().is_empty() { format!("**{}**", text.trim()) } else { text }
    };
    spans.iter().map(one).collect::<String>().trim_end().to_owned()
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |column: &Column| if column.right { "---:" } else { "---" }.to_owned();
    let mut out = row(table.columns.iter().map(|column| escaped(&column.title)).collect());
    out += &row(table.columns.iter().map(rule).collect());
    out.extend(table.rows.iter().map(|cells| row(cells.iter().map(|cell| escaped(cell.text.trim())).collect())));
    out
}

/// `text` with Markdown's special characters escaped and without what is not printable.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars().filter(|c| is_printable(*c)) {
        if r"\`*_{}[]<>|#~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Hue;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(escaped("a|b_c\n*"), r"a\|b\_c\*");
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
        let wanted = "# A_b\n\none\n\n- two\n- three\n\n```text\n│x\n│y\n```\n\n## C\n";
        assert_eq!(text(&page), wanted);
    }
}
