//! Short lessons: `assets/lessons.toml` has their texts and the knobs that they set; every figure in them is computed by
//! the engines, on the reader's own model and machine where a lesson shows something there.

mod measure;
mod recipe;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::ModelLookup;
use crate::engine::PlanRequest;
use crate::engine::PreparedModel;
use crate::engine::{self, EngineError, EngineId};
use crate::machine::spec::MachineSpec;
use crate::machine::{Machine, Origin};
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;
use measure::Needs;
use recipe::{FigureSource, KnobOverrides};

pub use measure::FigureValue;

/// The card of a lesson on a machine that has none.
const CARD: &str = "24GiB";

/// A lesson as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Its name among the lessons.
    pub id: String,
    /// What it answers.
    pub title: String,
    /// The model of the catalogue that it is told on where the open one does not suit.
    pub model: String,
    needs: Needs,
    /// Figures that must not be nothing where it is told.
    shows: Vec<String>,
    #[serde(deserialize_with = "recipe::engine")]
    engine: EngineId,
    gpu: Option<String>,
    knobs: KnobOverrides,
    text: String,
    look: String,
    question: String,
    answer: String,
    cases: BTreeMap<String, KnobOverrides>,
    figures: BTreeMap<String, FigureSource>,
}

/// A lesson as it is told, with its figures in place.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedLesson {
    /// The place of the lesson among all.
    pub at: usize,
    /// What it answers.
    pub title: &'static str,
    /// The model that it is told on.
    pub model: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// What to look at.
    pub look: String,
    /// A question.
    pub question: String,
    /// Its answer.
    pub answer: String,
    /// The figures by their names.
    pub figures: BTreeMap<String, FigureValue>,
    /// What the screen is set to when the reader takes the lesson up.
    pub setup: LessonSetup,
}

/// The page: a lesson, and the model that it is told on where that is not the open one.
#[derive(Clone, Debug)]
pub struct LessonsPage {
    /// The lesson.
    pub lesson: RenderedLesson,
    /// The model of the catalogue.
    pub stand_in: Option<Arc<PreparedModel>>,
}

impl LessonsPage {
    /// The lesson at place `at`, told on the open model of `request` where it suits, else on one of `lookup`.
    ///
    /// # Errors
    /// When there is no such lesson or model, or an engine refuses it.
    pub fn of(at: usize, request: &PlanRequest, lookup: ModelLookup<'_>) -> Result<Self, EngineError> {
        let nothing = |why: String| EngineError::Settings(why);
        let lesson = all().get(at).ok_or_else(|| nothing(format!("there is no lesson {}", at + 1)))?;
        if let Ok(lesson) = lesson.render(at, &request.model, &request.machine) {
            return Ok(Self { lesson, stand_in: None });
        }
        let model = lookup(&lesson.model);
        let model = model.ok_or_else(|| EngineError::Model(format!("the catalogue has no {}", lesson.model)))?;
        let model: Arc<PreparedModel> = model.into();
        match lesson.render_on_own_model(at, &model, &request.machine) {
            Ok(lesson) => Ok(Self { lesson, stand_in: Some(model) }),
            Err(LessonError::Refused(error)) => Err(error),
            Err(LessonError::Unsuited) => Err(nothing(format!("lesson {} shows nothing on this machine", at + 1))),
        }
    }

    /// `{"title","model","text":[…],"look","question","answer"}`.
    pub fn json(&self) -> Json {
        let RenderedLesson { title, model, text, look, question, answer, .. } = &self.lesson;
        json!({
            "page": "lessons", "title": title, "model": model, "text": text, "look": look, "question": question,
            "answer": answer,
        })
    }

    /// The lesson, its question, and the answer.
    pub fn markdown(&self) -> String {
        let RenderedLesson { title, model, text, look, question, answer, .. } = &self.lesson;
        let text = text.join("\n\n");
        format!("# {title}\n\n{text}\n\n*{look}*\n\n**{question}** {answer}\n\nModel: {model}.\n")
    }
}

/// An engine, its knobs and a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonSetup {
    /// Who decides.
    pub engine: EngineId,
    /// The knobs.
    pub settings: Settings,
    /// The machine.
    pub machine: Machine,
}

