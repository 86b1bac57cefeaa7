//! The command line of [`sweep`](super).

use super::SweepRequest;
use crate::engine::PlanRequest;
use crate::question::arguments::{Arguments, AskedWith, Drawn, Form, wrong_flag};
use crate::question::{About, parse};
use crate::settings::Settings;
use crate::settings::knob::Knob;

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
pub struct SweepArgs {
    /// The knob.
    #[arg(long, value_name = "KNOB", value_parser = parse::knobs(), default_value = "ctx", help_heading = "Question")]
    over: Knob,
    /// Its values; without them, points spread over its range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question", conflicts_with = "points")]
    values: Vec<String>,
    /// Maximum number of points.
    #[arg(long, value_name = "N", value_parser = parse::count, default_value = "16", help_heading = "Question")]
    points: u64,
    #[command(flatten)]
    form: Drawn,
}

impl Arguments for SweepArgs {
    type Question = SweepRequest;
    const ABOUT: &'static str = "Plan over the whole range of one knob";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll sweep model.gguf
  plimsoll sweep model.gguf --over parallel --values 1,2,4,8 --csv";

    fn form(&self) -> Form {
        self.form.form()
    }

    fn question(&self, about: About<'_>, _: &AskedWith) -> Result<SweepRequest, String> {
        let values = if self.values.is_empty() {
            let points = usize::try_from(self.points).unwrap_or(usize::MAX);
            self.over.spread(&about.request.bounds(), points)
        } else {
            values(about.request, self.over, &self.values, "--values")?
        };
        Ok(SweepRequest { knob: self.over, values })
    }
}

/// The values of `knob` that are given by `flag`.
///
/// # Errors
/// If one is no value of it, or no number.
pub(in crate::question) fn values(
    request: &PlanRequest,
    knob: Knob,
    given: &[String],
    flag: &str,
) -> Result<Vec<u64>, String> {
    let bounds = request.bounds();
    let value = |text: &String| {
        let mut settings = Settings::default();
        knob.read(text, &mut settings, &bounds).map_err(|sentence| wrong_flag(flag, &sentence))?;
        let missing = || wrong_flag(flag, &format!("'{text}' cannot be used as a value here: use numbers"));
        knob.chosen(&settings, &bounds).ok_or_else(missing)
    };
    given.iter().map(value).collect()
}
