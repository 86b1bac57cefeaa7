//! Exports of a plan: configuration for Ollama and llama-server that reproduces it, and the plan as JSON, Markdown and
//! SVG. Answers are exported as JSON, CSV and SVG.
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

pub mod check;
mod container;
pub(crate) mod csv;
mod head;
pub mod json;
pub mod llama_server;
pub mod markdown;
mod mlx;
pub mod ollama;
pub mod sample;
pub mod scenario;
pub mod several;
pub mod svg;

use std::fmt;
use std::str::FromStr;

use crate::catalogue::{self, Place};
use crate::engine::{EngineId, PlanRequest};
use crate::named::named;
use crate::plan::Plan;
use crate::settings::knob::Knob;
use crate::text::one_line;

pub use head::{AnswerSource, Head, ModelSource, PlanSource};
pub(crate) use json::PlanRecord;
pub(crate) use json::record;
pub use json::{Besides, json, json_with};
pub use scenario::Scenario;
pub use several::SetFormat;

/// What is exported: a plan, its request, and where the model is found.
#[derive(Clone, Copy, Debug)]
pub struct ExportInput<'a> {
    /// Engine, model, machine and knobs.
    pub request: &'a PlanRequest,
    /// The plan for the request.
    pub plan: &'a Plan,
    /// Where Ollama or llama-server finds the model.
    pub location: &'a ModelLocation,
    /// A llama-server command without the options that make no difference, even if the user set them.
    pub minimal: bool,
    /// A llama-server command with what the fit decided, so that it decides the same whatever is free.
    pub pinned: bool,
    /// How the plan is reopened; none for what request and location say.
    pub scenario: Option<&'a Scenario>,
}

/// Where Ollama or llama-server finds a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelLocation {
    /// A file.
    File(String),
    /// A name in Ollama's store or registry: `llama3.1:8b`.
    Ollama(String),
    /// A repository on Hugging Face, optionally with a quantisation: `owner/repo:Q4_K_M`.
    HuggingFace(String),
    /// The URL of a file.
    Url(String),
    /// Not known; the model's name.
    Unknown(String),
}

impl ModelLocation {
    /// This location of a model that was `opened` by this reference: a plain name may be one of the catalogue, which no
    /// other program knows.
    #[must_use]
    pub fn of_opened(self, opened: Option<&str>) -> Self {
        match (self, opened) {
            (Self::Ollama(_), Some(opened)) if opened.starts_with("catalogue:") => Self::by_reference(opened),
            (known, _) => known,
        }
    }

    /// Of a model that no other program knows by this name, as it is one of the catalogue's: where it can be had in the
    /// quantisation that is planned, if such a place is known.
    fn published(&self, of: &PlanRequest) -> Option<Self> {
        let Self::Unknown(_) = self else { return None };
        let entry = catalogue::find(of.opened.entry.as_deref()?)?;
        Some(match entry.place(of.model.file_type.as_ref()?)? {
            Place::Ollama { tag } => Self::Ollama(tag),
            Place::HuggingFace { repository, file } => Self::HuggingFace(format!("{repository}:{file}")),
        })
    }

    /// The location for a model reference that is not a local file.
    pub fn by_reference(reference: &str) -> Self {
        let after = |starts: &[&str]| starts.iter().find_map(|start| reference.strip_prefix(start));
        if let Some(entry) = after(&["catalogue:"]) {
            return Self::Unknown(entry.to_owned());
        }
        if let Some(name) = after(&["ollama://"]) {
            return Self::Ollama(name.to_owned());
        }
        let repository = after(&["hf://", "hf.co/", "huggingface.co/", "https://huggingface.co/", "https://hf.co/"]);
        match repository.map(|path| path.trim_end_matches('/')) {
            Some(path) if path.split('/').count() == 2 => Self::HuggingFace(path.to_owned()),
            _ if after(&["http://", "https://"]).is_some() => Self::Url(reference.to_owned()),
            Some(path) => Self::Unknown(path.to_owned()),
            None if reference.to_ascii_lowercase().ends_with(".gguf") || reference.starts_with(['/', '.', '~']) => {
                Self::File(reference.to_owned())
            }
            None => Self::Ollama(reference.to_owned()),
        }
    }
}

named! {
    /// An export format, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ExportFormat {
        /// A Modelfile for `ollama create`.
        Modelfile = "modelfile",
        /// The `options` of a request to Ollama, as JSON.
        Options = "options",
        /// Variables of the Ollama server, as lines for a shell.
        Environment = "env",
        /// Variables of the Ollama server, as a systemd drop-in.
        Systemd = "systemd",
        /// A command that starts llama-server.
        LlamaServer = "llama-server",
        /// The command with which Ollama itself starts llama-server.
        OllamaStart = "ollama-start",
        /// A service of compose, with the RAM that it is given.
        Compose = "compose",
        /// A deployment of Kubernetes, likewise.
        Kubernetes = "k8s",
        /// The command of this program that plans the same.
        Plimsoll = "plimsoll",
        /// A file of the same options, which this program reopens.
        Scenario = "scenario",
        /// The plan as JSON.
        Json = "json",
        /// The plan as a table.
        Markdown = "markdown",
        /// The plan as a picture.
        Svg = "svg",
        /// The model's header as a GGUF file without weights, which is no text.
        GgufHeader = "gguf-header",
    }
}

