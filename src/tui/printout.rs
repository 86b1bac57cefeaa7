//! A page of the teach screen drawn without a terminal, for printing and pictures.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::action::Action;
use super::app::{App, InitialState, Mode};
use super::effect::Effect;
use super::theme::{Glyphs, Hue, glyphs};
use super::view;
use super::widget::row_writer::{RowWriter, wrap};
use crate::teach::Topic;

/// Filled cells in printouts of the caches: enough for some sliding windows to have moved on.
const FILLED: u64 = 240;

/// The page of `topic` below a heading: model, engine, machine and the settings in effect.
///
/// # Errors
/// One sentence on why there is nothing to draw.
pub fn draw(start: InitialState, topic: Topic) -> Result<Buffer, String> {
    let mut buffer = Buffer::empty(Rect::new(0, 0, start.size.0, start.size.1));
    let mut app = App::new(start);
    // effects, such as limits and fading marks, are not for printouts
    drop(app.refresh());
    if let Some(refused) = &app.refused {
        return Err(refused.to_string());
    }
    for effect in app.teach(topic) {
        let Effect::Teach(request) = effect else { continue };
        let answer = request.answer();
        if let Action::PageReady { result: Err(why), .. } = &answer {
            return Err(why.clone());
        }
        drop(app.update(answer));
    }
    if let Mode::Teach(teach) = &mut app.mode {
        // the last step of a schedule shows all splits
        teach.schedule.step = usize::MAX;
        teach.caches.steps = FILLED;
        teach.lessons.answered = true;
    }
    app.change.before = None;
    let area = buffer.area;
    let heading = heading(&app, &mut buffer);
    if let Mode::Teach(teach) = &app.mode {
        let below = Rect { y: area.y + heading, height: area.height.saturating_sub(heading), ..area };
        view::teach::page(&app, teach, below, &mut buffer);
    }
    if app.theme.look.glyphs == Glyphs::Ascii {
        glyphs::to_ascii(&mut buffer);
    }
    Ok(buffer)
}

/// Draws the heading and returns its number of rows.
fn heading(app: &App, buffer: &mut Buffer) -> u16 {
    let Some(plan) = &app.plan else { return 0 };
    let model = [Some(plan.model.name.clone()), plan.model.file_type.clone()].into_iter().flatten();
    let gpus = app.machine.gpus.iter().map(|gpu| gpu.name.clone());
    let machine = gpus.chain([format!("{} of RAM", app.machine.ram.total)]).collect::<Vec<_>>().join(" + ");
    let who = [plan.engine.title().to_owned(), machine];
    let line = model.chain(who).collect::<Vec<_>>().join(" · ");
    let knobs = app.knobs.offered.iter().map(|knob| format!("{} {}", knob.title(), knob.show(knob.in_effect(plan))));
    let knobs = knobs.collect::<Vec<_>>().join(" · ");
    let area = buffer.area;
    let mut row = 0;
    for (text, ink) in [(line, app.theme.bold(Hue::Text)), (knobs, app.theme.ink(Hue::Dim))] {
        for line in wrap(&text, area.width.saturating_sub(2)) {
            RowWriter::new(buffer, area, row).skip(1).put(&line, ink);
            row += 1;
        }
    }
    row
}

/// The text of a buffer, line by line, without trailing spaces.
pub fn text(buffer: &Buffer) -> String {
    let rows = buffer.area.top()..buffer.area.bottom();
    let line = |y: u16| -> String {
        (buffer.area.left()..buffer.area.right()).filter_map(|x| buffer.cell((x, y))).map(Cell::symbol).collect()
    };
    rows.map(|y| line(y).trim_end().to_owned() + "\n").collect()
}
