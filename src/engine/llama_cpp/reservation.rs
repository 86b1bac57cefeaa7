//! What a graph reserves on each device, found out where it is asked for.

use std::sync::{Arc, OnceLock};

use super::fit::sketch::Extent;
use crate::engine::ggml::allocate::{Course, Sizes, Trend};

/// What devices reserve for a graph; most who measure ask about one of them.
#[derive(Debug)]
pub struct Reservation {
    course: Arc<Course>,
    sizes: Arc<Sizes>,
    /// How large things are at another place of the track.
    elsewhere: Option<(Extent, Arc<Sizes>)>,
    devices: Vec<OnceLock<Reserved>>,
}

/// What a device reserves at a place of a track, and how that goes on towards another place, where one is known.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    pub bytes: u64,
    pub trend: Option<(Extent, Trend)>,
}

impl Reservation {
    pub fn new(course: Arc<Course>, sizes: Arc<Sizes>, elsewhere: Option<(Extent, Arc<Sizes>)>) -> Self {
        let devices = (0..course.devices()).map(|_| OnceLock::new()).collect();
        Self { course, sizes, elsewhere, devices }
    }

    /// What this device reserves.
    pub fn on(&self, device: usize) -> Reserved {
        *self.devices[device].get_or_init(|| match &self.elsewhere {
            None => Reserved { bytes: self.course.reserve(device, &self.sizes), trend: None },
            Some((there, sizes)) => {
                let trend = self.course.trend(device, &self.sizes, sizes);
                Reserved { bytes: trend.here, trend: Some((*there, trend)) }
            }
        })
    }

    /// Bytes on every device.
    pub fn bytes(&self) -> Vec<u64> {
        (0..self.devices.len()).map(|device| self.on(device).bytes).collect()
    }
}
