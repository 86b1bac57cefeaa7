//! Standard output.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use super::error::{CliError, written};
use crate::text;

/// `text` as standard output may get it: with the colours that only a terminal gets.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    text::shown(text, io::stdout().is_terminal())
}

/// Prints `text`.
///
/// # Errors
/// If it cannot be written.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    written(out.write_all(shown(text).as_bytes()).and_then(|()| out.flush()))
}
