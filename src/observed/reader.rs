//! Reads a text incrementally.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::command::Spawn;
use super::context_fit::{self, ObservedFit};
use super::driver::Driver;
use super::kind::Kind;
use super::load::{Load, Missing, Program};
use super::load_builder::LoadBuilder;
use super::ollama::{self, PsRow};
use super::prefix::{self, Collector, Document, Line, Source};
use super::row::Parsed;
use super::{Observation, limits, rows};

/// Reads a text in pieces of any size; where it is cut makes no difference.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// The incomplete last line.
    line: Vec<u8>,
    /// Lines before this one.
    lines: u64,
    writers: Vec<Writer>,
    /// The writer of the last line.
    current: usize,
    loads: VecDeque<Load>,
    left_out: u64,
    ps: Vec<PsRow>,
    fits: Vec<ObservedFit>,
    driver: Driver,
    document: Collector,
    /// An instance that a router is starting.
    spawn: Option<Spawn>,
    /// A command that goes on in the next line.
    command: String,
    /// A memory line that was broken before its figure: the next line may be the rest.
    broken: Option<String>,
    /// Whether loads keep the lines that were read of them.
    keeps_lines: bool,
}

/// One of several programs that write one text, and its load under way.
#[derive(Clone, Debug, Default)]
struct Writer {
    service: String,
    process: String,
    port: String,
    load: LoadBuilder,
    /// Number of its last line.
    last: u64,
}

impl Writer {
    fn is(&self, source: Source<'_>) -> bool {
        self.service == source.service && self.process == source.process && self.port == source.port
    }

    /// Whether `source` may be this writer, with more of its names known.
    fn may_be(&self, source: Source<'_>) -> bool {
        let may = |known: &str, told: &str| known.is_empty() || told.is_empty() || known == told;
        may(&self.service, source.service) && may(&self.process, source.process) && may(&self.port, source.port)
    }

    fn name(&mut self, source: Source<'_>) {
        let names =
            [(&mut self.service, source.service), (&mut self.process, source.process), (&mut self.port, source.port)];
        for (known, told) in names {
            if known.is_empty() {
                told.clone_into(known);
            }
        }
        let names = [&self.service, &self.process, &self.port];
        let told: Vec<&str> = names.into_iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        self.load.load.writer = (!told.is_empty()).then(|| told.join(" "));
        if self.process.starts_with("ollama[") && self.load.load.program.is_none() {
            self.load.load.program = Some(Program::Ollama);
        }
    }
}

impl Reader {
    /// A reader whose loads keep the lines that say something of them ([`Load::lines`]).
    pub fn keeping_lines() -> Self {
        Self { keeps_lines: true, ..Self::default() }
    }

