//! Parsers for option values; errors list the accepted forms.

use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;

use crate::answer::fits::Fit;
use crate::command::router::RouterKind;
use crate::engine::EngineId;
use crate::export::{ExportFormat, SetFormat};
use crate::library::{self, SortBy};
use crate::machine::{CpuInstructions, Os};
use crate::plan::Outcome;
use crate::settings::ollama::Endpoint;
use crate::teach::Tab;

pub(super) use crate::question::parse::{Listed, file_type, speed};
pub(super) use crate::settings::written::{context, count, mebibytes};

/// A polling interval; `None` for off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval(pub(super) Option<Duration>);

/// A page of the teach screen, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageChoice {
    One(Tab),
    All,
}

/// What completed values are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Completed {
    Model,
    Machine,
    Card,
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

/// How a plan must fit.
fn fit(text: &str) -> Result<Fit, String> {
    let named = Fit::ALL.into_iter().find(|fit| fit.name() == text.trim());
    named.ok_or_else(|| format!("'{text}' is not a way to fit: use {}", Fit::ALL.map(Fit::name).join(", ")))
}

/// The same, with the names for completion.
pub(super) fn fits_as() -> Listed<Fit> {
    Listed { parse: fit, names: Fit::ALL.map(Fit::name).to_vec() }
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

/// A number of seconds from one to an hour.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| (1.0..=3600.0).contains(seconds));
    let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    timeout.ok_or_else(|| format!("'{text}' is not a number of seconds: use 1 to 3600"))
}

fn page(text: &str) -> Result<PageChoice, String> {
    if text.trim() == "all" {
        return Ok(PageChoice::All);
    }
    let found = Tab::ALL.into_iter().find(|page| page.name() == text.trim());
    found.map(PageChoice::One).ok_or_else(|| {
        let names: Vec<_> = Tab::ALL.iter().map(|page| page.name()).chain(["all"]).collect();
        format!("there is no page '{text}': use {}", names.join(" or "))
    })
}

fn parsed<T: FromStr<Err = String>>(names: impl IntoIterator<Item = &'static str>) -> Listed<T> {
    Listed { parse: |text| text.parse(), names: names.into_iter().collect() }
}

pub(super) fn engines() -> Listed<EngineId> {
    parsed(EngineId::ALL.map(EngineId::name))
}

pub(super) fn systems() -> Listed<Os> {
    parsed(Os::ALL.map(Os::name))
}

pub(super) fn instructions() -> Listed<CpuInstructions> {
    parsed(CpuInstructions::ALL.map(CpuInstructions::name))
}

pub(super) fn endpoints() -> Listed<Endpoint> {
    parsed(["generate", "embed"])
}

pub(super) fn formats() -> Listed<ExportFormat> {
    parsed(ExportFormat::ALL.map(ExportFormat::name))
}

pub(super) fn set_formats() -> Listed<SetFormat> {
    Listed {
        parse: |text| by_name(text, SetFormat::ALL, SetFormat::name),
        names: SetFormat::ALL.map(SetFormat::name).to_vec(),
    }
}

pub(super) fn routers() -> Listed<RouterKind> {
    Listed {
        parse: |text| by_name(text, RouterKind::ALL, RouterKind::name),
        names: RouterKind::ALL.map(RouterKind::name).to_vec(),
    }
}

/// The value of this name.
fn by_name<T: Copy, const N: usize>(text: &str, all: [T; N], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.into_iter().find(|one| name(*one) == text);
    found.ok_or_else(|| format!("use one of {}", all.map(name).join(", ")))
}

pub(super) fn pages() -> Listed<PageChoice> {
    Listed { parse: page, names: Tab::ALL.into_iter().map(Tab::name).chain(["all"]).collect() }
}

pub(super) fn teach_pages() -> Listed<Tab> {
    let parse = |text: &str| match page(text)? {
        PageChoice::One(page) => Ok(page),
        PageChoice::All => Err("the planner opens one page: choose one".to_owned()),
    };
    Listed { parse, names: Tab::ALL.into_iter().map(Tab::name).collect() }
}

pub(super) fn ways_to_fit() -> Listed<Outcome> {
    Listed { parse: fits, names: vec!["vram", "experts", "split"] }
}

pub(super) fn orders() -> Listed<SortBy> {
    Listed { parse: order, names: SortBy::ALL.map(SortBy::name).to_vec() }
}

fn order(text: &str) -> Result<SortBy, String> {
    let named = SortBy::ALL.into_iter().find(|order| order.name() == text.trim());
    named.ok_or_else(|| format!("'{text}' is not an order: use {}", SortBy::ALL.map(SortBy::name).join(", ")))
}
