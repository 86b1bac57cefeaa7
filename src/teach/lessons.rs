//! Short lessons. `assets/lessons.toml` has their texts, their knobs and what their figures must show; every figure is
//! computed by the engines. A lesson is told on the open model and the user's machine where its claims hold there, else
//! on a model or a machine of its own where they do.

mod links;
mod measure;
mod recipe;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Value, json};

use super::CatalogueLookup;
use crate::engine::{DraftFile, EngineError, EngineId, PlanRequest, PreparedModel};
use crate::export::Caption;
use crate::machine::Machine;
use crate::machine::spec::MachineSpec;
use crate::model::Projector;
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::settings::Settings;
use crate::units::Tokens;
use measure::Case;
use recipe::{FigureSource, KnobOverrides, KnownFigures};

pub use links::on_knob;
pub use measure::FigureValue;
pub use recipe::{Claim, Comparison};

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

/// RAM of a lesson's own machine.
const RAM: &str = "64GiB";

/// Why a lesson is not told on a model and a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// A claim does not hold, or what the lesson is about is missing; as part of a sentence.
    Unsuited(String),
    /// An engine refuses one of its cases.
    Refused(EngineError),
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsuited(why) => f.write_str(why),
            Self::Refused(error) => write!(f, "the engine refuses it: {error}"),
        }
    }
}

impl From<EngineError> for WhyNot {
    fn from(error: EngineError) -> Self {
        Self::Refused(error)
    }
}

/// A model and a machine to tell a lesson on.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The model, with the draft that it was opened with.
    pub model: Arc<PreparedModel>,
    projector: Option<Arc<Projector>>,
    machine: Machine,
    is_open: bool,
}

impl Attempt {
    /// The open model on the user's machine.
    pub fn on_open(request: &PlanRequest) -> Self {
        Self {
            model: Arc::clone(&request.model),
            projector: request.settings.projector.clone(),
            machine: Machine::clone(&request.machine),
            is_open: true,
        }
    }

    /// The lesson's own model on the user's machine.
    ///
    /// # Errors
    /// If the catalogue lacks it.
    pub fn on_own(lesson: &Lesson, machine: &Machine, lookup: CatalogueLookup<'_>) -> Result<Self, EngineError> {
        let (model, projector) = lookup(&lesson.model)
            .ok_or_else(|| EngineError::Model(format!("the catalogue has no {}", lesson.model)))?;
        Ok(Self { model: Arc::new(model), projector, machine: machine.clone(), is_open: false })
    }

    /// The same on another machine.
    #[must_use]
    pub fn on_machine(&self, machine: Machine) -> Self {
        Self { machine, ..self.clone() }
    }
}

impl Lesson {
    /// Its own machine, of which every part is described: nothing of the user's is left.
    ///
    /// # Errors
    /// If its GPUs are not described well; the tests plan on it.
    pub fn own_machine(&self, users: &Machine) -> Result<Machine, EngineError> {
        let described = MachineSpec::read(&self.gpus, Some(RAM)).map_err(EngineError::Settings)?;
        Ok(described.complete(users.clone()))
    }

    /// Its claims checked in order on `figures`; the first that does not hold says why.
    ///
    /// # Errors
    /// Why it is not told there, as part of a sentence.
    pub fn check(&self, figures: &BTreeMap<String, FigureValue>) -> Result<(), String> {
        let broken = self.claims.iter().find(|claim| !claim.holds.is_met_by(figures));
        broken.map_or(Ok(()), |claim| Err(filled(&claim.otherwise, figures)))
    }

