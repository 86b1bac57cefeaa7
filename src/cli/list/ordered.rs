//! Plans many models on all cores and returns the rows in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::Scope;

use super::{ListRow, row};
use crate::library::{self, Item, ModelStatus, SurveyRequest};
use crate::source::Roots;

/// Iterator over rows planned on other threads, in the order of the models.
pub(super) struct Ordered {
    items: std::vec::IntoIter<Arc<Item>>,
    results: Receiver<(usize, ModelStatus)>,
    /// Results received before their turn.
    early: BTreeMap<usize, ModelStatus>,
    turn: usize,
}

impl Ordered {
    /// Starts to plan `items`; stops when the iterator is dropped.
    pub(super) fn start<'s>(
        scope: &'s Scope<'s, '_>,
        items: Vec<Arc<Item>>,
        request: &'s SurveyRequest,
        roots: &'s Roots,
    ) -> Self {
        let (sender, results) = mpsc::channel();
        let to_plan = items.clone();
        scope.spawn(move || {
            library::inspect(&to_plan, request, roots, &|index, status| sender.send((index, status)).is_ok());
        });
        Self { items: items.into_iter(), results, early: BTreeMap::new(), turn: 0 }
    }
}

impl Iterator for Ordered {
    type Item = ListRow;

    fn next(&mut self) -> Option<ListRow> {
        let item = self.items.next()?;
        let status = loop {
            if let Some(status) = self.early.remove(&self.turn) {
                break status;
            }
            // threads may finish out of order
            match self.results.recv() {
                Ok((index, status)) => drop(self.early.insert(index, status)),
                Err(_) => break ModelStatus::Pending,
            }
        };
        self.turn += 1;
        Some(row(&item, status))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::engine::EngineId;
    use crate::machine::{Machine, Origin, Os, Ram};
    use crate::settings::Settings;
    use crate::source::{ExplicitKnobs, catalogue};
    use crate::units::Bytes;

    #[test]
    fn rows_are_in_order_even_if_later_models_are_planned_first() {
        // the first, with 405 billion weights, takes longer to plan than the two after it
        let entries = catalogue::all().iter().skip(2).take(3);
        let items: Vec<_> = entries.map(|entry| Arc::new(Item::built_in(entry, None))).collect();
        let names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO, bandwidth: None };
        let machine = Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: Vec::new(),
            ram,
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        };
        let request = SurveyRequest {
            engine: EngineId::Ollama024,
            machine: Arc::new(machine),
            settings: Settings::default(),
            held: ExplicitKnobs::default(),
            quant: None,
        };
        let roots = Roots::default();
        let rows: Vec<_> = thread::scope(|scope| Ordered::start(scope, items, &request, &roots).collect());
        assert_eq!(rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>(), names);
        assert!(rows.iter().all(|row| row.known.is_some()), "{rows:?}");
    }
}
