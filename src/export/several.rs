//! Files that start several models on one machine: presets of llama-server's router, llama-swap's configuration, and
//! variables of the Ollama server.

use super::ollama::{self, Variable};
use super::{ExportInput, ModelLocation, llama_server};
use crate::answer::together::sets::ResidentSets;
use crate::answer::together::{LoadRequest, ServedModels};
use crate::command::Router;
use crate::command::router::MODELS_MAX;
use crate::engine::PlanRequest;
use crate::named::named;
use crate::plan::Plan;
use crate::text::{exact, in_quotes, shell_word};

named! {
    /// A file that starts several models, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SetFormat {
        /// Presets of llama-server's router.
        Presets = "presets",
        /// llama-swap's configuration.
        LlamaSwap = "llama-swap",
        /// Variables of the Ollama server, as lines for a shell.
        Environment = "env",
    }
}

/// One of several models.
#[derive(Clone, Debug)]
pub struct NamedModel {
    /// What the user calls it.
    pub name: String,
    /// What is asked of it, on the whole machine.
    pub request: PlanRequest,
    /// Where it is found.
    pub location: ModelLocation,
}

/// The same as a file has it.
struct Member<'a> {
    /// Letters, digits, dashes and dots.
    name: String,
    /// Its plan as it is loaded beside the others.
    input: ExportInput<'a>,
}

/// Names for files that start `models`: of each what stands behind the last slash, no two the same.
fn names(models: &[NamedModel]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(models.len());
    for NamedModel { name: model, .. } in models {
        let base = model.rsplit(['/', '\\']).next().unwrap_or(model);
        let base = base.strip_suffix(".gguf").unwrap_or(base);
        // what a file's own language means otherwise
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
        let base: String = base.chars().map(plain).collect();
        let mut name = base.clone();
        for number in 2.. {
            if !names.contains(&name) && !name.is_empty() {
                break;
            }
            name = format!("{base}-{number}");
        }
        names.push(name);
    }
    names
}

impl SetFormat {
    /// The formats for plans of an engine.
    pub fn of(is_ollama: bool) -> Vec<Self> {
        Self::ALL.into_iter().filter(|format| (*format == Self::Environment) == is_ollama).collect()
    }

    /// Its default file name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Presets => "presets.ini",
            Self::LlamaSwap => "llama-swap.yaml",
            Self::Environment => "ollama.env.sh",
        }
    }

    /// Its purpose, in a few words.
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Presets => "for 'llama-server --models-preset', which loads them on demand",
            Self::LlamaSwap => "for 'llama-swap --config', which loads them on demand",
            Self::Environment => "for the shell that runs 'ollama serve'",
        }
    }

    /// Its title on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Presets => "llama-server presets",
            Self::LlamaSwap => "llama-swap",
            Self::Environment => "Ollama environment",
        }
    }

    /// Whether it can set what a fit decides.
    pub const fn can_be_pinned(self) -> bool {
        !matches!(self, Self::Environment)
    }

    /// Writes the file for `models`, those of `served` in its order; `pinned` is as in [`ExportInput`].
    ///
    /// # Errors
    /// One sentence, if the format is not for this engine, or cannot hold what the models are to have.
    pub fn write(self, models: &[NamedModel], served: &ServedModels, pinned: bool) -> Result<String, String> {
        let is_ollama = models.first().is_some_and(|model| model.request.engine.facts().is_ollama);
        if !Self::of(is_ollama).contains(&self) {
            let others: Vec<_> = Self::of(is_ollama).into_iter().map(Self::name).collect();
            return Err(format!("{self} is not for this engine: use one of {}", others.join(", ")));
        }
        let mut planned = Vec::with_capacity(models.len());
        for (place, NamedModel { request, .. }) in models.iter().enumerate() {
            let request = request.on_machine(served.loaded.machine_for(place, &request.machine));
            let plan = request.plan().map_err(|error| error.to_string())?;
            planned.push((request, plan));
        }
        // what memory alone allows, whatever starts the servers
        let requests: Vec<LoadRequest<'_>> = models
            .iter()
            .map(|NamedModel { request, .. }| LoadRequest {
                model: &request.model,
                path: None,
                settings: &request.settings,
            })
            .collect();
        let sets = models.first().and_then(|NamedModel { request, .. }| {
            ResidentSets::of(&Router::None, request.engine, &request.machine, &requests)
        });
        let members = planned.iter().zip(models).zip(names(models));
        let members: Vec<_> = members.map(|((planned, model), name)| member(planned, model, name, pinned)).collect();
        match self {
            Self::Presets => presets(&members, &served.router, sets.as_ref()),
            Self::LlamaSwap => llama_swap(&members, sets.as_ref()),
            Self::Environment => environment(&members),
        }
    }
}

