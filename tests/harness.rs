//! Test harness: the real `App`, drawn on a test terminal, with effects run at once.

// with paths, because a bench includes this module from another folder
#[path = "harness/fakes.rs"]
mod fakes;
#[path = "harness/scenes.rs"]
mod scenes;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::engine::{self, EngineId};
use plimsoll::machine::Machine;
use plimsoll::model::Model;
use plimsoll::settings::Settings;
use plimsoll::source::no_progress;
use plimsoll::tui::action::{Action, Gesture};
use plimsoll::tui::app::{Detection, InitialState, LiveMemory, Preferences};
use plimsoll::tui::effect::{ApplyRequest, Effect, LimitsRequest, Services, SurveyJob};
use plimsoll::tui::event;
use plimsoll::tui::host::Host;
use plimsoll::tui::pasted::Pasted;
use plimsoll::tui::picture;
use plimsoll::tui::query::{Query, Worker};
use plimsoll::tui::regions::ScreenLayout;
use plimsoll::tui::screen::Screen;
use plimsoll::tui::theme::{Appearance, Hue, Theme};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;

pub use fakes::Fakes;
pub use scenes::*;

/// The planner on a test terminal.
pub struct Harness {
    pub host: Host,
    pub fakes: Fakes,
    /// How often the planner was suspended.
    pub suspended: usize,
    /// Texts copied to the clipboard.
    pub copied: Vec<String>,
    /// Each request to freeze or resume live memory.
    pub frozen: Vec<bool>,
    /// Ticks requested, and the id of the last.
    pub ticks: u64,
    pub last_tick: u64,
    /// How often the knobs' limits were requested.
    pub questions: usize,
    /// Loads wait until [`Harness::finish_loads`].
    pub slow_loads: bool,
    /// Requests for the knobs' limits are held back until `answer_limits`.
    pub no_limits: bool,
    /// Each time that following what runs began or ended.
    pub followed: Vec<bool>,
    applying: Option<Box<ApplyRequest>>,
    held_limits: Option<Box<LimitsRequest>>,
    /// Requests for the models' verdicts are dropped.
    pub no_surveys: bool,
    waiting: Vec<(u64, String)>,
    unhurried: Option<Box<Query>>,
    pub terminal: Terminal<TestBackend>,
}

impl Harness {
    /// The screen over the planner, which must be an `S`.
    pub fn showing<S: Screen>(&self) -> &S {
        self.host.showing().unwrap_or_else(|| panic!("another screen is open: {:?}", self.host.screens))
    }

    /// `model` on `machine`, on a screen of `size`.
    pub fn new(model: Model, machine: Machine, size: (u16, u16)) -> Self {
        Self::with(Some(model), machine, size, Settings::default(), Appearance::BEST)
    }

    pub fn with(
        model: Option<Model>,
        machine: Machine,
        size: (u16, u16),
        settings: Settings,
        look: Appearance,
    ) -> Self {
        Self::seen(EngineId::Ollama024, model, machine, size, settings, look)
    }

    /// `model` on `machine` as `engine` plans it, on a terminal with this look.
    pub fn seen(
        engine: EngineId,
        model: Option<Model>,
        machine: Machine,
        size: (u16, u16),
        settings: Settings,
        look: Appearance,
    ) -> Self {
        Self::begin(
            InitialState {
                engine,
                settings,
                model: model.map(Into::into),
                machine,
                detection: Detection::Done,
                live: LiveMemory::Off,
                preferences: Preferences::default(),
                theme: Theme::new(look),
                size,
            },
            false,
        )
    }

    /// `model` on `machine` as `engine` plans it, without limits until `no_limits` is unset.
    pub fn by(
        engine: EngineId,
        model: impl Into<Arc<plimsoll::engine::PreparedModel>>,
        machine: Machine,
        size: (u16, u16),
        settings: Settings,
    ) -> Self {
        Self::begin(
            InitialState {
                engine,
                settings,
                model: Some(model.into()),
                machine,
                detection: Detection::Done,
                live: LiveMemory::Off,
                preferences: Preferences::default(),
                theme: Theme::new(Appearance::BEST),
                size,
            },
            true,
        )
    }

