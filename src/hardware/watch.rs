//! Free memory, followed while somebody looks at it.
//!
//! Devices are looked for once; after that only how much of them is free is asked, through the handles and files that
//! are open already: on a computer with eight GPUs that is a few dozen calls a second.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{DetectOptions, Detected, FreeMemoryProbe, detect_with_probes, ram};
use crate::machine::Machine;
use crate::units::Bytes;

/// How often free memory is asked for, unless somebody says otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Main memory always moves a little, which is no news.
const MIN_CHANGE: Bytes = Bytes::mib(16);

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// The machine as it was found; told once, first.
    Found(Detected),
    /// Free memory is another than when it was last told (of RAM, by 16 MiB or more), or a device answers no longer, or
    /// again.
    MemoryChanged(MemoryUpdate),
}

/// A machine whose free memory moved.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryUpdate {
    /// The same devices in the same order; one that does not answer keeps what it last had.
    pub machine: Machine,
    /// One sentence on each device that does not answer.
    pub notes: Vec<String>,
}

impl MemoryUpdate {
    fn is_news_after(&self, last: &Self) -> bool {
        let (now, then) = (self.machine.ram, last.machine.ram);
        let far = |now: Bytes, then: Bytes| now.0.abs_diff(then.0) >= MIN_CHANGE.0;
        let ram = now.total != then.total || far(now.free, then.free) || far(now.swap_free, then.swap_free);
        ram || self.machine.gpus != last.machine.gpus || self.notes != last.notes
    }
}

#[derive(Debug)]
enum WatchControl {
    Every(Duration),
    Freeze(bool),
}

/// A thread that follows free memory until this is dropped.
#[derive(Debug)]
pub struct MemoryWatch {
    controls: Option<Sender<WatchControl>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Looks for devices as `search` says and then asks for free memory every so often (a millisecond at least).
    /// `tell` is called on the watch's own thread; when it answers false, nobody listens any more and the watch ends.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(
        search: DetectOptions,
        every: Duration,
        tell: impl FnMut(WatchEvent) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let (controls, control) = channel();
        let thread = thread::Builder::new()
            .name("free memory".to_owned())
            .spawn(move || follow(&search, every, &control, tell))?;
        Ok(Self { controls: Some(controls), thread: Some(thread) })
    }

    /// Asks this often from now on.
    pub fn every(&self, interval: Duration) {
        self.control(WatchControl::Every(interval));
    }

    /// Holds still, or goes on: frozen, nothing is asked and nothing told.
    pub fn freeze(&self, frozen: bool) {
        self.control(WatchControl::Freeze(frozen));
    }

    fn control(&self, control: WatchControl) {
        // a watch that has ended has no wishes to hear
        if let Some(controls) = &self.controls {
            drop(controls.send(control));
        }
    }

    /// Ends the watch and waits for its thread, which may still be waiting for a driver.
    pub fn join(mut self) {
        self.controls = None;
        if let Some(thread) = self.thread.take() {
            // a panic on that thread has been reported there
            drop(thread.join());
        }
    }
}

fn follow(
    search: &DetectOptions,
    mut every: Duration,
    control: &Receiver<WatchControl>,
    mut tell: impl FnMut(WatchEvent) -> bool,
) {
    let (detected, mut probes, mut memory) = detect_with_probes(search);
    let mut last = MemoryUpdate { machine: detected.machine.clone(), notes: Vec::new() };
    if !tell(WatchEvent::Found(detected)) {
        return;
    }
    let mut frozen = false;
    loop {
        let heard = if frozen {
            control.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            control.recv_timeout(every.max(Duration::from_millis(1)))
        };
        match heard {
            Ok(WatchControl::Every(interval)) => every = interval,
            Ok(WatchControl::Freeze(is)) => frozen = is,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = ask(&last.machine, &mut probes, &mut memory);
                if now.is_news_after(&last) {
                    last = now;
                    if !tell(WatchEvent::MemoryChanged(last.clone())) {
                        return;
                    }
                }
            }
        }
    }
}

/// `machine` with what is free now.
fn ask(machine: &Machine, probes: &mut [FreeMemoryProbe], memory: &mut ram::RamMonitor) -> MemoryUpdate {
    let mut machine = machine.clone();
    let mut notes = Vec::new();
    match memory.now() {
        Ok(ram) => machine.ram = ram,
        Err(reason) => notes.push(format!("system RAM is not updated: {reason}")),
    }
    for (index, (gpu, probe)) in machine.gpus.iter_mut().zip(probes).enumerate() {
        match probe(&machine.ram) {
            Ok(free) => gpu.free = free.min(gpu.total),
            Err(reason) => {
                notes.push(format!("GPU{index} {} no longer responds ({reason}): its last values are shown", gpu.name));
            }
        }
    }
    MemoryUpdate { machine, notes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn nothing() -> DetectOptions {
        DetectOptions { gpus: false, ..DetectOptions::here() }
    }

    #[test]
    fn a_watch_tells_what_it_found_and_ends_when_it_is_dropped() {
        let (send, news) = mpsc::channel();
        let watch =
            MemoryWatch::start(nothing(), Duration::from_millis(1), move |news| send.send(news).is_ok()).unwrap();
        assert!(matches!(news.recv().unwrap(), WatchEvent::Found(_)));
        watch.every(Duration::from_millis(2));
        watch.freeze(true);
        watch.join();
        // the thread is gone, and with it the sender
        while news.recv().is_ok() {}
    }

    #[test]
    fn nobody_listening_ends_it() {
        let watch = MemoryWatch::start(nothing(), Duration::from_millis(1), |_| false).unwrap();
        let thread = { watch }.thread.take().unwrap();
        thread.join().unwrap();
    }
}
