//! What a device takes between places of a track where that was measured, and beyond them.

use std::collections::BTreeMap;

use super::extent::Extent;
use crate::engine::llama_cpp::reservation::Reserved;

/// What was measured at places of a track.
#[derive(Debug)]
pub struct Line<T> {
    /// Each with the turn in which it was noted.
    places: BTreeMap<Extent, (usize, T)>,
}

/// What a device probably takes somewhere.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub bytes: u64,
    /// It was measured at that very place, or goes on as far as that.
    pub is_sure: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { places: BTreeMap::new() }
    }
}

impl<T> Line<T> {
    /// Notes what was measured at a place.
    pub fn note(&mut self, at: Extent, turn: usize, measured: T) {
        self.places.insert(at, (turn, measured));
    }

    /// What was measured there.
    pub fn get(&self, at: Extent) -> Option<&T> {
        self.places.get(&at).map(|(_, measured)| measured)
    }

    /// What a device takes at `at`: as it goes on from the nearest place where it was measured, or else on a line through
    /// two. What others note in the same turn does not count: it would depend on who is faster.
    pub fn tell(&self, at: Extent, turn: usize, of: impl Fn(&T) -> Reserved) -> Option<Told> {
        if let Some(measured) = self.get(at) {
            return Some(Told { bytes: of(measured).bytes, is_sure: true });
        }
        let (mut before, mut after) = (self.before(at, turn), self.after(at, turn));
        let mut near: Vec<_> = [before.next(), after.next()].into_iter().flatten().collect();
        near.sort_by_key(|(place, _)| place.distance(at));
        let goes_on = near.iter().find_map(|(place, measured)| {
            let (there, trend) = of(measured).trend?;
            let part = at.part_of(*place, there);
            (at.is_even_with(*place) && trend.reaches(part)).then(|| trend.at(part))
        });
        let ends = || Some(self.ends(at, turn)?.map(|(place, measured)| (place, of(measured).bytes)));
        let sure = goes_on.map(|bytes| Told { bytes, is_sure: true });
        sure.or_else(|| Some(Told { bytes: on_line(ends()?, at), is_sure: false }))
    }

    /// What a line is drawn through: the nearest that were measured on either side of `at`; or the two nearest on one side,
    /// as far beyond the near one as the other is before it.
    fn ends(&self, at: Extent, turn: usize) -> Option<[(Extent, &T); 2]> {
        let (mut before, mut after) = (self.before(at, turn), self.after(at, turn));
        let pair = match (before.next(), after.next()) {
            (Some(below), Some(above)) => return Some([below, above]),
            (Some(near), None) => [near, before.next()?],
            (None, Some(near)) => [near, after.next()?],
            (None, None) => return None,
        };
        let [(near, _), (far, _)] = pair;
        (near.distance(at) <= near.distance(far)).then_some(pair)
    }

    /// Downwards.
    fn before(&self, at: Extent, turn: usize) -> impl Iterator<Item = (Extent, &T)> {
        self.places.range(..at).rev().filter_map(move |place| earlier(place, turn))
    }

    /// Upwards.
    fn after(&self, at: Extent, turn: usize) -> impl Iterator<Item = (Extent, &T)> {
        self.places.range(at..).filter_map(move |place| earlier(place, turn))
    }
}

/// What was noted at a place, if that was before this turn.
fn earlier<'l, T>((place, (noted, measured)): (&Extent, &'l (usize, T)), turn: usize) -> Option<(Extent, &'l T)> {
    (*noted < turn).then_some((*place, measured))
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
