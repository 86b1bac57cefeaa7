//! Polls free memory.
//!
//! Devices are detected once; after that only their free memory is queried, through handles and files that are already
//! known, which takes a few dozen calls per poll on a computer with eight GPUs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::patience::ask;
use super::{DetectOptions, Detected, GpuProbes, Process, detect_with_probes, ram};
use crate::machine::Machine;
use crate::units::Bytes;

/// Default polling interval.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Smaller changes of free RAM are not reported: it always fluctuates a little.
const MIN_CHANGE: Bytes = Bytes::mib(16);

/// Events of the watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// The detected machine; sent once, first.
    Found(Detected),
    /// Free memory changed since the last event (of RAM, by 16 MiB or more), or a device stopped or resumed responding.
    MemoryChanged(MemoryUpdate),
}

/// The machine with its current free memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryUpdate {
    /// The same devices in the same order; one that does not respond keeps its last values.
    pub machine: Machine,
    /// One sentence on each device that does not respond.
    pub notes: Vec<String>,
}

impl MemoryUpdate {
    fn differs_from(&self, last: &Self) -> bool {
        let (now, then) = (self.machine.ram, last.machine.ram);
        let far = |now: Bytes, then: Bytes| now.0.abs_diff(then.0) >= MIN_CHANGE.0;
        let ram = now.total != then.total || far(now.free, then.free) || far(now.swap_free, then.swap_free);
        ram || self.machine.gpus != last.machine.gpus || self.notes != last.notes
    }
}

/// The probes of all GPUs, asked on a thread of their own.
struct Probes {
    /// None once a driver has not answered.
    list: Option<Vec<GpuProbes>>,
}

impl Probes {
    fn ask<T: Send + 'static>(
        &mut self,
        question: impl Fn(&mut GpuProbes) -> T + Send + 'static,
    ) -> Result<Vec<T>, String> {
        let mut list = self.list.take().ok_or("a driver does not answer any longer")?;
        if list.is_empty() {
            self.list = Some(list);
            return Ok(Vec::new());
        }
        let (list, answers) = ask(move || {
            let answers = list.iter_mut().map(question).collect();
            (list, answers)
        })
        .wait()?;
        self.list = Some(list);
        Ok(answers)
    }
}

/// The devices of this machine, polled when asked.
pub struct Sampler {
    last: Machine,
    probes: Probes,
    memory: ram::RamMonitor,
}

impl Sampler {
    /// Detects the devices; blocks until their drivers answer.
    pub fn start(options: &DetectOptions) -> (Detected, Self) {
        let (detected, probes, memory) = detect_with_probes(options);
        let last = detected.machine.clone();
        (detected, Self { last, probes: Probes { list: Some(probes) }, memory })
    }

    /// What is free now, and what programs hold on the GPUs; where a driver lists none, what those of `pids` hold. What
    /// cannot be read is among the notes.
    pub fn now(&mut self, pids: &[u32]) -> (MemoryUpdate, Vec<Process>) {
        let mut update = poll(&self.last, &mut self.probes, &mut self.memory);
        self.last = update.machine.clone();
        let mut processes = Vec::new();
        let pids = pids.to_vec();
        let answers = self
            .probes
            .ask(move |probes| (probes.holders)(&pids))
            .unwrap_or_else(|why| self.last.gpus.iter().map(|_| Err(why.clone())).collect());
        for (index, answer) in answers.into_iter().enumerate() {
            let device = format!("GPU{index}");
            match answer {
                Ok(found) => {
                    processes.extend(found.into_iter().map(|found| Process { device: device.clone(), ..found }));
                }
                Err(why) => update.notes.push(format!("what programs hold on {device} is not known: {why}")),
            }
        }
        (update, processes)
    }
}

/// A thread that polls free memory until this is dropped.
#[derive(Debug)]
pub struct MemoryWatch {
    /// Sends whether to pause; dropped to end the thread.
    frozen: Option<Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Detects devices and then polls free memory at this interval, at least a millisecond. `on_event` is called on the
    /// watch's thread; the watch ends when it returns false.
    ///
    /// # Errors
    /// If the operating system cannot create a thread.
    pub fn start(
        options: DetectOptions,
        every: Duration,
        on_event: impl FnMut(WatchEvent) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let (frozen, receiver) = channel();
        let thread = thread::Builder::new()
            .name("free memory".to_owned())
            .spawn(move || poll_loop(&options, every, &receiver, on_event))?;
        Ok(Self { frozen: Some(frozen), thread: Some(thread) })
    }

    /// Pauses or resumes polling.
    pub fn freeze(&self, frozen: bool) {
        // the send fails if the watch has ended
        if let Some(sender) = &self.frozen {
            sender.send(frozen).ok();
        }
    }

    /// Ends the watch and waits for its thread, which may still be waiting for a driver.
    pub fn join(mut self) {
        self.frozen = None;
        if let Some(thread) = self.thread.take() {
            // a panic has been reported on that thread
            drop(thread.join());
        }
    }
}

fn poll_loop(
    options: &DetectOptions,
    every: Duration,
    control: &Receiver<bool>,
    mut on_event: impl FnMut(WatchEvent) -> bool,
) {
    let (detected, probes, mut memory) = detect_with_probes(options);
    let mut probes = Probes { list: Some(probes) };
    let mut last = MemoryUpdate { machine: detected.machine.clone(), notes: Vec::new() };
    if !on_event(WatchEvent::Found(detected)) {
        return;
    }
    let mut frozen = false;
    loop {
        let received = if frozen {
            control.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            control.recv_timeout(every.max(Duration::from_millis(1)))
        };
        match received {
            Ok(freeze) => frozen = freeze,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let now = poll(&last.machine, &mut probes, &mut memory);
                if now.differs_from(&last) {
                    last = now;
                    if !on_event(WatchEvent::MemoryChanged(last.clone())) {
                        return;
                    }
                }
            }
        }
    }
}

fn poll(machine: &Machine, probes: &mut Probes, memory: &mut ram::RamMonitor) -> MemoryUpdate {
    let mut machine = machine.clone();
    let mut notes = Vec::new();
    match memory.now() {
        Ok(ram) => machine.ram = ram,
        Err(reason) => notes.push(format!("system RAM is not updated: {reason}")),
    }
    let ram = machine.ram;
    let answers = probes.ask(move |probes| (probes.free)(&ram));
    let answers = answers.unwrap_or_else(|why| machine.gpus.iter().map(|_| Err(why.clone())).collect());
    for (index, (gpu, answer)) in machine.gpus.iter_mut().zip(answers).enumerate() {
        match answer {
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
    fn a_watch_reports_the_machine_and_ends_when_it_is_joined() {
        let (send, news) = mpsc::channel();
        let watch =
            MemoryWatch::start(nothing(), Duration::from_millis(1), move |news| send.send(news).is_ok()).unwrap();
        assert!(matches!(news.recv().unwrap(), WatchEvent::Found(_)));
        watch.freeze(true);
        watch.join();
        // the thread is gone, and with it the sender
        while news.recv().is_ok() {}
    }

    #[test]
    fn the_watch_ends_when_the_callback_returns_false() {
        let watch = MemoryWatch::start(nothing(), Duration::from_millis(1), |_| false).unwrap();
        let thread = { watch }.thread.take().unwrap();
        thread.join().unwrap();
    }
}
