//! Colours by meaning. The hues are Okabe and Ito's, which people with any colour vision can tell apart
//! (Okabe & Ito, "Color Universal Design", 2008).

use crate::named::named;
use crate::plan::Outcome;

named! {
    /// The terminal's background.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Tone {
        /// Light text on a dark background.
        Dark = "dark",
        /// Dark text on a light background.
        Light = "light",
        /// No colour at all.
        Mono = "mono",
    }
}

impl Tone {
    /// Dark or light, by the background that `COLORFGBG` names.
    pub fn of_terminal(get: impl Fn(&str) -> Option<String>) -> Self {
        // "15;0": foreground, background; 7 and 9 to 15 are light backgrounds
        let light = get("COLORFGBG")
            .and_then(|value| value.rsplit(';').next().and_then(|background| background.parse::<u8>().ok()))
            .is_some_and(|background| background == 7 || (9..=15).contains(&background));
        if light { Self::Light } else { Self::Dark }
    }
}

/// How many colours the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColourDepth {
    /// 24 bits.
    True,
    /// xterm's 256 colours.
    Indexed,
    /// The 16 ANSI colours.
    Sixteen,
}

impl ColourDepth {
    /// Read from `COLORTERM`, `TERM` and Windows Terminal's variable.
    pub fn of_terminal(get: impl Fn(&str) -> Option<String>) -> Self {
        let term = get("TERM").unwrap_or_default();
        match get("COLORTERM").as_deref() {
            Some("truecolor" | "24bit") => Self::True,
            // Windows Terminal supports true colour and sets only this variable
            _ if term.ends_with("-direct") || get("WT_SESSION").is_some() => Self::True,
            _ if term.contains("256color") => Self::Indexed,
            _ => Self::Sixteen,
        }
    }
}

/// Colours by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Hue {
    Text,
    Dim,
    Border,
    Focus,
    Ground,
    Weights,
    Cache,
    Graph,
    Reserved,
    InUse,
    Over,
    Fine,
    EvenGpu,
    OddGpu,
    Ram,
    Part,
}

impl Hue {
    /// The colour of `outcome`.
    pub const fn of(outcome: Outcome) -> Self {
        sign(outcome).1
    }

    /// Every hue.
    pub const ALL: [Self; 16] = [
        Self::Text,
        Self::Dim,
        Self::Border,
        Self::Focus,
        Self::Ground,
        Self::Weights,
        Self::Cache,
        Self::Graph,
        Self::Reserved,
        Self::InUse,
        Self::Over,
        Self::Fine,
        Self::EvenGpu,
        Self::OddGpu,
        Self::Ram,
        Self::Part,
    ];

    /// RGB on a dark and on a light background, and the ANSI colour, if it is not the terminal's own.
    const fn swatch(self) -> (u32, u32, Option<u8>) {
        match self {
            Self::Text => (0xD7_DD_E5, 0x1F_25_2E, None),
            Self::Dim => (0x87_91_9F, 0x66_70_7D, Some(8)),
            Self::Border => (0x3D_48_57, 0xB9_C2_CE, Some(8)),
            Self::Focus => (0xFF_FF_FF, 0x00_00_00, None),
            Self::Ground => (0x23_2D_3B, 0xE2_EA_F3, None),
            Self::Weights => (0x56_B4_E9, 0x00_72_B2, Some(12)),
            Self::Cache => (0xE6_9F_00, 0xD8_8C_00, Some(3)),
            Self::Graph => (0x00_B3_83, 0x00_9E_73, Some(2)),
            Self::Reserved => (0x8B_95_A2, 0x9A_A3_AE, Some(7)),
            Self::InUse => (0x56_60_6D, 0xC3_CB_D4, Some(8)),
            Self::Over => (0xF0_6A_1B, 0xC2_4B_00, Some(9)),
            Self::Fine => (0x2F_C7_9A, 0x00_80_5D, Some(10)),
            Self::EvenGpu => (0xDB_8F_B9, 0xA8_4E_80, Some(13)),
            Self::OddGpu => (0xF0_E4_42, 0x8C_80_00, Some(11)),
            Self::Ram => (0xA7_B0_BC, 0x55_5F_6B, Some(7)),
            Self::Part => (0xF0_E4_42, 0x80_75_00, Some(6)),
        }
    }

    /// Red, green and blue in `tone`.
    pub const fn rgb(self, tone: Tone) -> (u8, u8, u8) {
        let (dark, light, _) = self.swatch();
        let [_, r, g, b] = match tone {
            Tone::Light => light.to_be_bytes(),
            Tone::Dark | Tone::Mono => dark.to_be_bytes(),
        };
        (r, g, b)
    }
}

/// The sign and the colour of an outcome; its words are the outcome's own.
pub const fn sign(outcome: Outcome) -> (&'static str, Hue) {
    match outcome {
        Outcome::Vram => ("✓", Hue::Fine),
        Outcome::Tight => ("!", Hue::Part),
        Outcome::PartsInRam | Outcome::ExpertsInRam => ("◐", Hue::Part),
        Outcome::LayersInRam | Outcome::Cpu => ("▲", Hue::Cache),
        Outcome::FromDisk => ("∘", Hue::Over),
        Outcome::DoesNotFit => ("✗", Hue::Over),
    }
}

/// A colour as a terminal names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Colour {
    /// The terminal's own colour of text.
    Own,
    /// Red, green and blue.
    Rgb(u8, u8, u8),
    /// One of xterm's 256 colours; the first 16 are the ANSI colours.
    Indexed(u8),
}

