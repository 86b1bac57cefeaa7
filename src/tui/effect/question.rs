//! What engines are to be asked, as data; most of it answers itself.

use std::sync::Arc;

use crate::engine::PlanRequest;
use crate::export::{Format, Found, Subject};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::shelf::{self, Item};
use crate::source::catalogue;
use crate::teach::Topic;
use crate::tui::action::Action;

/// What an engine is to be asked.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Question {
    pub id: u64,
    pub of: PlanRequest,
    pub plan: Plan,
}

impl Question {
    /// Asks the engine.
    pub fn answer(&self) -> Action {
        Action::Limits { id: self.id, limits: Box::new(self.of.limits(&self.plan)) }
    }
}

/// One model, and the machines that it is planned for.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Contest {
    pub of: PlanRequest,
    pub machines: Vec<(String, Arc<Machine>)>,
}

impl Contest {
    /// Asks the engine once for each machine.
    pub fn answer(&self) -> Action {
        let on = |(name, machine): &(String, Arc<Machine>)| self.of.on(name, machine);
        Action::Versed(self.machines.iter().map(on).collect())
    }
}

/// A page of the teach screen that is to be worked out.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Lesson {
    pub topic: Topic,
    pub about: Question,
}

impl Lesson {
    /// Works it out.
    pub fn answer(&self) -> Action {
        let Question { id, of, plan } = &self.about;
        let sheet = self.topic.sheet(of, plan, &catalogue::model);
        Action::Taught { id: *id, result: sheet.map(Arc::new).map_err(|error| error.to_string()) }
    }
}

/// Models, and what is asked of each.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Survey {
    pub id: u64,
    pub items: Vec<Arc<Item>>,
    pub question: shelf::Question,
}

/// A form to be written, and everything that takes.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Writing {
    pub id: u64,
    pub form: Format,
    pub of: PlanRequest,
    pub plan: Plan,
    pub found: Found,
}

impl Writing {
    /// Writes it.
    pub fn answer(&self) -> Action {
        let subject = Subject { request: &self.of, plan: &self.plan, found: &self.found };
        Action::Written { id: self.id, text: self.form.write(&subject) }
    }
}
