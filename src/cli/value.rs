//! Parsers for option values; errors list the accepted forms.

mod listed;

use std::time::Duration;

use super::args::{DeviceList, Interval, KnobOrQuant, PageChoice};
use crate::answer::best::Objective;
use crate::library;
use crate::machine::Os;
use crate::plan::Outcome;
use crate::settings::knob::{Knob, MAX_VALUE};
use crate::settings::{Context, FlashAttn, GpuLayers, Outputs};
use crate::teach::Page;
use crate::units::Bytes;

pub(super) use listed::{
    cache_types, engines, flash_attns, formats, knobs, knobs_or_quant, number_knobs_or_quant, objectives, pages,
    releases, ways_to_fit,
};

/// A number from 1 up; `32k` is 32768.
pub(super) fn count(text: &str) -> Result<u64, String> {
    number(text, 1)
}

/// Tokens per second.
pub(super) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim().parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| format!("'{text}' is not a speed: use tokens per second, such as 23.4"))
}

/// A number of layers, 0 allowed.
pub(super) fn layers(text: &str) -> Result<u64, String> {
    number(text, 0)
}

fn number(text: &str, least: u64) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, scale) = lower.strip_suffix('k').map_or((lower.as_str(), 1), |digits| (digits, 1024));
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain {
        return Err(format!("'{text}' is not a number: use {least} or more, such as 512 or 32k"));
    }
    let value = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    match value.filter(|value| (least..=MAX_VALUE).contains(value)) {
        Some(value) => Ok(value),
        None => Err(format!("'{text}' is out of range: use a number from {least} to {MAX_VALUE}")),
    }
}

/// A number of parameters.
pub(super) fn parameters(text: &str) -> Result<u64, String> {
    library::parameters(text).ok_or_else(|| format!("'{text}' is not a number of parameters: use 7b, 1.5b or 500m"))
}

/// A name and a value.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.trim().is_empty());
    let (name, value) = pair.ok_or_else(|| format!("'{text}' is not NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// An operating system.
pub(super) fn os(text: &str) -> Result<Os, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "linux" => Ok(Os::Linux),
        "macos" | "darwin" => Ok(Os::MacOs),
        "windows" => Ok(Os::Windows),
        _ => Err(format!("'{text}' is not an operating system: use linux, macos or windows")),
    }
}

/// How a model must fit to be listed.
fn fits(text: &str) -> Result<Outcome, String> {
    match text.trim() {
        "vram" => Ok(Outcome::Vram),
        "experts" => Ok(Outcome::ExpertsInRam),
        "split" => Ok(Outcome::LayersInRam),
        _ => Err(format!("'{text}' is not a way to fit: use vram, experts or split")),
    }
}

/// A number of seconds from a tenth to an hour, or off.
pub(super) fn interval(text: &str) -> Result<Interval, String> {
    let text = text.trim();
    if text == "off" {
        return Ok(Interval(None));
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let every = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    every
        .map(|every| Interval(Some(every)))
        .ok_or_else(|| format!("'{text}' is not an interval: use 0.1 to 3600 seconds, or off"))
}

/// `GPU1,GPU0`, `1,0` or `none`.
pub(super) fn devices(text: &str) -> Result<DeviceList, String> {
    if text.trim() == "none" {
        return Ok(DeviceList(Vec::new()));
    }
    let device = |name: &str| {
        let name = name.trim();
        let digits =
            if name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("gpu")) { &name[3..] } else { name };
        digits.parse::<usize>().map_err(|_| format!("'{name}' is not a GPU: use GPU0, GPU1 and so on, or none"))
    };
    text.split(',').map(device).collect::<Result<_, _>>().map(DeviceList)
}

/// A number of tokens; the engine decides what 0 means.
pub(super) fn context(text: &str) -> Result<Context, String> {
    match text.trim() {
        "max" => Ok(Context::Max),
        "auto" => Ok(Context::Auto),
        _ => number(text, 0).map(Context::Tokens).map_err(|error| format!("{error}, or max")),
    }
}

fn page(text: &str) -> Result<PageChoice, String> {
    if text.trim() == "all" {
        return Ok(PageChoice::All);
    }
    let found = Page::ALL.into_iter().find(|page| page.name() == text.trim());
    found.map(PageChoice::One).ok_or_else(|| {
        let names: Vec<_> = Page::ALL.iter().map(|page| page.name()).chain(["all"]).collect();
        format!("there is no page '{text}': use {}", names.join(" or "))
    })
}

