//! `plimsoll schema`: what scripts may rely on, made from the types that are printed.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::apply::ApplyAnswer;
#[cfg(feature = "net")]
use super::cache::CacheAnswer;
use super::check::RunningAnswer;
use super::config::ConfigAnswer;
use super::error::{self, CliError};
use super::explain::ExplainAnswer;
use super::list::ListAnswer;
use super::machines::{DetectedRecord, PresetsAnswer, SavedAnswer};
use super::style::Style;
use super::watch::WatchAnswer;
use crate::export::PlanRecord;
use crate::export::answers::MaxAnswer;
use crate::export::answers::best::BestAnswer;
use crate::export::answers::need::NeedAnswer;
use crate::export::answers::place::PlaceAnswer;
use crate::export::answers::sweep::{MatrixAnswer, SweepAnswer};
use crate::export::answers::together::TogetherAnswer;
use crate::export::answers::why::WhyAnswer;
use crate::export::check::{CheckAnswer, ColumnAnswer};
use crate::page::Page;
use crate::text;

/// The schema of what a command prints.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerSchema {
    pub(super) name: &'static str,
    /// The command, and what it prints.
    what: &'static str,
    schema: fn() -> Schema,
}

const fn row(name: &'static str, what: &'static str, schema: fn() -> Schema) -> AnswerSchema {
    AnswerSchema { name, what, schema }
}

/// All of them, in the order of the commands.
pub(super) static ALL: &[AnswerSchema] = &[
    row("plan", "plan --json, export --as json: a plan", of::<PlanRecord<'_>>),
    row("max", "max --json: the largest value of a knob", of::<MaxAnswer<'_>>),
    row("why", "why --json: why layers are where they are", of::<WhyAnswer<'_>>),
    row("best", "best --json: the best settings", of::<BestAnswer<'_>>),
    row("place", "place --json: a faster placement", of::<PlaceAnswer<'_>>),
    row("need", "need --json: machines that run a model", of::<NeedAnswer<'_>>),
    row(
        "together",
        "together --json, and plan --command FILE --json where it starts several: which models are loaded at once",
        of::<TogetherAnswer<'_>>,
    ),
    row("check", "check LOG --json: the loads in a log, one of them beside its plan", of::<CheckAnswer<'_>>),
    row("check-running", "check --json without a log: what runs, beside its plans", of::<RunningAnswer<'_>>),
    row("check-ps", "check MODEL --ps SHARES --json: settings that show a column", of::<ColumnAnswer<'_>>),
    row("apply", "apply --json: what came of a plan that was loaded", of::<ApplyAnswer<'_>>),
    row("watch", "watch --json: each line, a sample of what runs", of::<WatchAnswer<'_>>),
    row("sweep", "sweep --json: plans along a knob", of::<SweepAnswer<'_>>),
    row("matrix", "matrix --json: plans over two knobs", of::<MatrixAnswer<'_>>),
    row("explain", "explain --json: pages of the teach screen, each with keys of its own", of::<ExplainAnswer<'_>>),
    row("list", "list --json: models, and how each would fit", of::<ListAnswer<'_>>),
    row("devices", "devices --json: a machine, which --machine FILE reads", of::<DetectedRecord<'_>>),
    row("devices-presets", "devices --presets --json: the cards and systems that are known", of::<PresetsAnswer<'_>>),
    row("machine-list", "machine list --json: the saved machines", of::<SavedAnswer<'_>>),
    #[cfg(feature = "net")]
    row("cache", "cache --json: the cached headers, or those that were removed", of::<CacheAnswer<'_>>),
    row("config", "config --json: each key, its value and who set it", of::<ConfigAnswer<'_>>),
];

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
pub(super) fn run(asked: Option<&AnswerSchema>) -> Result<String, CliError> {
    let Some(AnswerSchema { name, what, schema }) = asked else {
        let mut page = Page::default();
        let width = ALL.iter().map(|row| row.name.len()).max().unwrap_or(0);
        for row in ALL {
            page.spans(&format!("{:<width$}  ", row.name), vec![row.what.into()]);
        }
        return Ok(Style::of_stdout().report(&page));
    };
    let mut schema = schema();
    schema.insert("title".to_owned(), format!("plimsoll {name}").into());
    schema.insert("description".to_owned(), (*what).into());
    error::json("schema", text::json(&schema))
}
