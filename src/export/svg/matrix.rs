//! Plans over two knobs as a table of coloured cells; each says the same in words.

use super::canvas::{Anchor, Hue, MARGIN, SvgCanvas, WIDTH};
use super::charts::{what, who};
use crate::answer::matrix::Matrix;
use crate::plan::{FitStatus, Plan};

const LEFT: f64 = MARGIN + 110.0;
const HIGH: f64 = 30.0;

/// The picture of `matrix`; `plan` is the one that it starts from.
pub fn matrix(plan: &Plan, matrix: &Matrix) -> String {
    let mut paper = SvgCanvas::new();
    let (rows, columns) = (matrix.rows.shown(), matrix.columns.shown());
    paper.heading(&what(plan), &format!("{} by {} · {}", matrix.rows.title(), matrix.columns.title(), who(plan)));
    let wide = (WIDTH - MARGIN - LEFT) / columns.len().max(1) as f64;
    for (at, column) in columns.iter().enumerate() {
        paper.text(LEFT + (at as f64 + 0.5) * wide, paper.y + 12.0, 13, Anchor::Middle, Hue::Quiet, column);
    }
    paper.y += 22.0;
    for (row, name) in rows.iter().enumerate() {
        paper.text(LEFT - 12.0, paper.y + 19.0, 13, Anchor::End, Hue::Quiet, name);
        for column in 0..columns.len() {
            let (ink, words) = match matrix.cell(row, column) {
                Some(Ok(outcome)) => match outcome.fit_status() {
                    FitStatus::Fits => (Hue::Fits, "GPU".to_owned()),
                    FitStatus::PartInRam(_) => (Hue::Part, format!("{}, part in RAM", outcome.on_gpu)),
                    FitStatus::Split => (Hue::Split, format!("{} on GPU", outcome.on_gpu)),
                    FitStatus::InRam => (Hue::InUse, "RAM".to_owned()),
                    FitStatus::DoesNotFit => (Hue::Over, "over".to_owned()),
                },
                Some(Err(_)) => (Hue::Faint, "refused".to_owned()),
                None => continue,
            };
            let x = LEFT + column as f64 * wide;
            paper.rect(x + 1.0, paper.y + 1.0, wide - 2.0, HIGH - 2.0, ink);
            let ink = if ink == Hue::Over { Hue::White } else { Hue::Text };
            paper.text(x + wide / 2.0, paper.y + 19.0, 12, Anchor::Middle, ink, &words);
        }
        paper.y += HIGH;
    }
    paper.y += 10.0;
    paper.finish(&what(plan))
}