impl ExportFormat {
    /// Its title, its file name and its purpose.
    const fn facts(self) -> [&'static str; 3] {
        match self {
            Self::Modelfile => ["Modelfile", "Modelfile", "for 'ollama create NAME -f Modelfile'"],
            Self::Options => ["API options", "options.json", "the options of an Ollama API request"],
            Self::Environment => ["Ollama environment", "ollama.env.sh", "for the shell that runs 'ollama serve'"],
            Self::Systemd => [
                "systemd drop-in",
                "plimsoll.conf",
                "for Ollama run by systemd: /etc/systemd/system/ollama.service.d/plimsoll.conf",
            ],
            Self::LlamaServer => ["llama-server", "llama-server.sh", "for a llama-server of your own: the same plan"],
            Self::OllamaStart => {
                ["Ollama's start", "ollama-start.sh", "how Ollama itself starts llama-server for this plan"]
            }
            Self::Compose => ["Compose", "compose.yaml", "for 'docker compose up': limits of RAM with their sums"],
            Self::Kubernetes => ["Kubernetes", "deployment.yaml", "for 'kubectl apply': limits of RAM with their sums"],
            Self::Plimsoll => ["plimsoll plan", "plimsoll.sh", "the plimsoll command that prints the same plan"],
            Self::Scenario => ["Scenario", "plan.toml", "the plan as a file: 'plimsoll plan.toml' opens it again"],
            Self::Json => ["JSON", "plan.json", "the complete plan, for scripts"],
            Self::Markdown => ["Markdown", "plan.md", "the plan as a table, for notes and reports"],
            Self::Svg => ["SVG", "plan.svg", "the plan as a picture"],
            Self::GgufHeader => ["GGUF header", "header.gguf", "the model's header as a sparse file, for other tools"],
        }
    }

    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        self.facts()[0]
    }

    /// Its default file name.
    pub const fn file_name(self) -> &'static str {
        self.facts()[1]
    }

    /// Its purpose, in a few words.
    pub const fn purpose(self) -> &'static str {
        self.facts()[2]
    }

    /// Whether it can set what a fit decides.
    pub const fn can_be_pinned(self) -> bool {
        matches!(self, Self::LlamaServer)
    }

    /// The texts for plans of `engine`: Modelfile, options and variables are only for Ollama.
    pub fn of(engine: EngineId) -> Vec<Self> {
        let for_ollama = [Self::Modelfile, Self::Options, Self::Environment, Self::Systemd];
        let is_ollama = engine.facts().is_ollama;
        let starts = engine.facts().starts_llama_server;
        let is_of = |format: &Self| match format {
            // no text
            Self::GgufHeader => false,
            Self::OllamaStart => starts,
            other => is_ollama || !for_ollama.contains(other),
        };
        Self::ALL.into_iter().filter(is_of).collect()
    }

    /// Writes `input` in this format, with a final line break.
    ///
    /// # Errors
    /// One sentence, if the format is not for this engine or llama-server cannot run the plan.
    pub fn write(self, input: &ExportInput<'_>) -> Result<String, String> {
        let engine = input.plan.engine;
        if !Self::of(engine).contains(&self) {
            let others: Vec<_> = Self::of(engine).into_iter().map(Self::name).collect();
            return Err(format!("{engine} has no {self}: use one of {}", others.join(", ")));
        }
        let published = input.location.published(input.request);
        let last = self.how_to_have(input, published.as_ref()).map_or_else(String::new, |line| comment(&line));
        let found = ExportInput { location: published.as_ref().unwrap_or(input.location), ..*input };
        if input.request.model.mlx.is_some() && matches!(self, Self::LlamaServer | Self::Compose | Self::Kubernetes) {
            return if self == Self::LlamaServer { mlx::command(input) } else { Err(mlx::NO_CONTAINER.to_owned()) };
        }
        let caption = || Caption::of(input.request, input.plan);
        let scenario = || match input.scenario {
            Some(known) => known.clone(),
            None => Scenario::of(input.request, scenario::reference(input.location).as_deref()),
        };
        Ok(match self {
            Self::Modelfile => ollama::modelfile(&found)?,
            Self::Options => ollama::options_json(input),
            Self::Environment => ollama::shell(input)?,
            Self::Systemd => ollama::systemd(input)?,
            Self::LlamaServer => llama_server::command(&found)?,
            Self::OllamaStart => llama_server::by_ollama(&found)?,
            Self::Compose => container::compose(&found)?,
            Self::Kubernetes => container::kubernetes(&found)?,
            Self::Plimsoll => scenario().command()?,
            Self::Scenario => scenario().toml(),
            Self::Json => {
                json(input.plan).map_err(|error| format!("the plan cannot be written as JSON: {error}"))? + "\n"
            }
            Self::Markdown => markdown::plan(input.plan, &caption()),
            Self::Svg => svg::plan(input.plan, &caption()),
            Self::GgufHeader => return Err("it is no text: name a new file with --output".to_owned()),
        } + &last)
    }

    /// The last line of what starts a model of the catalogue: how to have its file; none where the text itself fetches it, or is
    /// no start.
    fn how_to_have(self, input: &ExportInput<'_>, published: Option<&ModelLocation>) -> Option<String> {
        let is_by_ollama = matches!(self, Self::Modelfile | Self::Environment | Self::Systemd | Self::OllamaStart);
        let is_by_server = matches!(self, Self::LlamaServer | Self::Compose | Self::Kubernetes);
        let is_of_catalogue =
            input.request.opened.entry.is_some() && matches!(input.location, ModelLocation::Unknown(_));
        match published {
            Some(ModelLocation::Ollama(tag)) if is_by_ollama => Some(format!("to have the model: ollama pull {tag}")),
            Some(ModelLocation::Ollama(tag)) if is_by_server => {
                Some(format!("to have the model: ollama pull {tag}; where its file is: ollama show --modelfile {tag}"))
            }
            Some(ModelLocation::HuggingFace(name)) if is_by_ollama => {
                Some(format!("to have the model: ollama pull hf.co/{name}"))
            }
            None if is_of_catalogue && (is_by_ollama || is_by_server) => {
                Some("no place is known that has the model in this quantisation".to_owned())
            }
            _ => None,
        }
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("unknown export format '{text}': use one of {}", names.join(", "))
        })
    }
}

