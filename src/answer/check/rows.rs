//! Planned and observed figures side by side: a plan in the terms of a log, what the log's lines tell, and the layers
//! of both.

mod planned;

use std::collections::BTreeMap;

use super::{CheckedTerm, Compared, Part, Precision, Uncounted};
use crate::answer::why;
use crate::engine::PlanRequest;
use crate::engine::llama_cpp::Reservation;
use crate::observed::{Load, Mib, Program, TablePhase, Term, device_name, is_gpu, is_repacked};

pub use planned::{Beside, Planned, Shown, beside, plan};

/// What a line of two decimals may be off.
const HUNDREDTH: f64 = 0.01;

/// How a figure is printed, and over how many lines.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    precision: Precision,
    lines: f64,
}

/// Lines of two decimals.
const LINE: Rounding = Rounding { precision: Precision::Hundredths, lines: 1.0 };
/// A table of whole MiB, cut off.
const WHOLE: Rounding = Rounding { precision: Precision::Whole, lines: 1.0 };
/// Ollama's own figures, of one decimal of their unit.
pub const ROUNDED: Rounding = Rounding { precision: Precision::Decimal, lines: 1.0 };

impl Rounding {
    /// What `mib` may be off.
    pub fn of(self, mib: Mib) -> Mib {
        Mib(match self.precision {
            Precision::Hundredths => HUNDREDTH * self.lines,
            Precision::Whole => 1.0,
            Precision::Decimal if mib.0 >= 1024.0 => 51.2,
            Precision::Decimal => 0.05,
        })
    }
}

/// Figures of one part by device and term, each with what it may be off.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    by_term: BTreeMap<(String, CheckedTerm), Figure>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figure {
    /// Of the load, or measured by its fit.
    of: Reservation,
    mib: f64,
    tolerance: f64,
    precision: Precision,
    /// Part of it is a span of a mapped file.
    mapped: bool,
}

/// What a load took: the target's, and what no plan of the target holds.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The target's figures.
    pub target: Figures,
    /// The draft's: all contexts but the first, and further models.
    pub draft: Figures,
    /// The projector's, adapters', and other states.
    pub others: Vec<(String, Part, CheckedTerm, Mib)>,
    /// The backends that compute in the CPU's memory.
    cpu_backends: u64,
}

/// The name under which memory of a device is compared: all of RAM is one.
fn place(name: &str) -> String {
    if is_gpu(name) { device_name(name).to_owned() } else { CPU.to_owned() }
}

const TERMS: [(Term, CheckedTerm); 5] = [
    (Term::Model, CheckedTerm::Model),
    (Term::Kv, CheckedTerm::Kv),
    (Term::Rs, CheckedTerm::Rs),
    (Term::Compute, CheckedTerm::Compute),
    (Term::Output, CheckedTerm::Output),
];

impl Figures {
    fn add(&mut self, device: &str, term: CheckedTerm, mib: f64, rounding: Rounding, of: Reservation) {
        let repacked = term == CheckedTerm::Model && is_repacked(device);
        let term = if repacked { CheckedTerm::Repacked } else { term };
        self.add_to(&place(device), term, mib, rounding, of);
        if let Some(figure) = self.by_term.get_mut(&(place(device), term)) {
            figure.mapped |= device.ends_with("_Mapped");
        }
    }

    fn add_to(&mut self, place: &str, term: CheckedTerm, mib: f64, rounding: Rounding, of: Reservation) {
        let figure = self.by_term.entry((place.to_owned(), term)).or_default();
        figure.of = of;
        figure.mib += mib;
        figure.tolerance += rounding.of(Mib(mib)).0;
        figure.precision = rounding.precision;
    }

    fn has(&self, device: &str, term: CheckedTerm) -> bool {
        self.by_term.contains_key(&(device.to_owned(), term))
    }

    /// Whether any device has the term, so that a device without it has none of it.
    fn tells(&self, term: CheckedTerm) -> bool {
        self.by_term.keys().any(|(_, of)| *of == term)
    }
}

