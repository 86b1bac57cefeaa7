//! Where everything stands on the machine screen.

use ratatui::layout::Rect;

use super::{MIN_SCREEN, Regions, cut_left, cut_top};

/// Rows of the devices' frame beside their own: the frame itself and a line of heads.
pub const AROUND: u16 = 3;

/// The machine screen, cut into its parts. A part without room is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineRegions {
    /// The devices, one row each.
    pub devices: Rect,
    /// The chosen one.
    pub details: Rect,
    /// What each device is asked for, where there is room.
    pub memory: Rect,
    /// The verdict.
    pub verdict: Rect,
}

impl MachineRegions {
    /// Cuts the screen of `regions` for so many rows of devices.
    pub fn of(regions: &Regions, rows: usize) -> Self {
        let screen = regions.screen;
        let none = Rect::ZERO;
        if screen.width < MIN_SCREEN.0 || screen.height < MIN_SCREEN.1 {
            return Self { devices: none, details: none, memory: none, verdict: none };
        }
        let body = Rect { y: 1, height: screen.height - 2, ..screen };
        let below = match screen.height {
            36.. => 5,
            24.. => 3,
            _ => 2,
        };
        let (body, verdict) = cut_top(body, body.height - below);
        let wanted = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(AROUND);
        if screen.width < 120 || screen.height < 28 {
            let (devices, details) = cut_top(body, wanted.min(body.height / 2));
            return Self { devices, details, memory: none, verdict };
        }
        let (left, details) = cut_left(body, (screen.width * 9 / 20).max(60));
        let (devices, memory) = cut_top(left, wanted.clamp(9, left.height / 2));
        Self { devices, details, memory, verdict }
    }

    /// The row of `count` at (`x`, `y`) among the devices, where row `chosen` is seen.
    pub fn row_at(&self, chosen: usize, count: usize, x: u16, y: u16) -> Option<usize> {
        let area = self.devices;
        let list = Rect { y: area.y + 2, height: area.height.saturating_sub(AROUND), ..area };
        let place = |(row, at): (u16, usize)| (list.y + row == y).then_some(at);
        list.contains((x, y).into()).then(|| shown(chosen, count, list.height).find_map(place)).flatten()
    }

    /// The line of `count` at (`x`, `y`) among those of the chosen device.
    pub fn line_at(&self, count: usize, x: u16, y: u16) -> Option<usize> {
        let line = usize::from(y.checked_sub(self.details.y + 1)?);
        (self.details.contains((x, y).into()) && line < count).then_some(line)
    }
}

/// Rows and the places in a list of `count` that stand there, so that `at` is seen.
pub fn shown(at: usize, count: usize, rows: u16) -> impl Iterator<Item = (u16, usize)> {
    let first = (at + 1).saturating_sub(usize::from(rows));
    (0..rows).zip(first..count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_fill_the_screen_and_stay_apart(columns in 60u16..300, rows in 20u16..100, devices in 1usize..300) {
            let regions = Regions::of(columns, rows, 6);
            let places = MachineRegions::of(&regions, devices);
            let parts = [places.devices, places.details, places.memory, places.verdict];
            for (i, a) in parts.iter().enumerate() {
                prop_assert_eq!(a.intersection(regions.screen), *a);
                for b in &parts[i + 1..] {
                    prop_assert!(a.intersection(*b).is_empty(), "{a:?} and {b:?} overlap");
                }
            }
            let filled: u32 = parts.iter().map(|part| u32::from(part.width) * u32::from(part.height)).sum();
            prop_assert_eq!(filled, u32::from(columns) * u32::from(rows - 2));
            prop_assert!(places.devices.height > AROUND && places.details.height >= 7);
        }
    }
}
