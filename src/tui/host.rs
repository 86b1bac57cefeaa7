//! The planner and the screen over it: hands events to whichever is in front, and does once what all screens have in
//! common.

use std::any::Any;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Position;

use super::action::{Action, Command, ExitReason, Gesture};
use super::app::{App, InitialState};
use super::effect::{Effect, LogSource};
use super::keymap::Scope;
use super::pasted::{Pasted, PastedKind};
use super::planner;
use super::query::QueryPart;
use super::regions::ScreenLayout;
use super::screen::{Closed, Cover, Response, Screen, scrolled};
use super::screens;
use super::screens::check::CheckPage;
use super::screens::help::HelpPage;
use super::theme::{Glyphs, backdrop, glyphs};
use super::view::footer::{self, PlacedWord};
use super::view::{self, header};
use super::widget::field::Text;
use crate::budget::{Allowance, Spend};
use crate::engine::EngineError;
use crate::plan::Plan;

/// Said while a long text is read.
const READING: &str = "Reading what was pasted …";

/// The planner and the screen over it. It changes in [`Host::update`] and the two refreshes only: pure, without IO, clock
/// or environment.
#[derive(Debug)]
pub struct Host {
    /// The planner.
    pub app: App,
    /// What is shown over it: each over the one before.
    pub screens: Vec<Box<dyn Screen>>,
    /// The screens that were closed and go on where they were.
    closed: Closed,
}

impl Host {
    /// The planner alone.
    pub fn new(start: InitialState) -> Self {
        Self { app: App::new(start), screens: Vec::new(), closed: Closed::default() }
    }

    /// Handles `action` and returns the effects to run. Never panics, in any order of actions.
    pub fn update(&mut self, action: Action) -> Vec<Effect> {
        let app = &mut self.app;
        let is_by_user = matches!(action, Action::Press(_) | Action::Type(_) | Action::Paste(_) | Action::Mouse(..));
        app.asked_to_quit &= !is_by_user || matches!(action, Action::Press(Command::Quit));
        match action {
            Action::Press(command) => {
                (app.notice, app.request.limits.pending_limit) = (None, None);
                return self.press(command);
            }
            Action::Type(key) => return self.typed(key),
            Action::Paste(text) => return self.pasted(&text),
            Action::Mouse(gesture, x, y) => return self.mouse(gesture, Position { x, y }),
            Action::Resize(columns, rows) => {
                app.panels.resize(columns, rows);
                return self.screens.iter_mut().flat_map(|screen| screen.resized(app)).collect();
            }
            Action::Detected(detected) => app.detected(detected),
            Action::MemoryChanged(update) => app.memory_changed(*update),
            Action::Progress { id, now, took } => app.library.loading.progress(id, now, took),
            Action::Loaded { id, result } if id == app.library.loading.id => return app.loaded(result),
            Action::ModelsListed(items) => app.library.models_listed(items),
            Action::Running(answer) => app.library.running(answer),
            Action::ModelPlanned { id, item, status } => app.library.model_planned(id, &item, status),
            Action::PasteRead(pasted) => return self.take_paste(&pasted),
            Action::Planned { id, result } => return self.planned(id, *result),
            Action::Limits { id, limits } if id == app.request.limits.id => planner::knobs::set_limits(app, *limits),
            Action::Fade { id } if id == app.request.change.id => app.request.change.before = None,
            // answers to older requests
            Action::Loaded { .. } | Action::Limits { .. } | Action::Fade { .. } => {}
            Action::QueryAnswered { id, part: QueryPart::Thresholds(knob, thresholds) } => {
                app.request.thresholds.learn(id, knob, thresholds);
            }
            Action::TaskPanicked(what) => app.notice = Some(what),
            Action::Leave(leave) => app.leave = Some(leave),
            answer => {
                // said in the footer, unless the screen has a place for it
                match &answer {
                    Action::Saved(saved) => {
                        let said = saved.as_ref().map(|path| format!("Saved as {}.", path.display()));
                        app.notice = Some(said.unwrap_or_else(Clone::clone));
                    }
                    Action::MachineSaved(said) => app.notice = Some(said.clone().unwrap_or_else(|why| why)),
                    _ => {}
                }
                return self.answered(answer);
            }
        }
        Vec::new()
    }

    /// Asks for a plan if anything changed. Called once per drawing, however many actions came.
    pub fn begin_refresh(&mut self) -> Vec<Effect> {
        if let Some(job) = self.app.begin_plan() {
            return vec![Effect::Plan(Box::new(job))];
        }
        if self.app.request.is_planning() {
            return Vec::new();
        }
        self.screens.iter_mut().flat_map(|screen| screen.refresh(&mut self.app)).collect()
    }

