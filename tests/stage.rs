//! A stage for the planner: the real `App` and its drawing on a test terminal, with effects done at once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use plimsoll::engine::EngineId;
use plimsoll::hardware::{Detected, Tried};
use plimsoll::machine::{Backend, Gpu, Machine, Origin, Os, Ram};
use plimsoll::model::Model;
use plimsoll::settings::Settings;
use plimsoll::shelf::{self, Item, Look as Seen, Question};
use plimsoll::source::{Held, Package, Progress, Roots, Watch, unwatched};
use plimsoll::tui::action::{Action, Gesture};
use plimsoll::tui::app::{App, Beginning, Known, Live};
use plimsoll::tui::effect::{Effect, Survey, World};
use plimsoll::tui::event;
use plimsoll::tui::inquiry::{Inquiry, Lane};
use plimsoll::tui::theme::{Hue, Look, Theme};
use plimsoll::tui::{picture, view};
use plimsoll::units::Bytes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use crate::support;

/// Models and folders that are not there.
#[derive(Default)]
pub struct Props {
    pub models: HashMap<String, Result<Package, String>>,
    /// What the shelf holds, each with what opening it by hand gives.
    pub shelf: Vec<(&'static str, shelf::Origin, Result<Package, String>)>,
    /// What a running Ollama has.
    pub running: Vec<(&'static str, Package)>,
    pub paths: Vec<String>,
    /// What was opened.
    pub remembered: Mutex<Vec<String>>,
    pub machines: Mutex<Vec<(String, Result<Machine, String>)>>,
    /// What was written, by the names that were typed.
    pub files: Mutex<HashMap<String, String>>,
}

impl World for Props {
    fn load(&self, reference: &str, watch: &mut Watch<'_>) -> Result<Package, String> {
        if watch(Progress { done: 1, total: Some(2), shard: 0, shards: 1 }).is_break() {
            return Err("stopped".to_owned());
        }
        let on_shelf = self.shelf.iter().find(|(name, ..)| *name == reference).map(|(.., package)| package);
        let running = self.running.iter().find(|(name, _)| *name == reference).map(|(_, package)| Ok(package.clone()));
        let package = self.models.get(reference).or(on_shelf).cloned().or(running);
        package.unwrap_or_else(|| Err(format!("{reference} is not there")))
    }

    fn remember(&self, reference: &str) -> Result<(), String> {
        self.remembered.lock().unwrap().push(reference.to_owned());
        Ok(())
    }

    fn shelve(&self) -> Vec<Item> {
        self.shelf.iter().map(|(name, origin, package)| Item::given(name, *origin, package.clone())).collect()
    }

    fn running(&self, known: &[String]) -> Result<Vec<Item>, String> {
        let new = self.running.iter().filter(|(name, _)| !known.contains(&(*name).to_owned()));
        Ok(new.map(|(name, package)| Item::given(name, shelf::Origin::Running, Ok(package.clone()))).collect())
    }

    fn survey(&self, items: &[Arc<Item>], question: &Question, tell: &(dyn Fn(usize, Seen) -> bool + Sync)) {
        shelf::survey(items, question, &Roots::default(), tell);
    }

    fn machines(&self) -> Result<Vec<(String, Result<Machine, String>)>, String> {
        Ok(self.machines.lock().unwrap().clone())
    }

    fn save_machine(&self, name: &str, machine: &Machine) -> Result<String, String> {
        if name.is_empty() {
            return Err("'' cannot be a machine's name".to_owned());
        }
        self.machines.lock().unwrap().push((name.to_owned(), Ok(machine.clone())));
        Ok(format!("Saved as {name}."))
    }

    fn save(&self, path: &str, text: &str) -> Result<PathBuf, String> {
        let mut files = self.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(format!("'{path}' is there already: give it another name."));
        }
        files.insert(path.to_owned(), text.to_owned());
        Ok(PathBuf::from("/here").join(path))
    }

    fn complete(&self, typed: &str) -> Vec<String> {
        self.paths.iter().filter(|path| path.starts_with(typed)).cloned().collect()
    }
}

/// The planner on a terminal.
pub struct Stage {
    pub app: App,
    pub props: Props,
    /// Effects that were asked for and are left to the test.
    pub suspended: usize,
    /// What was put on the clipboard.
    pub copied: Vec<String>,
    /// Whether free memory was asked to be held still, each time it was.
    pub frozen: Vec<bool>,
    /// Moments that were asked for.
    pub ticks: u64,
    /// How often it was asked how far the knobs can go.
    pub questions: usize,
    /// Loads wait until [`Stage::finish_loads`].
    pub slow_loads: bool,
    /// Nobody works out how far the knobs can go.
    pub no_limits: bool,
    /// Nobody looks at models.
    pub no_surveys: bool,
    waiting: Vec<(u64, String)>,
    unhurried: Option<Box<Inquiry>>,
    terminal: Terminal<TestBackend>,
}

impl Stage {
    /// `model` on `machine`, on a screen of `size`.
    pub fn new(model: Model, machine: Machine, size: (u16, u16)) -> Self {
        Self::with(Some(model), machine, size, Settings::default(), Look::BEST)
    }

