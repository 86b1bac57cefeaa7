//! Bytes, at one place of a track, or at two.

use std::ops::{Add, Sub};

/// What blocks of memory are counted in.
pub trait Amount: Copy + std::fmt::Debug + Default + PartialEq + Add<Output = Self> + Sub<Output = Self> {
    /// How far what was found out about amounts goes on to hold.
    type Reach: Copy + std::fmt::Debug;

    /// Everywhere.
    const EVERYWHERE: Self::Reach;

    /// Bytes here, by which everything is decided.
    fn here(self) -> u64;

    /// So many bytes wherever it is.
    fn everywhere(bytes: u64) -> Self;

    /// Something was decided because `less` is not more than `more`.
    fn heed(reach: &mut Self::Reach, less: Self, more: Self);

    /// How far what both were found out for goes on to hold.
    fn both(one: Self::Reach, other: Self::Reach) -> Self::Reach;

    /// Adds it to words, from which [`Self::read`] takes it.
    fn write(self, words: &mut Vec<u64>);

    /// The first of these words; nothing where there are none.
    fn read(words: &mut &[u64]) -> Self;
}

/// The first word, which is taken off; 0 where there is none.
pub fn first(words: &mut &[u64]) -> u64 {
    words.split_off_first().copied().unwrap_or(0)
}

impl Amount for u64 {
    type Reach = ();

    const EVERYWHERE: () = ();

    fn here(self) -> u64 {
        self
    }

    fn everywhere(bytes: u64) -> Self {
        bytes
    }

    fn heed((): &mut (), _: Self, _: Self) {}

    fn both((): (), (): ()) {}

    fn write(self, words: &mut Vec<u64>) {
        words.push(self);
    }

    fn read(words: &mut &[u64]) -> Self {
        first(words)
    }
}

/// Bytes here and at another place of a track; in between, and beyond, they are taken to grow evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moving {
    pub here: u64,
    pub there: u64,
}

/// How far along the track decisions stay the same: 0 is here, 1 is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    pub back: f64,
    pub ahead: f64,
}

impl Add for Moving {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { here: self.here + other.here, there: self.there.wrapping_add(other.there) }
    }
}

impl Sub for Moving {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        // what is more here may be less there
        Self { here: self.here - other.here, there: self.there.wrapping_sub(other.there) }
    }
}

impl Amount for Moving {
    type Reach = Reach;

    const EVERYWHERE: Reach = Reach { back: f64::NEG_INFINITY, ahead: f64::INFINITY };

    fn here(self) -> u64 {
        self.here
    }

    fn everywhere(bytes: u64) -> Self {
        Self { here: bytes, there: bytes }
    }

    fn heed(reach: &mut Reach, less: Self, more: Self) {
        let here = more.here.wrapping_sub(less.here).cast_signed();
        let there = more.there.wrapping_sub(less.there).cast_signed();
        if here == there {
            return;
        }
        // the two are equal where this much of the way has brought them together; to divide takes long, and seldom tells
        // anything new
        let (gap, closing) = (here as f64, here as f64 - there as f64);
        if closing > 0.0 {
            if gap < reach.ahead * closing {
                reach.ahead = gap / closing;
            }
        } else if gap < reach.back * closing {
            reach.back = gap / closing;
        }
    }

    fn both(one: Reach, other: Reach) -> Reach {
        Reach { back: one.back.max(other.back), ahead: one.ahead.min(other.ahead) }
    }

    fn write(self, words: &mut Vec<u64>) {
        words.extend([self.here, self.there]);
    }

    fn read(words: &mut &[u64]) -> Self {
        Self { here: first(words), there: first(words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_order_holds_as_far_as_it_reaches(less in (0..1000u64, 0..1000u64), more in (0..1000u64, 0..1000u64)) {
            let [less, more] = [less, more].map(|(here, there)| Moving { here, there });
            prop_assume!(less.here <= more.here);
            let mut reach = Moving::EVERYWHERE;
            Moving::heed(&mut reach, less, more);
            let at = |amount: Moving, t: f64| amount.here as f64 + t * (amount.there as f64 - amount.here as f64);
            let holds = |t: f64| at(less, t) <= at(more, t) + 1e-6;
            prop_assert!(reach.back <= 0.0 && reach.ahead >= 0.0);
            for t in [reach.back, reach.ahead, -3.0, 0.5, 2.0] {
                if t.is_finite() {
                    prop_assert_eq!(holds(t), t >= reach.back - 1e-9 && t <= reach.ahead + 1e-9, "{}", t);
                }
            }
        }
    }
}
