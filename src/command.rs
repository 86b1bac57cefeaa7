//! How servers are started: a command line that was pasted, or a file that starts some, as what it asks of an engine.
//!
//! ```text
//! text -> shell (words) ------------------------\
//!      -> file (compose, systemd, presets, …) ---+-> start (one server) -> the settings that it has
//! ```
#![allow(clippy::format_push_string, reason = "written once; readability wins")]

mod dialect;
mod file;
mod limit;
mod others;
pub mod router;
pub mod shell;
mod start;

pub use others::OtherOptions;
pub use router::{Router, router};
pub use start::{Start, names};

use crate::budget::{Allowance, Budget, Exceeded, Spend};
use crate::observed::program;
use dialect::Dialect;
use shell::Variables;
use start::named;

/// What `text` starts: a command line, a script, a unit of systemd, a file of compose, of llama-swap, or presets of
/// llama-server. Never empty.
///
/// # Errors
/// One sentence if nothing in it starts a server that is known, an option has a value that its program refuses, or it takes
/// more than [`Allowance::COMMAND`].
pub fn read(text: &str) -> Result<Vec<Start>, String> {
    let budget = Budget::new(Allowance::COMMAND);
    budget.take(Spend::Bytes, text.len() as u64).map_err(spent)?;
    let text = text.replace("\r\n", "\n");
    let read = match file::Kind::of(&text) {
        Some(kind) => kind.read(&text, &budget),
        None => script(&text, Variables::new(), &budget),
    };
    budget.whole().map_err(spent)?;
    let mut all = read?;
    named(&mut all);
    if all.is_empty() {
        return Err("nothing in it starts a server that is known here: begin with llama-server, or with 'ollama run'"
            .to_owned());
    }
    Ok(all)
}

/// Whether a pasted text is a command: it begins like one, perhaps behind a prompt and variables, or is a file that starts
/// servers.
pub fn is_one(text: &str) -> bool {
    let budget = Budget::new(Allowance::COMMAND);
    if budget.take(Spend::Bytes, text.len() as u64).is_err() {
        return false;
    }
    if file::Kind::of(text).is_some() {
        return read(text).is_ok();
    }
    let Some(first) = shell::commands(text, &mut Variables::new(), &budget).into_iter().next() else { return false };
    let words: Vec<String> = first.into_iter().map(|word| word.text).collect();
    Dialect::find(&words).is_ok()
}

/// More servers than a file starts.
const MAX_STARTS: usize = 512;

/// # Errors
/// One sentence if so many servers are started that one may not mean it.
fn few(starts: usize) -> Result<(), String> {
    if starts <= MAX_STARTS {
        return Ok(());
    }
    Err(format!("it starts more than {MAX_STARTS} servers: give a part of it"))
}

/// The sentence on a text that takes more than it may.
#[allow(clippy::needless_pass_by_value, reason = "as an error is mapped")]
fn spent(exceeded: Exceeded) -> String {
    format!("it {exceeded}: give the part of it that matters")
}

/// Whether a word is the name of a program that starts a server.
pub fn is_program(word: &str) -> bool {
    !word.contains(char::is_whitespace) && Dialect::of_program(program(word)).is_some()
}

/// What the commands of a shell's text start; where there are none, variables of Ollama's server are for it.
fn script(text: &str, mut variables: Variables, budget: &Budget) -> Result<Vec<Start>, String> {
    let commands = shell::commands(text, &mut variables, budget);
    let mut all = Vec::new();
    let mut why = None;
    for words in &commands {
        match Dialect::find(&words.iter().map(|word| word.text.clone()).collect::<Vec<_>>()) {
            Ok((at, dialect)) => {
                all.push(Start::read(dialect, words, at, &variables, budget)?);
                few(all.len())?;
            }
            Err(sentence) => why = why.or(sentence),
        }
    }
    let for_ollama = variables.keys().any(|name| name.starts_with("OLLAMA_"));
    if all.is_empty() && for_ollama {
        all.push(Start::read(Dialect::Ollama, &[], 0, &variables, budget)?);
    }
    match why {
        Some(sentence) if all.is_empty() => Err(sentence),
        _ => Ok(all),
    }
}
