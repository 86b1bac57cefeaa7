//! A lesson tried on a model and a machine.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::measure::Case;
use super::recipe::{KnobOverrides, KnownFigures};
use super::{FigureValue, Lesson, LessonBar, LessonSetup, RenderedLesson};
use crate::engine::{DraftFile, EngineError, PlanRequest, PreparedModel};
use crate::export::Caption;
use crate::machine::Machine;
use crate::machine::spec::MachineSpec;
use crate::model::Projector;
use crate::settings::Settings;
use crate::teach::CatalogueLookup;
use crate::units::Tokens;

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
        let bar = |bar: &super::BarSource| {
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
