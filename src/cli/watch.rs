//! `plimsoll watch`: what runs beside its plan, sample after sample.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use super::args::WatchArgs;
use super::error::{CliError, one_line, written};
use super::interrupt::{Interrupt, STATUS};
use super::out::print;
use super::resolve::MachineSource;
use super::style::{BarGlyphs, Style};
use super::{check, error};
use crate::answer::live::{LiveDevice, beside, listed, other_context};
use crate::export::Head;
use crate::files;
use crate::hardware;
use crate::hardware::{DetectOptions, Detected};
use crate::machine::{CpuInstructions, Machine};
use crate::observed::sample::{DeviceSample, ProgramSample, Sample, Timeline};
use crate::observed::{Load, Observation};
use crate::page::live;
use crate::page::{Hue, Page};
use crate::running::follow::Follower;
use crate::running::held;
use crate::running::plans::{FoundPlan, Plans};
use crate::running::record::{self, Recorder};
use crate::source::Roots;
use crate::text::shown;

/// The state of the command.
struct Watch<'a> {
    args: &'a WatchArgs,
    timeline: Timeline,
    plans: Plans,
    /// Those of the newest sample.
    found: Vec<FoundPlan>,
    roots: Roots,
    style: Style,
    recorder: Option<Recorder>,
    remembered: bool,
}

/// One moment, a line each. Sizes are in bytes.
#[derive(JsonSchema, Serialize)]
pub(super) struct WatchAnswer<'a> {
    #[serde(flatten)]
    head: Head,
    /// Seconds since 1970.
    time: f64,
    /// GPUs in order, RAM last.
    devices: &'a [DeviceSample],
    /// The CPU's vector instructions; null where they are not known.
    cpu: Option<CpuInstructions>,
    /// Programs that serve models.
    programs: Vec<WatchedProgram<'a>>,
    /// What cannot be read, one sentence each.
    unread: &'a [String],
}

/// A program, and its plan beside it.
#[derive(JsonSchema, Serialize)]
struct WatchedProgram<'a> {
    #[serde(flatten)]
    program: &'a ProgramSample,
    /// Each device beside the plan; null of a program that cannot be planned.
    beside: Option<Vec<LiveDevice>>,
}

/// Follows, or shows a recording.
pub(super) fn run(args: &WatchArgs) -> Result<ExitCode, CliError> {
    let recorder = args.record.as_deref().map(Recorder::create).transpose().map_err(CliError::Arguments)?;
    let mut watch = Watch {
        args,
        timeline: Timeline::default(),
        plans: Plans::default(),
        found: Vec::new(),
        roots: Roots::of_this_machine(),
        style: Style::of_stdout(),
        recorder,
        remembered: false,
    };
    let interrupt = Interrupt::catch(|| ());
    let ended = if let Some(path) = &args.replay {
        let samples = record::read(path).map_err(CliError::Model)?;
        watch.replay(samples, &interrupt)?
    } else {
        watch.follow(&interrupt)?
    };
    if let Some(recorder) = &mut watch.recorder {
        recorder.finish().map_err(|error| CliError::Terminal(format!("the recording cannot be written: {error}")))?;
    }
    Ok(if ended { ExitCode::SUCCESS } else { ExitCode::from(STATUS) })
}