impl Colour {
    /// The parameters of the escape sequence that selects it for what is behind text.
    pub fn behind(self) -> String {
        match self {
            Self::Own => "49".to_owned(),
            Self::Rgb(r, g, b) => format!("48;2;{r};{g};{b}"),
            Self::Indexed(index) => format!("48;5;{index}"),
        }
    }

    /// The parameters of the escape sequence that selects it for text.
    pub fn escape(self) -> String {
        match self {
            Self::Own => "39".to_owned(),
            Self::Rgb(r, g, b) => format!("38;2;{r};{g};{b}"),
            Self::Indexed(index @ ..8) => (30 + index).to_string(),
            Self::Indexed(index @ ..16) => (82 + index).to_string(),
            Self::Indexed(index) => format!("38;5;{index}"),
        }
    }
}

/// The colour of `hue` on a background of `tone` at `depth`.
pub fn colour(hue: Hue, tone: Tone, depth: ColourDepth) -> Colour {
    if tone == Tone::Mono || matches!(hue, Hue::Text) {
        return Colour::Own;
    }
    let (r, g, b) = hue.rgb(tone);
    match depth {
        ColourDepth::True => Colour::Rgb(r, g, b),
        ColourDepth::Indexed => Colour::Indexed(nearest_indexed((r, g, b))),
        ColourDepth::Sixteen => hue.swatch().2.map_or(Colour::Own, Colour::Indexed),
    }
}

/// Black or white, whichever has the higher contrast on `hue`.
pub fn ink_on(hue: Hue, tone: Tone, depth: ColourDepth) -> Colour {
    let (r, g, b) = hue.rgb(tone);
    let linear = |part: u8| (f64::from(part) / 255.0).powf(2.2);
    // the luminance at which black and white have equal contrast (WCAG: (L + 0.05)² = 0.05 · 1.05)
    let light = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179;
    match (depth, light) {
        (ColourDepth::True, true) => Colour::Rgb(0x0B, 0x10, 0x16),
        (ColourDepth::True, false) => Colour::Rgb(0xFF, 0xFF, 0xFF),
        (ColourDepth::Indexed, true) => Colour::Indexed(16),
        (ColourDepth::Indexed, false) => Colour::Indexed(231),
        (ColourDepth::Sixteen, true) => Colour::Indexed(0),
        (ColourDepth::Sixteen, false) => Colour::Indexed(15),
    }
}

/// The nearest of xterm's fixed colours: the 6×6×6 cube and 24 greys.
pub fn nearest_indexed(wanted: (u8, u8, u8)) -> u8 {
    (16..=255).min_by_key(|&index| distance(wanted, indexed_rgb(index))).unwrap_or(16)
}

/// Red, green and blue of xterm's colour `index`, at least 16.
pub fn indexed_rgb(index: u8) -> (u8, u8, u8) {
    let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
    match index.saturating_sub(16) {
        grey @ 216.. => {
            let value = 8 + 10 * (grey - 216);
            (value, value, value)
        }
        cube => (level(cube / 36), level(cube / 6 % 6), level(cube % 6)),
    }
}

fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> u32 {
    let part = |a: u8, b: u8, weight: u32| u32::from(a.abs_diff(b)).pow(2) * weight;
    // the eye is most sensitive to green, least to blue
    part(a.0, b.0, 3) + part(a.1, b.1, 4) + part(a.2, b.2, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANINGS: [Hue; 5] = [Hue::Weights, Hue::Cache, Hue::Graph, Hue::Reserved, Hue::Over];

    #[test]
    fn hues_differ_at_every_depth() {
        for tone in [Tone::Dark, Tone::Light] {
            for depth in [ColourDepth::True, ColourDepth::Indexed, ColourDepth::Sixteen] {
                let colours: std::collections::HashSet<_> =
                    MEANINGS.iter().map(|&hue| format!("{:?}", colour(hue, tone, depth))).collect();
                assert_eq!(colours.len(), MEANINGS.len(), "{tone:?} {depth:?}: {colours:?}");
            }
        }
    }

    #[test]
    fn indexed_colours_map_to_themselves() {
        for index in 16..=255u8 {
            assert_eq!(indexed_rgb(nearest_indexed(indexed_rgb(index))), indexed_rgb(index), "{index}");
        }
        assert_eq!(nearest_indexed((0x56, 0xB4, 0xE9)), 74, "sky blue");
    }

    #[test]
    fn mono_has_no_colour() {
        for hue in Hue::ALL {
            assert_eq!(colour(hue, Tone::Mono, ColourDepth::True), Colour::Own);
        }
    }

    #[test]
    fn text_on_a_background_is_readable() {
        let luminance = |(r, g, b): (u8, u8, u8)| {
            let linear = |c: u8| (f64::from(c) / 255.0).powf(2.2);
            0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
        };
        for tone in [Tone::Dark, Tone::Light] {
            for hue in MEANINGS.into_iter().chain([Hue::InUse]) {
                let Colour::Rgb(r, g, b) = ink_on(hue, tone, ColourDepth::True) else { unreachable!() };
                let (ink, ground) = (luminance((r, g, b)), luminance(hue.rgb(tone)));
                let contrast = (ink.max(ground) + 0.05) / (ink.min(ground) + 0.05);
                assert!(contrast >= 4.5, "{hue:?} {tone:?}: {contrast:.1}");
            }
        }
    }
}
