//! Independent plans, shared among the processor's cores.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `work` makes of every item, in their order.
pub fn share<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    if workers < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    // each takes the next item that nobody has: some take far longer than others
    let hand = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let crew: Vec<_> = (1..workers).map(|_| scope.spawn(hand)).collect();
        let own = hand();
        let others = crew.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        own.into_iter().chain(others).collect()
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn everything_is_done_once_and_in_order() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(share(&items, |item| item * 2), (0..1000).map(|item| item * 2).collect::<Vec<u64>>());
        assert!(share(&[], |item: &u64| *item).is_empty());
        assert_eq!(share(&[7], |item| item + 1), [8]);
    }
}
