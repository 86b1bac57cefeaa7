//! Two engines side by side for the same model, machine and settings, with the differences marked.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::compare::{PlanColumn, PlanColumns};
use crate::engine::{EngineVersion, PlanRequest};
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::query::{Each, PlanWithSpeeds, PlannedRequest, Received};
use crate::tui::screen::{NO_PLAN, Response, Screen};

/// The state of the page.
#[derive(Debug)]
pub struct EngineComparison {
    /// The other engine.
    choice: EngineVersion,
    /// Its plan and speeds, or why there are none; none while they are being made.
    planned: Option<PlannedRequest>,
    query: u64,
    scroll: u16,
}

impl EngineComparison {
    /// The page with the next engine in the list, whatever its release.
    pub fn of(app: &App) -> Self {
        let (choices, now) = (EngineVersion::all(), app.request.choice());
        let here = choices.iter().position(|&choice| choice == now).unwrap_or(0);
        let mut others = choices.iter().cycle().skip(here + 1).take(choices.len());
        let choice = others.find(|choice| choice.engine != now.engine).copied().unwrap_or(now);
        Self { choice, planned: None, query: 0, scroll: 0 }
    }

    fn columns<'a>(&'a self, app: &'a App) -> Option<PlanColumns<'a>> {
        let now = PlanColumn::now(app.request.choice().to_string(), app)?;
        let other = PlanColumn::of(self.choice.to_string(), self.planned.as_ref());
        Some(PlanColumns { columns: vec![now, other], chosen: 1, scroll: self.scroll })
    }
}

impl Screen for EngineComparison {
    fn missing(&self, app: &App) -> Option<&'static str> {
        app.request.model.is_none().then_some(NO_PLAN)
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let Some(now) = app.request.plan_request() else { return Vec::new() };
        let mut settings = app.request.settings.clone();
        let knobs = self.choice.engine.facts().knobs(&app.knob_context());
        app.panels.knobs.stashed.clone().switch_knobs(&mut settings, &app.panels.knobs.offered, &knobs);
        self.choice.apply(&mut settings);
        let other = PlanRequest { engine: self.choice.engine, settings, ..now };
        app.request.ask(Each { requests: vec![other], answer: PlanWithSpeeds::of }, &mut self.query)
    }

    fn planned(&mut self, app: &mut App, by_user: bool) -> Vec<Effect> {
        self.planned.take_if(|_| by_user);
        self.ask(app)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Some(Received::Part((_, planned))) = answer.part_of::<Each<_>>(self.query) {
            self.planned = Some(planned);
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let others: Vec<EngineVersion> =
            EngineVersion::all().into_iter().filter(|&choice| choice != app.request.choice()).collect();
        let at = others.iter().position(|&choice| choice == self.choice).unwrap_or(0);
        let to = match command {
            Command::Enter => {
                app.choose(self.choice);
                return Response::CLOSE;
            }
            Command::Less => at.saturating_sub(1),
            Command::More => at + 1,
            _ => return Response::Ignored,
        };
        self.choice = others.get(to).copied().unwrap_or(self.choice);
        self.planned = None;
        Response::Stay(self.ask(app))
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn area(&self, app: &App) -> Rect {
        self.columns(app).map_or(Rect::ZERO, |columns| columns.area(app))
    }

    fn draw(&self, app: &App, buffer: &mut Buffer) {
        if let Some(columns) = self.columns(app) {
            columns.draw_overlay(app, "Compare engines", "←→ engine, Enter applies", buffer);
        }
    }
}
