//! Where the programs that run a model find it.

use std::sync::{Arc, Weak};

use crate::engine::PreparedModel;
use crate::export::ModelLocation;

/// The locations of opened models, but not of requantised variants.
#[derive(Debug, Default)]
pub(crate) struct ModelLocations(Vec<(Weak<PreparedModel>, ModelLocation)>);

impl ModelLocations {
    /// Records the location of `model`, if it is known.
    pub fn learn(&mut self, model: &Arc<PreparedModel>, found: Option<ModelLocation>) {
        self.0.retain(|(known, _)| known.strong_count() > 0);
        self.0.extend(found.map(|found| (Arc::downgrade(model), found)));
    }

    /// The location of `model`, or just its name.
    pub fn of(&self, model: &Arc<PreparedModel>) -> ModelLocation {
        let known = self.0.iter().rev().find(|(known, _)| known.as_ptr() == Arc::as_ptr(model));
        known.map_or_else(|| ModelLocation::Unknown(model.name.clone()), |(_, found)| found.clone())
    }
}
