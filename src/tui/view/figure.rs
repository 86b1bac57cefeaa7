//! Figures as shown on the screen, and the mark of a changed one.

use std::cmp::Ordering;

use ratatui::style::{Modifier, Style};

use crate::tui::theme::{Hue, Theme};
use crate::units::Bytes;

/// `21.9 of 24.0 GiB`: with one unit if both have the same.
pub fn of(part: Bytes, whole: Bytes) -> String {
    let (part, whole) = (part.to_string(), whole.to_string());
    match (part.rsplit_once(' '), whole.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} of {whole}"),
        _ => format!("{part} of {whole}"),
    }
}

/// `0.6 of 12.0 GiB`: both in the unit of the whole, for narrow places.
pub fn of_in_short(part: Bytes, whole: Bytes) -> String {
    if whole < Bytes::gib(1) {
        return of(part, whole);
    }
    format!("{:.1} of {whole}", part.share_of(Bytes::gib(1)).0)
}

/// The mark of a value changed by the last command; always one cell wide, to keep the layout steady.
pub fn mark<T: PartialOrd>(now: &T, before: Option<&T>) -> &'static str {
    match before.and_then(|before| now.partial_cmp(before)) {
        Some(Ordering::Greater) => "▲",
        Some(Ordering::Less) => "▼",
        _ => " ",
    }
}

/// The style of a value: highlighted while it is marked.
pub fn style<T: PartialOrd>(now: &T, before: Option<&T>, theme: Theme, hue: Hue) -> Style {
    let changed = before.is_some_and(|before| before != now);
    if changed { theme.ink(Hue::Focus).add_modifier(Modifier::BOLD) } else { theme.ink(hue) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_for_reading() {
        assert_eq!(of(Bytes::gib(3), Bytes::gib(24)), "3.0 of 24.0 GiB");
        assert_eq!(of(Bytes::mib(300), Bytes::gib(24)), "300 MiB of 24.0 GiB");
        assert_eq!(of_in_short(Bytes::mib(300), Bytes::gib(24)), "0.3 of 24.0 GiB");
        assert_eq!(of_in_short(Bytes::mib(3), Bytes::mib(24)), "3.0 of 24 MiB");
        assert_eq!((mark(&2, Some(&1)), mark(&1, Some(&2)), mark(&1, Some(&1)), mark(&1, None)), ("▲", "▼", " ", " "));
    }
}
