//! Plans over two axes as a table of coloured and labelled cells.

use super::canvas::{Anchor, MARGIN, SvgCanvas, WIDTH};
use super::charts::model_line;
use crate::answer::sweep::{Matrix, PlanFigures};
use crate::export::caption::Caption;
use crate::page::palette::Hue;
use crate::plan::{Outcome, Plan};

const LEFT: f64 = MARGIN + 110.0;
const HIGH: f64 = 30.0;

/// The picture of `matrix`; `plan` is the plan with the current settings.
pub fn matrix(plan: &Plan, matrix: &Matrix, caption: &Caption) -> String {
    let mut canvas = SvgCanvas::new();
    let (rows, columns) = (matrix.rows.shown(), matrix.columns.shown());
    canvas.heading(
        &model_line(plan),
        &format!("{} by {} · {}", matrix.rows.title(), matrix.columns.title(), plan.source()),
    );
    let wide = (WIDTH - MARGIN - LEFT) / columns.len().max(1) as f64;
    for (at, column) in columns.iter().enumerate() {
        canvas.text(LEFT + (at as f64 + 0.5) * wide, canvas.y + 12.0, 13, Anchor::Middle, Hue::Dim, column);
    }
    canvas.y += 22.0;
    for (row, name) in rows.iter().enumerate() {
        canvas.text(LEFT - 12.0, canvas.y + 19.0, 13, Anchor::End, Hue::Dim, name);
        for column in 0..columns.len() {
            let (hue, words) = match matrix.cell(row, column) {
                Some(Ok(figures)) => (Hue::of(figures.outcome), words(figures)),
                Some(Err(_)) => (Hue::Dim, "refused".to_owned()),
                None => continue,
            };
            let x = LEFT + column as f64 * wide;
            canvas.tint(x + 1.0, canvas.y + 1.0, wide - 2.0, HIGH - 2.0, hue);
            canvas.text(x + wide / 2.0, canvas.y + 19.0, 12, Anchor::Middle, Hue::Text, &words);
        }
        canvas.y += HIGH;
    }
    canvas.y += 10.0;
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}

fn words(figures: &PlanFigures) -> String {
    let share = figures.on_gpu;
    match figures.outcome {
        Outcome::Vram => "VRAM".to_owned(),
        Outcome::Tight => "VRAM, tight".to_owned(),
        Outcome::PartsInRam => format!("{share}, parts in RAM"),
        Outcome::ExpertsInRam => format!("{share}, experts in RAM"),
        Outcome::LayersInRam => format!("{share} on GPU"),
        Outcome::Cpu => "RAM".to_owned(),
        Outcome::FromDisk => "from disk".to_owned(),
        Outcome::DoesNotFit => "over".to_owned(),
    }
}
