//! Short lessons. `assets/lessons.toml` has their texts, their knobs and what their figures must show; every figure is
//! computed by the engines. A lesson is told on the open model and the user's machine where its claims hold there, else
//! on a model or a machine of its own where they do.

mod attempt;
mod claim;
mod heads;
mod measure;
mod printout;
mod recipe;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::CatalogueLookup;
use crate::engine::{EngineError, EngineId, PlanRequest, PreparedModel};
use crate::export::Caption;
use crate::machine::Machine;
use crate::settings::Settings;
use recipe::{FigureSource, KnobOverrides};

pub use attempt::{Attempt, WhyNot};
pub use claim::{Claim, Comparison};
pub use measure::FigureValue;

/// A lesson as in `assets/lessons.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Its identifier.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The catalogue model that it is told on where the open one does not suit.
    pub model: String,
    /// The catalogue model that drafts in it, where the open one brings no draft.
    draft: Option<String>,
    /// It is about that very model and its own machine.
    #[serde(default)]
    only_there: bool,
    /// What its figures must show, in the order in which they are checked.
    pub claims: Vec<Claim>,
    #[serde(deserialize_with = "recipe::engine")]
    engine: EngineId,
    /// The GPUs of its own machine, on which its claims hold for its own model.
    gpus: Vec<String>,
    knobs: KnobOverrides,
    text: String,
    look: String,
    question: String,
    answer: String,
    cases: BTreeMap<String, KnobOverrides>,
    figures: BTreeMap<String, FigureSource>,
    /// Figures drawn as bars of one scale.
    #[serde(default)]
    bars: Vec<BarSource>,
}

/// A bar as in `assets/lessons.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BarSource {
    label: String,
    figure: String,
}

/// A bar under the text of a lesson.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonBar {
    /// What it is.
    pub label: String,
    /// Its figure.
    pub value: FigureValue,
    /// Its length, the longest being one.
    pub share: f64,
}

/// A lesson with its figures filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedLesson {
    /// Index of the lesson.
    pub at: usize,
    /// Its title.
    pub title: &'static str,
    /// What it is told on: model, quantisation, engine, context and machine.
    pub on: String,
    /// The caption of its setup.
    pub caption: Caption,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Bars of one scale.
    pub bars: Vec<LessonBar>,
    /// What to look at on the screen.
    pub look: String,
    /// A question.
    pub question: String,
    /// Its answer.
    pub answer: String,
    /// The figures by name.
    pub figures: BTreeMap<String, FigureValue>,
    /// The setup that the lesson applies to the screen.
    pub setup: LessonSetup,
}

/// Engine, settings, machine and model of a lesson.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonSetup {
    /// The engine.
    pub engine: EngineId,
    /// The settings.
    pub settings: Settings,
    /// The machine.
    pub machine: Machine,
    /// The model, with its draft if the lesson is about one.
    pub model: Arc<PreparedModel>,
    /// Whether that is the open one as it is.
    pub is_open: bool,
}

/// The page: a lesson, and why it is not told on the open model or on the user's machine.
#[derive(Clone, Debug)]
pub struct LessonsPage {
    /// The lesson.
    pub lesson: RenderedLesson,
    /// One sentence for each that did not suit.
    pub why_not: Vec<String>,
}

impl LessonsPage {
    /// The lesson with index `at`: on the model and machine of `request` if its claims hold there, else on its own
    /// model from `lookup`, else on its own machine, with the open model or its own.
    ///
    /// # Errors
    /// If there is no such lesson or model, or its claims hold nowhere.
    pub fn of(at: usize, request: &PlanRequest, lookup: CatalogueLookup<'_>) -> Result<Self, EngineError> {
        let number = at + 1;
        let lesson = all().get(at).ok_or_else(|| EngineError::Settings(format!("there is no lesson {number}")))?;
        let mut why_not = Vec::new();
        let open = Attempt::on_open(request);
        if !lesson.only_there {
            match lesson.render(at, &open, lookup) {
                Ok(lesson) => return Ok(Self { lesson, why_not }),
                Err(why) => why_not.push(format!("Not on {} here: {why}.", open.model.name)),
            }
        }
        let own = Attempt::on_own(lesson, &request.machine, lookup)?;
        if !lesson.only_there {
            if let Ok(lesson) = lesson.render(at, &own, lookup) {
                return Ok(Self { lesson, why_not });
            }
            let elsewhere = open.on_machine(lesson.own_machine(&request.machine)?);
            if let Ok(lesson) = lesson.render(at, &elsewhere, lookup) {
                return Ok(Self { lesson, why_not });
            }
        }
        match lesson.render(at, &own.on_machine(lesson.own_machine(&request.machine)?), lookup) {
            Ok(lesson) => Ok(Self { lesson, why_not }),
            Err(WhyNot::Refused(error)) => Err(error),
            Err(WhyNot::Unsuited(why)) => Err(EngineError::Settings(format!("lesson {number} holds nowhere: {why}"))),
        }
    }
}

#[derive(Deserialize)]
struct LessonFile {
    lesson: Vec<Lesson>,
}

/// All lessons, in order.
///
/// # Panics
/// Never: the asset is compiled in, and the tests parse it.
#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
pub fn all() -> &'static [Lesson] {
    static LESSONS: LazyLock<Vec<Lesson>> = LazyLock::new(|| {
        let file: LessonFile =
            toml::from_str(include_str!("../../assets/lessons.toml")).expect("assets/lessons.toml is well formed");
        file.lesson
    });
    &LESSONS
}

impl Lesson {
    /// Whether another figure is computed from `name`, or a claim or a bar is about it.
    pub fn rests_on(&self, name: &str) -> bool {
        self.claims.iter().any(|claim| claim.holds.figures().any(|figure| figure == name) || claim.mentions(name))
            || self.bars.iter().any(|bar| bar.figure == name || bar.label.contains(&format!("{{{name}}}")))
            || self.figures.values().any(|figure| figure.rests_on(name))
    }

    /// Its texts before the figures are filled in, for tests.
    pub fn texts(&self) -> [&str; 4] {
        [&self.text, &self.look, &self.question, &self.answer]
    }
}
