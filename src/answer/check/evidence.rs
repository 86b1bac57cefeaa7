//! Reasons that a log tells by itself, where no other plan agrees: a row each, in order of evidence.
//!
//! **To add one**, write a row: when it holds, of the log, the plan and the row of figures, and what it says then. The first
//! row that holds is said.

use super::comparison::is_open;
use super::log;
use super::reason::{MIXTURE, OTHER_SHAPE, Reason, is_trial, older_build, other_layers, sentence, told};
use super::rows::Planned;
use super::{CPU, CheckedTerm, Compared};
use crate::engine::PlanRequest;
use crate::observed::{Event, Load, Mib, Program, Term};
use crate::settings::{Release, SplitMode};

/// The first build that has masks of 2 bytes a cell (031ddb2e0, ggml-org/llama.cpp 23764).
const NARROW_MASKS: u64 = 9_410;

/// What is known of rows that no other plan explains.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Evidence<'a> {
    pub load: &'a Load,
    pub placed: &'a PlanRequest,
    pub plan: &'a Planned,
    /// Settings that are not in the log, so that defaults were planned.
    pub assumed: &'a [&'static str],
    /// Terms of which all devices together hold what is planned.
    pub same_in_total: Vec<CheckedTerm>,
    /// Whether the log tells, or its figures show, which layers are on GPUs.
    pub told_layers: bool,
    /// Whether as many layers were asked for as there are.
    pub asked_for_all: bool,
    /// Whether the program's own choice of layers can be planned.
    pub decided: bool,
    /// Whether there is no GPU, so that layers can be in RAM only.
    pub one_device: bool,
    /// Whether the model was found by its name.
    pub other_file: bool,
    /// Whether the plan has weights of blocks in RAM, and the log others.
    pub has_other_weights: bool,
}

