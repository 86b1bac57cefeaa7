//! Short lessons. `assets/lessons.toml` has their texts and knobs; every figure is computed by the engines, on the
//! user's model and machine if the lesson applies there.

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

/// The GPU of a lesson on a machine without one.
const CARD: &str = "24GiB";

/// A lesson as in `assets/lessons.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// Its identifier.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The catalogue model that it is rendered for if it does not apply to the open one.
    pub model: String,
    needs: Needs,
    /// Figures that must not be zero for the lesson to apply.
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

/// A lesson with its figures filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedLesson {
    /// Index of the lesson.
    pub at: usize,
    /// Its title.
    pub title: &'static str,
    /// The model that it is rendered for.
    pub model: String,
    /// Paragraphs.
    pub text: Vec<String>,
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

/// The page: a lesson, and its model if that is not the open one.
#[derive(Clone, Debug)]
pub struct LessonsPage {
    /// The lesson.
    pub lesson: RenderedLesson,
    /// The catalogue model that replaces the open one.
    pub stand_in: Option<Arc<PreparedModel>>,
}

impl LessonsPage {
    /// The lesson with index `at`, rendered for the model of `request` if it applies, else for its own model from
    /// `lookup`.
    ///
    /// # Errors
    /// If there is no such lesson or model, or an engine refuses it.
    pub fn of(at: usize, request: &PlanRequest, lookup: ModelLookup<'_>) -> Result<Self, EngineError> {
        let settings_error = |why: String| EngineError::Settings(why);
        let lesson = all().get(at).ok_or_else(|| settings_error(format!("there is no lesson {}", at + 1)))?;
        if let Ok(lesson) = lesson.render(at, &request.model, &request.machine) {
            return Ok(Self { lesson, stand_in: None });
        }
        let model = lookup(&lesson.model);
        let model = model.ok_or_else(|| EngineError::Model(format!("the catalogue has no {}", lesson.model)))?;
        let model: Arc<PreparedModel> = model.into();
        match lesson.render_on_own_model(at, &model, &request.machine) {
            Ok(lesson) => Ok(Self { lesson, stand_in: Some(model) }),
            Err(LessonError::Refused(error)) => Err(error),
            Err(LessonError::Unsuited) => {
                Err(settings_error(format!("lesson {} shows nothing on this machine", at + 1)))
            }
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

/// Engine, settings and machine of a lesson.
#[derive(Clone, Debug, PartialEq)]
pub struct LessonSetup {
    /// The engine.
    pub engine: EngineId,
    /// The settings.
    pub settings: Settings,
    /// The machine.
    pub machine: Machine,
}

/// Why a lesson cannot be shown for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LessonError {
    /// It does not apply to the model.
    Unsuited,
    /// An engine returned an error.
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
    /// Renders it for the open model; `at` is its index.
    ///
    /// # Errors
    /// If the lesson does not apply to this model, or an engine refuses one of its cases.
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

    /// Renders it for its own model, which [`Self::model`] names.
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

    /// The lesson's settings, on the user's machine or with the lesson's GPU.
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

    /// Whether another figure is computed from `name`, or the lesson requires it to be non-zero.
    pub fn rests_on(&self, name: &str) -> bool {
        self.shows.iter().any(|shown| shown == name) || self.figures.values().any(|figure| figure.rests_on(name))
    }

    /// Its texts before the figures are filled in, for tests.
    pub fn texts(&self) -> [&str; 4] {
        [&self.text, &self.look, &self.question, &self.answer]
    }
}

/// `text` with every `{name}` replaced by its figure; unknown names stay as they are.
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
