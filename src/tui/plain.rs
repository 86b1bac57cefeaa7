//! The planner in lines, for screen readers and where there is no screen: a line asks, and one line answers.
//!
//! ```text
//! > context 64k
//! Context 65536: layers in RAM at 65536 tokens, f16 KV: 6 of 33 layers are in RAM; … GPU0 takes 2.1 GiB more.
//! ```

use std::io::{self, BufRead, Read, Write};

use super::action::Command;
use super::app::App;
use super::effect::Effect;
use super::planner::knobs;
use super::view::header;
use crate::answer::verdict;
use crate::plan::{DevicePlan, Plan};
use crate::settings::knob::Knob;
use crate::text::one_line;
use crate::units::Bytes;

/// Longest line that is read.
const LONGEST: u64 = 4096;

/// What can be asked besides a knob, and what is answered.
const WORDS: [(&str, &str); 9] = [
    ("KNOB VALUE", "sets a knob: context 32k, kv cache q8_0, parallel 4; 'KNOB auto' leaves it to the engine"),
    ("KNOB", "says its value, and the values that it takes"),
    ("most KNOB", "sets the largest value with all in VRAM"),
    ("knobs", "says all knobs"),
    ("plan", "says the verdict again"),
    ("memory", "says what each device takes"),
    ("undo, redo", "take the last change back, or make it again"),
    ("help", "says this"),
    ("quit", "ends"),
];

/// Answers the lines of `input` on `output` until one says `quit` or the input ends.
///
/// # Errors
/// If a line cannot be read or written.
pub fn run(mut app: App, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    refresh(&mut app);
    if let Some(model) = &app.request.model {
        writeln!(output, "{}. {}.", spoken(&model.name), spoken(&header::engine_label(&app)))?;
    }
    writeln!(output, "{}", spoken(&status(&app)))?;
    writeln!(output, "Type a knob and a value, such as context 32k. Help says what else.")?;
    loop {
        output.flush()?;
        let mut line = Vec::new();
        let read = (&mut input).take(LONGEST).read_until(b'\n', &mut line)?;
        let asked = one_line(&String::from_utf8_lossy(&line)).trim().to_lowercase();
        match asked.as_str() {
            _ if read == 0 => return Ok(()),
            "quit" | "exit" | "q" => return Ok(()),
            "" => {}
            _ => writeln!(output, "{}", spoken(&answer(&mut app, &asked)))?,
        }
    }
}

/// What is answered to a line.
fn answer(app: &mut App, asked: &str) -> String {
    app.notice = None;
    match asked {
        "help" | "?" => WORDS.map(|(word, what)| format!("{word}: {what}.")).join("\n"),
        "knobs" => {
            let knobs: Vec<String> = app.panels.knobs.offered.iter().map(|&knob| value(app, knob)).collect();
            knobs.join("\n")
        }
        "plan" => status(app),
        "memory" => {
            let plan = app.request.plan.as_deref();
            let devices = plan.map(|plan| plan.devices.iter().map(device).collect::<Vec<_>>().join("\n"));
            devices.unwrap_or_else(|| status(app))
        }
        "undo" => changed(app, "Undone", App::undo),
        "redo" => changed(app, "Done again", App::redo),
        _ => match asked.split_once(' ').filter(|(word, _)| *word == "most") {
            Some((_, rest)) => match knob(app, rest) {
                Some((knob, "")) => most(app, knob),
                _ => unknown(rest),
            },
            None => match knob(app, asked) {
                Some((knob, "")) => value(app, knob),
                Some((knob, text)) => set(app, knob, text),
                None => unknown(asked),
            },
        },
    }
}

fn unknown(asked: &str) -> String {
    format!("'{asked}' is neither a knob nor a question: 'knobs' says the knobs, 'help' the questions.")
}

/// The knob whose title or name `asked` begins with, the longest first, and what follows it.
fn knob<'a>(app: &App, asked: &'a str) -> Option<(Knob, &'a str)> {
    let named = |knob: Knob, name: &str| {
        let rest = asked.strip_prefix(&name.to_lowercase())?;
        (rest.is_empty() || rest.starts_with([' ', '=']))
            .then(|| (name.len(), knob, rest.trim_start_matches([' ', '='])))
    };
    let all = app.panels.knobs.offered.iter().flat_map(|&knob| [named(knob, knob.title()), named(knob, knob.name())]);
    all.flatten().max_by_key(|(length, ..)| *length).map(|(_, knob, rest)| (knob, rest.trim()))
}

fn set(app: &mut App, knob: Knob, text: &str) -> String {
    app.panels.focus_knob(knob);
    if text == "auto" {
        return changed(app, knob.title(), |app| knobs::turn(app, Command::Reset));
    }
    let mut wrong = None;
    let said = changed(app, knob.title(), |app| wrong = app.set_from_text(text).err());
    wrong.map_or(said, |wrong| format!("{}: {wrong}", knob.title()))
}