    /// The same, with the plan made at once.
    pub fn refresh(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for effect in self.begin_refresh() {
            match effect {
                Effect::Plan(job) => effects.extend(self.update(job.answer())),
                other => effects.push(other),
            }
        }
        effects
    }

    /// Takes a plan that was asked for.
    fn planned(&mut self, id: u64, result: Result<Plan, EngineError>) -> Vec<Effect> {
        let Some((mut effects, by_user)) = self.app.take_plan(id, result) else { return Vec::new() };
        for screen in &mut self.screens {
            effects.extend(screen.planned(&mut self.app, by_user));
            effects.extend(screen.refresh(&mut self.app));
        }
        effects
    }

    /// Opens `screen`, or says what is missing for it.
    pub fn show(&mut self, mut screen: Box<dyn Screen>) -> Vec<Effect> {
        if let Some(missing) = screen.missing(&self.app) {
            self.app.notice = Some(missing.to_owned());
            return Vec::new();
        }
        let effects = screen.ask(&mut self.app);
        self.screens.push(screen);
        effects
    }

    /// Hands the result of an effect to every screen, as each knows what it has asked for.
    fn answered(&mut self, answer: Action) -> Vec<Effect> {
        let (mut behind, mut effects) = (std::mem::take(&mut self.screens), Vec::new());
        let Some(mut front) = behind.pop() else { return effects };
        for mut screen in behind {
            let response = screen.answer(&mut self.app, answer.clone());
            effects.extend(self.follow(screen, response));
        }
        let response = front.answer(&mut self.app, answer);
        effects.extend(self.follow(front, response));
        effects
    }

    /// The screen in front, if it is an `S`.
    pub fn showing<S: Screen>(&self) -> Option<&S> {
        let screen: &dyn Any = self.screens.last()?.as_ref();
        screen.downcast_ref()
    }

