//! A lesson as JSON and as a page.

use serde_json::{Value, json};

use super::{LessonBar, LessonsPage, RenderedLesson};
use crate::page::{Bar, Block, Hue, Page, Span};

/// Cells of the longest bar.
const LONGEST: usize = 48;

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

    /// What it is told on and why, its text and bars, its question, and the answer if it is `answered`. Where a caption
    /// says what it is told on, it is for paper, without a word on what to try on the screen.
    pub fn page(&self, answered: bool, captioned: bool) -> Page {
        let RenderedLesson { on, text, bars, look, question, answer, .. } = &self.lesson;
        let mut page = Page::default();
        let mut say = |text: &str, hue| {
            page.text(text, hue);
            page.blank();
        };
        let on = if captioned { String::new() } else { format!("On {on}.") };
        let told = [&[on], self.why_not.as_slice()].concat().join(" ");
        if !told.is_empty() {
            say(told.trim_start(), Hue::Dim);
        }
        for text in text {
            say(text, Hue::Text);
        }
        let hues = [Hue::Cache, Hue::Weights, Hue::Graph, Hue::Reserved].into_iter().cycle();
        let bar = |(bar, hue): (&LessonBar, Hue)| {
            // never so short that it cannot be seen
            let parts = vec![(bar.share.max(0.01), "█".to_owned(), hue)];
            Bar { label: bar.label.as_str().into(), parts, value: Span::new(&bar.value.to_string(), Hue::Text.bold()) }
        };
        if !bars.is_empty() {
            page.push(Block::Bars(bars.iter().zip(hues).map(bar).collect(), LONGEST));
            page.blank();
        }
        if !captioned {
            page.text(&format!("Try it: {look}"), Hue::Graph);
            page.blank();
        }
        page.text(&format!("Question: {question}"), Hue::Focus);
        if answered {
            page.blank();
            page.text(&format!("Answer: {answer}"), Hue::Cache);
        }
        page
    }
}