    /// Reads the next piece.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            let (piece, rest) = bytes.split_at(end);
            let newline = rest.first() == Some(&b'\n');
            if self.line.is_empty() {
                let piece = piece.get(..limits::LINE).unwrap_or(piece);
                self.read(piece);
            } else {
                self.extend(piece);
                let line = std::mem::take(&mut self.line);
                self.read(&line);
                self.line = line;
                self.line.clear();
            }
            // a carriage return ends what a spinner overwrites, but no line of the file
            self.lines += u64::from(newline);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.extend(bytes);
    }

    /// Reads one line without its line break.
    pub fn line(&mut self, text: &str) {
        self.feed(text.as_bytes());
        self.feed(b"\n");
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = limits::LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(piece.get(..room).unwrap_or(piece));
    }

    /// Ends reading.
    pub fn finish(mut self) -> Observation {
        let line = std::mem::take(&mut self.line);
        self.read(&line);
        self.is_of_spawn(Line::default());
        for writer in std::mem::take(&mut self.writers) {
            self.keep(writer.load);
        }
        let Self { loads, left_out, ps, fits, driver, .. } = self;
        let mut loads = Vec::from(loads);
        loads.sort_by_key(|load| load.line);
        merge_command(&mut loads);
        let chosen = (0..loads.len()).max_by_key(|&at| loads.get(at).map(Load::standing));
        let missing = Missing::of(chosen.and_then(|at| loads.get(at)));
        let Driver { cards, processes, .. } = driver;
        Observation { loads, chosen, loads_left_out: left_out, ps, fits, cards, processes, missing }
    }

    /// A line in bytes, perhaps of a file in UTF-16.
    fn read(&mut self, bytes: &[u8]) {
        let bytes = if bytes.contains(&0) {
            Cow::Owned(bytes.iter().copied().filter(|&byte| byte != 0).collect())
        } else {
            Cow::Borrowed(bytes)
        };
        let text = String::from_utf8_lossy(&bytes);
        let text = prefix::plain(&text);
        let line = prefix::strip(&text);
        if line.text.is_empty() && !line.lm_studio {
            return;
        }
        self.line_of(line, true);
    }

    fn line_of(&mut self, line: Line<'_>, may_nest: bool) {
        let document = prefix::document_of(line.text).filter(|_| may_nest).or_else(|| self.document.feed(line.text));
        match document {
            Some(Document::Text(text)) if may_nest => {
                for nested in text.lines() {
                    let nested = prefix::plain(nested);
                    let mut nested = prefix::strip(&nested);
                    if nested.source == Source::default() {
                        nested.source = line.source;
                    }
                    self.line_of(nested, false);
                }
                return;
            }
            Some(Document::Table(rows)) => {
                for (name, row) in rows {
                    self.apply(line, Parsed::new(Kind::Table(row.phase()), |now| now.add_row(name, row)));
                }
                return;
            }
            Some(Document::Ps(rows)) => {
                self.ps.extend(rows);
                self.ps.truncate(limits::ROWS);
                return;
            }
            Some(Document::Other(value)) if self.driver.rocm_json(&value) => return,
            _ => {}
        }
        if self.is_of_spawn(line) {
            return;
        }
        if self.is_of_command(line) {
            return;
        }
        let broken = self.broken.take();
        if let Some(parsed) = rows::read(line.text) {
            self.apply(line, parsed);
            return;
        }
        if may_be_broken(line.text) {
            self.broken = Some(line.text.to_owned());
        } else if let Some(first) = broken {
            let whole = first + line.text;
            if let Some(parsed) = rows::read(&whole).filter(|parsed| parsed.kind.is_memory()) {
                self.apply(Line { text: &whole, ..line }, parsed);
                return;
            }
            self.broken = may_be_broken(&whole).then_some(whole);
        }
        if let Some(row) = ollama::row(line.text) {
            if self.ps.len() < limits::ROWS {
                self.ps.push(row);
            }
            return;
        }
        if let Some(fit) = context_fit::read(line.text) {
            if self.fits.len() < limits::ROWS {
                self.fits.push(fit);
            }
            return;
        }
        if self.driver.read(line.text) {
            return;
        }
        // Ollama's own lines, and its web server's, stand between a runner's
        let of_another = line.text.is_empty() || line.text.starts_with("time=") || line.text.starts_with("[GIN]");
        let at = self.writer(line);
        if let Some(writer) = self.writers.get_mut(at) {
            writer.load.pass(of_another);
        }
    }

    /// Whether a line is of a command over several lines, which is read with its last one.
    fn is_of_command(&mut self, line: Line<'_>) -> bool {
        let goes_on = line.text.trim_end().strip_suffix(['\\', '^', '`']).filter(|rest| rest.ends_with(' '));
        let is_other = |text: &str| rows::read(text).is_some_and(|parsed| parsed.kind != Kind::Command);
        let has_room = self.command.len() + line.text.len() < limits::LINE;
        if self.command.is_empty() && goes_on.is_none_or(is_other) || !has_room {
            self.command.clear();
            return false;
        }
        self.command.push_str(goes_on.unwrap_or(line.text).trim());
        self.command.push(' ');
        if goes_on.is_some() {
            return true;
        }
        let whole = std::mem::take(&mut self.command);
        let Some(parsed) = rows::read(&whole).filter(|parsed| parsed.kind == Kind::Command) else { return false };
        self.apply(Line { text: &whole, ..line }, parsed);
        true
    }

    /// Whether a line is of a router that starts an instance; its command becomes that of the instance's writer.
    fn is_of_spawn(&mut self, line: Line<'_>) -> bool {
        if self.spawn.as_mut().is_some_and(|spawn| spawn.add(line.text)) {
            return true;
        }
        if let Some((port, command)) = self.spawn.take().map(Spawn::end) {
            let source = Source { port: &port, ..line.source };
            self.apply(
                Line { source, ..Line::default() },
                Parsed::new(Kind::Command, |now| now.start(Some(Program::LlamaCpp), command)),
            );
        }
        self.spawn = if line.text.starts_with("srv ") { Spawn::begin(line.text) } else { None };
        self.spawn.is_some()
    }

    fn apply(&mut self, line: Line<'_>, parsed: Parsed<'_>) {
        let at = self.writer(line);
        let Some(writer) = self.writers.get_mut(at) else { return };
        let mut ended = None;
        if writer.load.is_ended_by(parsed.kind, line.clock) {
            let next = LoadBuilder::on(Some(&writer.load));
            ended = Some(std::mem::replace(&mut writer.load, next));
        }
        if writer.load.load.line == 0 {
            writer.load.load.line = self.lines + 1;
        }
        if self.keeps_lines && writer.load.load.lines.len() < limits::KEPT {
            writer.load.load.lines.push(line.plain());
        }
        writer.load.enter(line.text, parsed, line.clock);
        if let Some(load) = ended {
            self.keep(load);
        }
    }

    /// Index of a line's writer: the one with its names, one that may have them, or for a line without names the last.
    fn writer(&mut self, line: Line<'_>) -> usize {
        let source = line.source;
        let known = |writer: &Writer| writer.is(source);
        let current = self.writers.get(self.current);
        let at = if current.is_some_and(|writer| source == Source::default() || writer.is(source)) {
            self.current
        } else if let Some(at) = self.writers.iter().position(known) {
            at
        } else if let Some(at) = self.writers.iter().position(|writer| writer.may_be(source)) {
            at
        } else {
            self.add_writer(source)
        };
        self.current = at;
        if let Some(writer) = self.writers.get_mut(at) {
            writer.last = self.lines;
            if !writer.is(source) || writer.load.load.writer.is_none() {
                writer.name(source);
            }
            if line.lm_studio && writer.load.load.program.is_none() {
                writer.load.load.program = Some(Program::LmStudio);
            }
        }
        at
    }

    /// Another writer, on the machine of one with the same service; the one silent longest makes room.
    fn add_writer(&mut self, source: Source<'_>) -> usize {
        let near = self.writers.iter().find(|writer| writer.service == source.service && !source.port.is_empty());
        let mut load = LoadBuilder::on(near.map(|writer| &writer.load));
        load.load.writer = None;
        let writer = Writer { load, ..Writer::default() };
        if self.writers.len() < limits::WRITERS {
            self.writers.push(writer);
            return self.writers.len() - 1;
        }
        let oldest = self.writers.iter().enumerate().min_by_key(|(_, writer)| writer.last).map_or(0, |(at, _)| at);
        if let Some(place) = self.writers.get_mut(oldest) {
            let gone = std::mem::replace(place, writer);
            self.keep(gone.load);
        }
        oldest
    }

    /// Keeps a finished load; one of which only the machine is known, only if there is no other.
    fn keep(&mut self, load: LoadBuilder) {
        let Some(load) = load.finish() else { return };
        if load.is_bare() && !self.loads.is_empty() {
            return;
        }
        self.loads.retain(|kept| !kept.is_bare());
        if self.loads.len() == limits::LOADS {
            self.loads.pop_front();
            self.left_out += 1;
        }
        self.loads.push_back(load);
    }
}

/// Whether an unknown line may be the beginning of a memory line that a terminal or a mail broke.
fn may_be_broken(text: &str) -> bool {
    const FUNCTIONS: [&str; 6] = ["load_tensors:", "llama_", "sched_reserve:", "init:", "breakdown_print: |", "_meta:"];
    text.len() < 512 && !text.contains('~') && FUNCTIONS.iter().any(|function| text.contains(function))
}

/// A command pasted below its log belongs to the load above it.
fn merge_command(loads: &mut Vec<Load>) {
    let [.., above, below] = loads.as_mut_slice() else { return };
    let bare = !below.has_memory() && below.models.is_empty() && below.contexts.is_empty() && below.events.is_empty();
    if bare && above.command.is_none() && below.command.is_some() && below.writer == above.writer {
        above.command = below.command.take();
        above.asked = above.asked.take().or(below.asked.take());
        let settings = std::mem::take(&mut below.settings);
        above.settings = std::mem::take(&mut above.settings).or(settings);
        loads.pop();
    }
}
