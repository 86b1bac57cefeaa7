//! Values of settings as texts: how they are read and written.

use std::fmt::Display;

use super::placement::{self, DeviceName, TensorOverride};
use super::release::{NearestRelease, Release};
use super::values::{ALL_LAYERS, CacheType, Context, FlashAttn, GpuLayers, MAX_VALUE, Outputs};
use crate::machine::Backend;
use crate::model::mixture::{NotAQuantisation, Quantisation};
use crate::units::{Bytes, whole};

/// `true` unless a variable or an argument says otherwise: as Go's `strconv.ParseBool`, except that unknown values are
/// true.
pub fn is_on(text: &str) -> bool {
    !["0", "f", "F", "false", "FALSE", "False"].contains(&text)
}

/// Tensors placed on devices: `PATTERN=DEVICE,…`.
///
/// # Errors
/// One sentence on the part that cannot be read.
pub fn overrides(text: &str) -> Result<Vec<TensorOverride>, String> {
    placement::overrides(None, text)
}

/// A number from 1 up, as [`whole`] reads it: `32k` is 32768.
///
/// # Errors
/// One sentence that names the accepted values; so all readers here.
pub fn count(text: &str) -> Result<u64, String> {
    number(text, 1)
}

/// A number, 0 allowed.
#[allow(missing_docs, clippy::missing_errors_doc, reason = "as above")]
pub fn layers(text: &str) -> Result<u64, String> {
    number(text, 0)
}

pub(super) fn number(text: &str, least: u64) -> Result<u64, String> {
    match whole(text) {
        Some(value) if (least..=MAX_VALUE).contains(&value) => Ok(value),
        Some(_) => Err(format!("'{text}' is out of range: use a number from {least} to {MAX_VALUE}")),
        None => Err(format!("'{text}' is not a number: use {least} or more, such as 512 or 32k")),
    }
}

/// A number of MiB.
#[allow(clippy::missing_errors_doc, reason = "as above")]
pub fn mebibytes(text: &str) -> Result<Bytes, String> {
    number(text, 0).map(Bytes::mib)
}

/// What a prompt cache without a limit is taken for.
pub const NO_LIMIT: Bytes = Bytes::mib(MAX_VALUE);

/// The limit of the prompt cache.
pub(super) fn prompt_cache(text: &str) -> Result<Bytes, String> {
    if text.trim() == "-1" { Ok(NO_LIMIT) } else { mebibytes(text) }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as the other writers")]
pub(super) fn written_prompt_cache(limit: &Bytes) -> String {
    if *limit == NO_LIMIT { "-1".to_owned() } else { written_mebibytes(limit) }
}

pub(super) fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: crate::units::NotASize| error.to_string())
}

/// A quantisation by its name.
///
/// # Errors
/// One sentence with an example.
pub fn quantisation(text: &str) -> Result<Quantisation, String> {
    text.parse().map_err(|error: NotAQuantisation| error.to_string())
}

/// A number of tokens, `max` or `auto`; the engine decides what 0 means.
#[allow(clippy::missing_errors_doc, reason = "as above")]
pub fn context(text: &str) -> Result<Context, String> {
    match text.trim() {
        "max" => Ok(Context::Max),
        "auto" => Ok(Context::Auto),
        _ => number(text, 0).map(Context::Tokens).map_err(|error| format!("{error}, or max")),
    }
}

pub(super) fn flash_attn(text: &str) -> Result<FlashAttn, String> {
    FlashAttn::of(text).ok_or_else(|| format!("'{text}' is not a valid value: use auto, on or off"))
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

/// `3,1`; llama-server takes a slash too.
pub(super) fn proportions(text: &str) -> Result<Vec<f64>, String> {
    let share = |text: &str| {
        let share = text.trim().parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0);
        share.ok_or_else(|| format!("'{text}' is not a proportion: use numbers of 0 or more, such as 3,1"))
    };
    text.split([',', '/']).map(share).collect()
}

/// Copies a number of layers that one option holds if it is all of them, and another one if not.
pub(super) fn copy_layers(from: Option<u64>, to: &mut Option<u64>, all: bool) {
    let is_own = |layers: Option<u64>| layers.is_some_and(|layers| (layers == ALL_LAYERS) == all);
    if is_own(from) || is_own(*to) {
        *to = from;
    }
}

/// The index of a GPU; below zero for none.
pub(super) fn index(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is not the index of a GPU: use 0, 1 and so on"))
}

