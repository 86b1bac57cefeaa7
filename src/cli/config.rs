//! The configuration file, `config.toml`: what options mean where they are not given. The command line stands over the
//! environment, and the environment over the file.

mod file;
mod shown;
mod table;

use std::path::{Path, PathBuf};

use super::args::ConfigArgs;
use super::error::{self, CliError};
use super::style::Style;
use super::value::Interval;
use crate::engine::EngineId;
use crate::files;
use crate::hardware::remembered::THIS_MACHINE;
use crate::settings::{Flag, Settings, Source};
use crate::tui::app::Preferences;
use crate::tui::theme::Preferred;
use file::{FileEntries, OwnKeys, Wrong, entries};
use table::{KEYS, Key};

#[cfg(any(fuzzing, test))]
pub use shown::check;
pub(super) use shown::{ConfigAnswer, csv, example, json, text};

/// Shows the configuration.
pub(super) fn run(args: ConfigArgs) -> Result<String, CliError> {
    if args.example {
        return Ok(example());
    }
    let (config, variable) = (Config::here()?, |name: &str| std::env::var(name).ok());
    match (args.json, args.csv) {
        (true, _) => error::json("configuration", json(&config, &variable)),
        (_, true) => Ok(csv(&config, &variable)),
        _ => Ok(text(&config, &variable, &Style::of_stdout())),
    }
}

/// What the file and the `PLIMSOLL_*` variables set.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub engine: Option<EngineId>,
    /// A saved machine, or a machine file.
    pub machine: Option<String>,
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

/// The configuration folder of this program, where the operating system knows a home.
pub(super) fn folder() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "plimsoll").map(|dirs| dirs.config_dir().to_owned())
}

/// The configuration file, where the operating system knows a home.
pub(super) fn path() -> Option<PathBuf> {
    folder().map(|folder| folder.join("config.toml"))
}

/// The variables that stand for keys of the file, with what each does.
pub(super) fn variables() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    KEYS.iter().filter_map(|key| Some((vec![key.variable?], key.what)))
}

