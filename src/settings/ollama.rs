//! What only Ollama is asked: options of a request that no knob has, and variables of its server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde_json::Map;
use serde_json::Value as Json;

use super::fields::Settings;
use super::flag::{Flag, VariableMeaning};
use super::given::Source;
use super::knob::MAX_VALUE;
use super::programs::Ships;
use super::release::{NearestRelease, Release};
use super::seen;
use super::values::{CacheType, Context, FlashAttn, GpuLayers};
use super::written::is_on;
use crate::units::Bytes;

/// Settings of Ollama from 0.30. The default is what it does when nobody says anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OllamaSettings {
    /// Its version.
    pub version: OllamaVersion,
    /// What is asked of the model.
    pub endpoint: Endpoint,
    /// `main_gpu`: a GPU's index among those of its backend.
    pub main_gpu: Option<i64>,
    /// `use_mmap`
    pub use_mmap: Option<bool>,
    /// `num_thread`
    pub num_thread: Option<i64>,
    /// `num_keep`
    pub num_keep: Option<i64>,
    /// `draft_num_predict`
    pub draft_num_predict: Option<i64>,
    /// Whether the context may be shifted; by the model's family if nobody says.
    pub shift: Option<bool>,
    /// Whether Ollama renders the prompt by the model's own template.
    pub go_template: bool,
    /// A draft model of the Modelfile.
    pub draft: Option<DraftModel>,
    /// Adapters of the Modelfile.
    pub adapters: usize,
    /// The context is the default by the machine, yet was asked for: `"num_ctx": null`.
    pub ctx_is_given: bool,
    /// Variables of its server.
    pub server: ServerVariables,
}

/// What a request asks of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Whatever the model is for.
    #[default]
    Fitting,
    /// Text: `/api/generate`, `/api/chat`.
    Generate,
    /// Embeddings: `/api/embed`.
    Embed,
}

impl std::str::FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "generate" | "chat" => Ok(Self::Generate),
            "embed" => Ok(Self::Embed),
            _ => Err(format!("'{text}' is not an endpoint: use generate or embed")),
        }
    }
}

/// A draft model, as far as Ollama looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftModel {
    /// Architecture `dflash`.
    Dflash,
    /// Any other architecture.
    Other,
}

impl DraftModel {
    /// A draft of this architecture.
    pub fn of(architecture: &str) -> Self {
        if architecture == "dflash" { Self::Dflash } else { Self::Other }
    }
}

/// Variables of Ollama's server that no knob has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerVariables {
    /// `OLLAMA_IGPU_ENABLE`
    pub igpu_enable: Option<bool>,
    /// `OLLAMA_VULKAN=0`
    pub no_vulkan: bool,
    /// `OLLAMA_LLM_LIBRARY`: the one folder of backends that is used.
    pub llm_library: Option<String>,
    /// `OLLAMA_GO_TEMPLATE=0`
    pub no_go_template: bool,
    /// `OLLAMA_MAX_LOADED_MODELS`
    pub max_loaded_models: Option<u64>,
    /// `OLLAMA_KEEP_ALIVE`, in seconds; negative is for ever.
    pub keep_alive: Option<i64>,
    /// `OLLAMA_KV_CACHE_TYPE` where it is none that llama-server knows.
    pub unknown_cache_type: Option<String>,
    /// `LLAMA_ARG_FIT=off`
    pub no_fit: bool,
    /// What llama-server gets of the server's environment: `LLAMA_ARG_*`, `GGML_*`, `*_VISIBLE_DEVICES`.
    pub inherited: BTreeMap<String, String>,
}

/// The options of a request that this program has too.
const REQUESTED: [(&str, Flag); 3] =
    [("num_ctx", Flag::Context), ("num_batch", Flag::Batch), ("num_gpu", Flag::GpuLayers)];
/// The default of `num_batch`.
const NUM_BATCH: u64 = 512;