    pub fn with(model: Option<Model>, machine: Machine, size: (u16, u16), settings: Settings, look: Look) -> Self {
        Self::seen(EngineId::Ollama024, model, machine, size, settings, look)
    }

    /// `model` on `machine` as `engine` plans it, on a terminal that looks so.
    pub fn seen(
        engine: EngineId,
        model: Option<Model>,
        machine: Machine,
        size: (u16, u16),
        settings: Settings,
        look: Look,
    ) -> Self {
        Self::begin(
            Beginning {
                engine,
                settings,
                model: model.map(Arc::new),
                machine,
                known: Known::All,
                live: Live::Off,
                held: Held::default(),
                theme: Theme::new(look),
                size,
            },
            false,
        )
    }

    /// `model` on `machine` as `engine` plans it; nobody works out how far the knobs can go until that is allowed.
    pub fn by(engine: EngineId, model: Model, machine: Machine, size: (u16, u16), settings: Settings) -> Self {
        Self::begin(
            Beginning {
                engine,
                settings,
                model: Some(Arc::new(model)),
                machine,
                known: Known::All,
                live: Live::Off,
                held: Held::default(),
                theme: Theme::new(Look::BEST),
                size,
            },
            true,
        )
    }

    fn begin(beginning: Beginning, no_limits: bool) -> Self {
        let size = beginning.size;
        let app = App::new(beginning);
        let terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        let mut stage = Self {
            app,
            props: Props::default(),
            suspended: 0,
            copied: Vec::new(),
            frozen: Vec::new(),
            ticks: 0,
            questions: 0,
            slow_loads: false,
            no_limits,
            no_surveys: false,
            waiting: Vec::new(),
            unhurried: None,
            terminal,
        };
        stage.settle();
        stage.rest();
        stage
    }

    /// One action, its effects, and a drawing.
    pub fn act(&mut self, action: Action) {
        let effects = self.app.update(action);
        self.perform(effects);
        self.settle();
    }

    /// Presses keys one after the other, as a terminal reports them: `→`, `Tab`, `Esc`, `⇧→`, `^C`, or letters.
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
        if let Some(action) = event::action(event, &self.app) {
            self.act(action);
        }
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.backend_mut().resize(columns, rows);
        self.act(Action::Resize(columns, rows));
    }

    /// Time passes: marks fade.
    pub fn rest(&mut self) {
        let id = self.app.change.id;
        self.act(Action::Fade { id });
    }

    /// More time passes: where things change along the sliders is known.
    pub fn think(&mut self) {
        if let Some(inquiry) = self.unhurried.take() {
            self.answer(&inquiry);
        }
        self.settle();
    }

    fn answer(&mut self, inquiry: &Inquiry) {
        for part in inquiry.parts().flatten() {
            let effects = self.app.update(Action::Answered { id: inquiry.id, part });
            self.perform(effects);
        }
    }

