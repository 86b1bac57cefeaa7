//! Sections of the tables in `assets`: a heading in brackets on a line of its own, and the lines until the next.

/// The headings of a table, and what stands behind their bracket on the line.
pub(super) fn headings(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    sections(table).map(|(heading, behind, _)| (heading, behind))
}

/// The sections of a table: heading, what stands behind its bracket, and the lines.
pub(super) fn sections(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    table.split("\n[").skip(1).filter_map(|section| {
        let (heading, lines) = section.split_once('\n').unwrap_or((section, ""));
        let (names, behind) = heading.split_once(']')?;
        Some((names, behind.trim(), lines))
    })
}

/// The lines under the heading `=NAME`, which sections share.
pub(super) fn shared(table: &'static str, name: &str) -> Option<&'static str> {
    sections(table).find(|(heading, ..)| heading.strip_prefix('=') == Some(name)).map(|(.., lines)| lines)
}