/// Sets what `options` set, except for what a source above has given. Null counts as given, with the default's value; unknown
/// options are passed over.
///
/// # Errors
/// Ollama's own sentence, if an option has the wrong type.
pub fn apply_options(settings: &mut Settings, options: &Map<String, Json>, source: Source) -> Result<(), String> {
    for (name, value) in options {
        let integer = || integer(name, value);
        let flag = REQUESTED.iter().find(|(known, _)| known == name).map(|(_, flag)| *flag);
        if flag.is_some_and(|flag| settings.is_settled(flag, source)) {
            continue;
        }
        match name.as_str() {
            "num_ctx" => {
                let tokens = integer()?;
                settings.give_by(Flag::Context, source, |settings| {
                    settings.ollama.ctx_is_given = tokens.is_none();
                    settings.ctx = tokens.map_or(settings.ctx, |tokens| Context::Tokens(at_least_none(tokens)));
                });
            }
            "num_batch" => {
                let tokens = integer()?.map_or(NUM_BATCH, at_least_none);
                settings.give_by(Flag::Batch, source, |settings| settings.batch = Some(tokens));
            }
            "num_gpu" => {
                let layers = integer()?.map(u64::try_from).and_then(Result::ok);
                let layers = layers.map_or(GpuLayers::Auto, |n| GpuLayers::Count(n.min(MAX_VALUE)));
                settings.give_by(Flag::GpuLayers, source, |settings| settings.gpu_layers = layers);
            }
            "main_gpu" => settings.ollama.main_gpu = integer()?.or(settings.ollama.main_gpu),
            "num_thread" => settings.ollama.num_thread = integer()?.or(settings.ollama.num_thread),
            "num_keep" => settings.ollama.num_keep = integer()?.or(settings.ollama.num_keep),
            "draft_num_predict" => {
                settings.ollama.draft_num_predict = integer()?.or(settings.ollama.draft_num_predict);
            }
            "use_mmap" => match value {
                Json::Null => {}
                Json::Bool(mapped) => settings.ollama.use_mmap = Some(*mapped),
                _ => return Err(format!("option \"{name}\" must be of type boolean")),
            },
            _ => {}
        }
    }
    Ok(())
}

/// The whole part of a number; none for null.
fn integer(name: &str, value: &Json) -> Result<Option<i64>, String> {
    match value {
        Json::Null => Ok(None),
        Json::Number(number) => Ok(number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))),
        _ => Err(format!("option \"{name}\" must be of type integer")),
    }
}

/// Zero for anything below one.
fn at_least_none(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default().min(MAX_VALUE)
}

/// The parameters of a Modelfile that are numbers or truth values.
///
/// # Errors
/// One sentence, with the line's number, if a value is neither.
pub fn modelfile_parameters(text: &str) -> Result<Map<String, Json>, String> {
    let mut parameters = Map::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        if !words.next().is_some_and(|word| word.eq_ignore_ascii_case("parameter")) {
            continue;
        }
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            return Err(format!("line {}: PARAMETER needs a name and a value", number + 1));
        };
        let value = value.trim_matches('"');
        if name == "use_mmap" {
            let truth = value.parse().map_err(|_| format!("line {}: {name} is true or false", number + 1))?;
            parameters.insert(name.to_owned(), Json::Bool(truth));
        } else if ["num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "draft_num_predict"]
            .contains(&name)
        {
            let count: i64 = value.parse().map_err(|_| format!("line {}: {name} is a whole number", number + 1))?;
            parameters.insert(name.to_owned(), Json::from(count));
        }
    }
    Ok(parameters)
}

impl OllamaVersion {
    /// What is published of the llama.cpp that it ships.
    fn shipped(self) -> Option<Ships> {
        Ships::of("Ollama", &format!("0.{}.{}", self.minor, self.patch))
    }

    /// The build of llama.cpp that it ships; none of a version that is newer than the table.
    pub fn llama_cpp_build(self) -> Option<u64> {
        self.shipped()?.build()
    }

    /// The release that is nearest to the llama.cpp that it ships.
    pub fn release(self) -> Release {
        // 0.34 is of September 2026
        let newer = if self.minor < 35 { Release::September2026 } else { Release::November2026 };
        self.shipped().and_then(|ships| ships.release()).unwrap_or(newer)
    }

    /// The llama.cpp that it ships, or the nearest release.
    pub fn llama_cpp(self) -> NearestRelease {
        NearestRelease { release: self.release(), build: self.llama_cpp_build() }
    }

