//! Rows of the breakdown table.

use serde::Serialize;
use serde_json::Value;

use super::scan;

/// 2^64 bytes in MiB, which was added to what is below zero until about April 2026.
const WRAP: i64 = 1 << 44;

/// One row of the breakdown table: whole MiB, cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableRow {
    /// What the load holds there: `model + context + compute`.
    #[serde(rename = "self")]
    pub own: i64,
    /// Weights.
    pub model: i64,
    /// KV caches, recurrent state and outputs.
    pub context: i64,
    /// Compute buffers.
    pub compute: i64,
    /// The device's memory; none for the host and further buffer types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// What the driver calls free when the table is printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<i64>,
    /// What is neither free nor held by the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unaccounted: Option<i64>,
    /// The device's name without its vendor's, or an RPC server's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub described: Option<String>,
}

/// When a table was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TablePhase {
    /// For a trial of the fit: free is what it was before the load, and what is left unaccounted says nothing.
    Fit,
    /// With the model loaded, mostly at the program's end: what is left unaccounted is the driver's and others'.
    Loaded,
}

impl TableRow {
    /// Whether this was printed before the memory was taken; none for a row without that.
    pub(super) fn phase(&self) -> Option<TablePhase> {
        let unaccounted = self.unaccounted?;
        let before = self.own > 0 && unaccounted < 0 && unaccounted.saturating_add(self.own / 2) < 0;
        Some(if before { TablePhase::Fit } else { TablePhase::Loaded })
    }
}

/// `…breakdown_print: |   - CUDA0 (RTX 5090) | 32606 = 30330 + (21832 = 16386 + 4950 + 495) + -19555 |`, or without the
/// function's name, which who pasted it may have cut. Before September 2025 a colon stood in place of the second bar.
pub(super) fn row(text: &str) -> Option<(String, TableRow)> {
    let rest = match scan::after(text, "breakdown") {
        Some(rest) => rest.strip_prefix("_print").unwrap_or(rest).strip_prefix(':')?,
        None => text,
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('|').unwrap_or(rest).trim_start().strip_prefix("- ")?;
    let (name, figures) = rest.split_at_checked(end_of_name(rest)?)?;
    let figures = figures.trim_start_matches(['|', ':', ' ']);
    let (name, described) = match name.trim().split_once(" (") {
        Some((name, described)) => (name, Some(described.strip_suffix(')').unwrap_or(described))),
        // who pasted it may have cut the description
        None => (name.split_whitespace().next().unwrap_or_default(), None),
    };
    let figures = figures.split('|').next()?;
    let (mut total, mut figures) = (None, figures);
    // the computer's memory, of the first form
    if let Some((all, rest)) = scan::integer(figures).filter(|(_, rest)| rest.starts_with(' '))
        && scan::integer(rest).is_some()
    {
        (total, figures) = (Some(all), rest);
    }
    let (first, equals, rest) = figure(figures)?;
    if equals != '=' {
        return None;
    }
    let (second, plus, rest) = figure(rest)?;
    let mut row = TableRow { total, described: described.map(|text| scan::clip(text, 128)), ..TableRow::default() };
    let rest = match rest.trim_start().strip_prefix('(') {
        // a device: total and free stand before
        Some(rest) if plus == '+' => {
            (row.total, row.free) = (Some(first), Some(unwrapped(second)));
            let (own, _, rest) = figure(rest).filter(|&(_, sign, _)| sign == '=')?;
            let (model, _, rest) = figure(rest).filter(|&(_, sign, _)| sign == '+')?;
            (row.own, row.model) = (own, model);
            rest
        }
        _ => {
            (row.own, row.model) = (first, second);
            rest
        }
    };
    let (context, _, rest) = figure(rest).filter(|&(_, sign, _)| sign == '+')?;
    let (compute, rest) = scan::integer(rest)?;
    // the figure itself may be cut off
    if row.free.is_some() && rest.is_empty() {
        return None;
    }
    (row.context, row.compute) = (context, compute);
    let rest = rest.trim_start().trim_start_matches(')').trim_start();
    row.unaccounted = rest.strip_prefix('+').and_then(scan::integer).map(|(number, _)| unwrapped(number));
    is_name(name).then(|| (name.to_owned(), row))
}

/// Where a row's name ends: before the last bar or colon, or behind the last bracket, that stands before the figures.
fn end_of_name(row: &str) -> Option<usize> {
    let head = row.get(..row.find('=')?)?;
    let end = head.rfind(['|', ')', ':']).map(|at| at + usize::from(head.as_bytes().get(at) == Some(&b')')));
    end.or_else(|| head.find(' '))
}

/// Whether a line may be a row that has lost the function's name: `- CUDA0 (RTX 5090) | 32606 = 30330 + (…`.
pub(super) fn may_be_cut(text: &str) -> bool {
    text.starts_with("- ") && text.contains('=') && text.contains('+')
}

/// A number and the sign behind it.
fn figure(text: &str) -> Option<(i64, char, &str)> {
    let (number, rest) = scan::integer(text)?;
    let mut signs = rest.trim_start().chars();
    let sign = signs.next()?;
    Some((number, sign, signs.as_str()))
}

const fn unwrapped(mib: i64) -> i64 {
    if mib > WRAP / 2 && mib <= WRAP { mib - WRAP } else { mib }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64
}

/// Rows of a table that is printed as JSON (`--log-jsonl`).
pub(super) fn json_rows(data: &Value) -> impl Iterator<Item = (String, TableRow)> {
    let rows = data.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rows.iter().filter_map(|row| {
        let name = row.get("name")?.as_str().filter(|name| is_name(name))?;
        let figure = |key: &str| {
            let value = row.get(key)?;
            // unsigned differences wrap here as well
            value
                .as_i64()
                .or_else(|| value.as_f64().filter(|mib| mib.abs() < 1e15).map(|mib| mib as i64))
                .map(unwrapped)
        };
        let described = row.get("description").and_then(Value::as_str).map(|text| scan::clip(text, 128));
        let of_load = |key: &str| figure(key).unwrap_or_default();
        Some((
            name.to_owned(),
            TableRow {
                own: figure("self")?,
                model: of_load("model"),
                context: of_load("context"),
                compute: of_load("compute"),
                total: figure("total"),
                free: figure("free"),
                unaccounted: figure("unaccounted"),
                described,
            },
        ))
    })
}