    fn begin(beginning: InitialState, no_limits: bool) -> Self {
        let size = beginning.size;
        let host = Host::new(beginning);
        let terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        let mut harness = Self {
            host,
            fakes: Fakes::default(),
            suspended: 0,
            copied: Vec::new(),
            frozen: Vec::new(),
            ticks: 0,
            last_tick: 0,
            questions: 0,
            slow_loads: false,
            no_limits,
            followed: Vec::new(),
            applying: None,
            held_limits: None,
            no_surveys: false,
            waiting: Vec::new(),
            unhurried: None,
            terminal,
        };
        harness.refresh();
        harness.rest();
        harness
    }

    /// Applies an action, runs its effects and draws.
    pub fn act(&mut self, action: Action) {
        let effects = self.host.update(action);
        self.perform(effects);
        self.refresh();
    }

    /// Presses keys one after the other: `→`, `Tab`, `Esc`, `⇧→`, `^C`, or letters.
    pub fn press(&mut self, keys: &str) {
        for word in keys.split(' ').filter(|word| !word.is_empty()) {
            let (code, modifiers) = key(word);
            self.event(&Event::Key(KeyEvent::new(code, modifiers)));
        }
    }

    /// Types text letter by letter.
    pub fn write(&mut self, text: &str) {
        for letter in text.chars() {
            self.event(&Event::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)));
        }
    }

    pub fn mouse(&mut self, gesture: Gesture, x: u16, y: u16) {
        self.act(Action::Mouse(gesture, x, y));
    }

    pub fn event(&mut self, event: &Event) {
        if let Some(action) = event::action(event, &self.host) {
            self.act(action);
        }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.backend_mut().resize(columns, rows);
        self.act(Action::Resize(columns, rows));
    }

    /// Lets the highlights of the last change fade.
    pub fn rest(&mut self) {
        let id = self.host.app.request.change.id;
        self.act(Action::Fade { id });
    }

    /// Delivers the limits that were held back.
    pub fn answer_limits(&mut self) {
        if let Some(question) = self.held_limits.take() {
            self.act(question.answer());
        }
    }

    /// Delivers the thresholds of the sliders.
    pub fn think(&mut self) {
        if let Some(query) = self.unhurried.take() {
            self.answer(&query);
        }
        self.refresh();
    }

    fn answer(&mut self, query: &Query) {
        for part in query.parts().flatten() {
            let effects = self.host.update(Action::QueryAnswered { id: query.id, part });
            self.perform(effects);
        }
    }

    /// Finishes the pending loads, the last one first if `backwards`.
    pub fn finish_loads(&mut self, backwards: bool) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if backwards {
            waiting.reverse();
        }
        for (id, reference) in waiting {
            let result = self.fakes.load(&reference, &mut no_progress);
            self.act(Action::Loaded { id, result });
        }
    }

    fn refresh(&mut self) {
        // verdicts may change which models are listed
        for _ in 0..2 {
            let effects = self.host.refresh();
            self.perform(effects);
        }
        let host = &self.host;
        self.terminal.draw(|frame| host.draw(frame.buffer_mut())).unwrap();
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let answer = match effect {
                Effect::Load { id, reference, .. } if self.slow_loads => {
                    self.waiting.push((id, reference));
                    None
                }
                Effect::Load { id, reference, or_namesake } => {
                    let namesake = || or_namesake.then(|| self.fakes.namesake(&reference)).flatten();
                    let result = self.fakes.load(&reference, &mut no_progress).or_else(|why| namesake().ok_or(why));
                    Some(Action::Loaded { id, result })
                }
                Effect::AddRecent(reference) => {
                    self.fakes.add_recent(&reference).unwrap();
                    None
                }
                Effect::ListModels => {
                    let models_listed: Vec<_> = self.fakes.list_models().into_iter().map(Arc::new).collect();
                    let known: Vec<_> = models_listed.iter().map(|item| item.name.clone()).collect();
                    let effects = self.host.update(Action::ModelsListed(models_listed));
                    self.perform(effects);
                    let running = self.fakes.running(&known).unwrap().into_iter().map(Arc::new).collect();
                    Some(Action::Running(Ok(running)))
                }
                Effect::Survey(_) if self.no_surveys => None,
                Effect::Survey(survey) => {
                    let SurveyJob { id, items, request: question } = *survey;
                    let heard = Mutex::new(Vec::new());
                    self.fakes.survey(&items, &question, &|index, look| {
                        heard.lock().unwrap().push((index, look));
                        true
                    });
                    for (index, look) in heard.into_inner().unwrap() {
                        let effects = self.host.update(Action::ModelPlanned {
                            id,
                            item: Arc::clone(&items[index]),
                            status: look,
                        });
                        self.perform(effects);
                    }
                    None
                }
                Effect::Complete { typed } => {
                    let paths = self.fakes.complete(&typed);
                    Some(Action::Completed { typed, paths })
                }
                Effect::ListRepository { typed } => {
                    let answer = self.fakes.repository(&typed).map(Box::new);
                    Some(Action::RepositoryListed { typed, answer })
                }
                Effect::Limits(question) if self.no_limits => {
                    self.held_limits = Some(question);
                    None
                }
                Effect::Limits(question) => {
                    self.questions += 1;
                    Some(question.answer())
                }
                // thresholds wait until `think`
                Effect::Ask(query) if query.worker() == Worker::Planner => {
                    self.unhurried = Some(query);
                    None
                }
                Effect::Ask(query) => {
                    self.answer(&query);
                    None
                }
                Effect::Check(request) => {
                    Some(Action::Checked { id: request.id, result: self.fakes.check(&request).map(Box::new) })
                }
                Effect::Write(writing) => Some(writing.answer()),
                Effect::Save { path, text } => Some(Action::Saved(self.fakes.save(&path, &text))),
                Effect::Copy(text) => {
                    self.copied.push(text);
                    None
                }
                Effect::Teach(lesson) => Some(lesson.answer()),
                Effect::Suspend => {
                    self.suspended += 1;
                    None
                }
                Effect::ListMachines => Some(Action::MachinesListed(self.fakes.machines())),
                Effect::SaveMachine { name, machine } => {
                    Some(Action::MachineSaved(self.fakes.save_machine(&name, &machine)))
                }
                Effect::Freeze(frozen) => {
                    self.frozen.push(frozen);
                    None
                }
                Effect::Tick { id, .. } => {
                    self.ticks += 1;
                    self.last_tick = id;
                    None
                }
                other => self.run(other),
            };
            if let Some(answer) = answer {
                let effects = self.host.update(answer);
                self.perform(effects);
            }
        }
    }

    /// Runs what is about programs that run, and what was pasted.
    fn run(&mut self, effect: Effect) -> Option<Action> {
        match effect {
            Effect::ReadPaste(text) => Some(Action::PasteRead(Box::new(Pasted::of(&text)))),
            Effect::PrepareApply(request) => {
                Some(Action::ApplyPrepared { id: request.id, result: self.fakes.prepare(&request.target) })
            }
            Effect::Apply(request) if self.slow_loads => {
                let (id, took) = (request.id, Duration::from_secs(3));
                self.applying = Some(request);
                Some(Action::ApplyProgress { id, took, what: "load_tensors: loading model tensors".to_owned() })
            }
            Effect::Apply(request) => {
                let result = self.fakes.apply(&request.target, &mut |_, _| ControlFlow::Continue(()));
                Some(Action::Applied { id: request.id, result: result.map(Box::new) })
            }
            Effect::CancelApply => self.applying.take().map(|request| {
                let result = self.fakes.apply(&request.target, &mut |_, _| ControlFlow::Break(()));
                Action::Applied { id: request.id, result: result.map(Box::new) }
            }),
            Effect::KeepServer => {
                self.fakes.leave_server(true);
                None
            }
            Effect::Follow { id } => {
                self.followed.push(true);
                for followed in self.fakes.follows.clone() {
                    self.host.update(Action::Sampled { id, followed: Box::new(followed) });
                }
                None
            }
            Effect::StopFollowing => {
                self.followed.push(false);
                None
            }
            _ => None,
        }
    }

    pub fn buffer(&self) -> &Buffer {
        self.terminal.backend().buffer()
    }

    /// The text on the screen, without trailing spaces.
    pub fn text(&self) -> String {
        let buffer = self.buffer();
        let line = |y: u16| -> String { (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect() };
        let lines: Vec<String> = (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect();
        lines.join("\n")
    }

    /// The colour of every cell as a letter per hue of the theme, or a space where nothing is drawn.
    pub fn colours(&self) -> String {
        let letter = |cell: &ratatui::buffer::Cell| {
            let is = |hue: &&Hue| self.host.app.theme.colour(**hue) == cell.fg;
            let at = Hue::ALL.iter().position(|hue| is(&hue));
            let drawn = cell.symbol() != " " || cell.bg != ratatui::style::Color::Reset;
            if drawn { at.map_or('?', |at| char::from(b'a' + at as u8)) } else { ' ' }
        };
        let buffer = self.buffer();
        let line = |y: u16| -> String { (0..buffer.area.width).map(|x| letter(&buffer[(x, y)])).collect() };
        (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    /// Asserts that the plan on the screen is what the engine makes of the knobs at present.
    pub fn assert_plan_is_current(&self) {
        let app = &self.host.app;
        let model = app.request.model.as_ref().unwrap();
        match engine::plan(app.request.engine, model, &app.request.machine, &app.request.settings) {
            Ok(plan) => assert_eq!((app.request.plan.as_deref(), &app.request.refused), (Some(&plan), &None)),
            Err(error) => assert_eq!(app.request.refused, Some(error)),
        }
    }

    /// Draws on a terminal whose size differs from what the planner was told last, as while a window is resized, and
    /// asserts that nothing is drawn outside the known size and that a larger terminal changes nothing inside it.
    pub fn draw_at(&self, (columns, rows): (u16, u16)) {
        let told = self.host.app.panels.regions;
        let drawn = |place: Rect| {
            let mut buffer = Buffer::empty(place);
            self.host.draw(&mut buffer);
            buffer
        };
        let (other, screen) = (drawn(Rect::new(0, 0, columns, rows)), drawn(told.screen));
        if told.shape == ScreenLayout::TooSmall {
            return;
        }
        let larger = columns >= told.screen.width && rows >= told.screen.height;
        for (x, y) in (0..rows).flat_map(|y| (0..columns).map(move |x| (x, y))) {
            match screen.cell((x, y)) {
                Some(cell) if larger => assert_eq!(&other[(x, y)], cell, "at {x}, {y}\n{}", self.text()),
                Some(_) => {}
                None => assert_eq!(other[(x, y)].symbol(), " ", "outside the screen, at {x}, {y}"),
            }
        }
    }

    pub fn svg(&self) -> String {
        picture::svg(self.buffer(), self.host.app.theme.look.tone, "plimsoll")
    }
}

fn key(word: &str) -> (KeyCode, KeyModifiers) {
    let (word, modifiers) = match (word.strip_prefix('⇧'), word.strip_prefix('^')) {
        (Some(rest), _) if !rest.is_empty() => (rest, KeyModifiers::SHIFT),
        (_, Some(rest)) if !rest.is_empty() => (rest, KeyModifiers::CONTROL),
        _ => (word, KeyModifiers::NONE),
    };
    let code = match word {
        "↑" => KeyCode::Up,
        "↓" => KeyCode::Down,
        "←" => KeyCode::Left,
        "→" => KeyCode::Right,
        "Tab" if modifiers == KeyModifiers::SHIFT => KeyCode::BackTab,
        "Tab" => KeyCode::Tab,
        "Enter" => KeyCode::Enter,
        "Space" => KeyCode::Char(' '),
        "Esc" => KeyCode::Esc,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PgUp" => KeyCode::PageUp,
        "PgDn" => KeyCode::PageDown,
        "F1" => KeyCode::F(1),
        "F2" => KeyCode::F(2),
        "F4" => KeyCode::F(4),
        "Back" => KeyCode::Backspace,
        letter => KeyCode::Char(
            letter
                .to_lowercase()
                .chars()
                .next()
                .filter(|_| modifiers == KeyModifiers::CONTROL)
                .unwrap_or_else(|| letter.chars().next().unwrap()),
        ),
    };
    (code, modifiers)
}