    /// Its llama.cpp, as the start of a sentence: `Ollama 0.33 ships llama.cpp b10488`.
    pub fn ships(self) -> String {
        if let Some(build) = self.llama_cpp_build() {
            return format!("Ollama {self} ships llama.cpp b{build}");
        }
        let after = self.shipped().and_then(|ships| ships.after());
        let after = after.map_or_else(String::new, |newest| format!(", after {newest}"));
        format!("Ollama {self} ships a llama.cpp that is not known here{after}")
    }
}

impl Endpoint {
    /// As it is typed; none for whatever the model is for.
    pub const fn typed(self) -> Option<&'static str> {
        match self {
            Self::Fitting => None,
            Self::Generate => Some("generate"),
            Self::Embed => Some("embed"),
        }
    }
}

impl OllamaSettings {
    /// The options of a request that no knob has, as `NAME=VALUE`.
    pub fn typed_options(&self) -> Vec<String> {
        let numbers = [
            ("main_gpu", self.main_gpu),
            ("num_thread", self.num_thread),
            ("num_keep", self.num_keep),
            ("draft_num_predict", self.draft_num_predict),
        ];
        let numbers = numbers.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        let context = self.ctx_is_given.then(|| "num_ctx=null".to_owned());
        numbers.chain(self.use_mmap.map(|mapped| format!("use_mmap={mapped}"))).chain(context).collect()
    }
}

impl ServerVariables {
    /// The variables that say it, as `NAME=VALUE`, and the names of those whose values may not be seen.
    pub fn typed(&self) -> (Vec<String>, Vec<String>) {
        let number = |on: bool| u8::from(on).to_string();
        let own = [
            ("OLLAMA_IGPU_ENABLE", self.igpu_enable.map(number)),
            ("OLLAMA_VULKAN", self.no_vulkan.then(|| number(false))),
            ("OLLAMA_LLM_LIBRARY", self.llm_library.clone()),
            ("OLLAMA_GO_TEMPLATE", self.no_go_template.then(|| number(false))),
            ("OLLAMA_MAX_LOADED_MODELS", self.max_loaded_models.map(|count| count.to_string())),
            ("OLLAMA_KEEP_ALIVE", self.keep_alive.map(|seconds| seconds.to_string())),
            ("OLLAMA_KV_CACHE_TYPE", self.unknown_cache_type.clone()),
        ];
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let all = own.chain(self.inherited.iter().map(|(name, value)| (name.clone(), value.clone())));
        let (seen, hidden): (Vec<_>, Vec<_>) =
            all.partition(|(name, value)| seen::of_variable(name, value).as_deref() == Some(value));
        let typed = seen.into_iter().map(|(name, value)| format!("{name}={value}"));
        (typed.collect(), hidden.into_iter().map(|(name, _)| name).collect())
    }
}

/// Sets what the variables set, as the server would, except for what a source above has given. `is_passed_on` if there is a
/// llama-server that gets them. Returns one sentence for each that shows.
pub fn apply_variables(settings: &mut Settings, variables: &[(String, String)], is_passed_on: bool) -> Vec<String> {
    if is_passed_on {
        let inherited = variables.iter().filter(|(name, _)| is_inherited(name) && !settings.is_settled_variable(name));
        settings.ollama.server.inherited = inherited.cloned().collect();
    }
    let mut variables = Variables { settings, all: variables, is_passed_on, notes: Vec::new(), ignored: Vec::new() };
    variables.knobs();
    variables.cache_type();
    variables.server();
    variables.llama_server();
    let Variables { mut notes, ignored, .. } = variables;
    notes.extend(ignored);
    notes
}

