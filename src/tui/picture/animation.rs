//! Drawn buffers, one after the other, as an animated SVG. What never changes is drawn once; of each stretch of cells
//! that does, every version is drawn once, and shown while it is the current one.

use std::collections::BTreeMap;
use std::fmt::Write;

use ratatui::buffer::Buffer;

use super::row;
use crate::page::svg::{CELL, PaintedCell, PictureColours, caption, draw_cells, number, row_top, window};
use crate::tui::theme::Tone;

/// Equal cells between two that change which are drawn with them: a group costs more than a few cells.
const GAP: usize = 4;

/// A screen and how long it is shown.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The screen. All frames have the size of the first.
    pub buffer: Buffer,
    /// The text in the title bar.
    pub title: String,
    /// How long it is shown, in milliseconds.
    pub millis: u32,
}

/// The animation of `frames`, repeated without end, on a background of `tone`. Where nothing moves, because the viewer
/// cannot or the reader prefers so, frame number `still` is shown.
pub fn svg(frames: &[Frame], still: usize, tone: Tone, title: &str) -> String {
    let mut out = String::new();
    let Some(first) = frames.first() else { return out };
    let colours = PictureColours::of(tone);
    let (columns, rows) = (usize::from(first.buffer.area.width), usize::from(first.buffer.area.height));
    window(&mut out, (columns, rows), &colours, title);
    let mut groups = Groups { still, shown: BTreeMap::new(), body: String::new() };
    groups.versions(frames.iter().map(|frame| {
        let mut drawn = String::new();
        caption(&mut drawn, columns, &colours, &frame.title);
        drawn
    }));
    for y in 0..first.buffer.area.height {
        let rows: Vec<Vec<PaintedCell>> = frames.iter().map(|frame| row(&colours, &frame.buffer, y)).collect();
        for (start, end) in stretches(&rows) {
            groups.versions(rows.iter().map(|row| {
                let mut drawn = String::new();
                draw_cells(&mut drawn, row.get(start..end).unwrap_or_default(), row_top(usize::from(y)), &colours);
                shifted(drawn, start)
            }));
        }
    }
    groups.style(&mut out, frames);
    out.push_str(&groups.body);
    out.push_str("</svg>\n");
    out
}

/// Cells drawn from the left edge on, moved to the column where they belong.
fn shifted(drawn: String, column: usize) -> String {
    if column == 0 || drawn.is_empty() {
        return drawn;
    }
    format!("<g transform=\"translate({})\">\n{drawn}</g>\n", number(column as f64 * CELL.0))
}

/// A row in stretches from column to column, alternately of cells that are the same in all frames and of cells that are
/// not.
fn stretches(rows: &[Vec<PaintedCell>]) -> Vec<(usize, usize)> {
    let Some((first, others)) = rows.split_first() else { return Vec::new() };
    let changes: Vec<bool> = (0..first.len()).map(|x| others.iter().any(|row| row.get(x) != first.get(x))).collect();
    let mut ends: Vec<(usize, bool)> = Vec::new();
    for (x, &change) in changes.iter().enumerate() {
        let near = !change && x > 0 && changes.iter().skip(x).take(GAP).any(|&later| later);
        let change = change || (near && ends.last().is_some_and(|(_, change)| *change));
        match ends.last_mut() {
            Some((end, same)) if *same == change => *end = x + 1,
            _ => ends.push((x + 1, change)),
        }
    }
    let starts = std::iter::once(0).chain(ends.iter().map(|(end, _)| *end));
    starts.zip(ends.iter().map(|(end, _)| *end)).collect()
}

/// The drawn groups, and when each is shown.
struct Groups {
    still: usize,
    /// The number of the class for each list of frames in which a group is shown.
    shown: BTreeMap<Vec<usize>, usize>,
    body: String,
}

