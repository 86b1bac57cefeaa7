//! The verdict panel: whether the plan fits.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::answer::{ram, verdict};
use crate::page::palette::sign;
use crate::plan::{Outcome, Plan};
use crate::settings::knob::Knob;
use crate::source::Progress;
use crate::tui::action::Command;
use crate::tui::app::{App, Detection, KnownLimits, Load};
use crate::tui::keymap::Scope;
use crate::tui::theme::{Hue, Theme};
use crate::tui::view::header;
use crate::tui::widget::panel;
use crate::tui::widget::row_writer::{RowWriter, shortened, width, wrap};
use crate::units::{Bytes, Ratio};

/// Text after the key that shows all notes.
const MORE_HINT: &str = " for more";

/// Draws the panel in `area`; `scopes` are those of the active keys.
pub fn draw_in(app: &App, area: Rect, scopes: &[Scope], buffer: &mut Buffer) {
    let theme = app.theme;
    let inner = if area.height > 3 {
        // show the engine here if the header has no room for it
        let engine = if header::of(app).shows_engine() { String::new() } else { header::engine_label(app) };
        panel::frame(buffer, area, "Verdict", &engine, false, theme)
    } else {
        Rect { x: area.x, width: area.width, ..area }
    };
    let inner = Rect { x: inner.x.saturating_add(1), width: inner.width.saturating_sub(2), ..inner };
    if let Load::Running { name, now, took } = &app.library.loading.state {
        draw_loading(name, *now, *took, inner, theme, buffer);
        return;
    }
    let (headline, hue, text) = words(app);
    let rows = rows(app, &format!("{headline} {text}"), inner.width);
    let room = usize::from(inner.height);
    for (at, row) in rows.iter().take(room).enumerate() {
        let mut writer = RowWriter::new(buffer, inner, at as u16);
        writer.skip(row.indent);
        let next = rows.get(room).filter(|next| at + 1 == room && (next.matters || !next.begins));
        let key = next.and_then(|_| app.preferences.keys.key_for(Command::Notes, scopes));
        let room = writer.room().saturating_sub(key.as_ref().map_or(0, |key| width(key) + width(MORE_HINT) + 2));
        let text = match next {
            Some(next) if !next.begins => shortened(&format!("{} {}", row.text, next.text), room),
            Some(_) => shortened(&row.text, room),
            None => row.text.clone(),
        };
        match text.strip_prefix(&headline).filter(|_| at == 0) {
            Some(rest) => drop(writer.put(&headline, theme.bold(hue)).put(rest, theme.ink(row.hue))),
            None => drop(writer.put(&text, theme.ink(row.hue))),
        }
        if let Some(key) = key {
            writer.skip(2).put(&key, theme.bold(Hue::Text)).put(MORE_HINT, theme.ink(Hue::Dim));
        }
    }
}

/// A row of the panel.
struct VerdictRow {
    indent: u16,
    text: String,
    hue: Hue,
    /// Whether it begins a sentence.
    begins: bool,
    /// Whether it matters enough to hint at it if it does not fit.
    matters: bool,
}

/// The verdict, reports of failing devices, decisions that the user did not ask for, and all other notes, in lines of
/// at most `cells` cells.
fn rows(app: &App, verdict: &str, cells: u16) -> Vec<VerdictRow> {
    let plan = app.request.plan.as_ref();
    let surprise = plan.and_then(|plan| plan.decided.first()).filter(|_| app.request.refused.is_none());
    let notes = plan.map(|plan| plan.notes.as_slice()).unwrap_or_default();
    let notes = notes.iter().filter(|note| surprise != Some(note));
    let sentence = |text: &str, indent, hue, matters| {
        let lines = wrap(text, cells.saturating_sub(indent)).into_iter().enumerate();
        lines.map(|(at, text)| VerdictRow { indent, text, hue, begins: at == 0, matters }).collect::<Vec<_>>()
    };
    let mut rows = sentence(verdict, 0, Hue::Text, true);
    rows.extend(app.found_machine.reports.iter().flat_map(|report| sentence(report, 2, Hue::Over, true)));
    rows.extend(surprise.iter().flat_map(|note| sentence(note, 2, Hue::Cache, true)));
    rows.extend(notes.flat_map(|note| sentence(note, 2, Hue::Dim, false)));
    rows
}

