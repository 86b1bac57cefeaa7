//! The list of engines and releases.

use crate::answer::compare::OtherRelease;
use crate::engine::EngineVersion;
use crate::page::{Block, Hue, Page, Span};
use crate::tui::action::Command;
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::screen::{Response, Screen, moved};
use crate::tui::widget::page::Overlay;

/// The state of the list.
#[derive(Debug, Default)]
pub struct EnginesPage {
    /// The selected entry of [`EngineVersion::all`].
    at: usize,
    /// What the other releases of the engine in use would take for the open plan.
    others: Vec<OtherRelease>,
}

impl EnginesPage {
    /// The list at the engine in use.
    pub fn of(app: &App) -> Self {
        let at = EngineVersion::all().iter().position(|&choice| choice == app.request.choice()).unwrap_or(0);
        Self { at, others: Vec::new() }
    }

    /// The difference of `choice`, if it is another release of the engine in use, which is `now`.
    fn difference(&self, choice: EngineVersion, now: EngineVersion) -> Option<&OtherRelease> {
        let release = choice.release.filter(|_| choice.engine == now.engine)?;
        self.others.iter().find(|other| other.release == release)
    }
}

impl Screen for EnginesPage {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Suggestions, Scope::Page, Scope::Everywhere]
    }

    fn missing(&self, _: &App) -> Option<&'static str> {
        None
    }

    fn ask(&mut self, app: &mut App) -> Vec<Effect> {
        let plan = app.request.plan.as_ref().filter(|_| app.request.refused.is_none());
        self.others =
            plan.zip(app.request.plan_request()).map_or_else(Vec::new, |(plan, request)| request.other_releases(plan));
        Vec::new()
    }

    fn planned(&mut self, app: &mut App, _: bool) -> Vec<Effect> {
        self.ask(app)
    }

    fn press(&mut self, app: &mut App, command: Command) -> Response {
        let choices = EngineVersion::all();
        self.at = match command {
            Command::Enter => {
                choices.get(self.at).into_iter().for_each(|&choice| app.choose(choice));
                return Response::CLOSE;
            }
            Command::Less => moved(self.at, choices.len(), 1, Command::Up),
            Command::More => moved(self.at, choices.len(), 1, Command::Down),
            Command::Up | Command::Down | Command::First | Command::Last => moved(self.at, choices.len(), 1, command),
            _ => return Response::Ignored,
        };
        Response::STAY
    }

    fn selection(&mut self) -> Option<&mut usize> {
        Some(&mut self.at)
    }

    fn page(&self, app: &App) -> Option<Overlay> {
        Some(Overlay::new(page(app, self), "Engine", 0).choosing(self.at))
    }
}

fn page(app: &App, engines: &EnginesPage) -> Page {
    let mut page = Page::default();
    page.text("The program that places the layers, and its release. Enter applies, Esc cancels.", Hue::Dim);
    page.blank();
    for (place, choice) in EngineVersion::all().into_iter().enumerate() {
        let chosen = place == engines.at;
        let ink = if chosen { Hue::Focus.bold() } else { Hue::Text.into() };
        let difference = engines.difference(choice, app.request.choice());
        let (said, hue) = match difference {
            _ if choice == app.request.choice() => ("in use".to_owned(), Hue::Focus),
            Some(other) => (other.in_short(), Hue::Dim),
            None => (String::new(), Hue::Text),
        };
        page.choice(Block::Line(vec![
            Span::new(&format!("{choice:<24}"), ink),
            Span::new(format!("  {said}").trim_end(), hue),
        ]));
    }
    page.blank();
    if let Some(&choice) = EngineVersion::all().get(engines.at) {
        page.text(&format!("plimsoll {}", choice.options()), Hue::Dim);
        if let Some(other) = engines.difference(choice, app.request.choice()) {
            page.text(&other.to_string(), Hue::Text);
        }
    }
    page
}
