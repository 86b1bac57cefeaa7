//! Detects the devices of the local machine and follows their free memory, on a thread.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::action::Action;
use crate::hardware::watch::{MemoryUpdate, MemoryWatch, WatchEvent};
use crate::hardware::{DetectOptions, Detected};
use crate::machine::spec::MachineSpec;

/// What to detect, and how often to poll.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMonitor {
    /// Where to look.
    pub search: DetectOptions,
    /// Interval between polls of free memory; none for no polling.
    pub every: Option<Duration>,
    /// The parts of the machine that the user described; detection leaves them as they are.
    pub described: MachineSpec,
}

impl DeviceMonitor {
    /// Starts the thread. It sends the detected machine, then changes of free memory, until the returned watch is
    /// dropped.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(self, answers: Sender<Action>) -> io::Result<MemoryWatch> {
        let Self { search, every, described } = self;
        let sender = EventSender(answers);
        MemoryWatch::start(search, every.unwrap_or_default(), move |event| {
            let sent = sender.0.send(action(event, &described)).is_ok();
            sent && every.is_some()
        })
    }
}

fn action(event: WatchEvent, described: &MachineSpec) -> Action {
    match event {
        WatchEvent::Found(found) => {
            let machine = described.complete(found.machine.clone());
            Action::Detected(Box::new(Detected { machine, ..found }))
        }
        WatchEvent::MemoryChanged(MemoryUpdate { machine, notes }) => {
            Action::MemoryChanged(Box::new(MemoryUpdate { machine: described.complete(machine), notes }))
        }
    }
}

/// Sends the thread's actions; reports a panic of the thread on drop.
struct EventSender(Sender<Action>);

impl Drop for EventSender {
    fn drop(&mut self) {
        if thread::panicking() {
            let what = "Device monitoring failed; free memory is no longer updated. Please report it.".to_owned();
            // fails if the planner has ended
            drop(self.0.send(Action::TaskPanicked(what)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Origin;
    use crate::units::Bytes;
    use std::sync::mpsc::channel;

    #[test]
    fn described_parts_survive_detection() {
        let (send, event) = channel();
        let described = MachineSpec::read(&[], Some("64GiB")).unwrap();
        let search = DetectOptions {
            nvml: Some("/nowhere/nvml.so".into()),
            sysfs: Some("/nowhere".into()),
            ..DetectOptions::here()
        };
        let watch = DeviceMonitor { search, every: None, described }.start(send).unwrap();
        let Action::Detected(found) = event.recv().unwrap() else { panic!("what was found comes first") };
        assert_eq!((found.machine.gpus.len(), found.machine.ram.total), (0, Bytes::gib(64)));
        assert_eq!(found.machine.origin, Origin::Described);
        assert!(found.tried.iter().any(|tried| tried.collector == "nvml"));
        // without polling nothing follows, and the thread ends
        assert!(event.recv().is_err());
        watch.join();
    }
}