    /// Tells it on the model and machine of `attempt`; `at` is its index.
    ///
    /// # Errors
    /// If its claims do not hold there, or an engine refuses one of its cases.
    pub fn render(
        &'static self,
        at: usize,
        attempt: &Attempt,
        lookup: CatalogueLookup<'_>,
    ) -> Result<RenderedLesson, WhyNot> {
        if attempt.machine.gpus.is_empty() {
            return Err(WhyNot::Unsuited("this machine has no GPU".to_owned()));
        }
        let parts = LessonParts::of(self, attempt, lookup)?;
        let setup = parts.request(self, &KnobOverrides::default());
        let plan = setup.plan()?;
        let caption = Caption::of(&setup, &plan);
        let mut cases: BTreeMap<&str, Case> = BTreeMap::new();
        for (name, knobs) in &self.cases {
            let request = parts.request(self, knobs);
            cases.insert(name, Case { plan: request.plan()?, request });
        }
        let mut figures = KnownFigures::new(&self.figures, &cases);
        for claim in &self.claims {
            // the figures of a claim only, since others may take a search
            claim.holds.figures().chain(claim.mentioned(&self.figures)).for_each(|name| figures.compute(name));
            if !claim.holds.is_met_by(&figures.known) {
                return Err(WhyNot::Unsuited(filled(&claim.otherwise, &figures.known)));
            }
        }
        self.figures.keys().for_each(|name| figures.compute(name));
        let figures = figures.known;
        let model = [Some(plan.model.name.clone()), plan.model.file_type.clone()].into_iter().flatten();
        let ctx = format!("{} tokens", Tokens(plan.settings.ctx_per_sequence));
        let on = model.chain([plan.engine_title(), ctx, setup.machine.to_string()]).collect::<Vec<_>>().join(" · ");
        let fill = |text: &str| filled(text, &figures);
        Ok(RenderedLesson {
            at,
            title: &self.title,
            on,
            caption,
            text: fill(&self.text).split("\n\n").map(|paragraph| paragraph.trim().replace('\n', " ")).collect(),
            bars: self.drawn_bars(&figures),
            look: fill(&self.look),
            question: fill(&self.question),
            answer: fill(&self.answer),
            setup: LessonSetup {
                engine: setup.engine,
                is_open: attempt.is_open && setup.model == attempt.model,
                model: setup.model,
                settings: setup.settings,
                machine: Machine::clone(&setup.machine),
            },
            figures,
        })
    }

    fn drawn_bars(&self, figures: &BTreeMap<String, FigureValue>) -> Vec<LessonBar> {
        let size = |figure: &str| figures.get(figure).and_then(FigureValue::size).unwrap_or(0.0);
        let longest = self.bars.iter().map(|bar| size(&bar.figure)).fold(f64::MIN_POSITIVE, f64::max);
        let bar = |bar: &BarSource| {
            let value = figures.get(&bar.figure)?.clone();
            Some(LessonBar { label: filled(&bar.label, figures), value, share: size(&bar.figure) / longest })
        };
        self.bars.iter().filter_map(bar).collect()
    }
}

/// What the cases of a lesson are made of.
struct LessonParts<'a> {
    attempt: &'a Attempt,
    plain: Arc<PreparedModel>,
    drafted: Arc<PreparedModel>,
}

impl<'a> LessonParts<'a> {
    fn of(lesson: &Lesson, attempt: &'a Attempt, lookup: CatalogueLookup<'_>) -> Result<Self, WhyNot> {
        let model = &attempt.model;
        let plain = match model.draft() {
            Some(_) => Arc::new(PreparedModel::clone(model).with_draft(None)),
            None => Arc::clone(model),
        };
        let knobs = || lesson.cases.values().chain([&lesson.knobs]);
        if knobs().any(|knobs| knobs.projector == Some(true)) && attempt.projector.is_none() {
            return Err(WhyNot::Unsuited("it has no projector that reads images".to_owned()));
        }
        let drafts = knobs().any(|knobs| knobs.draft == Some(true));
        // by its own blocks, or by the draft that it was opened with
        if !drafts || model.drafts_by().is_some() {
            return Ok(Self { attempt, plain, drafted: Arc::clone(model) });
        }
        let no_draft = || WhyNot::Unsuited("it has no blocks that draft tokens (MTP)".to_owned());
        let name = lesson.draft.as_deref().ok_or_else(no_draft)?;
        let (draft, _) = lookup(name).ok_or_else(|| WhyNot::Unsuited(format!("the catalogue has no {name}")))?;
        let draft = Arc::new(draft);
        plain.drafted_by(&draft).map_err(WhyNot::Unsuited)?;
        let beside = DraftFile { model: draft, file: format!("catalogue:{name}") };
        let drafted = Arc::new(PreparedModel::clone(&plain).with_draft(Some(beside)));
        Ok(Self { attempt, plain, drafted })
    }

    /// The request of a case: the lesson's knobs, then its own.
    fn request(&self, lesson: &Lesson, case: &KnobOverrides) -> PlanRequest {
        let all = [&lesson.knobs, case];
        let last = |of: fn(&KnobOverrides) -> Option<bool>| all.into_iter().filter_map(of).next_back().unwrap_or(false);
        let model = if last(|knobs| knobs.draft) { &self.drafted } else { &self.plain };
        let engine = case.engine.unwrap_or(lesson.engine);
        let mut settings = Settings::default();
        let mut machine = self.attempt.machine.clone();
        for knobs in all {
            knobs.apply(&mut settings, model);
            machine = knobs.machine(&machine);
        }
        if last(|knobs| knobs.projector) {
            settings.projector.clone_from(&self.attempt.projector);
        }
        PlanRequest::new(engine, Arc::clone(model), machine, settings)
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