    /// The active scopes, in order of precedence.
    pub fn scopes(&self) -> &'static [Scope] {
        self.screens.last().map_or_else(|| planner::scopes(&self.app), |screen| screen.scopes())
    }

    /// The footer's entries.
    pub fn footer(&self) -> Vec<PlacedWord> {
        self.screens.last().map_or_else(|| planner::footer(&self.app), |screen| screen.footer(&self.app))
    }

    /// Whether keys without a command are typed into a field of the open screen.
    pub fn accepts_text(&self) -> bool {
        self.screens.last().is_some_and(|screen| screen.accepts_text())
    }

    fn press(&mut self, command: Command) -> Vec<Effect> {
        match command {
            Command::Quit | Command::QuitAtOnce => {
                if command == Command::QuitAtOnce || !self.app.asks_to_quit() {
                    self.app.leave = Some(ExitReason::Quit);
                }
                return Vec::new();
            }
            Command::Suspend => return vec![Effect::Suspend],
            _ => {}
        }
        let Some(mut screen) = self.screens.pop() else {
            return match screens::opened_by(&mut self.app, &self.closed, command) {
                Some((screen, first)) => {
                    let mut effects = self.show(screen);
                    effects.extend(first);
                    effects
                }
                None => planner::press(&mut self.app, command),
            };
        };
        let response = match (screen.press(&mut self.app, command), command) {
            (Response::Ignored, Command::Back) => Response::CLOSE,
            (Response::Ignored, Command::Help) => Response::over(HelpPage::of(screen.scopes())),
            (Response::Ignored, _) => {
                if let Some(scroll) = screen.scroll() {
                    // a line of the page before stays
                    let page = self.app.panels.regions.page_lines().saturating_sub(1);
                    *scroll = scrolled(*scroll, page, command);
                }
                Response::STAY
            }
            (response, _) => response,
        };
        self.follow(screen, response)
    }

    fn typed(&mut self, key: KeyEvent) -> Vec<Effect> {
        self.app.notice = None;
        if let Some(mut screen) = self.screens.pop() {
            let response = screen.text(&mut self.app, Text::Typed(key));
            return self.follow(screen, response);
        }
        planner::typed(&self.app, key).map_or_else(Vec::new, |entry| self.show(entry))
    }

    fn pasted(&mut self, text: &str) -> Vec<Effect> {
        if let Err(exceeded) = Allowance::PASTE.within(Spend::Bytes, text.len() as u64) {
            self.app.notice = Some(format!("Not read, as it {exceeded}: give the file to plimsoll check or plan."));
            return Vec::new();
        }
        if text.len() > Pasted::SHORT {
            self.app.notice = Some(READING.to_owned());
            return vec![Effect::ReadPaste(text.to_owned())];
        }
        self.take_paste(&Pasted::of(text))
    }

    fn take_paste(&mut self, pasted: &Pasted) -> Vec<Effect> {
        self.app.notice.take_if(|notice| notice == READING);
        if let Some(mut screen) = self.screens.pop() {
            let response = screen.text(&mut self.app, Text::Pasted(pasted));
            return self.follow(screen, response);
        }
        match &pasted.what {
            PastedKind::Command(started) => self.app.take_command(started.clone()),
            PastedKind::Log => {
                let mut page = CheckPage::default();
                let effects = page.read(&mut self.app, LogSource::Text(Arc::clone(&pasted.text)));
                self.screens.push(Box::new(page));
                effects
            }
            PastedKind::Name if pasted.text.lines().next().is_none_or(|line| line.trim().is_empty()) => Vec::new(),
            PastedKind::Name => {
                let mut effects = self.press(Command::Models);
                effects.extend(self.take_paste(pasted));
                effects
            }
        }
    }

    fn mouse(&mut self, gesture: Gesture, at: Position) -> Vec<Effect> {
        if gesture == Gesture::Down && self.app.panels.regions.footer.contains(at) {
            let pressed = footer::command_at(&self.footer(), at);
            return pressed.map_or_else(Vec::new, |command| self.update(Action::Press(command)));
        }
        let Some(mut screen) = self.screens.pop() else {
            let pressed = planner::mouse(&mut self.app, gesture, at);
            return pressed.map_or_else(Vec::new, |command| self.update(Action::Press(command)));
        };
        let app = &mut self.app;
        app.end_drag();
        let command = match (screen.mouse(app, gesture, at), gesture) {
            (Response::Ignored, Gesture::Down) if !screen.area(app).contains(at) => Command::Back,
            (Response::Ignored, Gesture::WheelUp) => Command::Up,
            (Response::Ignored, Gesture::WheelDown) => Command::Down,
            (Response::Ignored, Gesture::Down) => {
                let pressed = screen.page(app).and_then(|page| page.choice_at(app, at));
                match (pressed, screen.selection()) {
                    (Some(pressed), Some(selected)) if *selected == pressed => Command::Enter,
                    (Some(pressed), Some(selected)) => {
                        *selected = pressed;
                        return self.follow(screen, Response::STAY);
                    }
                    _ => return self.follow(screen, Response::STAY),
                }
            }
            (response, _) => return self.follow(screen, response),
        };
        self.screens.push(screen);
        self.update(Action::Press(command))
    }

    /// Puts `screen` back in front, or what follows it.
    fn follow(&mut self, screen: Box<dyn Screen>, response: Response) -> Vec<Effect> {
        let (screens, effects) = match response {
            Response::Ignored => (vec![screen], Vec::new()),
            Response::Stay(effects) => (vec![screen], effects),
            Response::Close(effects) => {
                if let Some(below) = self.screens.last_mut() {
                    below.uncovered(&*screen);
                }
                if screen.goes_on() {
                    self.closed.keep(screen);
                }
                (Vec::new(), effects)
            }
            Response::Open(other, effects) => (vec![other], effects),
            Response::Over(other, effects) => (vec![screen, other], effects),
        };
        self.screens.extend(screens);
        effects
    }

    /// Draws everything, into a buffer of any size.
    pub fn draw(&self, buffer: &mut Buffer) {
        let app = &self.app;
        let cover = self.screens.first().map_or(Cover::Nothing, |screen| screen.cover());
        if app.panels.regions.shape == ScreenLayout::TooSmall {
            view::too_small(app, buffer);
        } else {
            header::draw(app, buffer);
            if cover != Cover::Whole {
                view::panels(app, self.scopes(), buffer);
            }
            if cover == Cover::Dimmed {
                backdrop::dim(buffer, buffer.area, app.theme);
            }
            match self.screens.split_last() {
                Some((front, behind)) => {
                    for screen in behind {
                        screen.draw_behind(app, buffer);
                        backdrop::dim(buffer, buffer.area, app.theme);
                    }
                    // its keys stay readable
                    front.draw_footer(app, buffer);
                    front.draw(app, buffer);
                }
                None => footer::draw(app, None, &planner::footer(app), buffer),
            }
        }
        if app.theme.look.glyphs == Glyphs::Ascii {
            glyphs::to_ascii(buffer);
        }
    }
}
