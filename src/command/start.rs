//! One server that is started: its model, its settings, and what is to be said of its other options.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;

use super::dialect::Dialect;
use super::limit;
use super::others::OtherOptions;
use super::shell::{Variables, Word, assignment};
use super::spent;
use crate::budget::{Budget, Spend};
use crate::engine::EngineId;
use crate::machine::spec::RamLimit;
use crate::settings::flag::Takes;
use crate::settings::ollama::{apply_variables, is_inherited};
use crate::settings::written::is_on;
use crate::settings::{Flag, GivenOption, LlamaProgram, ProgramDefaults, ServerOption, Settings, Source};

/// Bytes of the values that an option has together, where each adds to those before it.
const MOST_LISTED: usize = 64 << 10;
/// Unknown options for which a known one is suggested.
const MOST_SUGGESTED: usize = 3;

/// A server that is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// What a file calls it, or else what its model is called; no two of one text have the same.
    pub name: String,
    /// The engine that plans it.
    pub engine: EngineId,
    /// The model: a file, an address or a name.
    pub model: Option<String>,
    /// It has no projector unless it is told one.
    pub has_no_projector: bool,
    /// Variables of Ollama's server.
    pub server_env: Vec<(String, String)>,
    /// Variables that are no options.
    pub variables: Vec<(String, String)>,
    /// What its program sets by itself.
    pub defaults: Option<&'static ProgramDefaults>,
    /// Switches that it turns off.
    pub declined: Vec<Flag>,
    /// The most RAM that it may use.
    pub ram_limit: Option<RamLimit>,
    program: Option<LlamaProgram>,
    set: Vec<(Flag, String)>,
    others: OtherOptions,
    /// What of it is not read.
    said: Vec<String>,
    /// The variable that names the model, which the text does not set.
    unset_model: Option<String>,
}

impl Start {
    fn of(dialect: Dialect) -> Self {
        let program = match dialect {
            Dialect::LlamaCpp(program) => Some(program),
            Dialect::KoboldCpp | Dialect::LlamaCppPython => Some(LlamaProgram::Server),
            Dialect::Ollama => None,
        };
        Self {
            name: String::new(),
            engine: if dialect == Dialect::Ollama { EngineId::Ollama } else { EngineId::LlamaCpp },
            model: None,
            has_no_projector: false,
            server_env: Vec::new(),
            variables: Vec::new(),
            defaults: dialect.of_defaults().and_then(ProgramDefaults::newest),
            declined: Vec::new(),
            ram_limit: None,
            program,
            set: Vec::new(),
            others: OtherOptions::default(),
            said: Vec::new(),
            unset_model: None,
        }
    }

    /// Reads a command whose arguments begin at `at`; `variables` are those of its text.
    ///
    /// # Errors
    /// One sentence if an option has a value that its program refuses.
    pub(super) fn read(
        dialect: Dialect,
        words: &[Word],
        at: usize,
        variables: &Variables,
        budget: &Budget,
    ) -> Result<Self, String> {
        budget.take(Spend::Words, variables.len() as u64).map_err(spent)?;
        let mut start = Self::of(dialect);
        for (name, value) in variables {
            start.variable(name, value)?;
        }
        let (before, arguments) = words.split_at(at.min(words.len()));
        start.ram_limit = limit::of_words(before);
        for word in before {
            let text = &word.text;
            let text = text.strip_prefix("--env=").or_else(|| text.strip_prefix("-e")).unwrap_or(text);
            if let Some((name, value)) = assignment(text).filter(|_| word.unset.is_none()) {
                start.variable(name, value)?;
            }
        }
        if dialect == Dialect::Ollama {
            start.of_ollama(arguments);
        } else {
            start.arguments(dialect, arguments)?;
        }
        Ok(start)
    }