/// The headline with its sign, its colour, and the text after it.
pub(crate) fn words(app: &App) -> (String, Hue, String) {
    if let Load::Failed { name, why } = &app.library.loading.state {
        return (
            format!("✗ {name} could not be opened:"),
            Hue::Over,
            format!("{}. Esc dismisses this.", why.trim_end_matches('.')),
        );
    }
    if app.request.is_planning() {
        return ("… Planning:".to_owned(), Hue::Cache, "this takes a moment. Keys are answered meanwhile.".to_owned());
    }
    if let Some(error) = &app.request.refused {
        return (
            "✗ No plan:".to_owned(),
            Hue::Over,
            format!("{error}. The previous plan is shown; u undoes the change."),
        );
    }
    let Some(plan) = &app.request.plan else {
        return (
            "·".to_owned(),
            Hue::Dim,
            "Press b to choose a model: local, from a server, or from the catalogue.".to_owned(),
        );
    };
    let headline = plan.outcome().headline();
    if app.found_machine.detection == Detection::Running {
        let text = "Still detecting GPUs; until then everything is planned in RAM.";
        return (format!("… {headline}:"), Hue::Cache, text.to_owned());
    }
    let (sign, hue) = sign(plan.outcome());
    let sentence = sentence(app, plan);
    let sentences: Vec<String> = std::iter::once(sentence).chain(ram::spills(&app.request.machine, plan)).collect();
    (format!("{sign} {}:", verdict::headline(plan)), hue, sentences.join(" "))
}

/// The verdict's sentence; what depends on limits that are still being computed is `…`.
pub(crate) fn sentence(app: &App, plan: &Plan) -> String {
    // in VRAM it names no limit but the context's, which holds for any context
    let limits = match plan.outcome() {
        Outcome::Vram => app.request.known_along(Knob::Context),
        _ => app.request.known_limits(),
    };
    let sentence = verdict::sentence(plan, limits.found(), app.request.speeds.as_ref());
    if limits == KnownLimits::Pending { format!("{sentence} …") } else { sentence }
}

/// Bytes per sweep of the progress mark, if the length is unknown.
const ROUND: u64 = 8 << 20;
/// Width of that mark.
const MARK: u16 = 6;
/// No speed is shown earlier.
const MIN_ELAPSED: Duration = Duration::from_millis(200);

/// Draws it into `place`: a line of text and a bar.
fn draw_loading(name: &str, now: Progress, took: Duration, place: Rect, theme: Theme, buffer: &mut Buffer) {
    let speed = if took > MIN_ELAPSED {
        format!(", {}/s", Bytes((now.done as f64 / took.as_secs_f64()) as u64))
    } else {
        String::new()
    };
    let shard = if now.shards > 1 { format!(", shard {} of {}", now.shard + 1, now.shards) } else { String::new() };
    let mut writer = RowWriter::new(buffer, place, 0);
    writer.put("Reading ", theme.ink(Hue::Text)).put(name, theme.bold(Hue::Text));
    writer.put(&format!(": {} of its header{speed}{shard}", Bytes(now.done)), theme.ink(Hue::Text));
    let bar = Rect { y: place.y.saturating_add(1), height: place.height.saturating_sub(1).min(1), ..place };
    let mut writer = RowWriter::new(buffer, bar, 0);
    writer.right("  Esc stops", theme.ink(Hue::Dim));
    let cells = writer.room();
    let (from, to) = filled(now, cells);
    writer.put(&"─".repeat(from.into()), theme.ink(Hue::Border));
    writer.put(&"━".repeat((to - from).into()), theme.bold(Hue::Focus));
    writer.put(&"─".repeat((cells - to).into()), theme.ink(Hue::Border));
}

/// The filled cells. The length of a header is unknown in advance: with a single file a mark moves with the bytes read;
/// with several shards, the finished ones fill their share.
fn filled(now: Progress, cells: u16) -> (u16, u16) {
    let part = |ratio: Ratio| (ratio.0.clamp(0.0, 1.0) * f64::from(cells)).round() as u16;
    match now.total {
        Some(total) => (0, part(Bytes(now.done).share_of(Bytes(total)))),
        None if now.shards > 1 => (0, part(Bytes(now.shard).share_of(Bytes(now.shards)))),
        None => {
            let mark = MARK.min(cells);
            let at = Bytes(now.done % ROUND).share_of(Bytes(ROUND)).0 * f64::from(cells - mark);
            (at as u16, at as u16 + mark)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::glyphs::ascii;

    #[test]
    fn partial_fits_have_their_own_sign_and_colour() {
        let part = Outcome::ExpertsInRam;
        for other in [Outcome::Vram, Outcome::LayersInRam, Outcome::Cpu, Outcome::DoesNotFit] {
            let ((mark, hue), (own, own_hue)) = (sign(other), sign(part));
            assert!(mark != own && ascii(mark) != ascii(own) && hue != own_hue, "{other:?}");
            assert_ne!(other.headline(), part.headline());
        }
    }

    proptest! {
        #[test]
        fn the_bar_stays_in_its_place(
            done in any::<u64>(), total in any::<Option<u64>>(), shard in any::<u64>(), shards in any::<u64>(), cells in 0u16..300,
        ) {
            let (from, to) = filled(Progress { done, total, shard, shards }, cells);
            prop_assert!(from <= to && to <= cells);
        }
    }

    #[test]
    fn a_mark_moves_with_the_bytes() {
        let at = |done| filled(Progress { done, total: None, shard: 0, shards: 1 }, 60).0;
        assert!(at(0) == 0 && at(ROUND / 2) == 27 && at(ROUND) == 0);
        assert_eq!(filled(Progress { done: 0, total: None, shard: 1, shards: 4 }, 60), (0, 15));
    }
}
