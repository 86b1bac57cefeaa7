//! Where the programs that run a model find it.

use std::sync::{Arc, Weak};

use crate::engine::PreparedModel;
use crate::export::ModelLocation;

/// Known of the models that were opened; not of those that were only thought up, as in another quantisation.
#[derive(Debug, Default)]
pub(super) struct ModelLocations(Vec<(Weak<PreparedModel>, ModelLocation)>);

impl ModelLocations {
    /// `model` is to be found there, where that is known.
    pub fn learn(&mut self, model: &Arc<PreparedModel>, found: Option<ModelLocation>) {
        self.0.retain(|(known, _)| known.strong_count() > 0);
        self.0.extend(found.map(|found| (Arc::downgrade(model), found)));
    }

    /// Where `model` is; by its name alone where nobody said.
    pub fn of(&self, model: &Arc<PreparedModel>) -> ModelLocation {
        let known = self.0.iter().rev().find(|(known, _)| known.as_ptr() == Arc::as_ptr(model));
        known.map_or_else(|| ModelLocation::Unknown(model.name.clone()), |(_, found)| found.clone())
    }
}
