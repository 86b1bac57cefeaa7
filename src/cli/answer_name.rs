//! The answers that scripts may rely on, by name.

/// What a command prints as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub(super) enum AnswerName {
    Plan,
    Max,
    Why,
    Best,
    Place,
    Need,
    Together,
    Check,
    CheckRunning,
    CheckPs,
    Apply,
    Watch,
    Sweep,
    Matrix,
    Explain,
    List,
    Devices,
    DevicesPresets,
    MachineList,
    #[cfg(feature = "net")]
    Cache,
    Config,
}

/// Name, and the command with what it prints.
type AnswerRow = (AnswerName, &'static str, &'static str);

/// All of them, in the order of the commands.
pub(super) const ALL: &[AnswerRow] = &[
    (AnswerName::Plan, "plan", "plan --json, export --as json: a plan"),
    (AnswerName::Max, "max", "max --json: the largest value of a knob"),
    (AnswerName::Why, "why", "why --json: why layers are where they are"),
    (AnswerName::Best, "best", "best --json: the best settings"),
    (AnswerName::Place, "place", "place --json: a faster placement"),
    (AnswerName::Need, "need", "need --json: machines that run a model"),
    (
        AnswerName::Together,
        "together",
        "together --json, and plan --command FILE --json where it starts several: which models are loaded at once",
    ),
    (AnswerName::Check, "check", "check LOG --json: the loads in a log, one of them beside its plan"),
    (AnswerName::CheckRunning, "check-running", "check --json without a log: what runs, beside its plans"),
    (AnswerName::CheckPs, "check-ps", "check MODEL --ps SHARES --json: settings that show a column"),
    (AnswerName::Apply, "apply", "apply --json: what came of a plan that was loaded"),
    (AnswerName::Watch, "watch", "watch --json: each line, a sample of what runs"),
    (AnswerName::Sweep, "sweep", "sweep --json: plans along a knob"),
    (AnswerName::Matrix, "matrix", "matrix --json: plans over two knobs"),
    (AnswerName::Explain, "explain", "explain --json: pages of the teach screen, each with keys of its own"),
    (AnswerName::List, "list", "list --json: models, and how each would fit"),
    (AnswerName::Devices, "devices", "devices --json: a machine, which --machine FILE reads"),
    (AnswerName::DevicesPresets, "devices-presets", "devices --presets --json: the cards and systems that are known"),
    (AnswerName::MachineList, "machine-list", "machine list --json: the saved machines"),
    #[cfg(feature = "net")]
    (AnswerName::Cache, "cache", "cache --json: the cached headers, or those that were removed"),
    (AnswerName::Config, "config", "config --json: each key, its value and who set it"),
];