impl Watch<'_> {
    /// Follows until it is interrupted, or all samples are there; false if it was interrupted.
    fn follow(&mut self, interrupt: &Interrupt) -> Result<bool, CliError> {
        let search = MachineSource::read(&self.args.machine)?.search;
        let (_, mut follower) = Follower::start(&DetectOptions { gpus: true, ..search }, self.roots.clone());
        let every = self.args.every.0.unwrap_or(Duration::from_secs(1));
        let most = if self.args.once { Some(1) } else { self.args.samples };
        let mut count = 0;
        loop {
            let since = Instant::now();
            let (sample, machine) = follower.sample();
            if let Some(recorder) = &mut self.recorder {
                let added = recorder.add(&sample);
                added.map_err(|error| CliError::Terminal(format!("the recording cannot be written: {error}")))?;
            }
            self.take(sample, Some(&machine))?;
            count += 1;
            if most.is_some_and(|most| count >= most) {
                return Ok(true);
            }
            if !interrupt.wait(every.saturating_sub(since.elapsed())) {
                // a watch without an end is ended so
                return Ok(most.is_none());
            }
        }
    }

    /// Shows the samples of a recording at once, on a terminal at its pace.
    fn replay(&mut self, samples: Vec<Sample>, interrupt: &Interrupt) -> Result<bool, CliError> {
        let last = samples.len();
        let paced = io::stdout().is_terminal() && !self.args.json && !self.args.once;
        let mut before: Option<f64> = None;
        for (at, sample) in samples.into_iter().enumerate() {
            let time = sample.time;
            if paced && let Some(before) = before {
                let wait = Duration::try_from_secs_f64((time - before).clamp(0.0, 5.0)).unwrap_or_default();
                if !interrupt.wait(wait) {
                    return Ok(true);
                }
            }
            before = Some(time);
            // the end of a recording is what it comes to
            if self.args.once && at + 1 < last {
                self.timeline.push(sample);
            } else {
                self.take(sample, None)?;
            }
        }
        Ok(true)
    }

    fn take(&mut self, sample: Sample, machine: Option<&Machine>) -> Result<(), CliError> {
        self.found = self.plans.of(&sample, machine, &self.roots);
        self.timeline.push(sample);
        if self.args.remember && !self.remembered {
            self.remember()?;
        }
        if self.args.json {
            return self.json();
        }
        let page = self.page();
        let text = self.style.report(&page);
        if self.style.bars != BarGlyphs::None && !self.args.once && io::stdout().is_terminal() {
            let mut out = io::stdout().lock();
            let whole = format!("\x1b[2J\x1b[H{}", shown(&text, true));
            return written(out.write_all(whole.as_bytes()).and_then(|()| out.flush()));
        }
        print(&text)
    }

    fn json(&self) -> Result<(), CliError> {
        let Some(Sample { time, devices, cpu, programs, unread }) = self.timeline.now() else { return Ok(()) };
        let mut plans = self.timeline.courses().iter().zip(&self.found).map(|(course, plan)| match plan {
            Some(Ok(running)) => Some(beside(course, running)),
            _ => None,
        });
        let programs = programs.iter().map(|program| WatchedProgram { program, beside: plans.next().flatten() });
        let programs = programs.collect();
        let answer = WatchAnswer { head: Head::THIS, time: *time, devices, cpu: *cpu, programs, unread };
        let line = serde_json::to_string(&answer)
            .map_err(|error| CliError::Terminal(format!("the sample cannot be written as JSON: {error}")))?;
        print(&(line + "\n"))
    }

    fn page(&self) -> Page {
        let mut page = Page::default();
        let Some(sample) = self.timeline.now() else { return page };
        let bars = self.style.bars != BarGlyphs::None;
        for (course, plan) in self.timeline.courses().iter().zip(&self.found) {
            page.heading(&live::program(&course.now));
            match plan {
                Some(Ok(running)) => {
                    let found: Vec<LiveDevice> = beside(course, running);
                    page.text(&running.title(), Hue::Dim);
                    live::devices(&found, bars, &mut page);
                    for sentence in other_context(&course.now, running).into_iter().chain(listed(&course.now, running))
                    {
                        page.item(&sentence);
                    }
                    if bars {
                        live::courses(&self.timeline, course.now.pid, &found, self.style.lines, false, &mut page);
                    }
                }
                Some(Err(why)) => {
                    page.text(&one_line(&live::held(&course.now)), Hue::Text);
                    page.item(&one_line(&format!("it cannot be planned: {why}")));
                }
                None => page.text(&format!("it loads its model; {}", live::held(&course.now)), Hue::Text),
            }
        }
        if self.timeline.courses().is_empty() {
            page.text("No program that serves models runs here.", Hue::Text);
        }
        page.heading("Devices");
        live::machine(sample, &mut page);
        page
    }

    /// Remembers what the driver takes, once a model is loaded and no prompt was processed.
    fn remember(&mut self) -> Result<(), CliError> {
        let fresh = self.timeline.courses().iter().find(|course| course.fresh.is_some() && !course.now.gpus.is_empty());
        let Some(pid) = fresh.and_then(|course| course.now.pid) else { return Ok(()) };
        let log =
            hardware::processes::servers().into_iter().find(|server| server.pid == pid).and_then(|server| server.log);
        let Some(path) = log else {
            self.remembered = true;
            error::say("nothing is remembered: the server's output is in no file, so that its buffers are not known");
            return Ok(());
        };
        let cannot = |why: String| CliError::Model(format!("the log {why}"));
        let mut log = files::log(&path).map_err(cannot)?;
        let seen = Observation::read(&mut log).map_err(|why| cannot(files::cannot_read(&path, &why.to_string())))?;
        if let Some(load) = seen.load().filter(|load| Load::has_all_buffers(load)) {
            let detected: Detected = hardware::detect(&MachineSource::read(&self.args.machine)?.search);
            let own: Vec<_> =
                held(&detected.processes).into_iter().filter(|process| process.pid == u64::from(pid)).collect();
            self.remembered = true;
            error::say(&check::remember_of(&detected.machine, &own, load)?);
        }
        Ok(())
    }
}