struct Variables<'a> {
    settings: &'a mut Settings,
    all: &'a [(String, String)],
    is_passed_on: bool,
    notes: Vec<String>,
    ignored: Vec<String>,
}

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.all.iter().rfind(|(known, _)| known == name)?;
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        (!value.is_empty() && !self.settings.is_settled_variable(name)).then_some(value)
    }

    /// A number up to `most`; what is none counts as unset.
    fn number(&mut self, name: &str, most: u64) -> Option<(String, u64)> {
        let text = self.text(name)?;
        let value = text.parse::<u64>().ok().filter(|value| *value <= most);
        if value.is_none() {
            self.ignored.push(format!("{name}={} is ignored: it is not a number in range", shown(name, &text)));
        }
        Some((text, value?))
    }

    /// Gives `flag` what its variable says, with a sentence on the `effect`.
    fn give(&mut self, flag: Flag, (name, text): (&'static str, &str), effect: &str, set: impl FnOnce(&mut Settings)) {
        if self.settings.give_by(flag, Source::Variable(name), set) && !effect.is_empty() {
            self.notes.push(format!("{effect} by {name}={}", shown(name, text)));
        }
    }

    fn knobs(&mut self) {
        let name = "OLLAMA_CONTEXT_LENGTH";
        if let Some((text, tokens @ 1..)) = self.number(name, MAX_VALUE) {
            self.give(Flag::Context, (name, &text), "the context is set", |settings| {
                settings.ctx = Context::Tokens(tokens);
            });
        }
        let name = "OLLAMA_NUM_PARALLEL";
        if let Some((text, sequences @ 1..)) = self.number(name, MAX_VALUE) {
            self.give(Flag::Parallel, (name, &text), "the number of parallel sequences is set", |settings| {
                settings.parallel = Some(sequences);
            });
        }
        let name = "OLLAMA_GPU_OVERHEAD";
        if let Some(text) = self.text(name) {
            // none is said too, and what is no number is none
            let bytes = self.number(name, u64::MAX).map_or(0, |(_, bytes)| bytes);
            let effect = if bytes > 0 { "the memory kept free on each GPU is set" } else { "" };
            self.give(Flag::GpuOverhead, (name, &text), effect, |settings| settings.gpu_overhead = Bytes(bytes));
        }
        let name = "OLLAMA_FLASH_ATTENTION";
        if let Some(text) = self.text(name) {
            let on = is_on(&text);
            let effect = if on { "flash attention is turned on" } else { "flash attention is turned off" };
            self.give(Flag::FlashAttn, (name, &text), effect, |settings| {
                settings.flash_attn = if on { FlashAttn::On } else { FlashAttn::Off };
            });
        }
        let name = "OLLAMA_SCHED_SPREAD";
        if let Some(text) = self.text(name).filter(|text| is_on(text)) {
            let effect = "the layers are spread over all GPUs";
            self.give(Flag::Spread, (name, &text), effect, |settings| settings.spread = true);
        }
    }

    fn cache_type(&mut self) {
        let name = "OLLAMA_KV_CACHE_TYPE";
        let Some(text) = self.text(name).map(|text| text.to_lowercase()) else { return };
        let known = text.parse::<CacheType>().and_then(|ty| match ty.of_fork() {
            Some(fork) => Err(format!("{ty} is a type of {}", fork.whose())),
            None => Ok(ty),
        });
        match known {
            Ok(ty) => {
                self.give(Flag::CacheTypeK, (name, &text), "", |settings| settings.cache_type_k = Some(ty));
                let effect = "the KV cache type is set";
                self.give(Flag::CacheTypeV, (name, &text), effect, |settings| settings.cache_type_v = Some(ty));
            }
            Err(reason) => {
                let reason = if shown(name, &text) == text { reason } else { "it is no type of a cache".to_owned() };
                let becomes = if self.is_passed_on { "passed on as it is, and refused" } else { "ignored" };
                self.ignored.push(format!("{name} is {becomes}: {reason}"));
                // earlier releases take what they do not know for f16
                self.settings.ollama.server.unknown_cache_type = self.is_passed_on.then_some(text);
            }
        }
    }

    fn server(&mut self) {
        let flag = |text: Option<String>| text.map(|text| is_on(&text));
        let igpu_enable = flag(self.text("OLLAMA_IGPU_ENABLE"));
        let vulkan = flag(self.text("OLLAMA_VULKAN"));
        let go_template = flag(self.text("OLLAMA_GO_TEMPLATE"));
        let llm_library = self.text("OLLAMA_LLM_LIBRARY");
        let max_loaded_models = self.number("OLLAMA_MAX_LOADED_MODELS", MAX_VALUE);
        let keep_alive = self.text("OLLAMA_KEEP_ALIVE").and_then(|text| seconds(&text));
        let server = &mut self.settings.ollama.server;
        server.igpu_enable = igpu_enable.or(server.igpu_enable);
        server.no_vulkan = vulkan.map_or(server.no_vulkan, |on| !on);
        server.no_go_template = go_template.map_or(server.no_go_template, |on| !on);
        server.llm_library = llm_library.or(server.llm_library.take());
        server.max_loaded_models = max_loaded_models.map(|(_, count)| count).filter(|count| *count > 0);
        server.keep_alive = keep_alive.or(server.keep_alive);
    }

    /// What llama-server reads itself for all that no option says.
    fn llama_server(&mut self) {
        let named = |name: &str| {
            let variables = |flag: Flag| flag.row().variables.iter().map(move |variable| (flag, variable));
            Flag::ALL.iter().flat_map(|flag| variables(*flag)).find(|(_, variable)| variable.name == name)
        };
        for (name, value) in self.settings.ollama.server.inherited.clone() {
            if name == "LLAMA_ARG_FIT" {
                self.settings.ollama.server.no_fit = matches!(value.as_str(), "off" | "0" | "false");
            } else if let Some((flag, variable)) = named(&name)
                .filter(|(_, variable)| variable.means != VariableMeaning::Passed && !variable.means.is_alone())
            {
                let text = match variable.means {
                    VariableMeaning::Presence => "true".to_owned(),
                    VariableMeaning::Not => (!is_on(&value)).to_string(),
                    _ => value.clone(),
                };
                match self.settings.give(flag, text.trim(), Source::Variable(variable.name)) {
                    Ok(true) => {}
                    // what Ollama was told of both types is llama-server's argument
                    Ok(false) => continue,
                    Err(_) => flag.reset(self.settings),
                }
            } else {
                continue;
            }
            let value = shown(&name, &value);
            self.notes.push(format!("llama-server reads {name}={value} of the server's environment"));
        }
    }
}