/// `GPU1,CUDA0`, `1,0` or `none`.
pub(super) fn devices(text: &str) -> Result<Vec<DeviceName>, String> {
    if text.trim() == "none" { Ok(Vec::new()) } else { text.split(',').map(str::parse).collect() }
}

#[allow(clippy::ptr_arg, reason = "as the other writers")]
pub(super) fn written_devices(devices: &Vec<DeviceName>) -> String {
    if devices.is_empty() { "none".to_owned() } else { joined(devices) }
}

pub(super) fn written_overrides(overrides: &[TensorOverride]) -> Option<String> {
    (!overrides.is_empty()).then(|| joined(overrides))
}

/// The number in `GPU1`, or in the name that llama.cpp has for the same on a machine with GPUs of one backend: `CUDA1`.
pub(super) fn gpu_number(name: &str) -> Option<usize> {
    let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let backend = &name[..name.len() - digits.len()];
    let known = ["GPU", "MTL"].into_iter().chain(Backend::ALL.map(Backend::name));
    known.filter(|known| known.eq_ignore_ascii_case(backend)).find_map(|_| digits.parse().ok())
}

/// A release by its name, or the nearest one to a build, a date or what a program ships.
pub(super) fn release(text: &str) -> Result<NearestRelease, String> {
    NearestRelease::to(text).ok_or_else(|| {
        let unknown = text.parse::<Release>().err().map_or_else(String::new, |unknown| format!("{unknown}; "));
        format!("{unknown}a build (b11200), a date (2026-09-15) or a program (koboldcpp 1.120) takes the nearest")
    })
}

pub(super) fn cache_types() -> Vec<&'static str> {
    CacheType::ALL.map(CacheType::name).to_vec()
}

/// 0 is the training context; so is llama-server's default, but the fit may lower that.
pub(super) fn written_context(context: &Context) -> String {
    if let Context::Tokens(tokens) = context { tokens.to_string() } else { "0".to_owned() }
}

pub(super) fn typed_context(context: Context) -> String {
    match context {
        Context::Auto => "auto".to_owned(),
        Context::Max => "max".to_owned(),
        Context::Tokens(tokens) => tokens.to_string(),
    }
}

pub(super) fn written_layers(layers: &GpuLayers) -> String {
    layers.word().map_or_else(str::to_owned, |count| count.to_string())
}

pub(super) fn written_outputs(outputs: &Outputs) -> String {
    if let Outputs::Tokens(tokens) = outputs { tokens.to_string() } else { "ubatch".to_owned() }
}

/// Whole MiB, the unit of llama-server's options.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as the other writers")]
pub(super) fn written_mebibytes(bytes: &Bytes) -> String {
    in_mib(*bytes).to_string()
}

/// Whole MiB, as llama-server's option has them.
pub(crate) const fn in_mib(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(1 << 20)
}

/// `3,1`
pub fn joined<T: Display>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Tokens sent and written: `32k,1k`.
///
/// # Errors
/// One clause with an example.
pub(super) fn turn(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("'{text}' is not a turn: use the tokens sent and written, such as 32k,1k");
    let (prompt, answer) = text.split_once(',').ok_or_else(wrong)?;
    let tokens = |text: &str| count(text).map_err(|_| wrong());
    Ok((tokens(prompt)?, tokens(answer)?))
}

/// A share, in percent: `90%`, `90`.
///
/// # Errors
/// One clause.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| format!("'{text}' is not a share: use 0% to 100%"))
}

/// [`share`] written.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "as options are written")]
pub(super) fn percent(share: &f64) -> String {
    format!("{}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_and_refused() {
        assert_eq!(turn("32k,1k"), Ok((32_768, 1024)));
        assert_eq!(turn("3000, 500"), Ok((3000, 500)));
        for text in ["32k", "0,1", "a,b", "", "1,99999999999999"] {
            assert!(turn(text).unwrap_err().contains("is not a turn"), "{text}");
        }
    }

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
        assert_eq!(proportions("0.5/1"), Ok(vec![0.5, 1.0]));
    }

    #[test]
    fn invalid_values_are_refused_with_a_hint() {
        for text in ["", "-5", "+5", "k", "1e9", "1099511627777", "18446744073709551615k", "99999999999999999999999"] {
            let error = context(text).unwrap_err();
            assert!(error.contains("use") && error.ends_with("or max"), "{error}");
        }
        for text in ["", "-1", "nan", "inf", "a"] {
            assert!(proportions(text).is_err(), "{text}");
        }
    }
}
