//! What runs, beside its plan, over time; and what it would hold, restarted with the open plan.

use std::sync::Arc;

use crate::answer::live::{LiveDevice, RunningPlan, beside, listed, other_context};
use crate::observed::sample::{Course, Timeline};
use crate::page::live;
use crate::page::{Hue, Page};
use crate::plan::{DevicePlan, Plan};
use crate::running::plans::FoundPlan;
use crate::tui::action::{Action, Command};
use crate::tui::app::App;
use crate::tui::effect::{Effect, Followed};
use crate::tui::keymap::Scope;
use crate::tui::planner::knobs;
use crate::tui::screen::{Response, Screen};
use crate::tui::widget::page::{Overlay, columns};
use crate::units::Bytes;

/// The state of the page.
#[derive(Debug, Default)]
pub struct WatchPage {
    timeline: Timeline,
    plans: Vec<FoundPlan>,
    /// Id of the request; none before the first.
    id: Option<u64>,
    scroll: u16,
}

impl Screen for WatchPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Watch, Scope::Everywhere]
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        if self.id.is_some() {
            return Vec::new();
        }
        let id = app.request.next_id();
        self.id = Some(id);
        vec![Effect::Follow { id }]
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Back => return Response::Close(vec![Effect::StopFollowing]),
            Command::NextKnob => {
                let offered = &app.panels.knobs.offered;
                let now = offered.iter().position(|knob| *knob == app.panels.knobs.focus);
                let next = offered.get(now.map_or(0, |now| (now + 1) % offered.len())).copied();
                if let Some(knob) = next {
                    app.panels.focus_knob(knob);
                }
            }
            Command::KnobLess => knobs::turn(app, Command::Less),
            Command::KnobMore => knobs::turn(app, Command::More),
            Command::Undo => app.undo(),
            Command::Redo => app.redo(),
            _ => return Response::Ignored,
        }
        Response::STAY
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        if let Action::Sampled { id, followed } = answer
            && Some(id) == self.id
        {
            let Followed { sample, plans } = *followed;
            self.plans = plans;
            self.timeline.push(sample);
        }
        Response::STAY
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        let mut page = Page::default();
        match self.timeline.now() {
            None => page.text("Looking at what runs…", Hue::Dim),
            Some(_) if self.timeline.courses().is_empty() => {
                page.text("No program that serves models runs here; a in the planner starts one.", Hue::Text);
            }
            Some(_) => {
                let programs = self.timeline.courses().iter().zip(&self.plans);
                programs.for_each(|(course, plan)| self.program(app, course, plan, &mut page));
            }
        }
        if let Some(sample) = self.timeline.now() {
            page.heading("Devices");
            live::machine(sample, &mut page);
        }
        Some(Overlay::new(page, "What runs", self.scroll))
    }
}

impl WatchPage {
    fn program(&self, app: &App, course: &Course, plan: &FoundPlan, page: &mut Page) {
        page.heading(&live::program(&course.now));
        match plan {
            Some(Ok(running)) => {
                let found = beside(course, running);
                page.text(&running.title(), Hue::Dim);
                live::devices(&found, true, page);
                for sentence in other_context(&course.now, running).into_iter().chain(listed(&course.now, running)) {
                    page.item(&sentence);
                }
                restarted(app, running, &found, page);
                let textured = app.theme.textured();
                live::courses(&self.timeline, course.now.pid, &found, columns(app), textured, page);
            }
            Some(Err(why)) => {
                page.text(&live::held(&course.now), Hue::Text);
                page.item(&format!("it cannot be planned: {why}"));
            }
            None => page.text(&format!("It loads its model; {}.", live::held(&course.now)), Hue::Text),
        }
    }
}

/// What the program would hold with the settings of the open plan.
fn restarted(app: &App, running: &Arc<RunningPlan>, found: &[LiveDevice], page: &mut Page) {
    let Some(open) = app.request.plan.as_deref() else { return };
    if open.model.name != running.plan.model.name {
        page.item(&format!(
            "the open model is another: open {} to preview a restart with the knobs",
            running.plan.model.name
        ));
        return;
    }
    let focus = app.panels.knobs.focus;
    let knob = format!("{} {}", focus.title(), focus.shown_in(open));
    let asked = |plan: &Plan, device: &LiveDevice| {
        let number = device.device.strip_prefix("GPU").and_then(|number| number.parse::<usize>().ok());
        match number {
            Some(number) => plan.gpus().get(number).map_or(Bytes::ZERO, DevicePlan::asked),
            None => plan.cpu().asked(),
        }
    };
    let each = found.iter().map(|device| {
        let (now, then) = (asked(&running.plan, device), asked(open, device));
        let change = match (then > now, then < now) {
            (true, _) => format!("{} more", then - now),
            (_, true) => format!("{} less, which would be free", now - then),
            _ => "the same".to_owned(),
        };
        format!("{} {then}, {change}", device.device)
    });
    let each: Vec<String> = each.collect();
    page.text(
        &format!("Restarted as the open plan ({knob}; v another knob, , and . turn it): {}", each.join("; ")),
        Hue::Focus,
    );
}