    /// Ends the loads that wait, the last one first if `backwards`.
    pub fn finish_loads(&mut self, backwards: bool) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if backwards {
            waiting.reverse();
        }
        for (id, reference) in waiting {
            let result = self.props.load(&reference, &mut unwatched);
            self.act(Action::Loaded { id, result });
        }
    }

    fn settle(&mut self) {
        // what was looked at may change what is listed
        for _ in 0..2 {
            let effects = self.app.settle();
            self.perform(effects);
        }
        let app = &self.app;
        self.terminal.draw(|frame| view::draw(app, frame.buffer_mut())).unwrap();
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let answer = match effect {
                Effect::Load { id, reference } if self.slow_loads => {
                    self.waiting.push((id, reference));
                    None
                }
                Effect::Load { id, reference } => {
                    let result = self.props.load(&reference, &mut unwatched);
                    Some(Action::Loaded { id, result })
                }
                Effect::Remember(reference) => {
                    self.props.remember(&reference).unwrap();
                    None
                }
                Effect::Shelve => {
                    let shelved: Vec<_> = self.props.shelve().into_iter().map(Arc::new).collect();
                    let known: Vec<_> = shelved.iter().map(|item| item.name.clone()).collect();
                    let effects = self.app.update(Action::Shelved(shelved));
                    self.perform(effects);
                    let running = self.props.running(&known).unwrap().into_iter().map(Arc::new).collect();
                    Some(Action::Running(Ok(running)))
                }
                Effect::Survey(_) if self.no_surveys => None,
                Effect::Survey(survey) => {
                    let Survey { id, items, question } = *survey;
                    let heard = Mutex::new(Vec::new());
                    self.props.survey(&items, &question, &|index, look| {
                        heard.lock().unwrap().push((index, look));
                        true
                    });
                    for (index, look) in heard.into_inner().unwrap() {
                        let effects = self.app.update(Action::Looked { id, item: Arc::clone(&items[index]), look });
                        self.perform(effects);
                    }
                    None
                }
                Effect::Complete { typed } => {
                    let paths = self.props.complete(&typed);
                    Some(Action::Completed { typed, paths })
                }
                Effect::Limits(_) if self.no_limits => None,
                Effect::Limits(question) => {
                    self.questions += 1;
                    Some(question.answer())
                }
                // what the sliders show of it is worked out in peace
                Effect::Ask(inquiry) if inquiry.lane() == Lane::Planner => {
                    self.unhurried = Some(inquiry);
                    None
                }
                Effect::Ask(inquiry) => {
                    self.answer(&inquiry);
                    None
                }
                Effect::Write(writing) => Some(writing.answer()),
                Effect::Save { path, text } => Some(Action::Saved(self.props.save(&path, &text))),
                Effect::Copy(text) => {
                    self.copied.push(text);
                    None
                }
                Effect::Teach(lesson) => Some(lesson.answer()),
                Effect::Suspend => {
                    self.suspended += 1;
                    None
                }
                Effect::Versus(contest) => Some(contest.answer()),
                Effect::Shelf => Some(Action::MachinesListed(self.props.machines())),
                Effect::SaveMachine { name, machine } => {
                    Some(Action::MachineSaved(self.props.save_machine(&name, &machine)))
                }
                Effect::Freeze(frozen) => {
                    self.frozen.push(frozen);
                    None
                }
                Effect::Tick { .. } => {
                    self.ticks += 1;
                    None
                }
                Effect::Fade { .. } | Effect::CancelLoad => None,
            };
            if let Some(answer) = answer {
                let effects = self.app.update(answer);
                self.perform(effects);
            }
        }
    }

    pub fn buffer(&self) -> &Buffer {
        self.terminal.backend().buffer()
    }

    /// What is on the screen, line by line, without spaces at line ends.
    pub fn text(&self) -> String {
        let buffer = self.buffer();
        let line = |y: u16| -> String { (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect() };
        let lines: Vec<String> = (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect();
        lines.join("\n")
    }

    /// The colour of every cell, a letter for each hue of the theme; a space where nothing is drawn.
    pub fn colours(&self) -> String {
        let letter = |cell: &ratatui::buffer::Cell| {
            let is = |hue: &&Hue| self.app.theme.colour(**hue) == cell.fg;
            let at = Hue::ALL.iter().position(|hue| is(&hue));
            let drawn = cell.symbol() != " " || cell.bg != ratatui::style::Color::Reset;
            if drawn { at.map_or('?', |at| char::from(b'a' + at as u8)) } else { ' ' }
        };
        let buffer = self.buffer();
        let line = |y: u16| -> String { (0..buffer.area.width).map(|x| letter(&buffer[(x, y)])).collect() };
        (0..buffer.area.height).map(|y| line(y).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    pub fn svg(&self) -> String {
        picture::svg(self.buffer(), self.app.theme.look.tone, "plimsoll")
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

/// A model of `tests/models`.
pub fn model(name: &str) -> Model {
    let mut header = support::model(name);
    // a description has no weights, which is no news here
    header.notes.clear();
    Model::from_header(header, name).unwrap()
}

/// A model of `tests/models` with nothing beside it, read once.
pub fn package(name: &'static str) -> Package {
    static READ: LazyLock<Mutex<HashMap<&str, Package>>> = LazyLock::new(Mutex::default);
    READ.lock().unwrap().entry(name).or_insert_with(|| model(name).into()).clone()
}

/// Qwen3 235B A22B: the description of its smaller sister, scaled to 94 blocks and its own widths.
pub fn qwen3_235b() -> Model {
    let small: serde_json::Value = serde_json::from_str(&support::model_json("qwen3-30b-a3b")).unwrap();
    let mut kv = small["kv"].clone();
    for (key, value) in [
        ("block_count", 94),
        ("embedding_length", 4096),
        ("feed_forward_length", 12_288),
        ("attention.head_count", 64),
        ("expert_feed_forward_length", 1536),
    ] {
        kv[format!("qwen3moe.{key}")] = serde_json::json!(["u32", value]);
    }
    kv["general.name"] = serde_json::json!(["string", "Qwen3 235B A22B"]);
    let vocabulary = small["n_vocab"].as_u64().unwrap();
    let mut tensors = vec![
        serde_json::json!(["token_embd.weight", "q4_K", [4096, vocabulary]]),
        serde_json::json!(["output_norm.weight", "f32", [4096]]),
        serde_json::json!(["output.weight", "q6_K", [4096, vocabulary]]),
    ];
    for block in 0..94 {
        for (name, ty, dims) in [
            ("attn_norm", "f32", vec![4096]),
            ("attn_q", "q4_K", vec![4096, 8192]),
            ("attn_k", "q4_K", vec![4096, 512]),
            ("attn_v", "q6_K", vec![4096, 512]),
            ("attn_output", "q4_K", vec![8192, 4096]),
            ("attn_k_norm", "f32", vec![128]),
            ("attn_q_norm", "f32", vec![128]),
            ("ffn_norm", "f32", vec![4096]),
            ("ffn_gate_inp", "f32", vec![4096, 128]),
            ("ffn_gate_exps", "q4_K", vec![4096, 1536, 128]),
            ("ffn_down_exps", if block % 8 == 0 { "q6_K" } else { "q4_K" }, vec![1536, 4096, 128]),
            ("ffn_up_exps", "q4_K", vec![4096, 1536, 128]),
        ] {
            tensors.push(serde_json::json!([format!("blk.{block}.{name}.weight"), ty, dims]));
        }
    }
    let description = serde_json::json!({ "kv": kv, "n_vocab": vocabulary, "tensors": tensors });
    let mut header = plimsoll::source::description::header(&description.to_string()).unwrap();
    header.notes.clear();
    Model::from_header(header, "qwen3-235b").unwrap()
}

/// `count` cards of `gib` GiB, a little of each in use, and `ram` GiB of main memory.
pub fn machine(count: usize, name: &str, gib: u64, ram: u64) -> Machine {
    let gpu = |index: u64| Gpu {
        name: name.to_owned(),
        backend: Backend::Cuda,
        total: Bytes::gib(gib),
        free: Bytes(Bytes::gib(gib).0 - Bytes::mib(430 + 150 * index).0),
        integrated: false,
        compute: Some((8, 6)),
        driver_major: Some(13),
        computer: None,
    };
    Machine {
        os: Os::Linux,
        gpus: (0..count as u64).map(gpu).collect(),
        ram: Ram { total: Bytes::gib(ram), free: Bytes::gib(ram * 7 / 8), swap_free: Bytes::gib(2) },
        origin: Origin::Described,
    }
}

/// `machine` as it was looked for and found.
pub fn detected(machine: Machine, tried: &[(&'static str, &str)]) -> Action {
    let tried = tried.iter().map(|&(collector, outcome)| Tried { collector, outcome: outcome.to_owned() }).collect();
    Action::Detected(Box::new(Detected { machine, facts: Vec::new(), processes: Vec::new(), tried }))
}

/// One RTX 3090 and 64 GiB.
pub fn one_gpu() -> Machine {
    machine(1, "RTX 3090", 24, 64)
}
