//! A row of the tables that lines are read by: patterns, and what they set in the load under way.

use super::kind::Kind;
use super::load_builder::LoadBuilder;
use super::pattern::{Holes, Pairs, Pattern};

/// A parsed line.
pub(super) struct Parsed<'a> {
    pub kind: Kind,
    pub sets: Box<dyn FnOnce(&mut LoadBuilder) + 'a>,
}

impl<'a> Parsed<'a> {
    pub fn new(kind: Kind, sets: impl FnOnce(&mut LoadBuilder) + 'a) -> Self {
        Self { kind, sets: Box::new(sets) }
    }
}

/// Lines that say the same thing.
pub(super) struct Row {
    pub patterns: &'static [Pattern],
    #[cfg_attr(not(test), allow(dead_code, reason = "for people and for the test"))]
    pub examples: &'static [&'static str],
    pub read: for<'a> fn(&'a str, Holes<'a>) -> Option<Parsed<'a>>,
}

impl Row {
    /// Parses `line`, whose pairs of bytes are `pairs`.
    pub fn read<'a>(&self, line: &'a str, pairs: &Pairs) -> Option<Parsed<'a>> {
        let mut patterns = self.patterns.iter().filter(|pattern| pairs.may_have(pattern.mark));
        patterns.find_map(|pattern| (self.read)(line, pattern.holes(line)?))
    }
}

/// Makes rows; the head of `rows.rs` says how they are written.
macro_rules! patterns {
    ($($(#[doc = $example:literal])* $($pattern:literal)|+ $(($($hole:tt: $type:ty),+))? =>
        $kind:expr, |$now:ident $(, $line:ident)?| $sets:expr;)+) => {
        &[$($crate::observed::row::Row {
            patterns: &[$($crate::observed::pattern::Pattern::new($pattern)),+],
            examples: &[$($example),*],
            read: {
                #[allow(unused_variables, unused_mut, reason = "not every row has holes or wants the line")]
                fn read<'a>(
                    line: &'a str,
                    holes: $crate::observed::pattern::Holes<'a>,
                ) -> Option<$crate::observed::row::Parsed<'a>> {
                    let mut holes = holes.into_iter();
                    $($(let $hole = <$type as $crate::observed::hole::Hole<'_>>::read(holes.next()?)?;)+)?
                    $(let $line = line;)?
                    Some($crate::observed::row::Parsed::new($kind, move |$now| { $sets; }))
                }
                read
            },
        }),+]
    };
}
pub(super) use patterns;
