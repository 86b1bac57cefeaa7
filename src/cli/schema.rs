//! `plimsoll schema`: what scripts may rely on, made from the types that are printed.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::answer_name::{ALL, AnswerName};
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
fn schema(name: AnswerName) -> Schema {
    match name {
        AnswerName::Plan => of::<PlanRecord<'_>>(),
        AnswerName::Max => of::<MaxAnswer<'_>>(),
        AnswerName::Why => of::<WhyAnswer<'_>>(),
        AnswerName::Best => of::<BestAnswer<'_>>(),
        AnswerName::Place => of::<PlaceAnswer<'_>>(),
        AnswerName::Need => of::<NeedAnswer<'_>>(),
        AnswerName::Together => of::<TogetherAnswer<'_>>(),
        AnswerName::Check => of::<CheckAnswer<'_>>(),
        AnswerName::CheckRunning => of::<RunningAnswer<'_>>(),
        AnswerName::CheckPs => of::<ColumnAnswer<'_>>(),
        AnswerName::Apply => of::<ApplyAnswer<'_>>(),
        AnswerName::Watch => of::<WatchAnswer<'_>>(),
        AnswerName::Sweep => of::<SweepAnswer<'_>>(),
        AnswerName::Matrix => of::<MatrixAnswer<'_>>(),
        AnswerName::Explain => of::<ExplainAnswer<'_>>(),
        AnswerName::List => of::<ListAnswer<'_>>(),
        AnswerName::Devices => of::<DetectedRecord<'_>>(),
        AnswerName::DevicesPresets => of::<PresetsAnswer<'_>>(),
        AnswerName::MachineList => of::<SavedAnswer<'_>>(),
        #[cfg(feature = "net")]
        AnswerName::Cache => of::<CacheAnswer<'_>>(),
        AnswerName::Config => of::<ConfigAnswer<'_>>(),
    }
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
    let Some((name, told, what)) = ALL.iter().find(|(name, ..)| Some(*name) == asked) else {
        let mut page = Page::default();
        let width = ALL.iter().map(|(_, name, _)| name.len()).max().unwrap_or(0);
        for (_, name, what) in ALL {
            page.spans(&format!("{name:<width$}  "), vec![(*what).into()]);
        }
        return Ok(Style::of_stdout().report(&page));
    };
    let mut schema = schema(*name);
    schema.insert("title".to_owned(), format!("plimsoll {told}").into());
    schema.insert("description".to_owned(), (*what).into());
    error::json("schema", text::json(&schema))
}
