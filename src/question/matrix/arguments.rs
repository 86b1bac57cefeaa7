//! The command line of [`matrix`](super).

use super::{MatrixRequest, Side};
use crate::answer::sweep::{Axis, AxisKind};
use crate::gguf::FileType;
use crate::question::arguments::{Arguments, AskedWith, Drawn, Form, wrong_flag};
use crate::question::sweep::arguments::values;
use crate::question::{About, parse};

/// What is asked besides the plan.
#[derive(Debug, clap::Args)]
pub struct MatrixArgs {
    /// The knob of the rows.
    #[arg(long, value_name = "KNOB", value_parser = parse::knobs_or_quant(), default_value = "ctx", help_heading = "Question")]
    rows: AxisKind,
    /// The knob of the columns.
    #[arg(long, value_name = "KNOB", value_parser = parse::knobs_or_quant(), hide_possible_values = true, default_value = "kv-type", help_heading = "Question")]
    columns: AxisKind,
    /// Values of the rows; without them, 12 points spread over the range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question")]
    row_values: Vec<String>,
    /// Values of the columns; without them, 6 points spread over the range.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', help_heading = "Question")]
    column_values: Vec<String>,
    #[command(flatten)]
    form: Drawn,
}

impl Arguments for MatrixArgs {
    type Question = MatrixRequest;
    const ABOUT: &'static str = "Plan for every pair of values of two knobs";
    const EXAMPLES: &'static str = "\
Examples:
  plimsoll matrix model.gguf --flash-attn on
  plimsoll matrix model.gguf --rows quant --columns ctx
  plimsoll matrix model.gguf --rows parallel --columns ctx --column-values 8k,16k,32k --json";

    fn form(&self) -> Form {
        self.form.form()
    }

    fn question(&self, about: About<'_>, _: &AskedWith) -> Result<MatrixRequest, String> {
        let rows = side(about, self.rows, &self.row_values, "--row-values")?;
        let columns = side(about, self.columns, &self.column_values, "--column-values")?;
        if rows.name() == columns.name() {
            let sentence = format!("--rows and --columns are both {}: choose two different knobs", rows.name());
            return Err(sentence);
        }
        Ok(MatrixRequest { rows, columns })
    }
}

/// One side of a matrix.
fn side(about: About<'_>, wanted: AxisKind, given: &[String], flag: &str) -> Result<Side, String> {
    if given.is_empty() {
        return Ok(Side::Spread(wanted));
    }
    Ok(Side::Given(match wanted {
        AxisKind::Knob(knob) => Axis::Knob(knob, values(about.request, knob, given, flag)?),
        AxisKind::Quantisation => {
            let named = |text: &String| text.parse::<FileType>().map_err(|error| wrong_flag(flag, &error.to_string()));
            Axis::Quantisation(given.iter().map(named).collect::<Result<_, _>>()?)
        }
    }))
}
