//! A device's memory as one bar: the plan's parts, free memory, memory in use, and a mark at the total.

use super::super::style::{BarGlyphs, Hue, Style};
use crate::plan::DevicePlan;
use crate::units::Bytes;

/// The bar of `device` in `cells` columns; `by_gpus` is what GPUs take of RAM, if it is RAM. A plan that needs more than the total runs past the mark.
pub(super) fn bar(device: &DevicePlan, by_gpus: Bytes, cells: usize, style: &Style) -> String {
    let asked = device.needed() + by_gpus + device.reserved();
    let needed = asked + device.in_use();
    let whole = device.total.max(needed);
    let ascii = style.bars == BarGlyphs::Ascii;
    let glyph = |unicode, plain| if ascii { plain } else { unicode };
    let parts = [
        (device.weights - device.read_once, glyph('█', '#'), Hue::Weights),
        (device.cache, glyph('▓', '='), Hue::Cache),
        (device.graph, glyph('▒', '+'), Hue::Graph),
        (by_gpus, glyph('▚', '%'), Hue::Part),
        (device.reserved(), glyph('░', ':'), Hue::Reserved),
        (device.total - needed, glyph('·', '.'), Hue::Dim),
        (device.in_use(), glyph('╱', '/'), Hue::InUse),
    ];
    let cells = cells.saturating_sub(1);
    let column = |bytes: Bytes| (bytes.share_of(whole).0 * cells as f64).round() as usize;
    let end = column(device.total);
    let mut out = String::new();
    let (mut sum, mut at) = (Bytes::ZERO, 0);
    for (bytes, glyph, hue) in parts {
        sum += bytes;
        let to = column(sum).min(cells);
        // parts beyond the mark are coloured as over
        if at <= end && end < to {
            out += &style.paint(hue, &glyph.to_string().repeat(end - at));
            out += &mark(style, ascii);
            out += &style.paint(Hue::Over, &glyph.to_string().repeat(to - end));
        } else {
            let hue = if at > end { Hue::Over } else { hue };
            out += &style.paint(hue, &glyph.to_string().repeat(to - at));
        }
        at = to;
    }
    if end >= at {
        out += &" ".repeat(end - at);
        out += &mark(style, ascii);
    }
    out
}

fn mark(style: &Style, ascii: bool) -> String {
    style.strong(if ascii { "|" } else { "┃" })
}

/// The legend of the bars.
pub(super) fn legend(indent: usize, shared: bool, style: &Style) -> String {
    let mut words = vec![
        ('█', '#', "weights", Hue::Weights),
        ('▓', '=', "cache", Hue::Cache),
        ('▒', '+', "graph", Hue::Graph),
        ('░', ':', "reserved", Hue::Reserved),
        ('·', '.', "free", Hue::Dim),
        ('╱', '/', "in use", Hue::InUse),
    ];
    if shared {
        words.insert(3, ('▚', '%', "GPU's", Hue::Part));
    }
    let one = |(unicode, plain, word, hue): (char, char, &str, Hue)| {
        let glyph = if style.bars == BarGlyphs::Ascii { plain } else { unicode };
        format!("{} {word}", style.paint(hue, &glyph.to_string()))
    };
    let side_by_side = if style.is_narrow() { 3 } else { words.len() };
    let line = |some: &[_]| format!("{:indent$}{}\n", "", some.iter().copied().map(one).collect::<Vec<_>>().join("  "));
    words.chunks(side_by_side).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Backend, DeviceKind};
    use crate::plan::Reserve;
    use proptest::prelude::*;

    fn device(total: u64, free: u64, [weights, cache, graph, reserved]: [u64; 4]) -> DevicePlan {
        DevicePlan {
            driver: None,
            largest_buffer: None,
            id: "GPU0".to_owned(),
            kind: DeviceKind::Gpu,
            name: "a GPU".to_owned(),
            backend: Some(Backend::Cuda),
            total: Bytes(total),
            free: Bytes(free),
            swap_free: Bytes::ZERO,
            own: Bytes(total),
            weights: Bytes(weights),
            mapped: Bytes::ZERO,
            repacked: Bytes::ZERO,
            read_once: Bytes::ZERO,
            parts: Bytes::ZERO,
            experts: Bytes::ZERO,
            run: Bytes::ZERO,
            run_in_part: Bytes::ZERO,
            cache: Bytes(cache),
            graph: Bytes(graph),
            graph_measured: None,
            graph_pipelined: None,
            growth: Bytes::ZERO,
            reserves: vec![Reserve { name: "minimum memory", bytes: Bytes(reserved) }],
            layers: Vec::new(),
            computer: None,
        }
    }

    fn drawn(device: &DevicePlan, cells: usize) -> String {
        bar(device, Bytes::ZERO, cells, &Style { bars: BarGlyphs::Unicode, ..Style::PLAIN })
    }

    #[test]
    fn a_bar_shows_every_part_and_the_total() {
        assert_eq!(drawn(&device(100, 90, [30, 20, 10, 10]), 21), "██████▓▓▓▓▒▒░░····╱╱┃");
    }

    #[test]
    fn overflow_runs_past_the_mark() {
        assert_eq!(drawn(&device(100, 100, [100, 100, 0, 0]), 21), "██████████┃▓▓▓▓▓▓▓▓▓▓");
        assert_eq!(drawn(&device(100, 100, [200, 0, 0, 0]), 21), "██████████┃██████████");
    }

    #[test]
    fn a_device_without_memory_is_only_a_mark() {
        assert_eq!(drawn(&device(0, 0, [0; 4]), 10), "┃");
    }

    proptest! {
        #[test]
        fn a_bar_has_the_requested_width(total in 1..u64::MAX / 2, free: u64, parts: [u64; 4], cells in 2..200usize) {
            let text = drawn(&device(total, free.min(total), parts), cells);
            prop_assert_eq!(text.chars().count(), cells, "{}", text);
            prop_assert_eq!(text.matches('┃').count(), 1);
        }
    }
}
