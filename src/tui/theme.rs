//! The planner's colours and characters, by what the terminal supports.

pub mod backdrop;
pub mod glyphs;

use ratatui::style::{Color, Modifier, Style};

use crate::page::Ink;
use crate::page::palette::{self, Colour};
pub use crate::page::palette::{ColourDepth, Hue, Tone};

/// Colours and characters that the environment allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appearance {
    /// Dark background, light background, or no colour.
    pub tone: Tone,
    /// The number of colours of the terminal.
    pub depth: ColourDepth,
    /// Unicode box drawing and blocks, or ASCII.
    pub glyphs: Glyphs,
}

/// The characters that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Glyphs {
    Unicode,
    Ascii,
}

impl Glyphs {
    /// All sets.
    pub const ALL: [Self; 2] = [Self::Unicode, Self::Ascii];

    /// Its name in `PLIMSOLL_GLYPHS` and in the configuration file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unicode => "unicode",
            Self::Ascii => "ascii",
        }
    }
}

/// What the user asks for, over what the terminal seems to support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferred {
    /// Colours.
    pub tone: Option<Tone>,
    /// Characters.
    pub glyphs: Option<Glyphs>,
}

impl Appearance {
    /// All that a modern terminal supports, on a dark background.
    pub const BEST: Self = Self { tone: Tone::Dark, depth: ColourDepth::True, glyphs: Glyphs::Unicode };

    /// Whether neither the environment nor what is `preferred` says if the background is dark or light, so that it is worth
    /// asking the terminal.
    pub fn guesses_tone(get: impl Fn(&str) -> Option<String>, preferred: Preferred) -> bool {
        let is_set = |name: &str| get(name).is_some_and(|value| !value.is_empty());
        let said = ["PLIMSOLL_THEME", "NO_COLOR", "COLORFGBG"].into_iter().any(is_set);
        preferred.tone.is_none() && !said && get("TERM").is_none_or(|term| term != "dumb")
    }

    /// Reads `NO_COLOR`, `TERM`, `COLORTERM`, `COLORFGBG`, the locale, and plimsoll's own `PLIMSOLL_THEME` (`dark`,
    /// `light`, `mono`) and `PLIMSOLL_GLYPHS` (`unicode`, `ascii`), which take precedence. What is `preferred` stands over
    /// what is guessed from the terminal's background, name and locale, not over `NO_COLOR` and `TERM=dumb`.
    pub fn from_env(get: impl Fn(&str) -> Option<String>, preferred: Preferred) -> Self {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let term = get("TERM").unwrap_or_default();
        let plain = term == "dumb";
        let (depth, guessed) = (ColourDepth::of_terminal(get), Tone::of_terminal(get));
        let asked = get("PLIMSOLL_THEME").and_then(|name| Tone::ALL.into_iter().find(|tone| tone.name() == name));
        let tone = match asked {
            Some(tone) => tone,
            None if plain || get("NO_COLOR").is_some() => Tone::Mono,
            None => preferred.tone.unwrap_or(guessed),
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(get).map(|name| name.to_ascii_lowercase());
        let utf8 = locale.is_none_or(|name| name.contains("utf-8") || name.contains("utf8"));
        let guessed = if !utf8 || term == "linux" { Glyphs::Ascii } else { Glyphs::Unicode };
        let asked = get("PLIMSOLL_GLYPHS").and_then(|name| Glyphs::ALL.into_iter().find(|set| set.name() == name));
        let glyphs = match asked {
            Some(glyphs) => glyphs,
            None if plain => Glyphs::Ascii,
            None => preferred.glyphs.unwrap_or(guessed),
        };
        Self { tone, depth, glyphs }
    }
}

/// Styles for an appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// The appearance.
    pub look: Appearance,
}

impl Theme {
    /// The theme of `look`.
    pub const fn new(look: Appearance) -> Self {
        Self { look }
    }

