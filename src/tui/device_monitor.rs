//! Looks for the devices of the machine in front of us and follows how much of them is free, on a thread of its own.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::action::Action;
use crate::hardware::watch::{MemoryUpdate, MemoryWatch, WatchEvent};
use crate::hardware::{DetectOptions, Detected};
use crate::machine::spec::MachineSpec;

/// What is to be found out, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMonitor {
    /// Where to look.
    pub search: DetectOptions,
    /// How often free memory is asked for after that; none for never.
    pub every: Option<Duration>,
    /// What a person said of the machine stays as it was said.
    pub described: MachineSpec,
}

impl DeviceMonitor {
    /// Begins, and sends what is found, and then what moves, until the watch that it returns is dropped.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(self, answers: Sender<Action>) -> io::Result<MemoryWatch> {
        let Self { search, every, described } = self;
        let post = EventSender(answers);
        MemoryWatch::start(search, every.unwrap_or_default(), move |news| {
            let heard = post.0.send(action(news, &described)).is_ok();
            heard && every.is_some()
        })
    }
}

fn action(news: WatchEvent, described: &MachineSpec) -> Action {
    match news {
        WatchEvent::Found(found) => {
            let machine = described.complete(found.machine.clone());
            Action::Detected(Box::new(Detected { machine, ..found }))
        }
        WatchEvent::MemoryChanged(MemoryUpdate { machine, notes }) => {
            Action::MemoryChanged(MemoryUpdate { machine: described.complete(machine), notes })
        }
    }
}

/// Where the news go. A watch that panics says so with its last word.
struct EventSender(Sender<Action>);

impl Drop for EventSender {
    fn drop(&mut self) {
        if thread::panicking() {
            let what = "Device monitoring failed; free memory is no longer updated. Please report it.".to_owned();
            // the planner may be gone already
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
    fn what_was_described_stays_when_the_rest_arrives() {
        let (send, news) = channel();
        let described = MachineSpec::read(&[], Some("64GiB")).unwrap();
        let search = DetectOptions {
            nvml: Some("/nowhere/nvml.so".into()),
            sysfs: Some("/nowhere".into()),
            ..DetectOptions::here()
        };
        let watch = DeviceMonitor { search, every: None, described }.start(send).unwrap();
        let Action::Detected(found) = news.recv().unwrap() else { panic!("what was found comes first") };
        assert_eq!((found.machine.gpus.len(), found.machine.ram.total), (0, Bytes::gib(64)));
        assert_eq!(found.machine.origin, Origin::Described);
        assert!(found.tried.iter().any(|tried| tried.collector == "nvml"));
        // looked once: nothing follows, and the thread is gone
        assert!(news.recv().is_err());
        watch.join();
    }
}
