//! How large tensors are at a place of a track, and what devices reserve there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::amount::{Amount, Moving};
use super::course::{Course, Sizes, Trend};
use super::past::Past;

/// Sizes at one place, and perhaps at another, with all that was found out by them.
#[derive(Debug)]
pub struct Scale {
    /// At the place itself.
    pub here: Arc<Sizes>,
    past: Known,
}

/// Per kind of device.
#[derive(Debug)]
enum Known {
    Here(Vec<Mutex<Past<u64>>>),
    Towards(Arc<Sizes>, Vec<Mutex<Past<Moving>>>),
}

fn pasts<A: Amount>(sizes: &Sizes) -> Vec<Mutex<Past<A>>> {
    sizes.kinds.iter().map(|kind| Mutex::new(Past::new(kind.max_buffer))).collect()
}

/// What whoever held the lock last left is whole: it only adds.
fn lock<A: Amount>(past: &Mutex<Past<A>>) -> MutexGuard<'_, Past<A>> {
    past.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scale {
    /// Of nothing found out; `there` is how large tensors are elsewhere.
    pub fn new(here: Arc<Sizes>, there: Option<Arc<Sizes>>) -> Self {
        let past = match there {
            None => Known::Here(pasts(&here)),
            Some(there) => Known::Towards(there, pasts(&here)),
        };
        Self { here, past }
    }

    /// Whether it goes towards such sizes.
    pub fn is_towards(&self, there: Option<&Arc<Sizes>>) -> bool {
        match (&self.past, there) {
            (Known::Here(_), None) => true,
            (Known::Towards(own, _), Some(there)) => Arc::ptr_eq(own, there),
            _ => false,
        }
    }

    /// Bytes that a device must reserve here; and how they go on towards elsewhere.
    pub fn reserve(&self, course: &Course, device: usize) -> (u64, Option<Trend>) {
        let kind = self.here.of_devices[device];
        match &self.past {
            Known::Here(past) => (course.reserve(device, &self.here, &mut lock(&past[kind])), None),
            Known::Towards(there, past) => {
                let trend = course.trend(device, &self.here, there, &mut lock(&past[kind]));
                (trend.here, Some(trend))
            }
        }
    }
}