/// A reason that the log tells: what must hold in it and in the plan of a row, and what is said then.
struct Row {
    holds: fn(&Evidence<'_>, &Compared) -> bool,
    says: fn(&Evidence<'_>, &Compared) -> Reason,
}

/// In order of evidence: the first that holds is said.
const ROWS: &[Row] = &[
    Row {
        holds: |of, row| row.observed.is_none() && of.failed(),
        says: |_, _| told("the load failed before this was complete"),
    },
    Row {
        holds: |_, row| row.observed.is_none(),
        says: |_, _| told("its line is not in the log: give the whole output, until the model is loaded"),
    },
    Row {
        holds: |of, row| of.plans_narrow_masks() && has_wide_masks(row, of.plan, of.load),
        says: |_, row| {
            let mib = row.difference();
            sentence(format!("masks have 4 bytes a cell in builds before b{NARROW_MASKS}, and 2 since: {mib} more"))
        },
    },
    Row { holds: |of, row| is_model(row) && is_trial(of.load) && !of.asked_for_all, says: |_, _| Reason::FitTrial },
    Row { holds: |of, _| of.other_model().is_some(), says: |of, _| of.other_model().unwrap_or(OTHER_SHAPE) },
    Row {
        holds: |of, row| of.same_in_total.contains(&row.term),
        says: |_, _| told("all devices together hold as much as planned: layers are on other devices"),
    },
    Row { holds: |of, row| is_model(row) && of.knows_layers() && of.other_file, says: |_, _| MIXTURE },
    Row {
        holds: |of, row| is_model(row) && of.knows_layers(),
        says: |_, _| {
            told(
                "the log's weights are not those of the file that was given: another file was loaded, or another \
                  quantisation",
            )
        },
    },
    Row {
        holds: |of, row| (is_model(row) || is_cache(row)) && !of.told_layers && !of.decided && !of.one_device,
        says: |_, _| told("the log does not tell which layers are on GPUs"),
    },
    Row {
        // context and types are told, so only the shape is left
        holds: |of, row| is_cache(row) && of.other_file && of.told_layers && of.cells() && of.assumed.is_empty(),
        says: |_, _| OTHER_SHAPE,
    },
    Row {
        holds: |of, row| {
            of.load.settings.override_tensor.is_some()
                && of.placed.settings.override_tensor.is_empty()
                && !is_cache(row)
        },
        says: |_, _| told("--override-tensor puts tensors on devices that the log does not tell"),
    },
    Row {
        holds: |of, _| of.placed.settings.split_mode != SplitMode::Layer,
        says: |of, _| {
            sentence(format!("what --split-mode {} takes on each GPU is modelled", of.placed.settings.split_mode))
        },
    },
    Row {
        holds: |of, _| of.split_mode().is_some(),
        says: |of, _| {
            let mode = of.split_mode().unwrap_or_default();
            sentence(format!("--split-mode {mode} splits every layer over the GPUs; a plan has whole layers"))
        },
    },
    Row { holds: |of, _| of.failed(), says: |_, _| told("the load failed before this was complete") },
    Row {
        holds: |of, _| of.other_layers().is_some(),
        says: |of, _| other_layers(of.other_layers().unwrap_or_default(), of.plan.layers.0),
    },
    Row {
        holds: |of, _| of.own_code().is_some(),
        says: |of, _| {
            let program = of.own_code().unwrap_or_default();
            sentence(format!("{program} has code of its own here"))
        },
    },
    Row {
        holds: |of, row| is_compute(row) && of.other_program().is_some(),
        says: |of, _| {
            let program = of.other_program().unwrap_or_default();
            sentence(format!("{program} is none of llama.cpp's programs, and may reserve otherwise"))
        },
    },
    Row { holds: |of, _| is_trial(of.load) && !of.placed.machine.gpus.is_empty(), says: |_, _| Reason::FitTrial },
    Row { holds: |of, row| is_compute(row) && of.is_older(), says: |of, _| older_build(of.load) },
    Row {
        holds: |of, row| of.copies_other_weights(row),
        says: |_, _| {
            told(
                "weights in RAM are copied here for a prompt, and the file's are not those of the model that was found by \
                  its name: give the file with --model",
            )
        },
    },
    Row {
        holds: |of, row| !of.moved_by(row).is_empty() && !is_model(row),
        says: |of, row| {
            let assumed = of.moved_by(row).join(", ");
            sentence(format!("it depends on {assumed}, which the log does not tell; none of the usual values agrees"))
        },
    },
    Row {
        holds: |of, row| is_compute(row) && of.placed.machine.gpus.iter().any(|gpu| gpu.computer.is_some()),
        says: |_, _| told("the log does not tell the backend of the other computer's device"),
    },
    Row {
        holds: |of, row| is_compute(row) && of.uncertain().is_some(),
        says: |of, _| {
            let why = of.uncertain().unwrap_or_default();
            sentence(format!("the planned figure is not exact: {why}"))
        },
    },
    Row {
        holds: |of, row| is_compute(row) && of.placed.settings.release.is_some(),
        says: |of, _| {
            let known = "not known: no release of llama.cpp that is known here agrees";
            match log::build(of.load) {
                Some(build) => sentence(format!("{known} with b{build}")),
                None => sentence(format!("{known}; the program's first lines, with its build, would tell more")),
            }
        },
    },
    Row {
        holds: |_, _| true,
        says: |_, _| told("not known: the command and the program's first lines would tell more"),
    },
];

/// Whether a buffer in RAM is larger by what masks of 4 bytes a cell take.
fn has_wide_masks(row: &Compared, plan: &Planned, load: &Load) -> bool {
    let is_recent = log::build(load).is_some_and(|build| build >= NARROW_MASKS);
    let rest = |copies: f64| Mib(row.difference().0 - copies * plan.masks.0);
    let both = row.planned.is_some() && row.observed.is_some() && plan.masks.0 >= 1.0;
    is_compute(row) && row.device == CPU && both && !is_recent && [1.0, 4.0].iter().any(|&of| row.is_within(rest(of)))
}

fn is_model(row: &Compared) -> bool {
    matches!(row.term, CheckedTerm::Model | CheckedTerm::Repacked)
}

fn is_cache(row: &Compared) -> bool {
    matches!(row.term, CheckedTerm::Kv | CheckedTerm::Rs)
}

fn is_compute(row: &Compared) -> bool {
    row.term == CheckedTerm::Compute
}

impl Evidence<'_> {
    /// Gives each open row the first reason that holds.
    pub fn explain(&self, rows: &mut [Compared]) {
        // compute buffers last, as another shape of caches moves them too
        for compute in [false, true] {
            let other_shape = compute && rows.iter().any(|row| row.reason == Some(OTHER_SHAPE));
            for row in rows.iter_mut().filter(|row| is_open(row) && is_compute(row) == compute) {
                row.reason = if other_shape && row.observed.is_some() {
                    Some(OTHER_SHAPE)
                } else {
                    ROWS.iter().find(|reason| (reason.holds)(self, row)).map(|reason| (reason.says)(self, row))
                };
            }
        }
    }

    /// Whether it is known which weights are in RAM.
    fn knows_layers(&self) -> bool {
        self.told_layers || self.one_device
    }

    fn failed(&self) -> bool {
        let failed = |event: &Event| matches!(event, Event::Failed(_) | Event::OutOfMemory { .. });
        !self.load.has_all_buffers() && self.load.events.iter().any(failed)
    }

    /// Whether the log tells how long its caches are.
    fn cells(&self) -> bool {
        self.load.contexts.first().is_some_and(|context| !context.caches.is_empty())
    }

    /// The log is of a model with other blocks: caches of windows and of the whole context have each block once.
    fn other_model(&self) -> Option<Reason> {
        let caches = self.load.contexts.first()?.caches.iter().filter(|cache| cache.term == Term::Kv);
        let of: Vec<(u64, u64)> = caches.map(|cache| (cache.cells, cache.layers)).collect();
        let of_log = match of[..] {
            [(whole, first), (window, second)] if whole != window => first + second,
            _ => of.iter().map(|(_, layers)| *layers).max()?,
        };
        let blocks = self.placed.model.block_count() as u64;
        let says = || {
            sentence(format!(
                "the log is of another model: its caches are of {of_log} blocks, and this one has {blocks}: give the \
                 file with --model"
            ))
        };
        (of_log > blocks).then(says)
    }

    /// A mode that splits every layer.
    fn split_mode(&self) -> Option<&str> {
        self.load.settings.split_mode.as_deref().filter(|mode| ["row", "tensor", "graph"].contains(mode))
    }

    /// Layers on GPUs in the log, where the plan has others there.
    fn other_layers(&self) -> Option<u64> {
        let on = self.load.layers_on_gpus().map(|(on, _)| on)?;
        (!self.one_device && on != self.plan.layers.0 as u64).then_some(on)
    }

    /// A program with code of its own.
    fn own_code(&self) -> Option<&str> {
        let known = self.load.program.filter(|of| matches!(of, Program::IkLlamaCpp | Program::KoboldCpp));
        known.map(Program::name)
    }

    /// Whether masks are planned with 2 bytes a cell: those of older releases are wide in the plan already.
    fn plans_narrow_masks(&self) -> bool {
        let first = Release::nearest_to_build(NARROW_MASKS);
        self.placed.settings.release.is_none_or(|release| release.is_from(first))
    }

    /// Whether the build is older than every release that is known here.
    fn is_older(&self) -> bool {
        self.placed.settings.release.is_some() && log::is_older(self.load)
    }

    /// Whether weights in RAM are not those that are planned, which are copied to a GPU for a prompt.
    fn copies_other_weights(&self, row: &Compared) -> bool {
        is_compute(row) && row.device != CPU && self.has_other_weights && !self.placed.settings.no_op_offload
    }

    /// A program of which only the name is like those of llama.cpp.
    fn other_program(&self) -> Option<&str> {
        let name = self.load.command.as_ref().map(|command| command.program.as_str())?;
        (name.starts_with("llama-") && !log::is_known_program(name)).then_some(name)
    }

    /// Settings that the log does not tell and that move a row: the ubatch moves compute buffers, and caches only where
    /// windows slide.
    fn moved_by(&self, row: &Compared) -> Vec<&'static str> {
        let moves = |setting: &&'static str| self.assumed.len() == 1 || is_compute(row) || *setting != "the ubatch";
        self.assumed.iter().copied().filter(moves).collect()
    }

    fn uncertain(&self) -> Option<String> {
        self.placed.plan().ok()?.uncertainties.into_iter().next().map(|uncertainty| uncertainty.reason.clone())
    }
}
