//! Defaults from `OLLAMA_*` variables for knobs without an option, each with a note.
//!
//! Names and parsing: `envconfig/config.go` of Ollama 0.24, which strips spaces and quotes around a value.

use super::args::KnobArgs;
use crate::settings::knob::MAX_VALUE;
use crate::settings::{CacheType, Context, FlashAttn, Settings};
use crate::units::Bytes;

/// Looks up a variable by name.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Sets `settings` from variables where `knobs` has no option; returns a note for each.
pub(super) fn fill(settings: &mut Settings, knobs: &KnobArgs, variables: Variables<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |name: &str, text: &str, effect: &str| notes.push(format!("{effect} by {name}={text}"));
    let text = |name: &str| {
        let value = variables(name)?;
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        (!value.is_empty()).then_some(value)
    };
    let mut ignored = Vec::new();
    let mut number = |name: &str, most: u64| {
        let text = text(name)?;
        let value = text.parse::<u64>().ok().filter(|value| *value <= most);
        if value.is_none() {
            ignored.push(format!("{name}={text} is ignored: it is not a number in range"));
        }
        Some((text, value?))
    };

    if knobs.ctx.is_none()
        && let Some((text, tokens @ 1..)) = number("OLLAMA_CONTEXT_LENGTH", MAX_VALUE)
    {
        settings.ctx = Context::Tokens(tokens);
        note("OLLAMA_CONTEXT_LENGTH", &text, "the context is set");
    }
    if knobs.parallel.is_none()
        && let Some((text, sequences @ 1..)) = number("OLLAMA_NUM_PARALLEL", MAX_VALUE)
    {
        settings.parallel = Some(sequences);
        note("OLLAMA_NUM_PARALLEL", &text, "the number of parallel sequences is set");
    }
    if knobs.gpu_overhead.is_none()
        && let Some((text, bytes @ 1..)) = number("OLLAMA_GPU_OVERHEAD", u64::MAX)
    {
        settings.gpu_overhead = Bytes(bytes);
        note("OLLAMA_GPU_OVERHEAD", &text, "the memory kept free on each GPU is set");
    }
    if knobs.flash_attn.is_none()
        && let Some(text) = text("OLLAMA_FLASH_ATTENTION")
    {
        let on = is_true(&text);
        settings.flash_attn = if on { FlashAttn::On } else { FlashAttn::Off };
        note(
            "OLLAMA_FLASH_ATTENTION",
            &text,
            if on { "flash attention is turned on" } else { "flash attention is turned off" },
        );
    }
    if !knobs.spread
        && let Some(text) = text("OLLAMA_SCHED_SPREAD").filter(|text| is_true(text))
    {
        settings.spread = true;
        note("OLLAMA_SCHED_SPREAD", &text, "the layers are spread over all GPUs");
    }
    if knobs.kv_type.or(knobs.cache_type_k).or(knobs.cache_type_v).is_none()
        && let Some(text) = text("OLLAMA_KV_CACHE_TYPE")
    {
        match text.parse::<CacheType>() {
            Ok(ty) => {
                (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
                note("OLLAMA_KV_CACHE_TYPE", &text, "the KV cache type is set");
            }
            Err(reason) => ignored.push(format!("OLLAMA_KV_CACHE_TYPE is ignored: {reason}")),
        }
    }
    notes.extend(ignored);
    notes
}

/// As Go's `strconv.ParseBool`, except that unknown values are true.
fn is_true(text: &str) -> bool {
    !["0", "f", "F", "false", "FALSE", "False"].contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(knobs: &KnobArgs, variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let mut settings = Settings::default();
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let notes = fill(&mut settings, knobs, &get);
        (settings, notes)
    }

    #[test]
    fn each_variable_sets_its_knob_with_a_note() {
        let (settings, notes) = filled(
            &KnobArgs::default(),
            &[
                ("OLLAMA_CONTEXT_LENGTH", " 16384 "),
                ("OLLAMA_NUM_PARALLEL", "4"),
                ("OLLAMA_KV_CACHE_TYPE", "\"Q8_0\""),
                ("OLLAMA_FLASH_ATTENTION", "1"),
                ("OLLAMA_GPU_OVERHEAD", "536870912"),
                ("OLLAMA_SCHED_SPREAD", "true"),
            ],
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
        assert_eq!((settings, notes.len()), (expected, 6));
    }

    #[test]
    fn options_override_variables() {
        let knobs = KnobArgs {
            parallel: Some(2),
            cache_type_k: Some(CacheType::F16),
            flash_attn: Some(FlashAttn::Auto),
            ..KnobArgs::default()
        };
        let variables =
            [("OLLAMA_NUM_PARALLEL", "4"), ("OLLAMA_KV_CACHE_TYPE", "q4_0"), ("OLLAMA_FLASH_ATTENTION", "0")];
        assert_eq!(filled(&knobs, &variables), (Settings::default(), Vec::new()));
    }

    #[test]
    fn what_ollama_ignores_is_ignored_and_said() {
        let variables =
            [("OLLAMA_CONTEXT_LENGTH", "lots"), ("OLLAMA_KV_CACHE_TYPE", "q3"), ("OLLAMA_SCHED_SPREAD", "0")];
        let (settings, notes) = filled(&KnobArgs::default(), &variables);
        assert_eq!((settings, notes.len()), (Settings::default(), 2));
        let zeros = [("OLLAMA_CONTEXT_LENGTH", "0"), ("OLLAMA_NUM_PARALLEL", ""), ("OLLAMA_GPU_OVERHEAD", "0")];
        assert_eq!(filled(&KnobArgs::default(), &zeros), (Settings::default(), Vec::new()));
    }

    #[test]
    fn flash_attention_can_be_forbidden() {
        let (settings, _) = filled(&KnobArgs::default(), &[("OLLAMA_FLASH_ATTENTION", "false")]);
        assert_eq!(settings.flash_attn, FlashAttn::Off);
    }
}
