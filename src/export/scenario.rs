//! A plan as it is asked for, so that it can be reopened: the command of this program, and a file of the same options.
//!
//! The file is TOML. Its keys are the names of options without dashes; `[machine]` has those of the machine, `[knobs]` the
//! others, and each of `[[pins]]` is a plan that was pinned beside it. `crate::cli` reads it.

use toml::Value;

use super::{ModelLocation, comment};
use crate::engine::{EngineVersion, PlanRequest};
use crate::model::CATALOGUE;
use crate::settings::Flag;
use crate::settings::flag::Takes;
use crate::text::{exact, in_quotes, is_printable, one_line, shell_word, without_secrets};

/// A plan as it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What it is about, in the user's words.
    pub note: Option<String>,
    /// The model as it is opened; none for the built-in one.
    pub model: Option<String>,
    /// The engine's name.
    pub engine: String,
    /// The options of the machine.
    pub machine: Vec<NamedValues>,
    /// All other options.
    pub knobs: Vec<NamedValues>,
    /// Plans that were pinned beside it; an empty machine is that of the scenario.
    pub pins: Vec<Scenario>,
    /// What no option says, a sentence each without its full stop.
    pub lost: Vec<String>,
}

/// An option's name without dashes, and its values: one for each time that it is given, none for a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValues {
    /// The name.
    pub name: &'static str,
    /// The values.
    pub values: Vec<String>,
}

impl NamedValues {
    fn of((name, values): (&'static str, Vec<String>)) -> Self {
        Self { name, values }
    }

    fn without_secrets(&self) -> Self {
        Self { name: self.name, values: self.values.iter().map(|value| without_secrets(value)).collect() }
    }

    fn one(name: &'static str, value: &str) -> Self {
        Self { name, values: vec![value.to_owned()] }
    }
}

impl Scenario {
    /// What `request` asks, for a model that is opened by this reference.
    pub fn of(request: &PlanRequest, model: Option<&str>) -> Self {
        let PlanRequest { engine, machine, settings, .. } = request;
        let version = EngineVersion::of(*engine, settings);
        let mut knobs: Vec<NamedValues> = Vec::new();
        if engine.facts().is_ollama && engine.takes(settings.ollama.version).is_ok() {
            let version = settings.ollama.version;
            knobs.push(NamedValues::one("ollama", &format!("0.{}.{}", version.minor, version.patch)));
        }
        // a release that is the default today may not be so tomorrow
        let mut asked = settings.clone();
        if asked.release.is_none() && !engine.facts().is_ollama {
            asked.release = version.release;
        }
        for &flag in Flag::ALL {
            let said_otherwise = flag == Flag::Context && asked.ollama.ctx_is_given;
            let Some(typed) = flag.typed(&asked).filter(|_| !said_otherwise) else { continue };
            let is_switch = flag.row().takes == Takes::Nothing;
            knobs.push(NamedValues::of((flag.name(), if is_switch { Vec::new() } else { vec![typed] })));
        }
        let mut lost = Vec::new();
        match &settings.projector {
            None => knobs.push(NamedValues::of((Flag::NoMmproj.name(), Vec::new()))),
            Some(projector) if projector.is_file() || projector.file.starts_with(CATALOGUE) => {
                knobs.push(NamedValues::one(Flag::Mmproj.name(), &projector.file));
            }
            Some(_) => {}
        }
        if let Some(draft) = request.opened.draft() {
            knobs.push(NamedValues::one(Flag::ModelDraft.name(), &draft.file));
        }
        let ollama = &settings.ollama;
        let listed = |name, values: Vec<String>| (!values.is_empty()).then_some(NamedValues { name, values });
        knobs.extend(listed("option", ollama.typed_options()));
        let (variables, hidden) = ollama.server.typed();
        knobs.extend(listed("server-env", variables));
        knobs.extend(ollama.endpoint.typed().map(|endpoint| NamedValues::one("endpoint", endpoint)));
        knobs.extend(ollama.shift.map(|shift| NamedValues::one("shift", &shift.to_string())));
        knobs.extend(ollama.go_template.then_some(NamedValues { name: "go-template", values: Vec::new() }));
        lost.extend(hidden.iter().map(|name| format!("the value of {name} is not written here")));
        if ollama.adapters > 0 || ollama.draft.is_some() {
            lost.push("adapters and drafts of a Modelfile are given by --modelfile".to_owned());
        }
        if settings.pipeline_refused.is_some() || settings.unread_inputs.is_some() {
            lost.push("what a log showed of the start that is compared has no option".to_owned());
        }
        Self {
            note: None,
            model: model.map(str::to_owned),
            engine: engine.to_string(),
            machine: machine.options().into_iter().map(NamedValues::of).collect(),
            knobs,
            pins: Vec::new(),
            lost,
        }
    }