impl Groups {
    /// Draws each distinct text of `drawn`, one per frame, once.
    fn versions(&mut self, drawn: impl Iterator<Item = String>) {
        let mut versions: Vec<(String, Vec<usize>)> = Vec::new();
        let mut frames = 0;
        for (frame, text) in drawn.enumerate() {
            frames += 1;
            match versions.iter_mut().find(|(known, _)| *known == text) {
                Some((_, shown)) => shown.push(frame),
                None => versions.push((text, vec![frame])),
            }
        }
        for (text, shown) in versions {
            if text.is_empty() || shown.len() == frames {
                self.body.push_str(&text);
                continue;
            }
            let hidden = if shown.contains(&self.still) { "" } else { " visibility=\"hidden\"" };
            let next = self.shown.len();
            let class = *self.shown.entry(shown).or_insert(next);
            // writing to a String cannot fail
            let _ = write!(self.body, "<g class=\"f{class}\"{hidden}>\n{text}</g>\n");
        }
    }

    /// The style sheet that shows each group in its frames.
    fn style(&self, out: &mut String, frames: &[Frame]) {
        let total: u32 = frames.iter().map(|frame| frame.millis).sum();
        let begins: Vec<u32> = frames
            .iter()
            .scan(0, |clock, frame| {
                let begin = *clock;
                *clock += frame.millis;
                Some(begin)
            })
            .collect();
        let _ = writeln!(
            out,
            "<style>\ng[class]{{animation-duration:{total}ms;animation-timing-function:step-end;animation-iteration-count:infinite}}"
        );
        for (shown, class) in &self.shown {
            let mut steps = String::new();
            let mut before = None;
            for (frame, begin) in begins.iter().enumerate() {
                let now = shown.contains(&frame);
                if before != Some(now) {
                    let percent = number(f64::from(*begin) / f64::from(total.max(1)) * 100.0);
                    let _ = write!(steps, "{percent}%{{visibility:{}}}", if now { "visible" } else { "hidden" });
                }
                before = Some(now);
            }
            let _ = writeln!(out, ".f{class}{{animation-name:f{class}}}@keyframes f{class}{{{steps}}}");
        }
        out.push_str("@media (prefers-reduced-motion:reduce){g[class]{animation:none}}\n</style>\n");
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    fn frames(texts: &[&str]) -> Vec<Frame> {
        let frame = |text: &&str| {
            let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 24, 1));
            buffer.set_string(0, 0, text, Style::new());
            Frame { buffer, title: "t".to_owned(), millis: 500 }
        };
        texts.iter().map(frame).collect()
    }

    #[test]
    fn what_stays_is_drawn_once_and_what_returns_is_not_drawn_again() {
        let drawn = svg(
            &frames(&["context      16k free", "context      32k free", "context      16k free"]),
            1,
            Tone::Dark,
            "t",
        );
        for (text, times) in [(">context<", 1), (">16<", 1), (">32<", 1), (">free<", 1)] {
            assert_eq!(drawn.matches(text).count(), times, "{text}\n{drawn}");
        }
        assert!(drawn.contains("0%{visibility:visible}33.33%{visibility:hidden}66.67%{visibility:visible}"), "{drawn}");
        assert!(drawn.contains("0%{visibility:hidden}33.33%{visibility:visible}66.67%{visibility:hidden}"), "{drawn}");
        // the second frame is the one without motion
        assert_eq!(drawn.matches("visibility=\"hidden\"").count(), 1, "{drawn}");
    }

    #[test]
    fn stretches_cover_a_row_and_join_over_small_gaps() {
        let frames = frames(&["aXaaXaaaaaaX", "aYaaYaaaaaaY"]);
        let colours = PictureColours::of(Tone::Dark);
        let rows: Vec<_> = frames.iter().map(|frame| row(&colours, &frame.buffer, 0)).collect();
        assert_eq!(stretches(&rows), [(0, 1), (1, 5), (5, 11), (11, 12), (12, 24)]);
    }

    #[test]
    fn no_frames_are_an_empty_picture() {
        assert_eq!(svg(&[], 0, Tone::Dark, "t"), "");
    }
}
