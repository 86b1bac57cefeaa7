//! `plimsoll man`: manual pages, made from the arguments and their help texts.

use std::fs;
use std::io::{self, Write as _};

use clap::CommandFactory;
use clap_mangen::Man;

use super::args::{Cli, ManArgs};
use super::error::{CliError, written};

/// Prints the page of the program, or writes it and one page per command into a folder.
pub(super) fn run(args: &ManArgs) -> Result<(), CliError> {
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        return written(Man::new(Cli::command()).render(&mut page).and_then(|()| io::stdout().lock().write_all(&page)));
    };
    let made = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    made.map_err(|error| CliError::Terminal(format!("'{}' cannot be written: {error}", folder.display())))
}
