//! Plans over two axes as a table of coloured and labelled cells.

use super::canvas::{Anchor, Hue, MARGIN, SvgCanvas, WIDTH};
use super::charts::model_line;
use crate::answer::sweep::Matrix;
use crate::export::caption::Caption;
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
        canvas.text(LEFT + (at as f64 + 0.5) * wide, canvas.y + 12.0, 13, Anchor::Middle, Hue::Quiet, column);
    }
    canvas.y += 22.0;
    for (row, name) in rows.iter().enumerate() {
        canvas.text(LEFT - 12.0, canvas.y + 19.0, 13, Anchor::End, Hue::Quiet, name);
        for column in 0..columns.len() {
            let (hue, words) = match matrix.cell(row, column) {
                Some(Ok(figures)) => match figures.outcome {
                    Outcome::Vram => (Hue::Fits, "VRAM".to_owned()),
                    Outcome::Tight => (Hue::Fits, "VRAM, tight".to_owned()),
                    Outcome::PartsInRam => (Hue::Part, format!("{}, parts in RAM", figures.on_gpu)),
                    Outcome::ExpertsInRam => (Hue::Part, format!("{}, experts in RAM", figures.on_gpu)),
                    Outcome::LayersInRam => (Hue::Split, format!("{} on GPU", figures.on_gpu)),
                    Outcome::Cpu => (Hue::InUse, "RAM".to_owned()),
                    Outcome::FromDisk => (Hue::Over, "from disk".to_owned()),
                    Outcome::DoesNotFit => (Hue::Over, "over".to_owned()),
                },
                Some(Err(_)) => (Hue::Faint, "refused".to_owned()),
                None => continue,
            };
            let x = LEFT + column as f64 * wide;
            canvas.rect(x + 1.0, canvas.y + 1.0, wide - 2.0, HIGH - 2.0, hue);
            let hue = if hue == Hue::Over { Hue::White } else { Hue::Text };
            canvas.text(x + wide / 2.0, canvas.y + 19.0, 12, Anchor::Middle, hue, &words);
        }
        canvas.y += HIGH;
    }
    canvas.y += 10.0;
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}
