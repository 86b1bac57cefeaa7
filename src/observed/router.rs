//! What a router says when it starts an instance: its name and port in one line, then its command, a word per line.

use super::CommandLine;
use super::command;
use super::scan;

/// Words of a command at most.
const WORDS: usize = 512;

/// An instance that is being started.
#[derive(Clone, Debug, Default)]
pub(super) struct Spawn {
    name: String,
    port: String,
    words: Vec<String>,
}

impl Spawn {
    /// `spawning server instance with name=gemma on port 41000`
    pub fn begin(text: &str) -> Option<Self> {
        let rest = scan::after(text, "spawning server instance with name=")?;
        let (name, port) = rest.rsplit_once(" on port ")?;
        let (number, _) = scan::count(port)?;
        Some(Self { name: scan::name(name), port: number.to_string(), words: Vec::new() })
    }

    /// A word of the command, in `srv          load:   --alias`; whether it was one.
    pub fn add(&mut self, text: &str) -> bool {
        let Some((_, word)) = text.split_once(" load: ").filter(|_| text.starts_with("srv ")) else { return false };
        let heading = word.contains("spawning server instance");
        let Some(word) = word.strip_prefix("  ").filter(|_| self.words.len() < WORDS) else { return heading };
        self.words.push(scan::name(word));
        true
    }

    /// The instance's port and command.
    pub fn end(self) -> (String, CommandLine) {
        let mut command = command::of_list(self.words);
        command.model = command.model.or(Some(self.name));
        (self.port, command)
    }
}
