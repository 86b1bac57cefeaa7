//! How the planner looks: colours that mean things, for the terminal that is there.

pub mod backdrop;
pub mod glyphs;
pub mod palette;

use ratatui::style::{Color, Modifier, Style};

pub use palette::{ColourDepth, Hue, Tone};

/// What the surroundings ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appearance {
    /// On dark paper, on light paper, or without colour.
    pub tone: Tone,
    /// How many colours the terminal has.
    pub depth: ColourDepth,
    /// Box drawing and blocks, or ASCII alone.
    pub glyphs: Glyphs,
}

/// The characters that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Glyphs {
    Unicode,
    Ascii,
}

impl Appearance {
    /// Everything that a modern terminal can do, on dark paper.
    pub const BEST: Self = Self { tone: Tone::Dark, depth: ColourDepth::True, glyphs: Glyphs::Unicode };

    /// Reads `NO_COLOR`, `TERM`, `COLORTERM`, `COLORFGBG`, the locale, and plimsoll's own `PLIMSOLL_THEME`
    /// (`dark`, `light`, `mono`) and `PLIMSOLL_GLYPHS` (`unicode`, `ascii`), which have the last word.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name| get(name).filter(|value| !value.is_empty());
        let term = get("TERM").unwrap_or_default();
        let plain = term == "dumb";
        let depth = match get("COLORTERM").as_deref() {
            Some("truecolor" | "24bit") => ColourDepth::True,
            // Windows Terminal says it in its own way
            _ if term.ends_with("-direct") || get("WT_SESSION").is_some() => ColourDepth::True,
            _ if term.contains("256color") => ColourDepth::Indexed,
            _ => ColourDepth::Sixteen,
        };
        // "15;0": foreground, background; 7 and 9 to 15 are light paper
        let light = get("COLORFGBG")
            .and_then(|value| value.rsplit(';').next().and_then(|paper| paper.parse::<u8>().ok()))
            .is_some_and(|paper| paper == 7 || (9..=15).contains(&paper));
        let tone = match get("PLIMSOLL_THEME").as_deref() {
            Some("dark") => Tone::Dark,
            Some("light") => Tone::Light,
            Some("mono") => Tone::Mono,
            _ if plain || get("NO_COLOR").is_some() => Tone::Mono,
            _ if light => Tone::Light,
            _ => Tone::Dark,
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(get).map(|name| name.to_ascii_lowercase());
        let utf8 = locale.is_none_or(|name| name.contains("utf-8") || name.contains("utf8"));
        let glyphs = match get("PLIMSOLL_GLYPHS").as_deref() {
            Some("unicode") => Glyphs::Unicode,
            Some("ascii") => Glyphs::Ascii,
            _ if plain || !utf8 || term == "linux" => Glyphs::Ascii,
            _ => Glyphs::Unicode,
        };
        Self { tone, depth, glyphs }
    }
}

/// A look made ready for drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// What it was made of.
    pub look: Appearance,
}

impl Theme {
    /// The theme of `look`.
    pub const fn new(look: Appearance) -> Self {
        Self { look }
    }

    /// The next tone: dark, light, without colour.
    #[must_use]
    pub const fn next_tone(self) -> Self {
        let tone = match self.look.tone {
            Tone::Dark => Tone::Light,
            Tone::Light => Tone::Mono,
            Tone::Mono => Tone::Dark,
        };
        Self { look: Appearance { tone, ..self.look } }
    }

    /// Parts of a bar need textures because colours are absent or eighth blocks are.
    pub fn textured(self) -> bool {
        self.look.tone == Tone::Mono || self.look.glyphs == Glyphs::Ascii
    }

    /// The colour of `hue` on this terminal.
    pub fn colour(self, hue: Hue) -> Color {
        palette::colour(hue, self.look.tone, self.look.depth)
    }

    /// Text in the colour of `hue`.
    pub fn ink(self, hue: Hue) -> Style {
        let style = Style::new().fg(self.colour(hue));
        match (self.look.tone, hue) {
            (Tone::Mono, Hue::Dim | Hue::Border) => style.add_modifier(Modifier::DIM),
            (Tone::Mono, Hue::Over | Hue::Focus) => style.add_modifier(Modifier::BOLD),
            _ => style,
        }
    }

    /// Bold text in the colour of `hue`.
    pub fn bold(self, hue: Hue) -> Style {
        self.ink(hue).add_modifier(Modifier::BOLD)
    }

    /// Text on a ground of `hue`.
    pub fn on(self, hue: Hue) -> Style {
        if self.look.tone == Tone::Mono {
            return Style::new().add_modifier(Modifier::REVERSED);
        }
        Style::new().bg(self.colour(hue)).fg(palette::ink_on(hue, self.look.tone, self.look.depth))
    }

    /// The ground under the row that has the focus.
    pub fn selected(self) -> Style {
        match self.look.tone {
            Tone::Mono => Style::new().add_modifier(Modifier::BOLD),
            _ if self.look.depth == ColourDepth::Sixteen => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new().bg(self.colour(Hue::Ground)),
        }
    }

    /// The colour that stands for device number `index` of `count`; the last one is the CPU.
    pub fn device(self, index: usize, count: usize) -> Style {
        self.ink(device_hue(index, count))
    }
}

/// The hue that stands for device number `index` of `count`; the last one is the CPU.
pub const fn device_hue(index: usize, count: usize) -> Hue {
    if index + 1 >= count {
        Hue::Ram
    } else if index.is_multiple_of(2) {
        Hue::EvenGpu
    } else {
        Hue::OddGpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pairs: &[(&str, &str)]) -> Appearance {
        Appearance::from_env(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_surroundings_decide_the_look() {
        let best = look(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "en_GB.UTF-8")]);
        assert_eq!(best, Appearance::BEST);
        assert_eq!(look(&[("TERM", "xterm-256color")]).depth, ColourDepth::Indexed);
        assert_eq!(look(&[("TERM", "xterm")]).depth, ColourDepth::Sixteen);
        assert_eq!(look(&[("TERM", "xterm"), ("NO_COLOR", "1")]).tone, Tone::Mono);
        assert_eq!(look(&[("TERM", "xterm"), ("NO_COLOR", "")]).tone, Tone::Dark, "an empty NO_COLOR asks for nothing");
        let dumb = look(&[("TERM", "dumb"), ("LANG", "de_DE.UTF-8")]);
        assert_eq!((dumb.tone, dumb.glyphs), (Tone::Mono, Glyphs::Ascii));
        assert_eq!(look(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).glyphs, Glyphs::Ascii);
        assert_eq!(look(&[("COLORFGBG", "0;15")]).tone, Tone::Light);
        assert_eq!(look(&[("COLORFGBG", "15;0")]).tone, Tone::Dark);
        let asked = look(&[("TERM", "dumb"), ("PLIMSOLL_THEME", "light"), ("PLIMSOLL_GLYPHS", "unicode")]);
        assert_eq!((asked.tone, asked.glyphs), (Tone::Light, Glyphs::Unicode));
    }
}