fn flash_attn(text: &str) -> Result<FlashAttn, String> {
    match text.trim() {
        "auto" => Ok(FlashAttn::Auto),
        "on" => Ok(FlashAttn::On),
        "off" => Ok(FlashAttn::Off),
        _ => Err(format!("'{text}' is not a valid value: use auto, on or off")),
    }
}

pub(super) fn gpu_layers(text: &str) -> Result<GpuLayers, String> {
    match text.trim() {
        "auto" | "-1" => Ok(GpuLayers::Auto),
        "all" => Ok(GpuLayers::All),
        _ => number(text, 0).map(GpuLayers::Count).map_err(|error| format!("{error}, auto or all")),
    }
}

pub(super) fn outputs(text: &str) -> Result<Outputs, String> {
    match text.trim() {
        "ubatch" => Ok(Outputs::Ubatch),
        "parallel" => Ok(Outputs::Parallel),
        _ => number(text, 1).map(Outputs::Tokens).map_err(|error| format!("{error}, or ubatch")),
    }
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let share = text.trim().parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0);
    share.ok_or_else(|| format!("'{text}' is not a proportion: use numbers of 0 or more, such as 3,1"))
}

/// A knob by its name on the command line.
fn knob(text: &str) -> Result<Knob, String> {
    named(text, &engine_knobs())
}

/// All knobs that move plans, but the quantisation, which is a property of the model and parsed separately.
fn engine_knobs() -> Vec<Knob> {
    Knob::ALL.into_iter().filter(|&knob| knob != Knob::Quant && knob.moves_plans()).collect()
}

/// What settings should serve.
fn objective(text: &str) -> Result<Objective, String> {
    Objective::ALL.into_iter().find(|objective| objective.name() == text.trim()).ok_or_else(|| {
        format!("'{text}' is not an objective: use {}", Objective::ALL.map(Objective::name).join(" or "))
    })
}

/// Knobs whose values are numbers.
const NUMBER_KNOBS: [Knob; 4] = [Knob::Context, Knob::Parallel, Knob::Batch, Knob::GpuLayers];

/// A knob, or the quantisation.
fn knob_or_quant(text: &str) -> Result<KnobOrQuant, String> {
    or_quant(text, &engine_knobs())
}

/// A knob whose values are numbers, or the quantisation.
fn number_knob_or_quant(text: &str) -> Result<KnobOrQuant, String> {
    or_quant(text, &NUMBER_KNOBS)
}

fn or_quant(text: &str, knobs: &[Knob]) -> Result<KnobOrQuant, String> {
    if text.trim() == "quant" {
        return Ok(KnobOrQuant::Quantisation);
    }
    named(text, knobs).map(KnobOrQuant::Knob).map_err(|sentence| format!("{sentence}, or quant"))
}

fn named(text: &str, knobs: &[Knob]) -> Result<Knob, String> {
    let names = || knobs.iter().map(|knob| knob.name()).collect::<Vec<_>>().join(", ");
    let found = knobs.iter().find(|knob| knob.name() == text.trim()).copied();
    found.ok_or_else(|| format!("'{text}' is not a knob that can be used here: use one of {}", names()))
}

pub(super) fn mebibytes(text: &str) -> Result<Bytes, String> {
    number(text, 0).map(Bytes::mib)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn values_are_parsed_exactly() {
        assert_eq!(context("50000"), Ok(Context::Tokens(50_000)));
        assert_eq!(context("32k"), Ok(Context::Tokens(32_768)));
        assert_eq!(context("1099511627776"), Ok(Context::Tokens(1 << 40)));
        assert_eq!(context("max"), Ok(Context::Max));
        assert_eq!(gpu_layers("-1"), Ok(GpuLayers::Auto));
        assert_eq!(gpu_layers("0"), Ok(GpuLayers::Count(0)));
        assert_eq!(gpu_layers("all"), Ok(GpuLayers::All));
        assert_eq!(outputs("ubatch"), Ok(Outputs::Ubatch));
        assert_eq!(mebibytes("1024"), Ok(Bytes::gib(1)));
        assert_eq!(share("0.5"), Ok(0.5));
    }

    #[rstest]
    #[case("")]
    #[case("-5")]
    #[case("+5")]
    #[case("k")]
    #[case("1e9")]
    #[case("1099511627777")]
    #[case("18446744073709551615k")]
    #[case("99999999999999999999999")]
    fn invalid_contexts_are_refused_with_a_hint(#[case] text: &str) {
        let error = context(text).unwrap_err();
        assert!(error.contains("use") && error.ends_with("or max"), "{error}");
    }

    #[test]
    fn shares_are_plain_numbers() {
        for text in ["", "-1", "nan", "inf", "a"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
