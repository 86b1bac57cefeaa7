//! Why a layer is on its device: the deciding inequality, the changes that would move it, and the memory users by
//! device.

use crate::answer::verdict::capitalised;
use crate::answer::why::{self, Inequality, LayerAnswer};
use crate::answer::{Remedy, parts};
use crate::page::{Hue, Page, Span};
use crate::plan::{Plan, Why};
use crate::question::why::{WhyRequest, beside, kept_free, memory_users, remedies};
use crate::tui::action::{Action, Command};
use crate::tui::app::{AnswerState, App, LiveMemory};
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::planner;
use crate::tui::query::Received;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::screens::placement::{PlacementScreen, PlacementSubject};
use crate::tui::widget::page::Overlay;

/// Minimum rows of the screen to show the inequality line by line.
const ROOMY: u16 = 32;
/// Width of a name, and of an amount.
const NAMES: usize = 36;
const AMOUNT: usize = 10;

/// The state of the page.
#[derive(Clone, Debug, Default)]
pub struct WhyPage {
    /// The layer's index in the plan.
    pub layer: usize,
    /// Changes that bring it, or all layers, onto GPUs.
    pub remedies: Vec<Remedy>,
    /// Whether these are all.
    pub progress: AnswerState,
    /// The selected remedy.
    pub chosen: usize,
    scroll: u16,
    query: u64,
}

impl WhyPage {
    /// The page on this layer.
    pub fn on(layer: usize) -> Self {
        Self { layer, ..Self::default() }
    }
}

impl Screen for WhyPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Details, Scope::Suggestions, Scope::Page, Scope::Everywhere]
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        *self = Self { layer: self.layer, scroll: self.scroll, ..Self::default() };
        app.request.ask(WhyRequest::Layer(self.layer), &mut self.query)
    }

    fn answer(&mut self, _: &mut App, answer: Action) -> Response {
        match answer.part_of::<WhyRequest>(self.query) {
            Some(Received::Part(remedies)) => self.remedies.extend(remedies),
            Some(Received::End) => self.progress = AnswerState::Done,
            None => {}
        }
        Response::STAY
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        match command {
            Command::Less | Command::More => {
                planner::move_cursor(app, command);
                *self = Self::on(app.panels.cursors.layer);
                Response::Stay(self.ask(app))
            }
            Command::Enter => {
                let Some(remedy) = self.remedies.get(self.chosen) else { return Response::STAY };
                let freed = remedy.then.machine != app.request.machine;
                app.apply_request(remedy.then.clone());
                // the next report of the monitor would revert memory that is only assumed to be free
                let freezes = freed && app.found_machine.live == LiveMemory::On;
                Response::Close(if freezes { app.freeze() } else { Vec::new() })
            }
            Command::Placement => PlacementScreen::open(app, PlacementSubject::Layer(self.layer)),
            Command::Up | Command::Down => {
                self.chosen = moved(self.chosen, self.remedies.len(), 1, command);
                Response::STAY
            }
            _ => Response::Ignored,
        }
    }

    fn selection(&mut self) -> Option<&mut usize> {
        Some(&mut self.chosen)
    }

    fn scroll(&mut self) -> Option<&mut u16> {
        Some(&mut self.scroll)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        let plan = app.request.plan.as_ref()?;
        let page = page(app, plan, self)?;
        let title = format!("{} is {}", capitalised(&plan.layer_name(self.layer)), location(plan, self.layer));
        Some(Overlay::new(page, &title, self.scroll).choosing(self.chosen))
    }
}

fn page(app: &App, plan: &Plan, why_page: &WhyPage) -> Option<Page> {
    let answer = why::layer(plan, why_page.layer)?;
    let mut page = Page::default();
    match answer.inequality.as_ref().filter(|_| app.panels.regions.screen.height >= ROOMY) {
        Some(inequality) => ledger(plan, &answer, inequality, &mut page),
        None => page.text(&answer.reason, Hue::Text),
    }
    plan.refusal.iter().for_each(|refusal| page.text(refusal, Hue::Over));
    changes(app, plan, why_page, &mut page);
    memory_users(&why::memory_users(plan), &mut page);
    kept_free(plan, &mut page);
    beside(&app.request.plan_request().map_or_else(Vec::new, |request| parts::of(&request, plan)), &mut page);
    page.blank();
    page.text(&plan.source(), Hue::Dim);
    Some(page)
}

/// `on GPU0`, `in RAM`
fn location(plan: &Plan, layer: usize) -> String {
    match plan.layers.get(layer).map_or("RAM", |layer| plan.device_name(layer.device)) {
        "RAM" => "in RAM".to_owned(),
        gpu => format!("on {gpu}"),
    }
}

/// Adds the inequality line by line.
fn ledger(plan: &Plan, answer: &LayerAnswer, inequality: &Inequality, page: &mut Page) {
    let mut line = |sign: &str, name: &str, bytes: crate::units::Bytes, strong: bool| {
        let ink = if strong { Hue::Text.bold() } else { Hue::Text.into() };
        page.line(vec![
            Span::new(&format!("{sign} {name:<NAMES$}"), if strong { Hue::Text } else { Hue::Dim }),
            Span::new(&format!("{:>AMOUNT$}", bytes.to_string()), ink),
        ]);
    };
    line(" ", &format!("free on {}", inequality.device), inequality.free, false);
    for part in &inequality.kept {
        line("−", &part.name, part.bytes, false);
    }
    match inequality.placed {
        0 => {}
        1 => line("−", "1 layer already placed", inequality.placed_bytes, false),
        n => line("−", &format!("{n} layers already placed"), inequality.placed_bytes, false),
    }
    line("=", "left for this layer", inequality.room, true);
    line(" ", "needed by this layer", answer.needed, true);
    let (text, hue) = if inequality.enough {
        ("✓ The layer fits.", Hue::Fine)
    } else if inequality.room < answer.needed {
        ("✗ The layer does not fit.", Hue::Over)
    } else {
        ("✗ There is no space left for the layer.", Hue::Over)
    };
    page.text(text, hue);
    // the inequality was not decisive
    if plan.layers.get(answer.index).is_some_and(|layer| layer.why == Why::OutputDropped) {
        page.text(&answer.reason, Hue::Text);
    }
}

fn changes(app: &App, plan: &Plan, why_page: &WhyPage, page: &mut Page) {
    let in_ram = plan.layers.get(why_page.layer).is_some_and(|layer| plan.device_name(layer.device) == "RAM");
    page.heading(if in_ram { "Changes that move it to GPU" } else { "Changes that move all layers to GPU" });
    remedies(plan, &why_page.remedies, app.request.speeds.as_ref(), page);
    let text = match (why_page.progress, why_page.remedies.is_empty()) {
        (AnswerState::Working, _) => "Testing changes…",
        (AnswerState::Done, true) => why::nothing_to_move(plan).unwrap_or(if plan.gpus().is_empty() {
            "There is no GPU to move it to."
        } else {
            "No single change, and no two that were tried, move it to GPU."
        }),
        (AnswerState::Done, false) => "Each was tested. Enter applies the selected one, u undoes it.",
    };
    page.text(text, Hue::Dim);
}
