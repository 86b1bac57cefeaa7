//! A model and a machine to tell a lesson on, and what its cases ask there.

use std::sync::Arc;

use super::recipe::KnobOverrides;
use super::{Lesson, WhyNot};
use crate::engine::{DraftFile, EngineError, PlanRequest, PreparedModel};
use crate::machine::Machine;
use crate::model::Projector;
use crate::settings::Settings;
use crate::teach::CatalogueLookup;

/// A model and a machine to tell a lesson on.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The model, with the draft that it was opened with.
    pub model: Arc<PreparedModel>,
    projector: Option<Arc<Projector>>,
    pub(super) machine: Machine,
    /// Whether both are the user's.
    pub(super) is_open: bool,
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
        Ok(Self { model: model.into(), projector, machine: machine.clone(), is_open: false })
    }

    /// The same on another machine.
    #[must_use]
    pub fn on_machine(&self, machine: Machine) -> Self {
        Self { machine, ..self.clone() }
    }
}

/// What the cases of a lesson are made of.
pub(super) struct LessonParts<'a> {
    attempt: &'a Attempt,
    plain: Arc<PreparedModel>,
    drafted: Arc<PreparedModel>,
}

impl<'a> LessonParts<'a> {
    pub(super) fn of(lesson: &Lesson, attempt: &'a Attempt, lookup: CatalogueLookup<'_>) -> Result<Self, WhyNot> {
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
        let draft: Arc<PreparedModel> = draft.into();
        plain.drafted_by(&draft).map_err(WhyNot::Unsuited)?;
        let beside = DraftFile { model: draft, file: format!("catalogue:{name}") };
        let drafted = Arc::new(PreparedModel::clone(&plain).with_draft(Some(beside)));
        Ok(Self { attempt, plain, drafted })
    }

    /// The request of a case: the lesson's knobs, then its own.
    pub(super) fn request(&self, lesson: &Lesson, case: &KnobOverrides) -> PlanRequest {
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
        let request = PlanRequest::new(engine, Arc::clone(model), machine, settings);
        if engine.facts().runs_gguf { request } else { request.made() }
    }
}
