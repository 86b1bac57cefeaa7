//! Progress of a load: bytes of the header, speed, and the key that cancels.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::source::Progress;
use crate::tui::theme::{Hue, Theme};
use crate::tui::widget::row_writer::RowWriter;
use crate::units::{Bytes, Ratio};

/// Bytes per sweep of the progress mark, if the length is unknown.
const ROUND: u64 = 8 << 20;
/// Width of that mark.
const MARK: u16 = 6;
/// No speed is shown earlier.
const MIN_ELAPSED: Duration = Duration::from_millis(200);

/// Draws it into `place`: a line of text and a bar.
pub fn draw(name: &str, now: Progress, took: Duration, place: Rect, theme: Theme, buffer: &mut Buffer) {
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
    use super::*;
    use proptest::prelude::*;

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