/// What may be seen of the value of a variable.
fn shown<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    seen::of_variable(name, value).unwrap_or(Cow::Borrowed(seen::HIDDEN))
}

/// Whether llama-server is affected by a variable that it inherits.
pub fn is_inherited(name: &str) -> bool {
    name.starts_with("LLAMA_ARG_") || name.starts_with("GGML_") || name.ends_with("_VISIBLE_DEVICES")
}

/// A duration as Go writes it (`5m`, `1h30m`, `-1`), or a number of seconds.
pub fn seconds(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (negative, mut rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let mut sum = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit)?;
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * scale;
        rest = next;
    }
    Some(if negative { -(sum as i64) } else { sum as i64 })
}

/// A version of Ollama: `0.31.2`. What differs between those from 0.30 on is in `engine/ollama/release.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OllamaVersion {
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl OllamaVersion {
    /// Of August 2026, with llama.cpp b10488.
    pub const V0_33: Self = Self { minor: 33, patch: 0 };
    /// Of June 2026.
    pub const V0_30: Self = Self { minor: 30, patch: 9 };
    /// The first that starts llama-server.
    pub const STARTS_LLAMA_SERVER: Self = Self { minor: 30, patch: 0 };

    /// Parses any version, also of those with an estimator of their own: `0.11.3`; 0.30 is 0.30.9.
    ///
    /// # Errors
    /// One sentence if it is none.
    pub fn any(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a version of Ollama: use 0.33, 0.30 or one between such as 0.31.2");
        let plain = text.trim().split(['-', '+']).next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = plain.split('.').map(str::parse).collect();
        match numbers.map_err(|_| wrong())?[..] {
            [0, 30] => Ok(Self::V0_30),
            [0, minor] => Ok(Self { minor, patch: 0 }),
            [0, minor, patch] => Ok(Self { minor, patch }),
            _ => Err(wrong()),
        }
    }
}

impl Default for OllamaVersion {
    fn default() -> Self {
        Self::V0_33
    }
}

/// `0.30.9`, or `0.33` without a third number.
impl fmt::Display for OllamaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.patch {
            0 => write!(f, "0.{}", self.minor),
            patch => write!(f, "0.{}.{patch}", self.minor),
        }
    }
}

impl FromStr for OllamaVersion {
    type Err = String;

    /// Parses `0.33`, `0.31.2` or `0.32.1-rc0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let version = Self::any(text)?;
        if version < Self::STARTS_LLAMA_SERVER {
            return Err(format!("Ollama {version} has its own estimator: use --engine ollama-0.24 or ollama-0.11"));
        }
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;
    use serde_json::json;

