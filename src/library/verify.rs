//! A log beside the plan of what it shows, for the planner.

use std::sync::Arc;

use super::filter::{self, FoundModel};
use crate::answer::check::{Check, CheckRequest, check};
use crate::engine::PreparedModel;
use crate::machine::spec::MachineSpec;
use crate::observed::{Load, Observation, Program};
use crate::source::Roots;

/// The name under which the log that comes with the program is asked for.
pub const EXAMPLE: &str = "example";

/// The log called `name`, if it is [`EXAMPLE`]: made by hand in llama.cpp's format of November 2026, with the figures of a
/// plan.
pub fn example(name: &str) -> Option<&'static str> {
    (name == EXAMPLE).then_some(include_str!("../../assets/example-log.txt"))
}

/// A log beside its plan.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The load that was compared, and how many the log has.
    pub load: (usize, usize),
    /// What was compared with what, in a line.
    pub about: String,
    /// The comparison.
    pub check: Check,
}

/// Compares the load to look at in `seen`. Its model is looked for as [`filter::find`] does; `open` stands in where
/// there is none.
///
/// # Errors
/// One sentence that says what is missing and what to do.
pub fn verify(seen: &Observation, roots: &Roots, open: Option<&Arc<PreparedModel>>) -> Result<Verified, String> {
    let missing = || seen.missing.first().map_or_else(|| "no load of a model is in it".to_owned(), ToString::to_string);
    let chosen = seen.chosen.ok_or_else(missing)?;
    let load = seen.loads.get(chosen).filter(|load| load.has_memory()).ok_or_else(missing)?;
    let (model, projector, is_same_file, how) = match (filter::find(load, roots), open) {
        (Ok(FoundModel { package, is_same_file, how }), _) => (package.model, package.projector, is_same_file, how),
        (Err(_), Some(open)) => (Arc::clone(open), None, false, "the model that is open".to_owned()),
        (Err(why), None) => return Err(why),
    };
    let request = CheckRequest {
        model,
        projector,
        is_same_file,
        machine: &MachineSpec::default(),
        engine: None,
        release: None,
        knobs: &|_| {},
    };
    let check = check(load, &request).map_err(|error| error.to_string())?;
    Ok(Verified { load: (chosen + 1, seen.loads.len()), about: about(load, &how, &check), check })
}

fn about(load: &Load, how: &str, check: &Check) -> String {
    let program = load.program.map_or("a program", Program::name);
    let version = load.version.clone().or_else(|| load.build.map(|build| format!("b{build}")));
    let version = version.map(|version| format!(" {version}")).unwrap_or_default();
    let release = check.release.as_ref().map(|choice| format!(", release {}", choice.release)).unwrap_or_default();
    let planned = format!("planned for {}{release}", check.request.engine.title());
    format!("{} ({}) in {program}{version}, {planned}", check.request.model.name, how)
}