fn most(app: &mut App, knob: Knob) -> String {
    app.panels.focus_knob(knob);
    match app.request.limit(knob) {
        Some(most) => changed(app, knob.title(), |app| app.set_knob(knob, most)),
        None => format!("No value of {} has all in VRAM.", knob.title()),
    }
}

/// Changes the planner, and says what came of it.
fn changed(app: &mut App, what: &str, change: impl FnOnce(&mut App)) -> String {
    let before = app.request.plan.clone();
    change(app);
    refresh(app);
    let notice = app.notice.take();
    if let (true, Some(notice)) = (app.request.plan == before, &notice) {
        return notice.clone();
    }
    let notice = notice.map(|notice| format!(" {}.", verdict::capitalised(notice.trim_end_matches('.'))));
    let knob = app.panels.knobs.focus;
    let now =
        if what == knob.title() { format!("{what} {}", knob.show(app.request.value(knob))) } else { what.to_owned() };
    let moved = match (&before, &app.request.plan) {
        (Some(before), Some(after)) if app.request.refused.is_none() => differences(before, after),
        _ => String::new(),
    };
    format!("{}: {}{moved}{}", verdict::capitalised(&now), status(app), notice.unwrap_or_default())
}

/// Plans again, and learns the limits that the verdict names.
fn refresh(app: &mut App) {
    let effects = app.replan();
    for effect in effects {
        if let Effect::Limits(request) = effect {
            knobs::set_limits(app, request.of.limits(&request.plan));
        }
    }
}

/// The verdict, or why there is no plan.
fn status(app: &App) -> String {
    match (&app.request.refused, &app.request.plan) {
        (Some(refused), _) => format!("no plan: {refused}. 'undo' takes the change back."),
        (None, Some(plan)) => {
            let sentence = verdict::sentence(plan, app.request.known_limits().found(), app.request.speeds.as_ref());
            format!("{}: {sentence}", verdict::headline(plan))
        }
        (None, None) => "no model is open".to_owned(),
    }
}

/// What a knob is set to, and what it can be.
fn value(app: &App, knob: Knob) -> String {
    let stops = knob.stops(&app.request.bounds);
    let range = match knob.choices() {
        Some(choices) => format!("one of {}", choices.join(", ")),
        None => format!("from {} to {}", knob.show(stops.first()), knob.show(stops.last())),
    };
    let most =
        app.request.limit(knob).map(|most| format!("; all in VRAM up to {}", knob.show(most))).unwrap_or_default();
    let by = if knob.chosen(&app.request.settings, &app.request.bounds).is_some() { "" } else { ", by the engine" };
    format!("{}: {}{by}; {range}{most}.", knob.title(), knob.show(app.request.value(knob)))
}

fn device(device: &DevicePlan) -> String {
    format!(
        "{} {}: weights {}, cache {}, compute {}; {} of {} free.",
        device.id, device.name, device.weights, device.cache, device.graph, device.free, device.total
    )
}

/// How much more or less each device takes: ` GPU0 takes 2.1 GiB more.`
fn differences(before: &Plan, after: &Plan) -> String {
    let taken = |device: &DevicePlan| device.weights + device.cache + device.graph;
    let moved = after.devices.iter().filter_map(|device| {
        let was = before.devices.iter().find(|other| other.id == device.id).map_or(Bytes::ZERO, taken);
        let is = taken(device);
        let id = if device.id == "CPU" { "RAM" } else { device.id.as_str() };
        let more = |by: Bytes, word: &str| format!(" {id} takes {by} {word}.");
        match is.cmp(&was) {
            std::cmp::Ordering::Greater => Some(more(is - was, "more")),
            std::cmp::Ordering::Less => Some(more(was - is, "less")),
            std::cmp::Ordering::Equal => None,
        }
    });
    moved.collect()
}

/// `text` as it is read aloud: no thin spaces within numbers, and words for signs.
fn spoken(text: &str) -> String {
    let mut out = String::new();
    let letters: Vec<char> = text.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let digit = |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(char::is_ascii_digit);
        match letter {
            '\u{2009}' => {}
            '–' if digit(at.checked_sub(1)) && digit(Some(at + 1)) => out.push_str(" to "),
            '·' => out.push(','),
            '≥' => out.push_str("from"),
            '≤' => out.push_str("up to"),
            '→' => out.push_str("to"),
            '×' => out.push_str("times"),
            '≈' => out.push_str("about"),
            '…' => out.push_str("not known yet"),
            _ => out.push(*letter),
        }
    }
    out.replace(" ,", ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_words() {
        assert_eq!(spoken("Ollama ≥ 0.30 · exact"), "Ollama from 0.30, exact");
        assert_eq!(spoken("32\u{2009}768 tokens, 28–34 tok/s – or so"), "32768 tokens, 28 to 34 tok/s – or so");
    }
}
