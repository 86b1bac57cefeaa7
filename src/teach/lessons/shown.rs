//! A lesson as a page, before and after the guess, and as JSON.

use super::guess::Guess;
use super::{LessonBar, LessonsPage, RenderedLesson, RenderedSentence};
use crate::engine::PlanRequest;
use crate::export::Caption;
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::plan::Plan;
use crate::teach::page::{Paper, Tab, TeachPage};
use crate::text::one_line;
use serde_json::{Value, json};

/// Cells of the longest bar.
const LONGEST: usize = 48;

/// Layers in a line of the strip on which one is chosen, and the column where it begins.
const STRIP: u64 = 40;
const STRIP_FROM: u16 = 7;

/// Paragraphs of the sentences that `is` picks.
fn paragraphs(text: &[Vec<RenderedSentence>], is: impl Fn(&RenderedSentence) -> bool + Copy) -> Vec<String> {
    let joined = |sentences: &Vec<RenderedSentence>| {
        sentences.iter().filter(|sentence| is(sentence)).map(|sentence| &*sentence.text).collect::<Vec<_>>().join(" ")
    };
    text.iter().map(joined).filter(|paragraph| !paragraph.is_empty()).map(|text| one_line(&text).into_owned()).collect()
}

impl RenderedLesson {
    /// Its paragraphs.
    pub fn paragraphs(&self) -> Vec<String> {
        paragraphs(&self.text, |_| true)
    }

    /// The paragraphs that tell the answer, and what goes on from them.
    pub fn telling(&self) -> Vec<String> {
        paragraphs(&self.text, |sentence| sentence.telling)
    }
}

impl Guess {
    /// The answers or layers to choose from; of layers, the answer and those before it are light if they are `told`.
    fn offer(&self, page: &mut Page, told: bool) {
        match self {
            Self::Figure(_) => {}
            Self::Choice { offered, .. } => {
                for (at, answer) in offered.iter().enumerate() {
                    let spans = vec![Span::new(&format!("{}  ", at + 1), Hue::Dim), answer.as_str().into()];
                    page.choice(Block::Text { first: "  ".into(), spans });
                }
            }
            Self::Layer { count, right } => {
                for first in (0..*count).step_by(STRIP as usize) {
                    let light = |layer: u64| told && layer <= *right;
                    let layers = first..(*count).min(first + STRIP);
                    let strip: String = layers.map(|layer| if light(layer) { '░' } else { '█' }).collect();
                    let number = Span::new(&format!("{first:>3}  "), Hue::Dim);
                    page.choice(Block::Line(vec!["  ".into(), number, Span::new(&strip, Hue::Weights)]));
                }
            }
        }
    }

    /// The guess, as text, of a press on line `choice` of what is offered, in column `column`.
    pub fn pressed(&self, choice: usize, column: u16) -> Option<String> {
        match self {
            Self::Figure(_) => None,
            Self::Choice { .. } => Some((choice + 1).to_string()),
            Self::Layer { count, .. } => {
                let within = u64::from(column.checked_sub(STRIP_FROM)?);
                let layer = (choice as u64).saturating_mul(STRIP) + within;
                (within < STRIP && layer < *count).then(|| layer.to_string())
            }
        }
    }
}

impl TeachPage for LessonsPage {
    fn tab(&self) -> Tab {
        Tab::Lessons
    }

    /// `{"title","on","why_not":[…],"changes":[…],"text":[…],"bars":[…],"look","question","guess":[…],"answer"}`; `guess`
    /// has the answers to choose from.
    fn json(&self) -> Value {
        let RenderedLesson { title, on, bars, look, question, answer, guess, .. } = &self.lesson;
        let bar = |bar: &LessonBar| json!({ "label": bar.label, "value": bar.value.to_string(), "share": bar.share });
        let offered = if let Guess::Choice { offered, .. } = guess { offered.as_slice() } else { &[] };
        json!({
            "title": title, "on": on, "why_not": self.why_not, "changes": self.changes,
            "text": self.lesson.paragraphs(), "bars": bars.iter().map(bar).collect::<Vec<_>>(), "look": look,
            "question": question, "guess": offered, "answer": answer,
        })
    }

    fn printed(&self, paper: Paper) -> Page {
        let mut page = Page::default();
        page.heading(self.lesson.title);
        page.append(self.page(paper.answered, paper.captioned));
        page
    }

    fn title(&self) -> &str {
        self.lesson.title
    }

