//! Rows as comma-separated values.

use crate::text::one_line;

/// A line of `columns`, and one for each of `rows`.
pub(crate) fn table<T: AsRef<str>, R: IntoIterator<Item = String>>(
    columns: impl IntoIterator<Item = T>,
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut out = String::new();
    line(columns, &mut out);
    for cells in rows {
        line(cells, &mut out);
    }
    out
}

fn line<T: AsRef<str>>(cells: impl IntoIterator<Item = T>, out: &mut String) {
    for (at, cell) in cells.into_iter().enumerate() {
        let cell = one_line(cell.as_ref());
        let cell = if is_formula(&cell) { format!("'{cell}").into() } else { cell };
        if at > 0 {
            out.push(',');
        }
        if cell.contains([',', '"']) {
            out.push_str(&format!("\"{}\"", cell.replace('"', "\"\"")));
        } else {
            out.push_str(&cell);
        }
    }
    out.push('\n');
}

/// Whether a program for tables would compute a text instead of showing it; a quote before it tells them not to.
fn is_formula(cell: &str) -> bool {
    cell.starts_with(['=', '+', '-', '@']) && !cell.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The text of `value`; empty where it is not known.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_cell_is_quoted() {
        let row = ["a", "b, c", "say \"d\"", "two\nlines", ""].map(str::to_owned);
        assert_eq!(table(["w", "x,y", "z"], [row]), "w,\"x,y\",z\na,\"b, c\",\"say \"\"d\"\"\",two lines,\n");
    }

    #[test]
    fn no_text_is_a_formula() {
        let row = ["=HYPERLINK(\"x\")", "-1.5", "--ctx 8", "+a", "@b", "a=b"].map(str::to_owned);
        assert_eq!(table(["a"; 6], [row]), "a,a,a,a,a,a\n\"'=HYPERLINK(\"\"x\"\")\",-1.5,'--ctx 8,'+a,'@b,a=b\n");
    }

    #[test]
    fn without_rows_the_columns_are_left() {
        assert_eq!(table(["a", "b"], [] as [[String; 2]; 0]), "a,b\n");
    }
}
