//! Short lessons: `assets/lessons.toml` has their texts and the knobs that they set; every figure in them is computed by
//! the engines, on the reader's own model and machine where a lesson shows something there.

mod measure;
mod recipe;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::Library;
use crate::engine::PlanRequest;
use crate::engine::PreparedModel;
use crate::engine::{self, EngineError, EngineId};
use crate::machine::described::Described;
use crate::machine::{Machine, Origin};
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;
use measure::Needs;
use recipe::{Figure, Recipe};

pub use measure::Value;

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
    knobs: Recipe,
    text: String,
    look: String,
    question: String,
    answer: String,
    cases: BTreeMap<String, Recipe>,
    figures: BTreeMap<String, Figure>,
}

/// A lesson as it is told, with its figures in place.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
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
    pub figures: BTreeMap<String, Value>,
    /// What the screen is set to when the reader takes the lesson up.
    pub stage: Stage,
}

/// The page: a lesson, and the model that it is told on where that is not the open one.
#[derive(Clone, Debug)]
pub struct Lessons {
    /// The lesson.
    pub told: Told,
    /// The model of the catalogue.
    pub stand_in: Option<Arc<PreparedModel>>,
}

impl Lessons {
    /// The lesson at place `at`, told on the open model of `request` where it suits, else on one of `library`.
    ///
    /// # Errors
    /// When there is no such lesson or model, or an engine refuses it.
    pub fn of(at: usize, request: &PlanRequest, library: Library<'_>) -> Result<Self, EngineError> {
        let nothing = |why: String| EngineError::Settings(why);
        let lesson = all().get(at).ok_or_else(|| nothing(format!("there is no lesson {}", at + 1)))?;
        if let Ok(told) = lesson.tell(at, &request.model, &request.machine) {
            return Ok(Self { told, stand_in: None });
        }
        let model = library(&lesson.model);
        let model = model.ok_or_else(|| EngineError::Model(format!("the catalogue has no {}", lesson.model)))?;
        let model: Arc<PreparedModel> = model.into();
        match lesson.tell_on_its_own(at, &model, &request.machine) {
            Ok(told) => Ok(Self { told, stand_in: Some(model) }),
            Err(Untold::Refused(error)) => Err(error),
            Err(Untold::Unsuited) => Err(nothing(format!("lesson {} shows nothing on this machine", at + 1))),
        }
    }

    /// `{"title","model","text":[…],"look","question","answer"}`.
    pub fn json(&self) -> Json {
        let Told { title, model, text, look, question, answer, .. } = &self.told;
        json!({
            "page": "lessons", "title": title, "model": model, "text": text, "look": look, "question": question,
            "answer": answer,
        })
    }

    /// The lesson, its question, and the answer.
    pub fn markdown(&self) -> String {
        let Told { title, model, text, look, question, answer, .. } = &self.told;
        let text = text.join("\n\n");
        format!("# {title}\n\n{text}\n\n*{look}*\n\n**{question}** {answer}\n\nModel: {model}.\n")
    }
}

/// An engine, its knobs and a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Who decides.
    pub engine: EngineId,
    /// The knobs.
    pub settings: Settings,
    /// The machine.
    pub machine: Machine,
}

/// Why a lesson is not told on a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untold {
    /// It shows nothing there.
    Unsuited,
    /// An engine refuses.
    Refused(EngineError),
}

impl From<EngineError> for Untold {
    fn from(error: EngineError) -> Self {
        Self::Refused(error)
    }
}

#[derive(Deserialize)]
struct Book {
    lesson: Vec<Lesson>,
}

/// Every lesson, in the order in which they are read.
///
/// # Panics
/// Never: the asset is part of the program and a test reads it.
#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
pub fn all() -> &'static [Lesson] {
    static LESSONS: LazyLock<Vec<Lesson>> = LazyLock::new(|| {
        let book: Book =
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
    pub fn tell(&'static self, at: usize, model: &PreparedModel, machine: &Machine) -> Result<Told, Untold> {
        if self.needs == Needs::This { Err(Untold::Unsuited) } else { self.tell_on_its_own(at, model, machine) }
    }

    /// Tells it on the model that it names, which [`Self::model`] is.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub fn tell_on_its_own(&'static self, at: usize, model: &PreparedModel, machine: &Machine) -> Result<Told, Untold> {
        if !self.needs.are_met_by(model) {
            return Err(Untold::Unsuited);
        }
        let stage = self.stage(model, machine);
        let mut plans: BTreeMap<&str, Plan> = BTreeMap::new();
        for (name, request) in &self.cases {
            let mut settings = stage.settings.clone();
            request.apply(&mut settings, model);
            let engine = request.engine.unwrap_or(stage.engine);
            plans.insert(name, engine::plan(engine, model, &stage.machine, &settings)?);
        }
        let figures: BTreeMap<String, Value> = self
            .figures
            .iter()
            .filter_map(|(name, figure)| Some((name.clone(), figure.value(&self.figures, &plans, model)?)))
            .collect();
        if self.shows.iter().any(|name| figures.get(name).is_none_or(Value::is_nothing)) {
            return Err(Untold::Unsuited);
        }
        let fill = |text: &str| filled(text, &figures);
        Ok(Told {
            at,
            title: &self.title,
            model: model.name.clone(),
            text: fill(&self.text).split("\n\n").map(|paragraph| paragraph.trim().replace('\n', " ")).collect(),
            look: fill(&self.look),
            question: fill(&self.question),
            answer: fill(&self.answer),
            figures,
            stage,
        })
    }

    /// The knobs of the lesson, and the reader's machine or the lesson's own.
    fn stage(&self, model: &Model, machine: &Machine) -> Stage {
        let mut settings = Settings::default();
        self.knobs.apply(&mut settings, model);
        let card = self.gpu.as_deref().or_else(|| machine.gpus.is_empty().then_some(CARD));
        let described = card.and_then(|card| Described::read(&[card.to_owned()], None).ok());
        let machine = described.map_or_else(
            || machine.clone(),
            |described| Machine { origin: Origin::Described, ..described.complete(machine.clone()) },
        );
        Stage { engine: self.engine, settings, machine }
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
fn filled(text: &str, figures: &BTreeMap<String, Value>) -> String {
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
