//! The stops of a slider.

/// The stops of a knob, ascending; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stops(Vec<u64>);

impl Stops {
    pub(super) fn new(mut stops: Vec<u64>) -> Self {
        stops.sort_unstable();
        stops.dedup();
        if stops.is_empty() {
            stops.push(0);
        }
        Self(stops)
    }

    /// The stops, ascending.
    pub fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// The smallest.
    pub fn first(&self) -> u64 {
        self.0.first().copied().unwrap_or(0)
    }

    /// The largest.
    pub fn last(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// The stop `by` steps above `value`, or below it if `by` is negative. From a value between two stops, the first
    /// step reaches the next one.
    pub fn step(&self, value: u64, by: isize) -> u64 {
        let at = self.0.partition_point(|&stop| stop < value);
        let exact = self.0.binary_search(&value).is_ok();
        let by = if by > 0 && !exact { by - 1 } else { by };
        let target = at.saturating_add_signed(by).min(self.0.len() - 1);
        self.0.get(target).copied().unwrap_or(value)
    }

    /// Where `value` lies between the ends, 0 to 1: stops are evenly spaced, values between them interpolated.
    pub fn fraction(&self, value: u64) -> f64 {
        let steps = self.0.len() - 1;
        let above = self.0.partition_point(|&stop| stop <= value);
        if steps == 0 || above == 0 {
            return 0.0;
        }
        let (Some(&low), Some(&high)) = (self.0.get(above - 1), self.0.get(above)) else { return 1.0 };
        let part = (value - low) as f64 / (high - low) as f64;
        ((above - 1) as f64 + part) / steps as f64
    }

    /// The stop nearest to `fraction` of the way.
    pub fn nearest(&self, fraction: f64) -> u64 {
        let steps = (self.0.len() - 1) as f64;
        let at = (fraction.clamp(0.0, 1.0) * steps).round() as usize;
        self.0.get(at).copied().unwrap_or_else(|| self.last())
    }
}