    /// Starts llama-server with options by name, as presets have them.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn of_options(options: &[(String, String)]) -> Result<Self, String> {
        let mut start = Self::of(Dialect::LlamaCpp(LlamaProgram::Server));
        for (key, value) in options {
            let names = [format!("--{key}"), format!("-{key}")];
            let named = names.iter().find_map(|name| ServerOption::named(name)).map(|option| (option, value.clone()));
            let Some((option, value)) = named.or_else(|| ServerOption::of_variable(key, value)) else {
                start.unknown(&names[0]);
                continue;
            };
            match option {
                ServerOption::TakesBack(_) if !is_on(&value) => {}
                _ => start.option(GivenOption { option, name: key.clone(), value: Some(value.into()) })?,
            }
        }
        start.finish();
        Ok(start)
    }

    /// `run MODEL`, with options that change no memory.
    fn of_ollama(&mut self, arguments: &[Word]) {
        let is_run = arguments.first().is_some_and(|word| word.text == "run");
        let mut plain = arguments.iter().skip(1).filter(|word| !word.text.starts_with('-'));
        let Some(model) = plain.next().filter(|_| is_run) else { return };
        match &model.unset {
            Some(name) => self.unset_model = Some(name.clone()),
            None => self.model = Some(model.text.clone()),
        }
    }

    fn arguments(&mut self, dialect: Dialect, arguments: &[Word]) -> Result<(), String> {
        let is_value = |word: &&Word| {
            let text = &word.text;
            !text.starts_with('-') || text.len() > 1 && text[1..].starts_with(|c: char| c.is_ascii_digit() || c == '.')
        };
        let mut texts: VecDeque<OsString> = VecDeque::new();
        let mut rest = arguments.iter().peekable();
        while let Some(word) = rest.next() {
            let (name, attached) = word.text.split_once('=').unwrap_or((&word.text, ""));
            let value = Some(attached).filter(|value| !value.is_empty());
            let value = value.or_else(|| rest.peek().filter(|next| is_value(next)).map(|next| next.text.as_str()));
            match dialect.translated(name, value) {
                Some([name, value]) => {
                    if attached.is_empty() {
                        let _ = rest.next_if(|next| is_value(next));
                    }
                    // a switch has its value attached
                    let takes = Flag::named(&name[2..]).map(|flag| flag.row().takes);
                    let is_switch = matches!(takes, Some(Takes::Nothing | Takes::Truth(_)));
                    if is_switch {
                        texts.push_back(format!("{name}={value}").into());
                    } else {
                        texts.extend([name.into(), OsString::from(value)]);
                    }
                }
                None => texts.push_back(word.text.clone().into()),
            }
        }
        let words = arguments.iter().filter_map(|word| Some((word.text.as_str(), word.unset.as_ref()?)));
        let unset: HashMap<&str, &String> = words.collect();
        while let Some(front) = texts.front() {
            let word = front.to_string_lossy().into_owned();
            if word == "-" {
                texts.pop_front();
                continue;
            }
            let Some(given) = GivenOption::take(&mut texts) else {
                texts.pop_front();
                if word.starts_with('-') {
                    self.unknown(word.split('=').next().unwrap_or(&word));
                    // what follows belongs to it
                    while texts.front().is_some_and(|next| !next.to_string_lossy().starts_with('-')) {
                        texts.pop_front();
                    }
                } else {
                    match unset.get(word.as_str()) {
                        Some(name) => self.said.push(format!("'{word}' is not read: {name} is not set in it")),
                        None => self.others.strays.push(format!("'{word}'")),
                    }
                }
                continue;
            };
            if given.lacks_value() {
                return Err(format!("no value follows '{}'", given.name));
            }
            let value = given.value.as_ref().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default();
            match unset.get(value.as_str()).filter(|_| given.has_effect()) {
                Some(name) if given.names_model() => self.unset_model = Some((*name).clone()),
                Some(_) => {
                    self.said.push(format!("{} is not planned: its value {value} is not set in it", given.name));
                }
                None => self.option(given)?,
            }
        }
        self.finish();
        Ok(())
    }

    /// The model that the options name.
    fn finish(&mut self) {
        self.model = self.others.model().map(|model| model.to_string_lossy().into_owned());
        // without a repository, llama-server looks for no projector
        self.has_no_projector = self.others.file.is_some() || self.others.repository.is_none();
    }

    fn unknown(&mut self, name: &str) {
        // in a text that has many, the first say enough
        let near = if self.others.unknown.len() < MOST_SUGGESTED { ServerOption::nearest(name) } else { None };
        let near = near.map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"));
        self.others.unknown.push(format!("{name}{near}"));
    }

    /// Takes in a variable in front of the command, or of its text.
    fn variable(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.program.is_none() {
            if name.starts_with("OLLAMA_") || is_inherited(name) {
                self.server_env.push((name.to_owned(), value.to_owned()));
                return Ok(());
            }
        } else if let Some((option, value)) = ServerOption::of_variable(name, value) {
            return self.option(GivenOption { option, name: name.to_owned(), value: Some(value.into()) });
        }
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            self.variables.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    fn option(&mut self, given: GivenOption) -> Result<(), String> {
        let GivenOption { option, name, value } = given;
        let set = match option {
            ServerOption::Sets(flag) => Some((flag, value)),
            ServerOption::TakesBack(flag) => {
                self.set.retain(|(other, _)| *other != flag);
                self.declined.push(flag);
                None
            }
            ServerOption::Listed(listed) => self.others.take(listed.kind, name.clone(), value),
        };
        let Some((flag, value)) = set else { return Ok(()) };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let value = match (flag.row().takes, value) {
            (_, None) => "true".to_owned(),
            // the default of llama.cpp, or for all layers
            (Takes::Number(_), Some(text)) if text == "-1" && flag != Flag::CacheRam => {
                self.set.retain(|(other, _)| *other != flag);
                return Ok(());
            }
            (Takes::Number(_), Some(text)) if flag == Flag::GpuLayers && text.starts_with('-') => "all".to_owned(),
            (Takes::Number(_), Some(text)) if text.ends_with(['k', 'K']) => {
                return Err(format!(
                    "llama-server reads {name} '{text}' without its last letter: write the whole number"
                ));
            }
            // each adds to those before it
            (Takes::List(_), Some(text)) => match self.set.iter().find(|(other, _)| *other == flag) {
                Some((_, before)) if before.len() + text.len() > MOST_LISTED => {
                    return Err(format!(
                        "{name} has more than {} KiB of values in all: leave some out",
                        MOST_LISTED >> 10
                    ));
                }
                Some((_, before)) => format!("{before},{text}"),
                None => text,
            },
            (_, Some(text)) => text,
        };
        self.set.retain(|(other, _)| *other != flag);
        self.declined.retain(|other| *other != flag);
        if flag.row().takes != Takes::Nothing || is_on(&value) {
            self.set.push((flag, value));
        } else {
            self.declined.push(flag);
        }
        Ok(())
    }

    /// The options that it sets, with their values.
    pub fn options(&self) -> Vec<(Flag, String)> {
        let program = self.program.map(|program| (Flag::Program, program.name().to_owned()));
        program.into_iter().chain(self.set.iter().cloned()).collect()
    }

    /// The settings that it has; files are for the caller to open.
    ///
    /// # Errors
    /// One sentence on the first value that is not accepted.
    pub fn settings(&self) -> Result<Settings, String> {
        let mut settings = Settings::default();
        self.declined.iter().for_each(|flag| settings.turn_off(*flag, Source::Command));
        for (flag, text) in self.defaults.iter().flat_map(|defaults| defaults.options()) {
            settings.give(*flag, text, Source::Program)?;
        }
        for (flag, text) in self.options() {
            let given = settings.give(flag, &text, Source::Command);
            given.map_err(|sentence| format!("--{}: {sentence}", flag.name()))?;
        }
        if self.program.is_none() {
            apply_variables(&mut settings, &self.server_env, true);
        }
        settings.forget(&Flag::OF_PROJECTOR);
        Ok(settings)
    }

    /// Adds a sentence without its full stop.
    pub fn say(&mut self, sentence: String) {
        self.said.push(sentence);
    }

    /// The file that an option names: a projector's, a draft's.
    pub fn file(&self, flag: Flag) -> Option<&str> {
        self.set.iter().find(|(other, _)| *other == flag).map(|(_, text)| text.as_str())
    }

    /// A sentence for each kind of option that sets nothing, without its full stop.
    pub fn remarks(&self, has_context: bool) -> Vec<String> {
        self.said.iter().cloned().chain(self.others.clone().remarks(has_context, true)).collect()
    }

    /// Why there is no model, without a full stop.
    pub fn without_model(&self) -> String {
        match &self.unset_model {
            Some(name) => format!("its model is in the variable {name}, which it does not set"),
            None if self.program.is_none() => "it names no model by 'ollama run'".to_owned(),
            None => "it names no model by -m or -hf".to_owned(),
        }
    }
}