    /// The arguments behind the program's name and `plan`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = self.model.iter().cloned().collect();
        words.extend(["--engine".to_owned(), self.engine.clone()]);
        for NamedValues { name, values } in self.knobs.iter().chain(&self.machine) {
            let name = format!("--{name}");
            let needs_equals = |value: &String| {
                let takes = Flag::named(&name[2..]).map(|flag| flag.row().takes);
                value.starts_with('-') || matches!(takes, Some(Takes::Truth(_)))
            };
            if values.is_empty() {
                words.push(name.clone());
            }
            for value in values {
                if needs_equals(value) {
                    words.push(format!("{name}={value}"));
                } else {
                    words.extend([name.clone(), value.clone()]);
                }
            }
        }
        words
    }

    /// The command that prints the plan, preceded by comments.
    ///
    /// # Errors
    /// One sentence, if a path would become another one.
    pub fn command(&self) -> Result<String, String> {
        let mut text = self.lost.iter().map(|lost| comment(lost)).collect::<String>();
        text += "plimsoll plan";
        if self.model.is_none() {
            text = comment("put the model behind 'plan'") + &text;
        }
        for word in self.arguments() {
            // an option begins a line
            text += if word.starts_with("--") { " \\\n  " } else { " " };
            text += &shell_word(exact(&word)?);
        }
        Ok(text + "\n")
    }

    /// The command that opens the planner on the plan, with `more` options, in one line; pinned plans are not in it.
    pub fn opening(&self, more: &[String]) -> String {
        let words = self.arguments().into_iter().chain(more.iter().cloned());
        words.fold("plimsoll".to_owned(), |line, word| line + " " + &shell_word(&word))
    }

    /// The same without what may be secret in the addresses of its models.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let one = |scenario: &Self| Self {
            model: scenario.model.as_deref().map(without_secrets),
            knobs: scenario.knobs.iter().map(NamedValues::without_secrets).collect(),
            ..scenario.clone()
        };
        Self { pins: self.pins.iter().map(one).collect(), ..one(self) }
    }

    /// The file.
    pub fn toml(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text =
            comment(&format!("a plan of plimsoll {version}: 'plimsoll FILE' opens it, 'plimsoll plan FILE' prints it"));
        self.lost.iter().for_each(|lost| text += &comment(lost));
        self.tables("", &mut text);
        for pin in &self.pins {
            text += "\n[[pins]]\n";
            pin.tables("pins.", &mut text);
        }
        text
    }

    fn tables(&self, within: &str, text: &mut String) {
        let mut put = |name: &str, value: String| *text += &format!("{name} = {value}\n");
        if let Some(note) = &self.note {
            put("note", text_value(&one_line(note)));
        }
        if let Some(model) = &self.model {
            put("model", text_value(model));
        }
        put("engine", text_value(&self.engine));
        for (table, options) in [("machine", &self.machine), ("knobs", &self.knobs)] {
            if options.is_empty() {
                continue;
            }
            *text += &format!("\n[{within}{table}]\n");
            for NamedValues { name, values } in options {
                *text += &format!("{name} = {}\n", value(name, values));
            }
        }
    }
}

/// One value as it is, several as a list; a switch is true.
fn value(name: &str, values: &[String]) -> String {
    let one = |text: &String| match text.parse::<i64>() {
        Ok(number) if number.to_string() == *text => number.to_string(),
        _ => text.parse::<bool>().map_or_else(|_| text_value(text), |truth| truth.to_string()),
    };
    let is_listed = ["gpu", "option", "server-env"].contains(&name);
    match values {
        [] => true.to_string(),
        [single] if !is_listed => one(single),
        several => format!("[{}]", several.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// A text; one with what is not printable has it written out (TOML 1.0, basic strings).
fn text_value(text: &str) -> String {
    if text.chars().all(is_printable) {
        return Value::from(text).to_string();
    }
    in_quotes(text)
}

/// The reference by which a model at `location` is opened again; none where that is not known.
pub fn reference(location: &ModelLocation) -> Option<String> {
    match location {
        ModelLocation::File(path) => Some(path.clone()),
        ModelLocation::Url(name) => Some(name.clone()),
        ModelLocation::Ollama(name) => Some(format!("ollama://{name}")),
        ModelLocation::HuggingFace(name) => Some(format!("hf://{name}")),
        ModelLocation::Unknown(_) => None,
    }
}
