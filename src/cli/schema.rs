//! `plimsoll schema`: what scripts may rely on, made from the types that are printed.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::apply::ApplyAnswer;
#[cfg(feature = "net")]
use super::cache::CacheAnswer;
use super::check::{FitAnswer, RunningAnswer};
use super::config::ConfigAnswer;
use super::error::{self, CliError};
use super::explain::ExplainAnswer;
use super::list::ListAnswer;
use super::machines::{DetectedRecord, PresetsAnswer, SavedAnswer};
use super::style::Style;
use super::value::Listed;
use super::watch::WatchAnswer;
use crate::answer::need::NeedRequest;
use crate::export::PlanRecord;
use crate::export::check::{CheckAnswer, ColumnAnswer};
use crate::page::Page;
use crate::question::Question;
use crate::question::best::Best;
use crate::question::matrix::MatrixRequest;
use crate::question::max::MaxRequest;
use crate::question::place::PlaceRequest;
use crate::question::sweep::SweepRequest;
use crate::question::together::TogetherAnswer;
use crate::question::why::WhyRequest;
use crate::text;

/// What a command prints as JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerName {
    pub(super) name: &'static str,
    /// The command that prints it, if that has another name.
    command: Option<&'static str>,
    /// What it is.
    prints: &'static str,
    schema: fn() -> Schema,
    is_question: bool,
}

impl AnswerName {
    const fn of<T: JsonSchema>(name: &'static str, command: Option<&'static str>, prints: &'static str) -> Self {
        Self { name, command, prints, schema: of::<T>, is_question: false }
    }

    const fn question<Q: Question + 'static>() -> Self {
        Self { is_question: true, ..Self::of::<Q::Record<'static>>(Q::NAME, None, Q::PRINTS) }
    }

    /// The schema with its name and what it is.
    fn titled(&self) -> Schema {
        let mut schema = (self.schema)();
        schema.insert("title".to_owned(), format!("plimsoll {}", self.name).into());
        schema.insert("description".to_owned(), self.what().into());
        schema
    }

    /// `need --json: machines that run a model`
    fn what(&self) -> String {
        let Self { name, command, prints, .. } = self;
        command.map_or_else(|| format!("{name} --json: {prints}"), |command| format!("{command}: {prints}"))
    }
}

/// All of them, in the order of the commands.
pub(super) const ALL: &[AnswerName] = &[
    AnswerName::of::<PlanRecord<'_>>("plan", Some("plan --json, export --as json"), "a plan"),
    AnswerName::question::<MaxRequest>(),
    AnswerName::question::<WhyRequest>(),
    AnswerName::question::<Best>(),
    AnswerName::question::<PlaceRequest>(),
    AnswerName::question::<NeedRequest>(),
    AnswerName::of::<TogetherAnswer<'_>>(
        "together",
        Some("together --json, and plan --command FILE --json where it starts several"),
        "which models are loaded at once",
    ),
    AnswerName::of::<CheckAnswer<'_>>(
        "check",
        Some("check LOG --json"),
        "the loads in a log, one of them beside its plan",
    ),
    AnswerName::of::<RunningAnswer<'_>>(
        "check-running",
        Some("check --json without a log"),
        "what runs, beside its plans",
    ),
    AnswerName::of::<FitAnswer<'_>>(
        "check-context-fit",
        Some("check LOG --json of LM Studio's MLX engine"),
        "the terms of LM Studio's context beside the model's own",
    ),
    AnswerName::of::<ColumnAnswer<'_>>(
        "check-ps",
        Some("check MODEL --ps SHARES --json"),
        "settings that show a column",
    ),
    AnswerName::of::<ApplyAnswer<'_>>("apply", None, "what came of a plan that was loaded"),
    AnswerName::of::<WatchAnswer<'_>>("watch", None, "each line, a sample of what runs"),
    AnswerName::question::<SweepRequest>(),
    AnswerName::question::<MatrixRequest>(),
    AnswerName::of::<ExplainAnswer<'_>>("explain", None, "pages of the teach screen, each with keys of its own"),
    AnswerName::of::<ListAnswer<'_>>("list", None, "models, and how each would fit"),
    AnswerName::of::<DetectedRecord<'_>>("devices", None, "a machine, which --machine FILE reads"),
    AnswerName::of::<PresetsAnswer<'_>>(
        "devices-presets",
        Some("devices --presets --json"),
        "the cards and systems that are known",
    ),
    AnswerName::of::<SavedAnswer<'_>>("machine-list", Some("machine list --json"), "the saved machines"),
    #[cfg(feature = "net")]
    AnswerName::of::<CacheAnswer<'_>>("cache", None, "the cached headers, or those that were removed"),
    AnswerName::of::<ConfigAnswer<'_>>("config", None, "each key, its value and who set it"),
];

/// Whether a command of this name asks a question.
pub(super) fn is_question(command: &str) -> bool {
    ALL.iter().any(|answer| answer.is_question && answer.name == command)
}

/// A parser for their names.
pub(super) fn names() -> Listed<AnswerName> {
    let parse = |text: &str| {
        let found = ALL.iter().find(|answer| answer.name == text).copied();
        found.ok_or_else(|| "no command prints that: 'plimsoll schema' lists what there is".to_owned())
    };
    Listed { parse, names: ALL.iter().map(|answer| answer.name).collect() }
}

fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(as_printed));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Without what is for readers of the code: what stands in for a missing key when a file is read again, and comments after
/// their first paragraph.
fn as_printed(schema: &mut Schema) {
    schema.remove("default");
    if let Some(Value::String(text)) = schema.get_mut("description") {
        let first = text.split("\n\n").next().unwrap_or_default();
        *text = first.replace('\n', " ");
    }
}

/// The schema, or the list of all.
pub(super) fn run(asked: Option<AnswerName>) -> Result<String, CliError> {
    let Some(asked) = asked else {
        let mut page = Page::default();
        let width = ALL.iter().map(|answer| answer.name.len()).max().unwrap_or(0);
        for answer in ALL {
            page.spans(&format!("{:<width$}  ", answer.name), vec![answer.what().into()]);
        }
        return Ok(Style::of_stdout().report(&page));
    };
    error::json("schema", text::json(&asked.titled()))
}

/// The schema of this name, if there is one.
pub(super) fn of_name(name: &str) -> Option<Schema> {
    ALL.iter().find(|answer| answer.name == name).map(AnswerName::titled)
}
