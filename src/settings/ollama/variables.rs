//! Variables of Ollama's server. Names and parsing: `envconfig/config.go`, Ollama, August 2026, which strips spaces and
//! quotes around a value. llama-server inherits the environment; its names: `common/arg.cpp`, llama.cpp b10488.

use super::Source;
use crate::settings::knob::{Knob, MAX_VALUE};
use crate::settings::{CacheType, Context, Flag, FlashAttn, Settings, VariableMeaning};
use crate::units::Bytes;

/// Sets what the variables set, as the server would; `get` looks one up. Returns one sentence for each that shows.
pub fn apply_variables(settings: &mut Settings, get: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut variables = Variables { settings, get, notes: Vec::new(), ignored: Vec::new() };
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
    get: &'a dyn Fn(&str) -> Option<String>,
    notes: Vec<String>,
    ignored: Vec<String>,
}

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let value = (self.get)(name)?;
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        (!value.is_empty()).then_some(value)
    }

    /// A number up to `most`; what is none counts as unset.
    fn number(&mut self, name: &str, most: u64) -> Option<(String, u64)> {
        let text = self.text(name)?;
        let value = text.parse::<u64>().ok().filter(|value| *value <= most);
        if value.is_none() {
            self.ignored.push(format!("{name}={text} is ignored: it is not a number in range"));
        }
        Some((text, value?))
    }

    fn note(&mut self, name: &str, text: &str, effect: &str) {
        self.notes.push(format!("{effect} by {name}={text}"));
    }

    fn knobs(&mut self) {
        if let Some((text, tokens @ 1..)) = self.number("OLLAMA_CONTEXT_LENGTH", MAX_VALUE) {
            self.settings.ctx = Context::Tokens(tokens);
            self.settings.set_by(Knob::Context, Source::Variable("OLLAMA_CONTEXT_LENGTH"));
            self.note("OLLAMA_CONTEXT_LENGTH", &text, "the context is set");
        }
        if let Some((text, sequences @ 1..)) = self.number("OLLAMA_NUM_PARALLEL", MAX_VALUE) {
            self.settings.parallel = Some(sequences);
            self.settings.set_by(Knob::Parallel, Source::Variable("OLLAMA_NUM_PARALLEL"));
            self.note("OLLAMA_NUM_PARALLEL", &text, "the number of parallel sequences is set");
        }
        if let Some((text, bytes @ 1..)) = self.number("OLLAMA_GPU_OVERHEAD", u64::MAX) {
            self.settings.gpu_overhead = Bytes(bytes);
            self.note("OLLAMA_GPU_OVERHEAD", &text, "the memory kept free on each GPU is set");
        }
        if let Some(text) = self.text("OLLAMA_FLASH_ATTENTION") {
            let on = is_true(&text);
            self.settings.flash_attn = if on { FlashAttn::On } else { FlashAttn::Off };
            self.settings.set_by(Knob::FlashAttn, Source::Variable("OLLAMA_FLASH_ATTENTION"));
            let effect = if on { "flash attention is turned on" } else { "flash attention is turned off" };
            self.note("OLLAMA_FLASH_ATTENTION", &text, effect);
        }
        if let Some(text) = self.text("OLLAMA_SCHED_SPREAD").filter(|text| is_true(text)) {
            self.settings.spread = true;
            self.note("OLLAMA_SCHED_SPREAD", &text, "the layers are spread over all GPUs");
        }
    }

    fn cache_type(&mut self) {
        let name = "OLLAMA_KV_CACHE_TYPE";
        let Some(text) = self.text(name).map(|text| text.to_lowercase()) else { return };
        match text.parse::<CacheType>() {
            Ok(ty) => {
                (self.settings.cache_type_k, self.settings.cache_type_v) = (Some(ty), Some(ty));
                self.settings.set_by(Knob::CacheTypeK, Source::Variable(name));
                self.settings.set_by(Knob::CacheTypeV, Source::Variable(name));
                self.note(name, &text, "the KV cache type is set");
            }
            Err(reason) => {
                self.ignored.push(format!("{name} is passed on as it is, and refused: {reason}"));
                self.settings.ollama.server.unknown_cache_type = Some(text);
            }
        }
    }

    fn server(&mut self) {
        let flag = |text: Option<String>| text.map(|text| is_true(&text));
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
            let variables =
                |flag: Flag| flag.row().variables.iter().map(move |variable| (flag, variable.means, variable.name));
            Flag::ALL.iter().flat_map(|flag| variables(*flag)).find(|(_, _, known)| *known == name)
        };
        for (name, value) in self.settings.ollama.server.inherited.clone() {
            if name == "LLAMA_ARG_FIT" {
                self.settings.ollama.server.no_fit = matches!(value.as_str(), "off" | "0" | "false");
            } else if let Some((flag, means, _)) =
                named(&name).filter(|(_, means, _)| *means != VariableMeaning::Passed)
            {
                // what Ollama was told of both types is llama-server's argument
                if flag.row().ollama.is_some() && flag.is_given(self.settings) {
                    continue;
                }
                let text = match means {
                    VariableMeaning::Presence => "true".to_owned(),
                    VariableMeaning::Not => (!is_true(&value)).to_string(),
                    _ => value.clone(),
                };
                if flag.read(self.settings, text.trim()).is_err() {
                    flag.reset(self.settings);
                }
            } else {
                continue;
            }
            self.notes.push(format!("llama-server reads {name}={value} of the server's environment"));
        }
    }
}

/// Whether llama-server is affected by a variable that it inherits.
pub fn is_inherited(name: &str) -> bool {
    name.starts_with("LLAMA_ARG_") || name.starts_with("GGML_") || name.ends_with("_VISIBLE_DEVICES")
}

/// As Go's `strconv.ParseBool`, except that unknown values are true.
fn is_true(text: &str) -> bool {
    !["0", "f", "F", "false", "FALSE", "False"].contains(&text)
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

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

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
