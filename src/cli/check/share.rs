//! `check --share`: a sample of a log for this program's tests.

use std::path::Path;
use std::process::ExitCode;

use super::super::error::{self, CliError, one_line};
use super::super::interrupt::Interrupt;
use super::super::out::print;
use super::super::questions;
use crate::answer::check::Check;
use crate::export::sample;
use crate::observed::{Load, share};

/// Shows the sample, and writes it into `file` once the user agrees.
pub(super) fn run(file: &Path, load: &Load, check: &Check) -> Result<ExitCode, CliError> {
    let private = private();
    if !share::reads_the_same(load, &private) {
        let why = "without names, other figures would be read in these lines: a sample cannot be made of this log";
        return Err(CliError::flag("--share", why));
    }
    let text = error::json("--share", sample::json(load, check, &private))?;
    print(&text)?;
    if file == Path::new("-") {
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C ends the program, which has nothing to give back
    let question = format!("Look through it: nothing above should name you. Write it to '{}'?", file.display());
    match Interrupt::default().ask(&one_line(&question)) {
        None => {
            let why = "there is no one to ask whether this may be written: use '--share -' and redirect the output";
            return Err(CliError::flag("--share", why));
        }
        Some(false) => {}
        Some(true) => {
            questions::save_private(file, &text)?;
            error::say("written; CONTRIBUTING.md says where a sample goes");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Names of this user and this computer.
fn private() -> Vec<String> {
    let variables = ["USER", "USERNAME", "LOGNAME", "COMPUTERNAME", "HOSTNAME"];
    let told = variables.into_iter().filter_map(|name| std::env::var(name).ok());
    let home = directories::BaseDirs::new();
    let owner = home.and_then(|dirs| Some(dirs.home_dir().file_name()?.to_str()?.to_owned()));
    told.chain(owner).chain(sysinfo::System::host_name()).collect()
}