impl Observed {
    /// What the lines of `load` tell.
    pub fn of(load: &Load) -> Self {
        let (model, context) = (load.models.first(), load.contexts.first());
        let cpu_backends = context.and_then(|context| context.cpu_backends).unwrap_or(1);
        let mut observed = Self { cpu_backends, ..Self::default() };
        let prints = model.is_some_and(|model| !model.observed.is_empty())
            || context.is_some_and(|context| !context.observed.is_empty());
        let target = [model.map(|model| &model.observed), context.map(|context| &context.observed)];
        let own = |device: &str, term: Term| -> Option<f64> {
            let figures = target.iter().flatten().filter_map(|buffers| buffers.get(device)?.get(&term));
            figures.map(|mib| mib.0).reduce(|a, b| a + b)
        };
        // two caches, or layers of several kinds, may be printed line by line
        let lines = context.map_or(1, |context| context.caches.len().max(1)) as f64;
        for (device, terms) in &load.observed {
            for (&term, &all) in terms {
                let Some(&(_, compared)) = TERMS.iter().find(|(of, _)| *of == term) else {
                    let (part, term) = match term {
                        Term::ProjectorCompute => (Part::Projector, CheckedTerm::Compute),
                        Term::Lora => (Part::Model, CheckedTerm::Lora),
                        _ => (Part::Model, CheckedTerm::State),
                    };
                    observed.others.push((place(device), part, term, all));
                    continue;
                };
                let of_target = if prints { own(device, term) } else { Some(all.0) };
                // a trial allocates no KV caches, though it says how large they are, and may read no weights
                let tried = load.is_trial && (term == Term::Kv || term == Term::Model && load.weighs_nothing());
                if let Some(mib) = of_target.filter(|_| !tried) {
                    let rounding = if prints || load.program != Some(Program::Ollama) {
                        Rounding { lines: if prints { lines } else { 1.0 }, ..LINE }
                    } else {
                        ROUNDED
                    };
                    let of = if load.is_trial { Reservation::Measured } else { Reservation::Loaded };
                    observed.target.add(device, compared, mib, rounding, of);
                }
                let rest = all.0 - of_target.unwrap_or_default();
                if rest > HUNDREDTH {
                    observed.draft.add(device, compared, rest, Rounding { lines, ..LINE }, Reservation::Loaded);
                }
            }
        }
        observed.add_trial(load);
        observed.add_sizes(load);
        observed.add_table(load);
        if let Some(mib) = load.projector {
            observed.others.push((String::new(), Part::Projector, CheckedTerm::Model, mib));
        }
        observed
    }

    /// The KV caches of a trial, whose lines of buffers are empty, where they can only be on one GPU.
    fn add_trial(&mut self, load: &Load) {
        let mut gpus = load.observed.keys().map(|name| place(name)).filter(|name| name != CPU).collect::<Vec<_>>();
        gpus.dedup();
        if let ([gpu], Some(context), true) = (gpus.as_slice(), load.contexts.first(), load.is_trial) {
            for cache in context.caches.iter().filter(|cache| cache.term == Term::Kv) {
                self.target.add(gpu, CheckedTerm::Kv, cache.size.0, LINE, Reservation::Measured);
            }
        }
    }

    /// Caches of which only the sizes are there, over all devices.
    fn add_sizes(&mut self, load: &Load) {
        let Some(context) = load.contexts.first() else { return };
        for (of, term) in [(Term::Kv, CheckedTerm::Kv), (Term::Rs, CheckedTerm::Rs)] {
            if self.target.tells(term) || load.is_trial {
                continue;
            }
            let tabled = !load.table.is_empty() || !load.fit.printed.is_empty();
            for cache in context.caches.iter().filter(|cache| !tabled && cache.term == of && cache.size.0 > 0.0) {
                self.target.add_to(ALL, term, cache.size.0, LINE, Reservation::Loaded);
            }
        }
    }

    /// What only the table tells, in whole MiB.
    fn add_table(&mut self, load: &Load) {
        let printed = load
            .fit
            .printed
            .iter()
            .map(|(name, &(model, context, compute))| (name, [model, context, compute].map(|mib| mib as f64)));
        let table =
            load.table.iter().map(|(name, row)| (name, [row.model, row.context, row.compute].map(|mib| mib as f64)));
        let rows: Vec<_> = if load.table.is_empty() { printed.collect() } else { table.collect() };
        // the table of a load that is over is of what it took; all others are the fit's
        let taken = !load.table.is_empty() && load.table_phase == Some(TablePhase::Loaded);
        let of = if taken { Reservation::Loaded } else { Reservation::Measured };
        let lines = self.target.clone();
        for (name, figures) in rows {
            let device = place(name);
            for (term, mib) in [CheckedTerm::Model, CheckedTerm::Context, CheckedTerm::Compute].into_iter().zip(figures)
            {
                let cached = lines.has(&device, CheckedTerm::Kv) || lines.has(&device, CheckedTerm::Rs);
                let known = match term {
                    CheckedTerm::Context => cached && lines.tells(CheckedTerm::Kv),
                    CheckedTerm::Model if is_repacked(name) => lines.has(&device, CheckedTerm::Repacked),
                    _ => lines.has(&device, term),
                };
                if !known {
                    self.target.add(name, term, mib, WHOLE, of);
                }
            }
        }
    }

