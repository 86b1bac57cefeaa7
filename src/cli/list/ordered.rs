//! Many models looked at on every core, and what comes of it in their order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::Scope;

use super::{ListRow, row};
use crate::library::{self, Item, ModelStatus, SurveyRequest};
use crate::source::Roots;

/// What becomes known of models on other threads, handed on in the order of the models.
pub(super) struct Ordered {
    items: std::vec::IntoIter<Arc<Item>>,
    news: Receiver<(usize, ModelStatus)>,
    /// What was known before its turn.
    early: BTreeMap<usize, ModelStatus>,
    turn: usize,
}

impl Ordered {
    /// Begins to look at `items`; nobody who wants the rest any more ends it.
    pub(super) fn at<'s>(
        scope: &'s Scope<'s, '_>,
        items: Vec<Arc<Item>>,
        question: &'s SurveyRequest,
        roots: &'s Roots,
    ) -> Self {
        let (sender, news) = mpsc::channel();
        let looks_at = items.clone();
        scope.spawn(move || {
            library::inspect(&looks_at, question, roots, &|index, look| sender.send((index, look)).is_ok());
        });
        Self { items: items.into_iter(), news, early: BTreeMap::new(), turn: 0 }
    }
}

impl Iterator for Ordered {
    type Item = ListRow;

    fn next(&mut self) -> Option<ListRow> {
        let item = self.items.next()?;
        let look = loop {
            if let Some(look) = self.early.remove(&self.turn) {
                break look;
            }
            // threads do not end in the order in which they began
            match self.news.recv() {
                Ok((index, look)) => drop(self.early.insert(index, look)),
                Err(_) => break ModelStatus::Pending,
            }
        };
        self.turn += 1;
        Some(row(&item, look))
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
    fn models_come_in_their_order_whoever_is_known_first() {
        // 405 billion weights are looked at longer than the two after them
        let entries = catalogue::all().iter().skip(2).take(3);
        let items: Vec<_> = entries.map(|entry| Arc::new(Item::built_in(entry, None))).collect();
        let names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
        let ram = Ram { total: Bytes::gib(64), free: Bytes::gib(60), swap_free: Bytes::ZERO };
        let machine = Machine { os: Os::Linux, gpus: Vec::new(), ram, origin: Origin::Described };
        let question = SurveyRequest {
            engine: EngineId::Ollama024,
            machine: Arc::new(machine),
            settings: Settings::default(),
            held: ExplicitKnobs::default(),
            quant: None,
        };
        let roots = Roots::default();
        let rows: Vec<_> = thread::scope(|scope| Ordered::at(scope, items, &question, &roots).collect());
        assert_eq!(rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>(), names);
        assert!(rows.iter().all(|row| row.known.is_some()), "{rows:?}");
    }
}
