//! Values of knobs as texts.

use super::{Bounds, Knob, MAX_VALUE, in_mib};
use crate::settings::fields::Settings;
use crate::settings::values::{CacheType, Outputs};
use crate::units::{Bytes, grouped, whole};

/// A word without what does not count in it.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

impl Knob {
    /// `value` for the screen.
    pub fn show(self, value: u64) -> String {
        match self.choices() {
            Some(words) => words.get(value as usize).copied().unwrap_or("?").to_owned(),
            None if self.is_percent() => format!("{value}\u{2009}%"),
            None if self.is_of_a_turn() && value == 0 => "–".to_owned(),
            None if self == Self::CacheRam && value > 0 => Bytes::mib(value).to_string(),
            None if self == Self::CacheRam => "off".to_owned(),
            None => grouped(value, '\u{2009}'),
        }
    }

    /// `value` for the command line and files.
    pub fn plain(self, value: u64) -> String {
        match self {
            Self::MmprojDevice => if value > 0 { "none" } else { "GPU0" }.to_owned(),
            _ if self.choices().is_some() => self.show(value),
            _ => value.to_string(),
        }
    }

    /// Initial text of the input field.
    pub fn typed(self, settings: &Settings, value: u64) -> String {
        match self {
            Self::TensorSplit if settings.tensor_split.len() > 2 => {
                settings.tensor_split.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            _ => self.plain(value),
        }
    }

    /// Sets the knob from typed text: a number (`32768`, `32 768`, `32,768`, `32k`), one of its choices, `auto` or `max`; for the
    /// tensor split a percentage or all shares (`3,1,1`).
    ///
    /// # Errors
    /// One sentence that names the accepted values.
    pub fn read(self, text: &str, settings: &mut Settings, bounds: &Bounds) -> Result<(), String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let word = text.to_ascii_lowercase().replace('_', "");
        if let (Self::MmprojDevice, Ok(device)) = (self, text.parse()) {
            settings.mmproj.device = device;
            return Ok(());
        }
        // no choice, but a value
        if let Some(ty) = text.parse().ok().filter(|ty: &CacheType| ty.of_fork().is_some()) {
            let (of_keys, of_values) = match self {
                Self::CacheType => (true, true),
                Self::CacheTypeK => (true, false),
                Self::CacheTypeV => (false, true),
                _ => (false, false),
            };
            if of_keys {
                settings.cache_type_k = Some(ty);
            }
            if of_values {
                settings.cache_type_v = Some(ty);
            }
            if of_keys || of_values {
                return Ok(());
            }
        }
        if let Some(words) = self.choices() {
            return match words.iter().position(|choice| plain(choice) == plain(&word)) {
                Some(at) => {
                    self.set(settings, at as u64);
                    Ok(())
                }
                None if word == "auto" => {
                    self.reset(settings);
                    Ok(())
                }
                None if self == Self::Quant => {
                    Err(format!("'{text}' is not a known quantisation: use one like Q4_K_M, Q8_0 or IQ3_XS, or auto"))
                }
                None => Err(format!("'{text}' is not a value of {}: use {}, or auto", self.title(), words.join(", "))),
            };
        }
        match (self, word.as_str()) {
            (_, "auto") => self.reset(settings),
            (Self::Outputs, "ubatch") => settings.outputs = Outputs::Ubatch,
            (_, "max" | "all") => self.set(settings, self.stops(bounds).last()),
            (Self::TensorSplit, list) if list.contains(',') => settings.tensor_split = shares(list)?,
            (Self::CacheRam, "off") => self.set(settings, 0),
            (Self::CacheRam, size) if size.ends_with('b') => {
                let bytes: Bytes = size.parse().map_err(|error: crate::units::NotASize| error.to_string())?;
                self.set(settings, in_mib(bytes));
            }
            (_, number) => {
                let value = self.number(&text, number.trim_end_matches('%'))?;
                self.set(settings, value);
            }
        }
        Ok(())
    }