/// What a picture or a handout is about, without which nobody could tell later what its figures hold for: model,
/// quantisation, engine, release, machine, knobs, and where the header is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// `Llama 3.1 8B · Q4_K_M · llama.cpp, release 2026-11 · RTX 4090, 64.0 GiB of RAM`
    pub subject: String,
    /// `context 8 192 · parallel 1 · …`, as in effect.
    pub knobs: String,
    /// `plimsoll 0.2.0 · catalogue of 2026-11-22`
    pub source: String,
}

impl Caption {
    /// The caption of `plan`, the plan of `request`.
    pub fn of(request: &PlanRequest, plan: &Plan) -> Self {
        let model = [Some(plan.model.name.clone()), plan.model.file_type.clone()].into_iter().flatten();
        let subject = model.chain([plan.engine_title(), request.machine.to_string()]);
        let said = |knob: &Knob| !knob.is_of_a_turn() || plan.settings.turn.is_some();
        let knobs = request.knobs().into_iter().filter(said);
        let knobs = knobs.map(|knob| format!("{} {}", knob.title(), knob.shown_in(plan)));
        let program = concat!("plimsoll ", env!("CARGO_PKG_VERSION")).to_owned();
        let source = std::iter::once(program).chain(request.model.dated.as_deref().map(str::to_owned));
        Self { subject: joined(subject), knobs: joined(knobs), source: joined(source) }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" · ")
}

impl fmt::Display for Caption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, knobs, source } = self;
        write!(f, "{subject} · {knobs} · {source}")
    }
}

/// `text` as a comment of one line for a shell.
fn comment(text: &str) -> String {
    format!("# {}\n", one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_by_reference() {
        let location = ModelLocation::by_reference;
        assert_eq!(location("llama3.1:8b"), ModelLocation::Ollama("llama3.1:8b".into()));
        assert_eq!(location("ollama://me/mine"), ModelLocation::Ollama("me/mine".into()));
        assert_eq!(location("hf://a/b:Q8_0"), ModelLocation::HuggingFace("a/b:Q8_0".into()));
        assert_eq!(location("https://huggingface.co/a/b/"), ModelLocation::HuggingFace("a/b".into()));
        let file = "https://huggingface.co/a/b/resolve/main/c.gguf";
        assert_eq!(location(file), ModelLocation::Url(file.into()));
        assert_eq!(location("models/a.gguf"), ModelLocation::File("models/a.gguf".into()));
        assert_eq!(location("catalogue:qwen3-8b@q8_0"), ModelLocation::Unknown("qwen3-8b@q8_0".into()));
    }

    #[test]
    fn line_breaks_cannot_end_a_comment() {
        assert_eq!(comment("a\nrm b"), "# a rm b\n");
    }
}