    fn applied(options: &Json) -> Result<Settings, String> {
        let mut settings = Settings::default();
        apply_options(&mut settings, options.as_object().unwrap(), Source::Request)?;
        Ok(settings)
    }

    #[test]
    fn whole_parts_are_taken_and_null_counts_as_given() {
        let settings = applied(&json!({"num_ctx": 4.9, "num_batch": null, "num_gpu": -2, "top_k": "x"})).unwrap();
        assert_eq!((settings.ctx, settings.batch), (Context::Tokens(4), Some(512)));
        assert_eq!(settings.gpu_layers, GpuLayers::Auto);
        let unset = applied(&json!({"num_ctx": null})).unwrap();
        assert_eq!((unset.ctx, unset.ollama.ctx_is_given), (Context::Auto, true));
    }

    #[test]
    fn wrong_types_are_refused_in_ollamas_words() {
        assert_eq!(applied(&json!({"num_ctx": "8192"})).unwrap_err(), "option \"num_ctx\" must be of type integer");
        assert_eq!(applied(&json!({"use_mmap": "yes"})).unwrap_err(), "option \"use_mmap\" must be of type boolean");
    }

    #[test]
    fn a_modelfile_is_read_line_by_line() {
        let text = "FROM x\nPARAMETER num_ctx 8192\nparameter use_mmap false\nPARAMETER stop \"<|end|>\"\n";
        let read = modelfile_parameters(text).unwrap();
        assert_eq!(Json::Object(read), json!({"num_ctx": 8192, "use_mmap": false}));
        assert!(modelfile_parameters("PARAMETER num_ctx much").is_err());
    }
}

#[cfg(test)]
mod shipped_tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0.30.0", Some(9_452), Release::May2026)]
    #[case("0.30.8", Some(9_509), Release::August2026)]
    #[case("0.30", Some(9_626), Release::August2026)]
    #[case("0.31", Some(9_840), Release::August2026)]
    #[case("0.32.1", Some(9_888), Release::August2026)]
    #[case("0.32.13", Some(10_380), Release::EarlyAugust2026)]
    #[case("0.33.0-rc2", Some(10_488), Release::EarlyAugust2026)]
    #[case("0.33", Some(10_488), Release::EarlyAugust2026)]
    #[case("0.33.4", None, Release::September2026)]
    #[case("0.34.1", None, Release::September2026)]
    #[case("0.35", None, Release::November2026)]
    fn versions_ship_builds_that_have_a_nearest_release(
        #[case] text: &str,
        #[case] build: Option<u64>,
        #[case] release: Release,
    ) {
        let version: OllamaVersion = text.parse().unwrap();
        assert_eq!((version.llama_cpp_build(), version.release()), (build, release));
        let said = version.ships();
        assert!(build.is_none_or(|build| said.ends_with(&format!(" b{build}"))) && said.contains(&version.to_string()));
    }
}

#[cfg(test)]
mod variables_tests {
    use super::*;
    use rstest::rstest;

    fn filled(before: &Settings, variables: &[(&str, &str)], is_passed_on: bool) -> (Settings, Vec<String>) {
        let mut settings = before.clone();
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let notes = apply_variables(&mut settings, &variables, is_passed_on);
        (settings, notes)
    }

    #[test]
    fn each_variable_sets_its_knob_with_a_note() {
        let (settings, notes) = filled(
            &Settings::default(),
            &[
                ("OLLAMA_CONTEXT_LENGTH", " 16384 "),
                ("OLLAMA_NUM_PARALLEL", "4"),
                ("OLLAMA_KV_CACHE_TYPE", "\"Q8_0\""),
                ("OLLAMA_FLASH_ATTENTION", "1"),
                ("OLLAMA_GPU_OVERHEAD", "536870912"),
                ("OLLAMA_SCHED_SPREAD", "true"),
            ],
            true,
        );
        let expected = Settings {
            ctx: Context::Tokens(16_384),
            parallel: Some(4),
            cache_type_k: Some(CacheType::Q8_0),
            cache_type_v: Some(CacheType::Q8_0),
            flash_attn: FlashAttn::On,
            gpu_overhead: Bytes::mib(512),
            spread: true,
            ..Settings::default()
        };
        assert_eq!((&settings, notes.len()), (&expected, 6));
        for flag in [Flag::Context, Flag::Parallel, Flag::CacheTypeK, Flag::CacheTypeV, Flag::FlashAttn, Flag::Spread] {
            let name = flag.row().ollama.unwrap();
            assert_eq!(settings.source_of(flag), Some(Source::Variable(name)));
        }
    }

