//! Short lessons. `assets/lessons.toml` has their sentences, their knobs and what their figures must show; every figure
//! is computed by the engines. A lesson asks first; then it tells. It is told on the open model and the user's machine
//! where all that it says holds there, else on a model or a machine of its own where it does.

mod attempt;
mod claim;
mod guess;
mod links;
mod measure;
pub mod own;
mod recipe;
mod shown;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::CatalogueLookup;
use crate::engine::{EngineError, EngineId, PlanRequest, PreparedModel};
use crate::export::Caption;
use crate::machine::Machine;
use crate::machine::spec::MachineSpec;
use crate::plan::Outcome;
use crate::settings::Settings;
use crate::units::Tokens;
use attempt::LessonParts;
use claim::mentions;
use guess::GuessSource;
use measure::Case;
use recipe::{FigureSource, KnobOverrides, KnownFigures};

pub use attempt::Attempt;
pub use claim::{Claim, Comparison, Sentence};
pub use guess::Guess;
pub use links::on_knob;
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
    pub only_there: bool,
    /// What its figures must show, in the order in which they are checked.
    pub claims: Vec<Claim>,
    /// The engine that it is about.
    #[serde(deserialize_with = "recipe::engine")]
    pub engine: EngineId,
    /// The GPUs of its own machine, on which its claims hold for its own model.
    gpus: Vec<String>,
    /// That machine's RAM.
    #[serde(default = "own_ram")]
    ram: String,
    knobs: KnobOverrides,
    /// Its paragraphs, sentence by sentence.
    pub text: Vec<Vec<Sentence>>,
    look: String,
    question: String,
    guess: GuessSource,
    answer: String,
    cases: BTreeMap<String, KnobOverrides>,
    figures: BTreeMap<String, FigureSource>,
    /// Figures drawn as bars of one scale.
    #[serde(default)]
    bars: Vec<BarSource>,
}

/// RAM of a lesson's own machine that says none.
fn own_ram() -> String {
    "64GiB".to_owned()
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

/// A sentence with its figures filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSentence {
    /// Its words.
    pub text: String,
    /// Whether it tells the answer, or goes on from what does.
    pub telling: bool,
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
    pub text: Vec<Vec<RenderedSentence>>,
    /// Bars of one scale.
    pub bars: Vec<LessonBar>,
    /// What to look at on the screen.
    pub look: String,
    /// A question.
    pub question: String,
    /// What the reader guesses.
    pub guess: Guess,
    /// The answer to the question.
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
    /// What the plan changes to for the lesson besides settings, as parts of a sentence: `the engine: llama.cpp`.
    pub changes: Vec<String>,
}

impl LessonsPage {
    /// The lesson with index `at`: on the model and machine of `request` if all that it says holds there, else on its own
    /// model from `lookup`, else on its own machine, with the open model or its own.
    ///
    /// # Errors
    /// If there is no such lesson or model, or its claims hold nowhere.
    pub fn of(at: usize, request: &PlanRequest, lookup: CatalogueLookup<'_>) -> Result<Self, EngineError> {
        let number = at + 1;
        let lesson = all().get(at).ok_or_else(|| EngineError::Settings(format!("there is no lesson {number}")))?;
        let mut why_not = Vec::new();
        let open = Attempt::on_open(request);
        let page = |lesson: RenderedLesson, why_not| {
            let changes = changes(request, &lesson.setup);
            Ok(Self { lesson, why_not, changes })
        };
        if !lesson.only_there {
            match lesson.render(at, &open, lookup) {
                Ok(lesson) => return page(lesson, why_not),
                Err(why) => why_not.push(format!("Cannot be shown on {} here, because {why}.", open.model.name)),
            }
        }
        let own = Attempt::on_own(lesson, &request.machine, lookup)?;
        let elsewhere = lesson.own_machine(&request.machine)?;
        if !lesson.only_there {
            if let Ok(lesson) = lesson.render(at, &own, lookup) {
                return page(lesson, why_not);
            }
            if let Ok(lesson) = lesson.render(at, &open.on_machine(elsewhere.clone()), lookup) {
                return page(lesson, why_not);
            }
        }
        match lesson.render(at, &own.on_machine(elsewhere), lookup) {
            Ok(lesson) => page(lesson, why_not),
            Err(WhyNot::Refused(error)) => Err(error),
            Err(WhyNot::Unsuited(why)) => Err(EngineError::Settings(format!("lesson {number} holds nowhere: {why}"))),
        }
    }
}