/// Why a lesson is not told on a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LessonError {
    /// It shows nothing there.
    Unsuited,
    /// An engine refuses.
    Refused(EngineError),
}

impl From<EngineError> for LessonError {
    fn from(error: EngineError) -> Self {
        Self::Refused(error)
    }
}

#[derive(Deserialize)]
struct LessonFile {
    lesson: Vec<Lesson>,
}

/// Every lesson, in the order in which they are read.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
pub fn all() -> &'static [Lesson] {
    static LESSONS: LazyLock<Vec<Lesson>> = LazyLock::new(|| {
        let book: LessonFile =
            toml::from_str(include_str!("../../assets/lessons.toml")).expect("assets/lessons.toml is well formed");
        book.lesson
    });
    &LESSONS
}

impl Lesson {
    /// Tells it on the open model, where it suits; `at` is its place among all.
    ///
    /// # Errors
    /// When the lesson shows nothing on this model, or an engine refuses one of its cases.
    pub fn render(
        &'static self,
        at: usize,
        model: &PreparedModel,
        machine: &Machine,
    ) -> Result<RenderedLesson, LessonError> {
        if self.needs == Needs::This {
            Err(LessonError::Unsuited)
        } else {
            self.render_on_own_model(at, model, machine)
        }
    }

    /// Tells it on the model that it names, which [`Self::model`] is.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn render_on_own_model(
        &'static self,
        at: usize,
        model: &PreparedModel,
        machine: &Machine,
    ) -> Result<RenderedLesson, LessonError> {
        if !self.needs.are_met_by(model) {
            return Err(LessonError::Unsuited);
        }
        let setup = self.setup(model, machine);
        let mut plans: BTreeMap<&str, Plan> = BTreeMap::new();
        for (name, request) in &self.cases {
            let mut settings = setup.settings.clone();
            request.apply(&mut settings, model);
            let engine = request.engine.unwrap_or(setup.engine);
            plans.insert(name, engine::plan(engine, model, &setup.machine, &settings)?);
        }
        let figures: BTreeMap<String, FigureValue> = self
            .figures
            .iter()
            .filter_map(|(name, figure)| Some((name.clone(), figure.value(&self.figures, &plans, model)?)))
            .collect();
        if self.shows.iter().any(|name| figures.get(name).is_none_or(FigureValue::is_nothing)) {
            return Err(LessonError::Unsuited);
        }
        let fill = |text: &str| filled(text, &figures);
        Ok(RenderedLesson {
            at,
            title: &self.title,
            model: model.name.clone(),
            text: fill(&self.text).split("\n\n").map(|paragraph| paragraph.trim().replace('\n', " ")).collect(),
            look: fill(&self.look),
            question: fill(&self.question),
            answer: fill(&self.answer),
            figures,
            setup,
        })
    }

    /// The knobs of the lesson, and the reader's machine or the lesson's own.
    fn setup(&self, model: &Model, machine: &Machine) -> LessonSetup {
        let mut settings = Settings::default();
        self.knobs.apply(&mut settings, model);
        let card = self.gpu.as_deref().or_else(|| machine.gpus.is_empty().then_some(CARD));
        let described = card.and_then(|card| MachineSpec::read(&[card.to_owned()], None).ok());
        let machine = described.map_or_else(
            || machine.clone(),
            |described| Machine { origin: Origin::Described, ..described.complete(machine.clone()) },
        );
        LessonSetup { engine: self.engine, settings, machine }
    }

    /// Whether another figure is made of `name`, or the lesson is told only where there is something of it.
    pub fn rests_on(&self, name: &str) -> bool {
        self.shows.iter().any(|shown| shown == name) || self.figures.values().any(|figure| figure.rests_on(name))
    }

    /// Its texts as they are written, for those who check them.
    pub fn texts(&self) -> [&str; 4] {
        [&self.text, &self.look, &self.question, &self.answer]
    }
}

/// `text` with every `{name}` replaced; a name that there is no figure for stays as it is.
fn filled(text: &str, figures: &BTreeMap<String, FigureValue>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, behind)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        match figures.get(name) {
            Some(value) => out.push_str(&value.to_string()),
            None => out.extend(["{", name, "}"]),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}
