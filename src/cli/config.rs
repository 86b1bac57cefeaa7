//! The configuration file, `config.toml`: what options mean where they are not given. The command line stands over the
//! environment, and the environment over the file.

mod keys;
mod parse;
mod shown;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) use shown::{example, text};

use self::keys::KEYS;
use super::args::Interval;
use super::error::CliError;
use crate::engine::EngineId;
use crate::settings::{Release, Settings};
use crate::tui::app::Preferences;
use crate::tui::theme::Preferred;
use crate::units::Bytes;

/// The name of this machine, as opposed to another one that the file names.
pub(super) const THIS_MACHINE: &str = "this";

/// A longer file is none of ours.
const MAX_FILE: u64 = 1 << 20;

/// What the file and the `PLIMSOLL_*` variables set.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub engine: Option<EngineId>,
    pub release: Option<Release>,
    /// A saved machine, or a machine file.
    pub machine: Option<String>,
    pub gpu_overhead: Option<Bytes>,
    pub fit_target: Option<Bytes>,
    pub refresh: Option<Interval>,
    /// Of the planner and of lists.
    pub preferences: Preferences,
    /// Colours and characters that the file asks for.
    pub look: Preferred,
    /// The file, where the operating system knows a home.
    path: Option<PathBuf>,
    /// Whether the file is there.
    exists: bool,
    /// What is set, in the order of [`KEYS`].
    entries: Vec<Entry>,
}

/// A key that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: &'static str,
    text: String,
    by: SetBy,
}

/// Who set a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetBy {
    /// The file, in this line.
    Line(usize),
    /// A variable of the environment.
    Variable(&'static str),
}

impl Config {
    /// That of this person: the file in the configuration folder of this program, and the environment.
    ///
    /// # Errors
    /// If the file cannot be read or a value is none: one sentence with path, line and key.
    pub(super) fn here() -> Result<Self, CliError> {
        let dirs = directories::ProjectDirs::from("", "", "plimsoll");
        let path = dirs.map(|dirs| dirs.config_dir().join("config.toml"));
        let text = path.as_deref().map_or(Ok(None), read)?;
        Self::of(path, text.as_deref(), &|name| std::env::var(name).ok()).map_err(CliError::Arguments)
    }

    /// What `text`, the contents of the file at `path`, and `variable` set.
    fn of(
        path: Option<PathBuf>,
        text: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut config = Self { exists: text.is_some(), ..Self::default() };
        let file = path.as_deref().unwrap_or(Path::new("config.toml"));
        for entry in text.map_or(Ok(Vec::new()), parse::entries).map_err(|wrong| wrong.in_file(file))? {
            let (line, key) = (entry.line, entry.key);
            config
                .set(key, &entry.text, SetBy::Line(line))
                .map_err(|sentence| parse::Wrong { line, key: Some(key.name.to_owned()), sentence }.in_file(file))?;
        }
        config.machine = config.machine.map(|machine| from_folder_of(file, machine));
        for key in &KEYS {
            let Some(name) = key.variable else { continue };
            if let Some(text) = variable(name).filter(|text| !text.is_empty()) {
                config.set(key, &text, SetBy::Variable(name)).map_err(|sentence| format!("{name}: {sentence}"))?;
            }
        }
        config.path = path;
        Ok(config)
    }

    fn set(&mut self, key: &'static keys::Key, text: &str, by: SetBy) -> Result<(), String> {
        (key.set)(self, text)?;
        self.entries.retain(|entry| entry.key != key.name);
        self.entries.push(Entry { key: key.name, text: text.to_owned(), by });
        Ok(())
    }

    /// The machine to plan for where the command line names none; none for this one.
    pub(super) fn other_machine(&self) -> Option<&str> {
        self.machine.as_deref().filter(|machine| *machine != THIS_MACHINE)
    }

    /// A sentence on the machine, for plans.
    pub(super) fn machine_note(&self) -> Option<String> {
        let machine = self.other_machine()?;
        Some(format!("machine '{machine}', by {}: --machine {THIS_MACHINE} plans for this one", self.set_by("machine")))
    }

    /// Sets what the knobs and the environment left open; an engine's settings are left alone where it has no such
    /// option. Returns a note for each.
    pub(super) fn fill(&self, settings: &mut Settings, engine: EngineId, is_open: &Open) -> Vec<String> {
        let (mut notes, releases) = (Vec::new(), engine.facts().releases);
        if settings.release.is_none() {
            settings.release = self.release.filter(|release| releases.contains(release));
        }
        let asked = [
            ("gpu-overhead", self.gpu_overhead.filter(|_| is_open.gpu_overhead)),
            ("fit-target", self.fit_target.filter(|_| is_open.fit_target)),
        ];
        for (key, bytes) in asked.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))) {
            let mut with = settings.clone();
            match key {
                "gpu-overhead" => with.gpu_overhead = bytes,
                _ => with.fit_target = Some(bytes),
            }
            let option = format!("--{key}");
            if !engine.facts().ignored(&with).contains(&option) {
                *settings = with;
                notes.push(format!("{option} {bytes}, by {}", self.set_by(key)));
            }
        }
        notes
    }

    /// The key of the machine and who set it, for errors.
    pub(super) fn machine_key(&self) -> String {
        format!("machine in {}", self.set_by("machine"))
    }

    fn set_by(&self, key: &str) -> &str {
        match self.entries.iter().find(|entry| entry.key == key).map(|entry| entry.by) {
            Some(SetBy::Variable(name)) => name,
            _ => "config.toml",
        }
    }
}

/// Which settings neither an option nor a variable has set.
pub(super) struct Open {
    pub gpu_overhead: bool,
    pub fit_target: bool,
}

/// The contents of the file; none where there is no file.
fn read(path: &Path) -> Result<Option<String>, CliError> {
    let cannot = |why: &str| CliError::Arguments(format!("'{}' cannot be read: {why}", path.display()));
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(cannot("it is a folder: put a file in its place, or remove it")),
        Ok(about) if about.len() > MAX_FILE => return Err(cannot("it is longer than 1 MiB: correct or remove it")),
        _ => {}
    }
    match fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8 text: correct or remove it"))?;
            Ok(Some(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned)))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(cannot(&format!("{error}: change its permissions, or remove it"))),
    }
}

/// A machine file that the file names is looked for from the folder of the configuration file, wherever the program is started.
fn from_folder_of(file: &Path, machine: String) -> String {
    let is_file = machine.contains(['/', '\\']) || machine.to_ascii_lowercase().ends_with(".json");
    let home = machine.strip_prefix("~/").zip(directories::BaseDirs::new());
    match (home, file.parent()) {
        (Some((rest, dirs)), _) => dirs.home_dir().join(rest).display().to_string(),
        (None, Some(folder)) if is_file => folder.join(&machine).display().to_string(),
        _ => machine,
    }
}

#[cfg(test)]
mod tests;