impl Config {
    /// That of this person: the file in the configuration folder of this program, and the environment.
    ///
    /// # Errors
    /// If the file cannot be read or a value is none: one sentence with path, line and key.
    pub(super) fn here() -> Result<Self, CliError> {
        let path = path();
        let text =
            path.as_deref().map_or(Ok(None), |path| files::text(path, files::TEXT)).map_err(CliError::Arguments)?;
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
        let read = text.map_or_else(|| Ok(FileEntries::default()), entries).map_err(|wrong| wrong.in_file(file))?;
        for OwnKeys { command, keys, line } in read.keys {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            config.preferences.keys = config
                .preferences
                .keys
                .with(&command, &keys)
                .map_err(|sentence| Wrong { line, key: Some(format!("keys.{command}")), sentence }.in_file(file))?;
        }
        for entry in read.entries {
            let (line, key) = (entry.line, entry.key);
            config
                .set(key, &entry.text, SetBy::Line(line))
                .map_err(|sentence| Wrong { line, key: Some(key.name.to_owned()), sentence }.in_file(file))?;
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

    /// What it says of the planner and of lists, and nothing of plans.
    #[must_use]
    pub(super) fn without_plans(self) -> Self {
        let open = Self::default();
        let Self { refresh, preferences, look, path, exists, entries, .. } = self;
        Self { refresh, preferences, look, path, exists, entries, ..open }
    }

    fn set(&mut self, key: &'static Key, text: &str, by: SetBy) -> Result<(), String> {
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

    /// Sets what options set, except for what a source above has given, or the engine has no option for. Returns a note for each.
    pub(super) fn apply(&self, settings: &mut Settings, engine: EngineId) -> Vec<String> {
        let mut notes = Vec::new();
        for entry in KEYS.iter().filter_map(|key| self.entries.iter().find(|entry| entry.key == key.name)) {
            let Some(flag) = Flag::named(entry.key).filter(|flag| flag.is_read_by(engine)) else { continue };
            let release = entry.text.parse().ok().filter(|_| flag == Flag::Release);
            let is_known = release.is_none_or(|release| engine.facts().releases.contains(&release));
            if !is_known || settings.give(flag, &entry.text, Source::Config) != Ok(true) {
                continue;
            }
            let said = match flag {
                Flag::GpuOverhead => settings.gpu_overhead.to_string(),
                Flag::FitTarget => settings.fit_target.unwrap_or_default().to_string(),
                Flag::KeepRam => entry.text.clone(),
                // plans name it
                _ => continue,
            };
            notes.push(format!("--{} {said}, by {}", entry.key, self.set_by(entry.key)));
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
mod tests {
    use super::*;
    use crate::answer::best::Minimums;
    use crate::gguf::FileType;
    use crate::settings::CacheType;
    use crate::tui::keymap;
    use crate::units::Bytes;
    use rstest::rstest;

    fn of(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::of(Some("/home/me/config.toml".into()), Some(text), &get)
    }

    #[test]
    fn every_key_of_the_example_can_be_set() {
        let example = example();
        let keys = example.lines().filter(|line| line.contains(" = ")).map(|line| line.trim_start_matches("# "));
        let text = keys.collect::<Vec<_>>().join("\n");
        let config = of(&text, &[]).unwrap();
        assert_eq!(config.entries.len(), KEYS.len(), "{text}");
        assert_eq!(of(&example, &[]).unwrap().entries.len(), 0, "all of it is comments");
        assert_eq!(config.engine, Some(EngineId::LlamaCpp));
        let minimums = Minimums { quant: Some(FileType::Q4KM), cache: Some(CacheType::Q8_0) };
        assert_eq!(
            config.preferences,
            Preferences {
                margin: Some(Bytes::gib(1)),
                need: Some(16_384),
                minimums,
                quits_at_once: true,
                ..Preferences::default()
            }
        );
        let mut settings = Settings::default();
        config.apply(&mut settings, EngineId::LlamaCpp);
        assert_eq!(settings.fit_target, Some(Bytes::gib(1)));
    }

    #[rstest]
    #[case(
        "engin = \"ollama\"",
        "line 1, engin: there is no such key: did you mean 'engine'? the keys are engine, release"
    )]
    #[case("\nGPU_OVERHEAD = 1", "line 2, GPU_OVERHEAD: there is no such key: did you mean 'gpu-overhead'?")]
    #[case("zzz = 1", "line 1, zzz: there is no such key: the keys are")]
    #[case("[planner]\ntheme = \"dark\"", "line 1, planner: there is no such key")]
    #[case("# one\nengine = llama.cpp", "line 2, engine: ")]
    #[case("theme = \"pink\"", "line 1, theme: 'pink' is not a theme: use dark or light or mono")]
    #[case("engine = \"vllm\"", "line 1, engine: unknown engine 'vllm': use ollama or llama.cpp")]
    #[case("need = [1]", "line 1, need: this is neither text nor a number: write need = \"16k\"")]
    #[case("need = true", "line 1, need: 'true' is not a number")]
    #[case("need = 0", "line 1, need: '0' is out of range")]
    #[case("margin = \"lots\"", "line 1, margin: ")]
    #[case("need = 1\nneed = 2", "line 2, need: ")]
    fn what_is_wrong_is_said_with_path_line_and_key(#[case] text: &str, #[case] said: &str) {
        let sentence = of(text, &[]).unwrap_err();
        assert!(sentence.starts_with(&format!("'/home/me/config.toml', {said}")), "{sentence}");
        assert!(!sentence.contains('\n'));
    }

    #[test]
    fn commands_of_the_planner_get_further_keys() {
        let config = of("[keys]\nexport = \"F9\"\nundo = [\"x\", \"Ctrl-z\"]", &[]).unwrap();
        let undo = config.preferences.keys.key_for(crate::tui::action::Command::Undo, &[keymap::Scope::Plan]);
        assert_eq!(undo.as_deref(), Some("Ctrl-Z"));
        for (text, said) in [
            ("keys = 1", "line 1, keys: this is a table: write [keys]"),
            ("[keys]\nexport = 9", "line 2, keys: this is a table"),
            ("[keys]\nexprot = \"F9\"", "line 2, keys.exprot: 'exprot' is no command: did you mean 'export'?"),
            ("[keys]\nexport = \"F99\"", "line 2, keys.export: 'F99' is no key: write x, X, F5"),
            ("\n[keys]\nundo = \"x\"", "line 3, keys.undo: 'x' is the only key of export in 'Planner'"),
        ] {
            let sentence = of(text, &[]).unwrap_err();
            assert!(sentence.contains(said), "{sentence}");
        }
    }

    #[test]
    fn variables_stand_over_the_file() {
        let config = of("engine = \"llama.cpp\"\nrefresh = 0.5", &[("PLIMSOLL_ENGINE", "ollama-0.24")]).unwrap();
        assert_eq!(config.engine, Some(EngineId::Ollama024));
        assert_eq!(config.refresh.and_then(|refresh| refresh.0), Some(std::time::Duration::from_millis(500)));
        assert_eq!(config.set_by("engine"), "PLIMSOLL_ENGINE");
        let wrong = of("", &[("PLIMSOLL_NEED", "much")]).unwrap_err();
        assert!(wrong.starts_with("PLIMSOLL_NEED: 'much' is not a number"), "{wrong}");
    }

    #[test]
    fn machine_files_are_looked_for_beside_the_file() {
        let machine = |text: &str| of(&format!("machine = '{text}'"), &[]).unwrap().machine;
        assert_eq!(machine("garage").as_deref(), Some("garage"));
        assert_eq!(machine("/a/b.json").as_deref(), Some("/a/b.json"));
        let beside = Path::new("/home/me").join("b.json").display().to_string();
        assert_eq!(machine("b.json"), Some(beside));
        let by_variable = of("machine = 'a.json'", &[("PLIMSOLL_MACHINE", "b.json")]).unwrap();
        assert_eq!(by_variable.machine.as_deref(), Some("b.json"), "from the working directory");
        assert_eq!(of("machine = 'this'", &[]).unwrap().other_machine(), None);
    }

    #[test]
    fn an_engine_is_not_given_what_it_has_no_option_for() {
        let config = of("release = '2026-08'\ngpu-overhead = '1GiB'\nfit-target = 2048", &[]).unwrap();
        let filled = |engine: EngineId| {
            let mut settings = Settings::default();
            let notes = config.apply(&mut settings, engine);
            (settings.release.is_some(), settings.gpu_overhead, settings.fit_target, notes.len())
        };
        assert_eq!(filled(EngineId::Ollama024), (false, Bytes::gib(1), None, 1));
        assert_eq!(filled(EngineId::LlamaCpp), (true, Bytes::ZERO, Some(Bytes::gib(2)), 1));
        let mut settings = Settings::default();
        settings.give(Flag::GpuOverhead, "0", Source::Variable("OLLAMA_GPU_OVERHEAD")).unwrap();
        assert!(config.apply(&mut settings, EngineId::Ollama024).is_empty());
    }
}
