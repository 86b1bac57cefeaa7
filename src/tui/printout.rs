//! A page of the teach screen drawn without a terminal, for printing and pictures.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::action::Action;
use super::app::{App, InitialState, Mode};
use super::effect::Effect;
use super::theme::{Glyphs, Hue, glyphs};
use super::view;
use super::widget::row_writer::{RowWriter, wrap};
use crate::export::caption::Caption;
use crate::teach::{PageContent, Topic};

/// Filled cells in printouts of the caches: enough for some sliding windows to have moved on.
const FILLED: u64 = 240;

/// The page of `topic` below its caption.
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
    let caption = caption(&app).map(|caption| heading(&caption, &app, &mut buffer)).unwrap_or_default();
    if let Mode::Teach(teach) = &app.mode {
        let below = Rect { y: area.y + caption, height: area.height.saturating_sub(caption), ..area };
        let below = Rect { height: view::teach::rows(&app, teach, below).min(below.height), ..below };
        view::teach::page(&app, teach, below, &mut buffer);
        // a short lesson is a short picture
        buffer.resize(Rect { height: below.bottom() - area.y, ..area });
    }
    if app.theme.look.glyphs == Glyphs::Ascii {
        glyphs::to_ascii(&mut buffer);
    }
    Ok(buffer)
}

/// The caption of the open page: of a lesson's own setup, else of the plan.
fn caption(app: &App) -> Option<Caption> {
    if let Mode::Teach(teach) = &app.mode
        && let Some(PageContent::Lessons(lesson)) = teach.content()
    {
        return Some(lesson.lesson.caption.clone());
    }
    Some(Caption::of(&app.plan_request()?, app.plan.as_ref()?))
}

/// Draws the caption and returns its number of rows.
fn heading(caption: &Caption, app: &App, buffer: &mut Buffer) -> u16 {
    let area = buffer.area;
    let mut row = 0;
    let (bold, dim) = (app.theme.bold(Hue::Text), app.theme.ink(Hue::Dim));
    for (text, ink) in [(&caption.subject, bold), (&caption.knobs, dim), (&caption.source, dim)] {
        for line in wrap(text, area.width.saturating_sub(2)) {
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