/// What differs between the user's plan and a lesson's besides settings.
fn changes(request: &PlanRequest, setup: &LessonSetup) -> Vec<String> {
    let named = |model: &PreparedModel| {
        [Some(&*model.name), model.file_type].into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let draft = |model: &PreparedModel| model.draft().is_some();
    let mut changes = Vec::new();
    if named(&request.model) != named(&setup.model) {
        changes.push(format!("the model is {}", named(&setup.model)));
    } else if draft(&request.model) != draft(&setup.model) {
        changes.push(format!("the model has {} draft", if draft(&setup.model) { "a" } else { "no" }));
    }
    if *request.machine != setup.machine {
        changes.push(format!("the machine is {}", setup.machine));
    }
    if request.engine != setup.engine {
        changes.push(format!("the engine is {}", setup.engine.title()));
    }
    changes
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LessonFile {
    #[serde(default)]
    lesson: Vec<Lesson>,
}

static LESSONS: OnceLock<Vec<Lesson>> = OnceLock::new();

#[expect(clippy::expect_used, reason = "the asset is compiled in, and the tests parse it")]
fn built_in() -> Vec<Lesson> {
    let file: LessonFile =
        toml::from_str(include_str!("../../assets/lessons.toml")).expect("assets/lessons.toml is well formed");
    file.lesson
}

/// All lessons, in order: the built-in ones, and then a teacher's own.
///
/// # Panics
/// Never: the asset is compiled in, and the tests parse it.
pub fn all() -> &'static [Lesson] {
    LESSONS.get_or_init(built_in)
}

/// Why a lesson is not told on a model and a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// Something that it says does not hold, or what it is about is missing; as part of a sentence.
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

impl Lesson {
    /// Its sentences, in order.
    pub fn sentences(&self) -> impl Iterator<Item = &Sentence> {
        self.text.iter().flatten()
    }

    /// Whether another figure is computed from `name`, or a claim, a sentence, the guess or a bar is about it.
    pub fn rests_on(&self, name: &str) -> bool {
        self.claims
            .iter()
            .any(|claim| claim.holds.figures().any(|figure| figure == name) || mentions(&claim.otherwise, name))
            || self.sentences().any(|sentence| sentence.figures().any(|figure| figure == name))
            || self.guess.figures().contains(&name)
            || self.bars.iter().any(|bar| bar.figure == name || mentions(&bar.label, name))
            || self.figures.values().any(|figure| figure.parts().iter().any(|part| part == name))
    }

    /// Its texts before the figures are filled in, for tests.
    pub fn texts(&self) -> Vec<&str> {
        let sentences = self.sentences().map(|sentence| &*sentence.say);
        sentences.chain([&*self.look, &self.question, &self.answer]).collect()
    }

    /// The figures of which the reader guesses one, or by which an answer is right.
    pub fn guessed(&self) -> Vec<&str> {
        self.guess.told()
    }

    /// Whether the figure `name` tells the answer: the answer says it, or it is what is guessed, and the question does
    /// not give it.
    pub fn tells(&self, name: &str) -> bool {
        let asked = mentions(&self.answer, name) || self.guess.figures().contains(&name);
        asked && !mentions(&self.question, name)
    }

    /// Its own machine, of which every part is described: nothing of the user's is left.
    ///
    /// # Errors
    /// If its GPUs are not described well; the tests plan on it.
    pub fn own_machine(&self, users: &Machine) -> Result<Machine, EngineError> {
        let described = MachineSpec::read(&self.gpus, Some(&self.ram)).map_err(EngineError::Settings)?;
        Ok(described.complete(users.clone()))
    }

    /// Its claims and sentences checked in order on `figures`; the first that does not hold says why.
    ///
    /// # Errors
    /// Why it is not told there, as part of a sentence.
    pub fn check(&self, figures: &BTreeMap<String, FigureValue>) -> Result<(), String> {
        if let Some(broken) = self.claims.iter().find(|claim| !claim.holds.is_met_by(figures)) {
            return Err(filled(&broken.otherwise, figures));
        }
        let broken = self.sentences().find(|sentence| !sentence.holds(figures));
        broken.map_or(Ok(()), |sentence| Err(untrue(sentence, figures)))
    }

    /// Tells it on the model and machine of `attempt`; `at` is its index.
    ///
    /// # Errors
    /// If something that it says does not hold there, a plan of it does not load, or an engine refuses one of its cases.
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
        if [&plan]
            .into_iter()
            .chain(cases.values().map(|case| &case.plan))
            .any(|plan| plan.outcome() == Outcome::DoesNotFit)
        {
            return Err(WhyNot::Unsuited("it does not fit there with the settings of this lesson".to_owned()));
        }
        self.figures.keys().for_each(|name| figures.compute(name));
        let figures = figures.known;
        self.check(&figures).map_err(WhyNot::Unsuited)?;
        let fill = |text: &str| filled(text, &figures);
        let guess = self.guess.of(&figures, fill);
        let guess = guess.ok_or_else(|| WhyNot::Unsuited("its question has no single answer there".to_owned()))?;
        let model = [Some(plan.model.name.clone()), plan.model.file_type.clone()].into_iter().flatten();
        let ctx = format!("{} tokens", Tokens(plan.settings.ctx_per_sequence));
        let on = model.chain([plan.engine_title(), ctx, setup.machine.to_string()]).collect::<Vec<_>>().join(" · ");
        let mut telling = false;
        let mut text: Vec<Vec<RenderedSentence>> = Vec::new();
        for paragraph in &self.text {
            let mut told = Vec::new();
            for Sentence { say, .. } in paragraph.iter().filter(|sentence| sentence.is_said(&figures)) {
                telling |= figures.keys().any(|name| self.tells(name) && mentions(say, name));
                told.push(RenderedSentence { text: fill(say), telling });
            }
            text.push(told);
        }
        Ok(RenderedLesson {
            at,
            title: &self.title,
            on,
            caption,
            text,
            bars: self.drawn_bars(&figures),
            look: fill(&self.look),
            question: fill(&self.question),
            guess,
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

/// Why a lesson is not told where this sentence of it does not hold, as part of a sentence.
fn untrue(sentence: &Sentence, figures: &BTreeMap<String, FigureValue>) -> String {
    let said = filled(&sentence.say, figures);
    format!("this would not be true there: “{}”", said.trim_end_matches(['.', ':', ';']))
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
