//! A lesson as JSON and as Markdown.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{LessonBar, LessonsPage, RenderedLesson};

/// Blocks of the longest bar in Markdown.
const LONGEST: f64 = 40.0;

impl LessonBar {
    /// It, drawn with at most `cells` blocks and at least one.
    pub fn blocks(&self, cells: f64) -> usize {
        // cells of a screen, of which there are few
        (self.share * cells).round().max(1.0) as usize
    }
}

impl LessonsPage {
    /// `{"title","on","why_not":[…],"text":[…],"bars":[…],"look","question","answer"}`.
    pub fn json(&self) -> Value {
        let RenderedLesson { title, on, text, bars, look, question, answer, .. } = &self.lesson;
        let bar = |bar: &LessonBar| json!({ "label": bar.label, "value": bar.value.to_string(), "share": bar.share });
        json!({
            "page": "lessons", "title": title, "on": on, "why_not": self.why_not, "text": text,
            "bars": bars.iter().map(bar).collect::<Vec<_>>(), "look": look, "question": question, "answer": answer,
        })
    }

    /// What it is told on and why, its text and bars, its question, and the answer.
    pub fn markdown(&self) -> String {
        let RenderedLesson { title, on, text, bars, look, question, answer, .. } = &self.lesson;
        let told = [&[format!("On {on}.")], self.why_not.as_slice()].concat().join(" ");
        let mut out = format!("# {title}\n\n{told}\n\n{}\n\n", text.join("\n\n"));
        if !bars.is_empty() {
            out += "```text\n";
            let labels = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0);
            for bar in bars {
                // writing to a String cannot fail
                let _ = writeln!(out, "{:labels$}  {} {}", bar.label, "█".repeat(bar.blocks(LONGEST)), bar.value);
            }
            out += "```\n\n";
        }
        out + &format!("*{look}*\n\n**{question}** {answer}\n")
    }
}
