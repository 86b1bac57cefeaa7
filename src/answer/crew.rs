//! Independent plans, shared among the processor's cores.

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// More cores find nothing to do in one question: it mostly looks at two places at a time.
const MOST_IN_A_CREW: usize = 4;

/// Those who answer questions: apart from whoever plans thousands of machines meanwhile. None where the system gives no
/// threads.
static CREW: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    ThreadPoolBuilder::new().num_threads(cores.min(MOST_IN_A_CREW)).build().ok()
});

/// Answers a question on a crew that stays awake from one thing that it shares to the next: to wake threads takes about as
/// long as a sketch of a plan.
pub fn gather<R: Send>(answer: impl FnOnce() -> R + Send) -> R {
    match &*CREW {
        Some(crew) => crew.install(answer),
        None => answer(),
    }
}

/// What `work` makes of every item, in their order.
pub fn share<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // some take far longer than others
    items.par_iter().with_max_len(1).map(&work).collect()
}

/// What comes of both, done at the same time.
pub fn both<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    rayon::join(one, other)
}

/// Gives memory back while others go on: nobody waits for that.
pub fn discard(what: impl Send + 'static) {
    match &*CREW {
        Some(crew) => crew.spawn(move || drop(what)),
        None => drop(what),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_discarded_is_dropped() {
        let (held, dropped) = mpsc::channel::<()>();
        discard(held);
        assert!(dropped.recv().is_err());
    }

    #[test]
    fn everything_is_done_once_and_in_order() {
        let items: Vec<u64> = (0..1000).collect();
        let shared = || share(&items, |item| item * 2);
        assert_eq!(shared(), (0..1000).map(|item| item * 2).collect::<Vec<u64>>());
        assert_eq!(gather(shared), shared());
        assert!(share(&[], |item: &u64| *item).is_empty());
        assert_eq!(share(&[7], |item| item + 1), [8]);
        assert_eq!(both(|| 7, shared).1.len(), 1000);
    }
}
