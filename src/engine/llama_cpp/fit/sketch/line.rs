//! What a device takes between places of a track where that was measured, and beyond them.

use std::collections::BTreeMap;

use super::extent::Extent;
use crate::engine::ggml::allocate::Trend;

/// What was measured at places of a track.
pub type Line<T> = BTreeMap<Extent, T>;

/// What a device's part of a graph takes at a place of a track, and how that goes on towards another place.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub bytes: u64,
    pub trend: Option<(Extent, Trend)>,
}

/// What a device takes at `at`: as it goes on from the nearest place where it was measured, or else on a line through two.
pub fn tell<T>(line: &Line<T>, at: Extent, of: impl Fn(&T) -> &Seen) -> Option<u64> {
    if let Some(measured) = line.get(&at) {
        return Some(of(measured).bytes);
    }
    let near = [line.range(..at).next_back(), line.range(at..).next()];
    let mut near: Vec<_> = near.into_iter().flatten().collect();
    near.sort_by_key(|(place, _)| place.distance(at));
    let goes_on = near.into_iter().find_map(|(place, measured)| {
        let (there, trend) = of(measured).trend?;
        let part = at.part_of(*place, there);
        (at.is_even_with(*place) && trend.reaches(part)).then(|| trend.at(part))
    });
    goes_on.or_else(|| Some(on_line(ends(line, at)?.map(|(place, measured)| (place, of(measured).bytes)), at)))
}

/// What a line is drawn through: the nearest that were measured on either side of `at`; or the two nearest on one side, as
/// far beyond the near one as the other is before it.
fn ends<T>(line: &Line<T>, at: Extent) -> Option<[(Extent, &T); 2]> {
    let (mut before, mut after) = (line.range(..at).rev(), line.range(at..));
    let pair = match (before.next(), after.next()) {
        (Some(below), Some(above)) => [below, above],
        (Some(near), None) => [near, before.next()?],
        (None, Some(near)) => [near, after.next()?],
        (None, None) => return None,
    };
    let [near, far] = pair;
    let is_between = near.0 < &at && &at <= far.0;
    let is_near = near.0.distance(at) <= near.0.distance(*far.0);
    (is_between || is_near).then(|| pair.map(|(extent, measured)| (*extent, measured)))
}

/// What holds at `at` on the line through two points; nothing where it falls below nothing.
fn on_line([(one, y), (other, other_y)]: [(Extent, u64); 2], at: Extent) -> u64 {
    let [x, y, other_x, other_y, at] = [one.size, y, other.size, other_y, at.size].map(i128::from);
    let run = other_x - x;
    let rise = if run == 0 { 0 } else { (other_y - y).saturating_mul(at - x) / run };
    u64::try_from((y + rise).max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_through_both_points_and_never_below_nothing() {
        let at = |size| Extent { size, parts: [0; 6] };
        let line = |(x, y), (other_x, other_y), place| on_line([(at(x), y), (at(other_x), other_y)], at(place));
        for (place, held) in [(10, 100), (20, 120), (15, 110), (30, 140), (0, 80)] {
            assert_eq!(line((10, 100), (20, 120), place), held);
            assert_eq!(line((20, 120), (10, 100), place), held);
        }
        assert_eq!(line((10, 5), (20, 20), 0), 0);
        assert_eq!(line((10, 5), (10, 5), 10), 5);
        assert_eq!(line((0, 0), (1, u64::MAX), u64::MAX), u64::MAX);
    }
}
