//! Playing a walk: a step after the other, at one of several speeds.

use std::time::Duration;

/// Whether a walk is playing, and how fast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Playback {
    pub(super) running: bool,
    speed: Speed,
}

/// A speed, as a power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Speed(i8);

impl Speed {
    const SLOWEST: Self = Self(-2);
    const FASTEST: Self = Self(3);
}

impl Playback {
    pub(super) fn slower(&mut self) {
        self.speed.0 = (self.speed.0 - 1).max(Speed::SLOWEST.0);
    }

    pub(super) fn faster(&mut self) {
        self.speed.0 = (self.speed.0 + 1).min(Speed::FASTEST.0);
    }

    /// The time of a step that takes `usual` at the usual speed.
    pub(super) fn paced(self, usual: Duration) -> Duration {
        usual.mul_f64(2f64.powi(-i32::from(self.speed.0)))
    }

    /// `playing 2×`, and in short.
    pub(super) fn texts(self) -> [String; 2] {
        let speed = match self.speed.0 {
            slow @ ..0 => format!("1/{}×", 1 << -slow),
            fast => format!("{}×", 1 << fast),
        };
        let [word, sign] = if self.running { ["playing", "▶"] } else { ["paused", "·"] };
        [format!("{word} {speed}"), format!("{sign}{speed}")]
    }

    /// Whether there is anything to say of it.
    pub(super) fn is_usual(self) -> bool {
        self == Self::default()
    }
}