    #[test]
    fn options_override_variables() {
        let mut before = Settings::default();
        for (flag, text) in [(Flag::Parallel, "2"), (Flag::CacheTypeK, "f16"), (Flag::FlashAttn, "auto")] {
            before.give(flag, text, Source::CommandLine).unwrap();
        }
        let variables = [
            ("OLLAMA_NUM_PARALLEL", "4"),
            ("OLLAMA_KV_CACHE_TYPE", "q4_0"),
            ("OLLAMA_FLASH_ATTENTION", "0"),
            // of both types Ollama has one variable
            ("LLAMA_ARG_CACHE_TYPE_V", "q4_0"),
        ];
        assert_eq!(filled(&before, &variables, true), (before, Vec::new()));
    }

    #[test]
    fn what_ollama_is_told_stands_over_what_llama_server_reads() {
        let variables =
            [("LLAMA_ARG_CACHE_TYPE_K", "q4_0"), ("OLLAMA_KV_CACHE_TYPE", "q8_0"), ("LLAMA_ARG_FIT_TARGET", "100")];
        let (settings, notes) = filled(&Settings::default(), &variables, true);
        assert_eq!((settings.cache_type_k, settings.fit_target), (Some(CacheType::Q8_0), Some(Bytes::mib(100))));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert_eq!(settings.ollama.server.inherited.len(), 2);
        assert_eq!(filled(&Settings::default(), &variables, false).0.fit_target, None);
    }

    #[test]
    fn what_ollama_ignores_is_ignored_and_said() {
        let variables =
            [("OLLAMA_CONTEXT_LENGTH", "lots"), ("OLLAMA_KV_CACHE_TYPE", "q3"), ("OLLAMA_SCHED_SPREAD", "0")];
        let nothing = Settings::default();
        let (settings, notes) = filled(&nothing, &variables, false);
        assert_eq!((&settings, notes.len()), (&nothing, 2));
        let unknown = filled(&nothing, &variables, true).0.ollama.server.unknown_cache_type;
        assert_eq!(unknown.as_deref(), Some("q3"));
        let zeros = [("OLLAMA_CONTEXT_LENGTH", "0"), ("OLLAMA_NUM_PARALLEL", ""), ("OLLAMA_GPU_OVERHEAD", "0")];
        assert_eq!(filled(&nothing, &zeros, true), (nothing, Vec::new()));
    }

    #[test]
    fn flash_attention_can_be_forbidden() {
        let (settings, _) = filled(&Settings::default(), &[("OLLAMA_FLASH_ATTENTION", "false")], true);
        assert_eq!(settings.flash_attn, FlashAttn::Off);
    }

    #[rstest]
    #[case("5m", Some(300))]
    #[case("1h30m", Some(5400))]
    #[case("-1", Some(-1))]
    #[case("-1m", Some(-60))]
    #[case("0", Some(0))]
    #[case("soon", None)]
    fn durations_are_parsed(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(seconds(text), expected);
    }
}

#[cfg(test)]
mod version_tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0.33", 33, 0, "0.33")]
    #[case("0.30", 30, 9, "0.30.9")]
    #[case("0.30.3", 30, 3, "0.30.3")]
    #[case(" 0.32.6-rc1", 32, 6, "0.32.6")]
    fn versions_are_parsed(#[case] text: &str, #[case] minor: u32, #[case] patch: u32, #[case] shown: &str) {
        let version: OllamaVersion = text.parse().unwrap();
        assert_eq!((version, version.to_string().as_str()), (OllamaVersion { minor, patch }, shown));
    }

    #[rstest]
    #[case("0.24")]
    #[case("1.0")]
    #[case("newest")]
    #[case("")]
    fn others_are_refused(#[case] text: &str) {
        assert!(text.parse::<OllamaVersion>().is_err());
    }
}
