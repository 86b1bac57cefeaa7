//! Free memory, followed while somebody looks at it.
//!
//! Devices are looked for once; after that only how much of them is free is asked, through the handles and files that
//! are open already: on a computer with eight GPUs that is a few dozen calls a second.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Detected, Meter, Search, look, ram};
use crate::machine::Machine;
use crate::units::Bytes;

/// How often free memory is asked for, unless somebody says otherwise.
pub const EVERY: Duration = Duration::from_secs(1);

/// Main memory always moves a little, which is no news.
const RIPPLE: Bytes = Bytes::mib(16);

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The machine as it was found; told once, first.
    Found(Detected),
    /// Free memory is another than when it was last told (of RAM, by 16 MiB or more), or a device answers no longer, or
    /// again.
    Moved(Moved),
}

/// A machine whose free memory moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The same devices in the same order; one that does not answer keeps what it last had.
    pub machine: Machine,
    /// One sentence on each device that does not answer.
    pub notes: Vec<String>,
}

impl Moved {
    fn is_news_after(&self, last: &Self) -> bool {
        let (now, then) = (self.machine.ram, last.machine.ram);
        let far = |now: Bytes, then: Bytes| now.0.abs_diff(then.0) >= RIPPLE.0;
        let ram = now.total != then.total || far(now.free, then.free) || far(now.swap_free, then.swap_free);
        ram || self.machine.gpus != last.machine.gpus || self.notes != last.notes
    }
}

#[derive(Debug)]
enum Wish {
    Every(Duration),
    Freeze(bool),
}

/// A thread that follows free memory until this is dropped.
#[derive(Debug)]
pub struct Watch {
    wishes: Option<Sender<Wish>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks for devices as `search` says and then asks for free memory every so often (a millisecond at least).
    /// `tell` is called on the watch's own thread; when it answers false, nobody listens any more and the watch ends.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(
        search: Search,
        every: Duration,
        tell: impl FnMut(News) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let (wishes, wished) = channel();
        let thread = thread::Builder::new()
            .name("free memory".to_owned())
            .spawn(move || follow(&search, every, &wished, tell))?;
        Ok(Self { wishes: Some(wishes), thread: Some(thread) })
    }

    /// Asks this often from now on.
    pub fn every(&self, interval: Duration) {
        self.wish(Wish::Every(interval));
    }

    /// Holds still, or goes on: frozen, nothing is asked and nothing told.
    pub fn freeze(&self, frozen: bool) {
        self.wish(Wish::Freeze(frozen));
    }

    fn wish(&self, wish: Wish) {
        // a watch that has ended has no wishes to hear
        if let Some(wishes) = &self.wishes {
            drop(wishes.send(wish));
        }
    }

    /// Ends the watch and waits for its thread, which may still be waiting for a driver.
    pub fn join(mut self) {
        self.wishes = None;
        if let Some(thread) = self.thread.take() {
            // a panic on that thread has been reported there
            drop(thread.join());
        }
    }
}

fn follow(search: &Search, mut every: Duration, wished: &Receiver<Wish>, mut tell: impl FnMut(News) -> bool) {
    let (detected, mut meters, mut memory) = look(search);
    let mut last = Moved { machine: detected.machine.clone(), notes: Vec::new() };
    if !tell(News::Found(detected)) {
        return;
    }
    let mut frozen = false;
    loop {
        let heard = if frozen {
            wished.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            wished.recv_timeout(every.max(Duration::from_millis(1)))
        };
        match heard {
            Ok(Wish::Every(interval)) => every = interval,
            Ok(Wish::Freeze(is)) => frozen = is,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = ask(&last.machine, &mut meters, &mut memory);
                if now.is_news_after(&last) {
                    last = now;
                    if !tell(News::Moved(last.clone())) {
                        return;
                    }
                }
            }
        }
    }
}

/// `machine` with what is free now.
fn ask(machine: &Machine, meters: &mut [Meter], memory: &mut ram::Memory) -> Moved {
    let mut machine = machine.clone();
    let mut notes = Vec::new();
    match memory.now() {
        Ok(ram) => machine.ram = ram,
        Err(reason) => notes.push(format!("system RAM is not updated: {reason}")),
    }
    for (index, (gpu, meter)) in machine.gpus.iter_mut().zip(meters).enumerate() {
        match meter(&machine.ram) {
            Ok(free) => gpu.free = free.min(gpu.total),
            Err(reason) => {
                notes.push(format!("GPU{index} {} no longer responds ({reason}): its last values are shown", gpu.name));
            }
        }
    }
    Moved { machine, notes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn nothing() -> Search {
        Search { gpus: false, ..Search::here() }
    }

    #[test]
    fn a_watch_tells_what_it_found_and_ends_when_it_is_dropped() {
        let (send, news) = mpsc::channel();
        let watch = Watch::start(nothing(), Duration::from_millis(1), move |news| send.send(news).is_ok()).unwrap();
        assert!(matches!(news.recv().unwrap(), News::Found(_)));
        watch.every(Duration::from_millis(2));
        watch.freeze(true);
        watch.join();
        // the thread is gone, and with it the sender
        while news.recv().is_ok() {}
    }

    #[test]
    fn nobody_listening_ends_it() {
        let watch = Watch::start(nothing(), Duration::from_millis(1), |_| false).unwrap();
        let thread = { watch }.thread.take().unwrap();
        thread.join().unwrap();
    }
}