    fn caption(&self, _: &PlanRequest, _: &Plan) -> Caption {
        self.lesson.caption.clone()
    }
}

impl LessonsPage {
    /// What it is told on and why, its question, and the rest: text, bars, and last its answer. Without the answer, the text
    /// ends before what tells it. Where a caption says what it is told on, it is for paper, without a word on what to
    /// try on the screen.
    pub fn page(&self, answered: bool, captioned: bool) -> Page {
        let mut page = self.introduced(captioned, answered);
        page.blank();
        self.tell(&mut page, answered, captioned);
        if answered {
            page.text(&self.answer(), Hue::Cache);
        }
        page
    }

    /// What it is told on and why, and its question.
    pub fn asked(&self, captioned: bool) -> Page {
        self.introduced(captioned, false)
    }

    fn introduced(&self, captioned: bool, told: bool) -> Page {
        let RenderedLesson { on, question, guess, .. } = &self.lesson;
        let mut page = Page::default();
        let on = if captioned { String::new() } else { format!("On {on}.") };
        let introduced = [self.why_not.as_slice(), &[on]].concat().join(" ");
        if !introduced.trim().is_empty() {
            page.text(introduced.trim(), Hue::Dim);
            page.blank();
        }
        page.text(&format!("Question: {question}"), Hue::Focus);
        guess.offer(&mut page, told);
        page
    }

    /// Its question, what was said to the guess, the answer, and the rest.
    pub fn guessed(&self, verdict: &str) -> Page {
        let mut page = self.introduced(false, true);
        page.blank();
        if !verdict.is_empty() {
            page.text(verdict, Hue::Text.bold());
        }
        page.text(&self.answer(), Hue::Cache);
        page.blank();
        self.tell(&mut page, true, false);
        page
    }

    /// What it tells, an idea on each page: its question, its sentences one by one, its bars and its answer.
    pub fn ideas(&self) -> Vec<Page> {
        let of_text = |text: &str, ink| {
            let mut page = Page::default();
            page.text(text, ink);
            page
        };
        let mut question = of_text(&format!("Question: {}", self.lesson.question), Hue::Focus.bold());
        question.blank();
        self.lesson.guess.offer(&mut question, false);
        let mut ideas = vec![question];
        let sentences = self.lesson.text.iter().flatten();
        ideas.extend(sentences.map(|sentence| of_text(&one_line(&sentence.text), Hue::Text.bold())));
        ideas.extend(self.bars().map(|bars| {
            let mut page = Page::default();
            page.push(bars);
            page
        }));
        ideas.push(of_text(&self.answer(), Hue::Cache.bold()));
        ideas
    }

    /// What helps who tells it, and tells nothing of the answer: what it is told on, why not elsewhere, and what to try.
    pub fn notes(&self) -> Page {
        let mut page = Page::default();
        for why in &self.why_not {
            page.text(why, Hue::Dim);
        }
        page.text(&format!("On {}.", self.lesson.on), Hue::Dim);
        page.text(&format!("Try it: {}", self.lesson.look), Hue::Graph);
        page
    }

    /// `Answer: …`
    fn answer(&self) -> String {
        format!("Answer: {}", self.lesson.answer)
    }

    /// Adds the text, and if `all` what tells the answer, with the bars.
    fn tell(&self, page: &mut Page, all: bool, captioned: bool) {
        let RenderedLesson { text, look, .. } = &self.lesson;
        for text in paragraphs(text, |sentence| all || !sentence.telling) {
            page.text(&text, Hue::Text);
            page.blank();
        }
        if let Some(bars) = self.bars().filter(|_| all) {
            page.push(bars);
            page.blank();
        }
        if all && !captioned {
            page.text(&format!("Try it: {look}"), Hue::Graph);
            page.blank();
        }
    }
    /// Its bars, if it has any.
    fn bars(&self) -> Option<Block> {
        let hues = [Hue::Cache, Hue::Weights, Hue::Graph, Hue::Reserved].into_iter().cycle();
        let bar = |(bar, hue): (&LessonBar, Hue)| {
            // never so short that it cannot be seen
            let parts = vec![(bar.share.max(0.01), "█".to_owned(), hue)];
            Bar { label: bar.label.as_str().into(), parts, value: Span::new(&bar.value.to_string(), Hue::Text.bold()) }
        };
        let bars: Vec<Bar> = self.lesson.bars.iter().zip(hues).map(bar).collect();
        (!bars.is_empty()).then_some(Block::Bars(bars, LONGEST))
    }
}