    /// The theme with the next tone: dark, light, monochrome.
    #[must_use]
    pub const fn next_tone(self) -> Self {
        let tone = match self.look.tone {
            Tone::Dark => Tone::Light,
            Tone::Light => Tone::Mono,
            Tone::Mono => Tone::Dark,
        };
        Self { look: Appearance { tone, ..self.look } }
    }

    /// Parts of bars need textures, because colours or eighth blocks are missing.
    pub fn textured(self) -> bool {
        self.look.tone == Tone::Mono || self.look.glyphs == Glyphs::Ascii
    }

    /// The colour of `hue` on this terminal.
    pub fn colour(self, hue: Hue) -> Color {
        color(palette::colour(hue, self.look.tone, self.look.depth))
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

    /// Text in `ink`.
    pub fn written(self, ink: Ink) -> Style {
        let style = if ink.bold { self.bold(ink.hue) } else { self.ink(ink.hue) };
        ink.ground.map_or(style, |ground| style.bg(self.colour(ground)))
    }

    /// Bold text in the colour of `hue`.
    pub fn bold(self, hue: Hue) -> Style {
        self.ink(hue).add_modifier(Modifier::BOLD)
    }

    /// Text on a background of `hue`.
    pub fn on(self, hue: Hue) -> Style {
        if self.look.tone == Tone::Mono {
            return Style::new().add_modifier(Modifier::REVERSED);
        }
        Style::new().bg(self.colour(hue)).fg(color(palette::ink_on(hue, self.look.tone, self.look.depth)))
    }

    /// The background of the selected row.
    pub fn selected(self) -> Style {
        match self.look.tone {
            Tone::Mono => Style::new().add_modifier(Modifier::BOLD),
            _ if self.look.depth == ColourDepth::Sixteen => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new().bg(self.colour(Hue::Ground)),
        }
    }

    /// The style of device number `index` of `count`; the last one is the CPU.
    pub fn device(self, index: usize, count: usize) -> Style {
        self.ink(device_hue(index, count))
    }
}

/// The terminal library's name of a colour.
pub const fn color(colour: Colour) -> Color {
    const ANSI: [Color; 16] = [
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::Gray,
        Color::DarkGray,
        Color::LightRed,
        Color::LightGreen,
        Color::LightYellow,
        Color::LightBlue,
        Color::LightMagenta,
        Color::LightCyan,
        Color::White,
    ];
    match colour {
        Colour::Own => Color::Reset,
        Colour::Rgb(r, g, b) => Color::Rgb(r, g, b),
        Colour::Indexed(index) if (index as usize) < ANSI.len() => ANSI[index as usize],
        Colour::Indexed(index) => Color::Indexed(index),
    }
}

/// The hue of device number `index` of `count`; the last one is the CPU.
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
        preferring(Preferred::default(), pairs)
    }

    fn preferring(preferred: Preferred, pairs: &[(&str, &str)]) -> Appearance {
        let get = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Appearance::from_env(get, preferred)
    }

    #[test]
    fn a_preference_stands_over_guesses_and_under_the_environment() {
        let preferred = Preferred { tone: Some(Tone::Light), glyphs: Some(Glyphs::Unicode) };
        let both = |pairs: &[(&str, &str)]| {
            let look = preferring(preferred, pairs);
            (look.tone, look.glyphs)
        };
        assert_eq!(both(&[("TERM", "linux"), ("COLORFGBG", "15;0")]), (Tone::Light, Glyphs::Unicode));
        assert_eq!(both(&[("NO_COLOR", "1"), ("LANG", "C")]), (Tone::Mono, Glyphs::Unicode));
        assert_eq!(both(&[("TERM", "dumb")]), (Tone::Mono, Glyphs::Ascii));
        assert_eq!(both(&[("PLIMSOLL_THEME", "dark"), ("PLIMSOLL_GLYPHS", "ascii")]), (Tone::Dark, Glyphs::Ascii));
    }

    #[test]
    fn the_environment_decides_the_appearance() {
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