    /// The choice that the beginning of a word, in any case and with or without `_`, stands for: the one of this name, else
    /// the first that is offered. None if nothing begins so, or the knob has no choices.
    pub fn begun(self, text: &str, bounds: &Bounds) -> Option<&'static str> {
        let (word, words) = (plain(text), self.choices()?);
        let stops = self.stops(bounds);
        let offered = || stops.as_slice().iter().filter_map(|stop| words.get(usize::try_from(*stop).ok()?));
        let begins = || offered().find(|choice| plain(choice).starts_with(&word));
        let found = words.iter().find(|choice| plain(choice) == word).or_else(begins);
        found.copied().filter(|_| !word.is_empty())
    }

    fn number(self, text: &str, word: &str) -> Result<u64, String> {
        let wrong = || match self {
            Self::TensorSplit => format!(
                "'{text}' is not a valid split: use a percentage like 60, shares like \
                                          3,1,1, or auto"
            ),
            _ => format!("'{text}' is not a number: use one like 32768 or 32k, or auto"),
        };
        let value = whole(word).ok_or_else(wrong)?;
        let (least, most) = (self.least(), if self.is_percent() { 100 } else { MAX_VALUE });
        if value < least || value > most {
            return Err(format!("{text} is out of range for {}: use {least} to {most}", self.title()));
        }
        Ok(value)
    }
}

/// Parses a tensor split.
fn shares(list: &str) -> Result<Vec<f64>, String> {
    let wrong = || format!("'{list}' is not a valid split: use numbers of 0 or more that are not all 0, such as 3,1,1");
    let share = |text: &str| text.parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0);
    let shares: Vec<f64> = list.split(',').map(share).collect::<Option<_>>().ok_or_else(wrong)?;
    if shares.iter().any(|share| *share > 0.0) { Ok(shares) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{CacheType, GpuLayers};

    const BOUNDS: Bounds =
        Bounds { context_train: Some(131_072), context: 8192, layer_count: 33, experts: false, draft: None };

    #[test]
    fn typed_values_are_set_exactly() {
        let mut settings = Settings::default();
        for (text, value) in [("12345", 12_345), ("32k", 32_768), ("32 768", 32_768), ("max", 131_072)] {
            Knob::Context.read(text, &mut settings, &BOUNDS).unwrap();
            assert_eq!(Knob::Context.chosen(&settings, &BOUNDS), Some(value));
        }
        for text in ["", "k", "-1", "0", "1e9", "99999999999999", "18446744073709551615k"] {
            assert!(Knob::Context.read(text, &mut settings, &BOUNDS).is_err(), "{text}");
        }
        Knob::CacheType.read("Q8_0", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.cache_type_v, Some(CacheType::Q8_0));
        Knob::GpuLayers.read("auto", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.gpu_layers, GpuLayers::Auto);
    }

    #[test]
    fn k_and_v_accept_every_type_independently() {
        let mut settings = Settings::default();
        Knob::CacheTypeK.read("iq4_nl", &mut settings, &BOUNDS).unwrap();
        Knob::CacheTypeV.read("bf16", &mut settings, &BOUNDS).unwrap();
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (Some(CacheType::Iq4Nl), Some(CacheType::Bf16)));
        Knob::CacheTypeK.read("auto", &mut settings, &BOUNDS).unwrap();
        assert_eq!((settings.cache_type_k, settings.cache_type_v), (None, Some(CacheType::Bf16)));
        let error = Knob::CacheTypeV.read("q9", &mut settings, &BOUNDS).unwrap_err();
        assert!(error.contains("q5_1") && error.contains("auto"), "{error}");
    }

    #[test]
    fn a_split_is_parsed_as_a_percentage_or_as_shares() {
        let mut settings = Settings::default();
        Knob::TensorSplit.read("3, 1,1", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.tensor_split, [3.0, 1.0, 1.0]);
        assert_eq!(Knob::TensorSplit.chosen(&settings, &BOUNDS), Some(60));
        Knob::TensorSplit.read("20%", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.tensor_split, [20.0, 40.0, 40.0]);
        for text in ["101", "0,0", "1,-1", "1,x", "nan,1", "one"] {
            assert!(Knob::TensorSplit.read(text, &mut settings, &BOUNDS).is_err(), "{text}");
        }
        Knob::TensorSplit.read("auto", &mut settings, &BOUNDS).unwrap();
        assert!(settings.tensor_split.is_empty());
    }

    #[test]
    fn outputs_are_a_number_or_the_ubatch() {
        let mut settings = Settings::default();
        Knob::Outputs.read("ubatch", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.outputs, Outputs::Ubatch);
        Knob::Outputs.read("7", &mut settings, &BOUNDS).unwrap();
        assert_eq!(settings.outputs, Outputs::Tokens(7));
        assert!(Knob::Outputs.read("0", &mut settings, &BOUNDS).is_err());
    }
}
