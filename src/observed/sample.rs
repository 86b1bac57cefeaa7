//! What a machine and the programs that serve models on it held at one moment: a line of `plimsoll watch --json`, and of
//! a recording.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ShownCommand;
use crate::machine::CpuInstructions;
use crate::units::Bytes;

/// The name of RAM among the devices.
pub const RAM: &str = "RAM";

/// One moment. All sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since 1970.
    pub time: f64,
    /// GPUs in order, RAM last.
    pub devices: Vec<DeviceSample>,
    /// The CPU's vector instructions, by which weights in RAM are repacked.
    #[serde(default)]
    pub cpu: Option<CpuInstructions>,
    /// Programs that serve models.
    pub programs: Vec<ProgramSample>,
    /// What cannot be read, one sentence each.
    #[serde(default)]
    pub unread: Vec<String>,
}

/// Memory of a device.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DeviceSample {
    /// `GPU0`, or `RAM`.
    pub id: String,
    pub name: String,
    pub total: Bytes,
    pub free: Bytes,
    /// What programs that serve no models hold, where the driver tells.
    #[serde(default)]
    pub others: Option<Bytes>,
}

/// A program that serves models.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ProgramSample {
    /// Process ID; none of a program on another computer.
    pub pid: Option<u32>,
    /// `llama-server`, `ollama`.
    pub name: String,
    /// Its command line, as far as others may see it.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub command: Option<ShownCommand>,
    /// The same as it is, which is written nowhere.
    #[serde(skip)]
    pub whole_command: Option<String>,
    /// What it holds on each GPU, where the driver tells.
    #[serde(default)]
    pub gpus: Vec<OnGpu>,
    /// What it holds in RAM.
    #[serde(default)]
    pub ram: Option<InRam>,
    /// What it says of itself.
    #[serde(default)]
    pub served: Option<Served>,
    /// Models that it lists as loaded (Ollama).
    #[serde(default)]
    pub listed: Vec<Listed>,
}

/// Memory of a program on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OnGpu {
    pub device: String,
    pub bytes: Bytes,
}

/// Memory of a program in RAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct InRam {
    /// All that is resident.
    pub resident: Bytes,
    /// Of that, its own: caches, buffers, weights that are not mapped.
    #[serde(default)]
    pub own: Option<Bytes>,
    /// Of that, pages of files: mapped weights, its own code.
    #[serde(default)]
    pub mapped: Option<Bytes>,
    /// Paged out besides.
    #[serde(default)]
    pub swapped: Option<Bytes>,
    /// Its share, where pages shared by several programs are divided among them.
    #[serde(default)]
    pub share: Option<Bytes>,
}

/// What llama-server says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Served {
    /// Whether the model is loaded.
    pub ready: bool,
    /// Tokens of context of each slot.
    #[serde(default)]
    pub context: Option<u64>,
    /// Slots.
    #[serde(default)]
    pub slots: Option<u64>,
    /// Slots at work.
    #[serde(default)]
    pub busy: Option<u64>,
    /// Whether any prompt was processed since the start.
    #[serde(default)]
    pub prompted: Option<bool>,
    /// Tokens of prompts processed since the start.
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
}

/// A model that Ollama lists as loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Listed {
    pub name: String,
    pub size: Bytes,
    pub vram: Bytes,
    #[serde(default)]
    pub context: Option<u64>,
}

impl ProgramSample {
    /// What it holds on a device.
    pub fn held(&self, device: &str) -> Option<Bytes> {
        if device == RAM {
            return self.ram.map(|ram| ram.resident);
        }
        self.gpus.iter().find(|held| held.device == device).map(|held| held.bytes)
    }

    /// Whether its model is loaded and no prompt was processed yet.
    fn is_fresh(&self) -> bool {
        self.served.is_some_and(|served| served.ready && served.prompted == Some(false))
    }

    /// Whether a prompt was processed and none is under way.
    fn is_past_first_prompt(&self) -> bool {
        self.served.is_some_and(|served| served.ready && served.prompted == Some(true) && served.busy == Some(0))
    }
}

/// A program over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// It, loaded and before its first prompt, where that was seen.
    pub fresh: Option<ProgramSample>,
    /// It after its first prompt, where the time before was seen too.
    pub prompted: Option<ProgramSample>,
    /// It now.
    pub now: ProgramSample,
}

impl Course {
    fn of(now: ProgramSample) -> Self {
        let fresh = now.is_fresh().then(|| now.clone());
        Self { fresh, prompted: None, now }
    }

    fn go_on(&mut self, now: ProgramSample) {
        if now.is_fresh() {
            // memory still settles for a moment after the load
            self.fresh = Some(now.clone());
        }
        if self.fresh.is_some() && self.prompted.is_none() && now.is_past_first_prompt() {
            self.prompted = Some(now.clone());
        }
        self.now = now;
    }
}

/// Samples of the last hour, and what became of each program.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    samples: VecDeque<Sample>,
    courses: Vec<Course>,
}

/// Seconds that a timeline keeps.
const KEPT: f64 = 3600.0;
/// Samples that it keeps at most, however short their interval.
const MOST: usize = 3600;

impl Timeline {
    /// Adds a sample, and leaves out what is older than an hour before it.
    pub fn push(&mut self, sample: Sample) {
        // another program may have the same process ID
        let is_same = |a: &ProgramSample, b: &ProgramSample| (a.pid, &a.command) == (b.pid, &b.command);
        let mut before = std::mem::take(&mut self.courses);
        for program in &sample.programs {
            let course = before.iter().position(|course| is_same(&course.now, program));
            self.courses.push(match course.map(|at| before.swap_remove(at)) {
                Some(mut course) => {
                    course.go_on(program.clone());
                    course
                }
                None => Course::of(program.clone()),
            });
        }
        let since = sample.time - KEPT;
        while self.samples.len() >= MOST || self.samples.front().is_some_and(|first| first.time < since) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The newest sample.
    pub fn now(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// The samples, the oldest first.
    pub fn samples(&self) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The programs that run now, in the order of the newest sample.
    pub fn courses(&self) -> &[Course] {
        &self.courses
    }
}