fn member<'a>(
    (request, plan): &'a (PlanRequest, Plan),
    model: &'a NamedModel,
    name: String,
    pinned: bool,
) -> Member<'a> {
    let location = &model.location;
    Member { name, input: ExportInput { request, plan, location, minimal: false, pinned, scenario: None } }
}

/// How many models llama-server's router may keep loaded: what was asked, or of which any are all in VRAM.
fn models_max(router: &Router, sets: Option<&ResidentSets>) -> usize {
    match (router, sets) {
        (Router::LlamaServer(most), _) => *most,
        (_, Some(sets)) => sets.any().max(1),
        (_, None) => MODELS_MAX,
    }
}

/// Options by their names without dashes, a section for each model (`common/preset.cpp`, in llama-cpp-python 0.3.36).
fn presets(members: &[Member<'_>], router: &Router, sets: Option<&ResidentSets>) -> Result<String, String> {
    let most = models_max(router, sets);
    let mut text = format!("; llama-server --models-preset FILE --models-max {most}\n");
    if let Some(any) = sets.map(ResidentSets::any).filter(|any| *any > 1) {
        text +=
            &format!("; any {any} of the {} are all in VRAM together; the router only counts models\n", members.len());
    }
    text += "version = 1\n";
    for Member { name, input } in members {
        let (comments, words) = words(name, input)?;
        text += &format!("\n[{name}]\n");
        for comment in comments.lines() {
            text += &format!("; {}\n", comment.trim_start_matches(['#', ' ']));
        }
        for (option, value) in options(&words) {
            let value = value.unwrap_or("true");
            if value.contains([';', '#']) {
                return Err(format!("{name}: presets cannot hold '{value}': they end a value at ';' and '#'"));
            }
            if value != value.trim() {
                return Err(format!("{name}: presets cannot hold '{value}': they leave out blanks at its ends"));
            }
            text += &format!("{} = {value}\n", option.trim_start_matches('-'));
        }
    }
    Ok(text)
}

/// As [`llama_server::command_words`]; a model whose file is not known is called by its name.
fn words(name: &str, input: &ExportInput<'_>) -> Result<(String, Vec<String>), String> {
    const UNKNOWN: &str = "model.gguf";
    let (comments, mut words) = llama_server::command_words(input)?;
    if !matches!(input.location, ModelLocation::Unknown(_) | ModelLocation::Ollama(_)) {
        return Ok((comments, words));
    }
    let file = format!("{name}.gguf");
    words.iter_mut().filter(|word| *word == UNKNOWN).for_each(|word| word.clone_from(&file));
    Ok((comments.replace(UNKNOWN, &file), words))
}

/// Each option behind the program, with its value.
fn options(words: &[String]) -> Vec<(&str, Option<&str>)> {
    let is_option = |word: &str| word.starts_with('-') && !word[1..].starts_with(|c: char| c.is_ascii_digit());
    let mut options: Vec<(&str, Option<&str>)> = Vec::new();
    for word in words.iter().skip(1).map(String::as_str) {
        match options.last_mut() {
            Some((_, value @ None)) if !is_option(word) => *value = Some(word),
            _ => options.push((word, None)),
        }
    }
    options
}

/// A command for each model, and the sets that stay loaded together as a matrix, which older releases know by that place too
/// (`config-schema.json`, August 2026).
fn llama_swap(members: &[Member<'_>], sets: Option<&ResidentSets>) -> Result<String, String> {
    let mut text = "models:\n".to_owned();
    for Member { name, input } in members {
        let (comments, words) = words(name, input)?;
        if let Some(word) = words.iter().find(|word| word.contains("${")) {
            return Err(format!(
                "{name}: llama-swap cannot hold '{word}': it puts macros in at '${{'; rename the file"
            ));
        }
        for comment in comments.lines() {
            text += &format!("  {comment}\n");
        }
        let program = words.first().map(|word| shell_word(word)).unwrap_or_default();
        text += &format!("  {}:\n    cmd: |\n      {program} --port ${{PORT}}\n", in_quotes(name));
        for (option, value) in options(&words) {
            let value = value.map_or_else(String::new, |value| format!(" {}", shell_word(value)));
            text += &format!("      {option}{value}\n");
        }
    }
    let largest = sets.map(ResidentSets::largest).unwrap_or_default();
    let sets: Vec<_> = largest.into_iter().filter(|set| set.is_in_vram() && set.members.len() > 1).collect();
    if sets.is_empty() {
        return Ok(
            text + "# no two of them are known to be all in VRAM together: without a matrix, one runs at a time\n"
        );
    }
    text += "# each set is all in VRAM together; what is in none runs alone\nmatrix:\n  vars:\n";
    for (number, Member { name, .. }) in members.iter().enumerate() {
        text += &format!("    m{}: {}\n", number + 1, in_quotes(name));
    }
    text += "  sets:\n";
    for (number, set) in sets.iter().enumerate() {
        let together: Vec<String> = set.members.iter().map(|member| format!("m{}", member + 1)).collect();
        text += &format!("    set{}: {}\n", number + 1, in_quotes(&together.join(" & ")));
    }
    Ok(text)
}

/// What holds for all models of the server; what is set by model is in comments.
fn environment(members: &[Member<'_>]) -> Result<String, String> {
    let all: Vec<Vec<Variable>> = members.iter().map(|member| ollama::variables(&member.input)).collect();
    let mut names: Vec<&'static str> = Vec::new();
    for variable in all.iter().flatten() {
        if !names.contains(&variable.name) {
            names.push(variable.name);
        }
    }
    let mut text = super::comment(&format!("for the Ollama server, so that {} models stay loaded", members.len()));
    for variable in all.iter().flatten() {
        exact(&variable.value)?;
    }
    let mut line = |name: &str, value: &str| text += &format!("export {name}={}\n", shell_word(value));
    line("OLLAMA_MAX_LOADED_MODELS", &members.len().to_string());
    line("OLLAMA_KEEP_ALIVE", "-1");
    let mut by_model = false;
    for name in names {
        let of = |variables: &Vec<Variable>| variables.iter().find(|one| one.name == name).map(|one| one.value.clone());
        let values: Vec<Option<String>> = all.iter().map(of).collect();
        let asked =
            members.iter().map(|one| one.input.request.settings.parallel.map(|count| count.to_string())).collect();
        match (name, Common::of(values)) {
            (_, Common::Value(value)) => line(name, &value),
            // a request sets its own
            (ollama::CONTEXT, _) => by_model = true,
            // some models have fewer than asked
            (ollama::PARALLEL, _) => match Common::of(asked) {
                Common::Value(value) => line(name, &value),
                Common::Nothing => {}
                Common::Differs => return Err(differs(name)),
            },
            _ => return Err(differs(name)),
        }
    }
    for Member { name, input } in members {
        let options = ollama::options(input).into_iter().filter(|(option, _)| by_model || *option != "num_ctx");
        let options: Vec<String> = options.map(|(option, value)| format!("{option} {value}")).collect();
        if !options.is_empty() {
            text += &super::comment(&format!("{name}: in each request or in its Modelfile, {}", options.join(", ")));
        }
    }
    Ok(text)
}

fn differs(name: &str) -> String {
    format!("{name} holds for all models of an Ollama server, and these differ in it")
}

/// What models have in common.
enum Common {
    Value(String),
    Nothing,
    Differs,
}

impl Common {
    fn of(values: Vec<Option<String>>) -> Self {
        let mut values = values.into_iter();
        let first = values.next().flatten();
        match (values.all(|value| value == first), first) {
            (false, _) => Self::Differs,
            (true, Some(value)) => Self::Value(value),
            (true, None) => Self::Nothing,
        }
    }
}
