//! Errors: one line on stderr and an exit status.

use std::borrow::Cow;
use std::io;

use super::style::Style;
use crate::engine::EngineError;
use crate::model::ModelError;
use crate::source::SourceError;
use crate::text;

/// Characters of a sentence.
const LONGEST: usize = 1600;

/// An error that ends a command.
#[derive(Debug)]
pub(super) enum CliError {
    /// Bad arguments, or settings that the engine refuses: exit status 2.
    Arguments(String),
    /// The model could not be read: exit status 3.
    Model(String),
    /// What was to be loaded did not load: exit status 4.
    NotLoaded(String),
    /// The plan does not fit as was asked: exit status 5.
    DoesNotFit(String),
    /// The answer could not be written, or the screen not opened: exit status 1.
    Terminal(String),
}

impl CliError {
    /// The exit status.
    pub(super) const fn status(&self) -> u8 {
        match self {
            Self::Arguments(_) => 2,
            Self::Model(_) => 3,
            Self::NotLoaded(_) => 4,
            Self::DoesNotFit(_) => 5,
            Self::Terminal(_) => 1,
        }
    }

    /// Prints itself to stderr.
    pub(super) fn say(&self) {
        say(&format!("error: {}", shortened(self.sentence())));
    }

    /// What is wrong, and what to do.
    pub(super) fn sentence(&self) -> &str {
        match self {
            Self::Arguments(sentence)
            | Self::Model(sentence)
            | Self::NotLoaded(sentence)
            | Self::DoesNotFit(sentence)
            | Self::Terminal(sentence) => sentence,
        }
    }

    /// The value of an option is invalid.
    pub(super) fn flag(flag: &str, sentence: &str) -> Self {
        Self::Arguments(format!("{flag}: {sentence}"))
    }
}

/// `sentence`, of which the middle is left out if what it quotes has no end.
fn shortened(sentence: &str) -> Cow<'_, str> {
    let count = sentence.chars().count();
    if count <= LONGEST {
        return Cow::Borrowed(sentence);
    }
    let start: String = sentence.chars().take(LONGEST / 2).collect();
    let end: String = sentence.chars().skip(count - LONGEST / 4).collect();
    Cow::Owned(format!("{start} … {end}"))
}

impl From<SourceError> for CliError {
    fn from(error: SourceError) -> Self {
        Self::Model(error.to_string())
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        Self::Model(error.to_string())
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Model(sentence) => Self::Model(sentence),
            EngineError::Settings(sentence) => Self::Arguments(sentence),
        }
    }
}

/// clap's message, shortened to its sentence and tip.
impl From<clap::Error> for CliError {
    fn from(error: clap::Error) -> Self {
        use clap::error::{ContextKind, ContextValue, ErrorKind};
        use std::error::Error;

        if let (ErrorKind::ValueValidation, Some(source)) = (error.kind(), error.source()) {
            let flag = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(flag)) => flag.split_whitespace().next().unwrap_or(flag).to_owned(),
                _ => "an argument".to_owned(),
            };
            return Self::flag(&flag, &source.to_string());
        }
        let text = error.to_string();
        // the usage, in one line or more, comes last
        let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:")).filter(|line| {
            let unwanted = ["For more information", "tip: to pass"];
            !line.is_empty() && !unwanted.iter().any(|start| line.starts_with(start))
        });
        let sentence = lines.collect::<Vec<_>>().join(" ").replace(" tip: ", ", ");
        let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
        Self::Arguments(format!("{sentence} (see --help)"))
    }
}

/// A closed pipe is not an error: the reader needs no more output.
pub(super) fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::Terminal(format!("the answer could not be written: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// `json` with a line break; `what` names it in the error.
pub(super) fn json(what: &str, json: serde_json::Result<String>) -> Result<String, CliError> {
    json.map(|json| json + "\n")
        .map_err(|error| CliError::Terminal(format!("the {what} cannot be written as JSON: {error}")))
}

/// Prints `sentence` to stderr: on one line, which a terminal gets broken at words.
pub(super) fn say(sentence: &str) {
    let line = one_line(sentence);
    match Style::of_stderr() {
        Some(style) => eprint!("{}", style.paragraph(&line)),
        None => eprintln!("{line}"),
    }
}

/// `text` on one line, as [`text::one_line`].
pub(super) fn one_line(text: &str) -> String {
    text::one_line(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        assert!(written(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(written(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