impl GivenOption {
    fn has_effect(&self) -> bool {
        use crate::settings::ListedKind::NoEffect;
        !matches!(self.option, ServerOption::Listed(listed) if listed.kind == NoEffect)
    }

    fn names_model(&self) -> bool {
        use crate::settings::ListedKind::{Model, Repository, UnreadModel};
        matches!(self.option, ServerOption::Listed(listed) if [Model, Repository, UnreadModel].contains(&listed.kind))
    }
}

/// Gives those without a name that of their model, and each another.
pub(super) fn named(all: &mut [Start]) {
    for at in 0..all.len() {
        if all[at].name.is_empty() {
            let model = all[at].model.as_deref().unwrap_or("server");
            let base = model.rsplit(['/', '\\']).next().unwrap_or(model);
            let name = base.strip_suffix(".gguf").unwrap_or(base).to_owned();
            all[at].name = name;
        }
        let plain = all[at].name.clone();
        let mut number = 1;
        while all[..at].iter().any(|other| other.name == all[at].name) {
            number += 1;
            all[at].name = format!("{plain} ({number})");
        }
    }
}

/// The names of what is started.
pub fn names(all: &[Start]) -> String {
    all.iter().map(|start| format!("'{}'", start.name)).collect::<Vec<_>>().join(", ")
}
