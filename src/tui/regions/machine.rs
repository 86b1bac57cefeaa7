//! Layout of the machine screen.

use ratatui::layout::Rect;

use super::{MIN_SCREEN, Regions, cut_left, cut_top};

/// Extra rows of the device list: the frame and the column titles.
pub const AROUND: u16 = 3;

/// The parts of the machine screen. Parts without room are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineRegions {
    /// The device list.
    pub devices: Rect,
    /// The selected device.
    pub details: Rect,
    /// Memory by device, if there is room.
    pub memory: Rect,
    /// The verdict.
    pub verdict: Rect,
}

impl MachineRegions {
    /// The layout with `rows` devices.
    pub fn of(regions: &Regions, rows: usize) -> Self {
        let screen = regions.screen;
        let none = Rect::ZERO;
        if screen.width < MIN_SCREEN.0 || screen.height < MIN_SCREEN.1 {
            return Self { devices: none, details: none, memory: none, verdict: none };
        }
        let body = regions.body();
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

    /// The device at (`x`, `y`) of `count`, when device `chosen` is selected.
    pub fn row_at(&self, chosen: usize, count: usize, x: u16, y: u16) -> Option<usize> {
        let area = self.devices;
        let list = Rect { y: area.y + 2, height: area.height.saturating_sub(AROUND), ..area };
        let place = |(row, at): (u16, usize)| (list.y + row == y).then_some(at);
        list.contains((x, y).into()).then(|| shown(chosen, count, list.height).find_map(place)).flatten()
    }

    /// The setting at (`x`, `y`) of the selected device's `count` settings.
    pub fn line_at(&self, count: usize, x: u16, y: u16) -> Option<usize> {
        let line = usize::from(y.checked_sub(self.details.y + 1)?);
        (self.details.contains((x, y).into()) && line < count).then_some(line)
    }
}

/// The visible rows and their indices in a list of `count`, scrolled so that `at` is visible.
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
            prop_assert_eq!(filled, u32::from(columns) * u32::from(regions.body().height));
            prop_assert!(places.devices.height > AROUND && places.details.height >= 7);
        }
    }
}