    /// What a plan has to know of the log, to be put in its terms.
    pub fn shown<'a>(&self, names: &'a [String]) -> Shown<'a> {
        let measured = self.target.by_term.values().any(|figure| figure.of == Reservation::Measured);
        Shown { names, measured, cpu_backends: self.cpu_backends }
    }

    /// The target's rows with what is planned for them, then rows that only one side has.
    pub fn beside(&self, planned: &Planned, names: &[String]) -> Vec<Compared> {
        let mut rows = Vec::new();
        let mut devices: Vec<String> = names.to_vec();
        devices.push(CPU.to_owned());
        for (device, _) in self.target.by_term.keys() {
            if !devices.contains(device) {
                devices.insert(devices.len() - 1, device.clone());
            }
        }
        for device in &devices {
            for term in CheckedTerm::BUFFERS {
                let seen = self.target.by_term.get(&(device.clone(), term));
                // the plan's figure counts only where the text would tell the same
                let split =
                    matches!(term, CheckedTerm::Kv | CheckedTerm::Rs) && self.target.has(device, CheckedTerm::Context);
                let of = seen.map(|figure| figure.of).unwrap_or_default();
                // the log has the term over all devices only
                let summed = device != ALL && self.target.has(ALL, term);
                let plans = planned.of(device, term, of).filter(|_| !split && !summed);
                let spans = |figure: &Figure| {
                    let span = planned.span.filter(|_| device == CPU && term == CheckedTerm::Model && figure.mapped);
                    span.is_some_and(|span| (figure.mib - span.0).abs() <= figure.tolerance + 1e-9)
                };
                let told = self.target.tells(term) && term != CheckedTerm::Context;
                let row = match (plans, seen) {
                    (None, None) => continue,
                    (Some(_), None) if !told || term == CheckedTerm::Output || device == ALL => continue,
                    // zero MiB in a table
                    (None, Some(figure)) if figure.mib <= figure.tolerance => continue,
                    (plans, seen) => Compared {
                        device: device.clone(),
                        part: Part::Model,
                        term,
                        of,
                        planned: plans,
                        observed: seen.map(|figure| Mib(figure.mib)),
                        tolerance: Mib(seen.map_or(HUNDREDTH, |figure| figure.tolerance)),
                        precision: seen.map_or(Precision::default(), |figure| figure.precision),
                        is_mapped: seen.is_some_and(|figure| figure.mapped),
                        uncounted: seen.is_some_and(spans).then_some(Uncounted::Mapped),
                        reason: None,
                    },
                };
                rows.push(row);
            }
        }
        let beside = |device: &str, part, term, mib: f64, tolerance: f64| {
            let plans = planned.beside.get(&(device.to_owned(), part, term)).copied();
            Compared {
                device: device.to_owned(),
                part,
                term,
                of: Reservation::Loaded,
                planned: plans,
                observed: Some(Mib(mib)),
                tolerance: Mib(tolerance),
                precision: Precision::default(),
                is_mapped: false,
                uncounted: plans.is_none().then_some(Uncounted::NotPlanned),
                reason: None,
            }
        };
        rows.extend(
            self.draft
                .by_term
                .iter()
                .map(|((device, term), figure)| beside(device, Part::Draft, *term, figure.mib, figure.tolerance)),
        );
        rows.extend(self.others.iter().map(|(device, part, term, mib)| beside(device, *part, *term, mib.0, HUNDREDTH)));
        // in the order of the devices, what is on no known one last
        let place = |row: &Compared| devices.iter().position(|name| *name == row.device).unwrap_or(devices.len());
        rows.sort_by_key(|row| (place(row), row.part));
        rows
    }
}

/// The name of RAM among the devices of a comparison.
pub const CPU: &str = "CPU";
/// The name of all devices together.
pub const ALL: &str = "all";

/// Layers on GPUs, the output's included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitCheck {
    /// On GPUs in the log.
    pub observed: u64,
    /// Of so many.
    pub of: u64,
    /// On GPUs if the program decides as planned; none if the log does not tell what it decides by.
    pub planned: Option<u64>,
    /// The inequality that decides for the first layer in RAM, as one sentence.
    pub inequality: Option<String>,
}

impl SplitCheck {
    /// Compares layers on GPUs, and in all, with a plan of `own`, the request without the log's placement, else with
    /// `placed`.
    pub fn of(seen: Option<(u64, u64)>, own: Option<&PlanRequest>, placed: &Planned) -> Option<Self> {
        let (observed, of) = seen?;
        let plan = own.and_then(|own| own.plan().ok());
        let planned = plan.as_ref().map(|plan| plan.offloaded as u64);
        let inequality = own.and_then(Self::inequality);
        // further blocks, as for a draft, may be counted by one side only
        let same_count = of == placed.layers.1 as u64;
        let planned = planned.map(|count| if !same_count && count == placed.layers.1 as u64 { of } else { count });
        Some(Self { observed, of, planned, inequality })
    }

    /// The inequality that decides for the first layer in RAM.
    pub fn inequality(own: &PlanRequest) -> Option<String> {
        let plan = own.plan().ok()?;
        let spilled = plan.layers.iter().filter(|layer| layer.device + 1 == plan.devices.len());
        let last = spilled.map(|layer| layer.index).max()?;
        let answer = why::layer(&plan, last)?;
        answer.inequality.map(|inequality| inequality.to_string())
    }

    /// Whether the same number is on GPUs.
    pub fn agrees(&self) -> bool {
        self.planned.is_none_or(|planned| planned == self.observed)
    }
}
