//! The log for bug reports: what was detected, fetched and planned, and how long it took.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing::{Level, debug, info};

use super::error::CliError;
use super::surroundings;
use crate::text::shown;

/// Writes what is printable of each event.
struct Printable(File);

impl Write for Printable {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(shown(&String::from_utf8_lossy(event), false).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Starts the log in the file that the option or else `PLIMSOLL_LOG` names, behind what is in it; without either there
/// is none.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn start(option: Option<&Path>, arguments: &[OsString]) -> Result<(), CliError> {
    let variable = std::env::var_os("PLIMSOLL_LOG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let (who, path) = match (option, &variable) {
        (Some(path), _) => ("--log", path),
        (None, Some(path)) => ("PLIMSOLL_LOG", path.as_path()),
        (None, None) => return Ok(()),
    };
    let cannot = |why: String| {
        CliError::flag(who, &format!("'{}' cannot be written: {why}; name a file in a folder of yours", path.display()))
    };
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| cannot(error.to_string()))?;
    let subscriber = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false);
    let subscriber = subscriber.with_writer(Mutex::new(Printable(file))).finish();
    tracing::subscriber::set_global_default(subscriber).map_err(|error| cannot(error.to_string()))?;
    info!("{}", surroundings::version());
    info!("arguments: {}", surroundings::arguments(arguments));
    for (name, value) in surroundings::variables() {
        debug!("{name}={value}");
    }
    Ok(())
}
