//! What a graph reserves on each device, found out where it is asked for.

use std::sync::{Arc, OnceLock};

use super::fit::sketch::Extent;
use crate::engine::ggml::allocate::{Course, Scale, Trend};

/// What devices reserve for a graph; most who measure ask about one of them.
#[derive(Debug)]
pub struct Reservation {
    course: Arc<Course>,
    scale: Arc<Scale>,
    /// The other place of the track to which that goes.
    there: Option<Extent>,
    devices: Vec<OnceLock<Reserved>>,
}

/// What a device reserves at a place of a track, and how that goes on towards another place, where one is known.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    pub bytes: u64,
    pub trend: Option<(Extent, Trend)>,
}

impl Reservation {
    pub fn new(course: Arc<Course>, scale: Arc<Scale>, there: Option<Extent>) -> Self {
        let devices = (0..course.devices()).map(|_| OnceLock::new()).collect();
        Self { course, scale, there, devices }
    }

    /// What this device reserves.
    pub fn on(&self, device: usize) -> Reserved {
        *self.devices[device].get_or_init(|| {
            let (bytes, trend) = self.scale.reserve(&self.course, device);
            Reserved { bytes, trend: self.there.zip(trend) }
        })
    }

    /// Bytes on every device.
    pub fn bytes(&self) -> Vec<u64> {
        (0..self.devices.len()).map(|device| self.on(device).bytes).collect()
    }
}
