//! Who gives an option its value. Each source is a layer over those before it in [`Source`]: of two that give the same option,
//! the one above holds, in whatever order they come. [`Settings::give`] alone decides that, and remembers who gave what.

use std::fmt;

use super::fields::Settings;
use super::flag::Flag;
use super::ollama::OllamaVersion;

/// Who gives a value, each under the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The configuration file, or the variable that stands over one of its keys.
    Config,
    /// The program that is planned for, by itself.
    Program,
    /// A variable of the server.
    Variable(&'static str),
    /// A knob on the screen, before the model was opened.
    Screen,
    /// The model's tag, which is made from a Modelfile.
    Tag,
    /// A Modelfile.
    Modelfile,
    /// The options of a request.
    Request,
    /// A command that was pasted, or a scenario.
    Command,
    /// An option of the command line.
    CommandLine,
}

impl Source {
    const fn place(self) -> u8 {
        match self {
            Self::Config => 0,
            Self::Program => 1,
            Self::Variable(_) => 2,
            Self::Screen => 3,
            Self::Tag => 4,
            Self::Modelfile => 5,
            Self::Request => 6,
            Self::Command => 7,
            Self::CommandLine => 8,
        }
    }

    const fn is_under(self, other: Self) -> bool {
        self.place() < other.place()
    }

    /// Whether it is what the user asks for now, so that nobody needs to be told.
    pub const fn is_asked(self) -> bool {
        !matches!(self, Self::Config | Self::Program | Self::Variable(_) | Self::Tag | Self::Modelfile)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("by config.toml"),
            Self::Program => f.write_str("by the program itself"),
            Self::Variable(name) => write!(f, "by {name}"),
            Self::Tag | Self::Modelfile => f.write_str("by the Modelfile"),
            Self::Screen | Self::Request | Self::Command | Self::CommandLine => f.write_str("by request"),
        }
    }
}

/// An option that a source has given.
#[derive(Clone, Debug)]
struct Given {
    flag: Flag,
    by: Source,
    /// As [`Flag::typed`] then, to notice when the value is moved.
    value: Option<String>,
    /// The source has turned the switch off.
    is_off: bool,
}

/// Who gave what, of an option the layer below first.
#[derive(Clone, Debug, Default)]
pub struct GivenValues {
    values: Vec<Given>,
    gives_version: bool,
}

/// Who gave a value does not make settings differ.
impl PartialEq for GivenValues {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Settings {
    /// Gives `flag` the value `text`, unless a source that is not under `by` has given or turned off the same, or what cannot
    /// be given besides; returns whether the value holds.
    ///
    /// # Errors
    /// One sentence that names the accepted values.
    pub fn give(&mut self, flag: Flag, text: &str, by: Source) -> Result<bool, String> {
        if self.is_settled(flag, by) {
            return Ok(false);
        }
        self.keep_moved(flag, by);
        flag.read(self, text)?;
        self.remember(flag, by);
        Ok(true)
    }

    /// The same by `set`.
    pub fn give_by(&mut self, flag: Flag, by: Source, set: impl FnOnce(&mut Self)) -> bool {
        let holds = !self.is_settled(flag, by);
        if holds {
            self.keep_moved(flag, by);
            set(self);
            self.remember(flag, by);
        }
        holds
    }

    /// Remembers that `by` gives `flag` what it is now.
    pub fn remember(&mut self, flag: Flag, by: Source) {
        let value = flag.typed(self);
        self.given.values.push(Given { flag, by, value, is_off: false });
    }

    /// Remembers that `by` turns the switch off.
    pub fn turn_off(&mut self, flag: Flag, by: Source) {
        self.given.values.push(Given { flag, by, value: None, is_off: true });
    }

    /// The version of Ollama, which the user gives.
    pub const fn give_version(&mut self, version: OllamaVersion) {
        (self.ollama.version, self.given.gives_version) = (version, true);
    }

    /// Whether the user has given it.
    pub const fn gives_version(&self) -> bool {
        self.given.gives_version
    }

    /// The options that are given.
    pub fn given_options(&self) -> impl Iterator<Item = Flag> + '_ {
        self.given.values.iter().filter(|given| !given.is_off).map(|given| given.flag)
    }

    /// Whether the option is given.
    pub fn is_given(&self, flag: Flag) -> bool {
        self.given_options().any(|given| given == flag)
    }

    /// Whether nothing that `by` gives now would hold.
    pub(super) fn is_settled(&self, flag: Flag, by: Source) -> bool {
        let mut above = self.given.values.iter().filter(|given| !given.by.is_under(by));
        above.any(|given| given.flag == flag || !given.is_off && given.flag.excludes(flag))
    }

    /// Whether an option stands for the variable: its own, or of those that Ollama has one variable for, any.
    pub(super) fn is_settled_variable(&self, name: &str) -> bool {
        let mut above = self.given.values.iter().filter(|given| Source::Variable("").is_under(given.by));
        above.any(|given| given.flag.stands_for(name))
    }

    /// Who gave `flag` its value; none if nobody did, and the engine decides.
    pub fn source_of(&self, flag: Flag) -> Option<Source> {
        let now = flag.typed(self);
        let known = self.given.values.iter().rev().find(|given| given.flag == flag && given.value == now);
        let is_moved = || now != flag.typed(&Self::default());
        known.map(|given| given.by).or_else(|| is_moved().then_some(Source::Screen))
    }

    /// A tag may stand over what is moved on the screen, which is there again without the tag.
    fn keep_moved(&mut self, flag: Flag, by: Source) {
        let is_moved = by == Source::Tag && self.source_of(flag) == Some(Source::Screen);
        if is_moved {
            self.given.values.retain(|given| (given.flag, given.by) != (flag, Source::Screen));
            self.remember(flag, Source::Screen);
        }
    }

    /// Without what the model's tag gives: what it stood over is there again, unless the value has been moved since.
    pub fn take_tag_back(&mut self) {
        while let Some(at) = self.given.values.iter().position(|given| given.by == Source::Tag) {
            let Given { flag, value, .. } = self.given.values.remove(at);
            if value != flag.typed(self) {
                continue;
            }
            flag.reset(self);
            let below = self.given.values.iter().rev().find(|given| given.flag == flag);
            if let Some(text) = below.and_then(|given| given.value.clone()) {
                // it was written by the option itself
                let _ = flag.read(self, &text);
            }
        }
    }

    /// Leaves the values as they are, and who gave these options open.
    pub fn forget(&mut self, flags: &[Flag]) {
        self.given.values.retain(|given| !flags.contains(&given.flag));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{CacheType, Context};

    const VARIABLE: Source = Source::Variable("OLLAMA_CONTEXT_LENGTH");
    const ALL: [Source; 9] = [
        Source::Config,
        Source::Program,
        VARIABLE,
        Source::Screen,
        Source::Tag,
        Source::Modelfile,
        Source::Request,
        Source::Command,
        Source::CommandLine,
    ];

    #[test]
    fn the_layer_above_holds_whoever_comes_first() {
        for (below, one) in ALL.into_iter().enumerate() {
            for other in &ALL[below + 1..] {
                for upwards in [true, false] {
                    let mut settings = Settings::default();
                    let gives = |settings: &mut Settings, by: Source, text: &str| {
                        settings.give(Flag::Context, text, by).unwrap()
                    };
                    let held = if upwards {
                        gives(&mut settings, one, "4096") && gives(&mut settings, *other, "8192")
                    } else {
                        gives(&mut settings, *other, "8192") && !gives(&mut settings, one, "4096")
                    };
                    assert!(held, "{one:?} {other:?}");
                    assert_eq!(settings.ctx, Context::Tokens(8192), "{one:?} under {other:?}");
                    assert_eq!(settings.source_of(Flag::Context), Some(*other));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_given_besides_is_settled_too() {
        let mut settings = Settings::default();
        settings.give(Flag::KvType, "q8_0", Source::CommandLine).unwrap();
        assert!(!settings.give(Flag::CacheTypeK, "q4_0", Source::Command).unwrap());
        settings.turn_off(Flag::KvUnified, Source::CommandLine);
        assert!(!settings.give(Flag::KvUnified, "true", Source::Program).unwrap());
        assert_eq!((settings.cache_type_k, settings.kv_unified), (Some(CacheType::Q8_0), false));
        assert_eq!(settings.given_options().collect::<Vec<_>>(), [Flag::KvType]);
        assert_eq!(settings.source_of(Flag::CacheTypeV).map(Source::is_asked), Some(true));
    }

    #[test]
    fn a_wrong_value_leaves_the_one_before() {
        let mut settings = Settings::default();
        settings.give(Flag::Context, "4096", VARIABLE).unwrap();
        assert!(settings.give(Flag::Context, "much", Source::Tag).is_err());
        assert_eq!((settings.ctx, settings.source_of(Flag::Context)), (Context::Tokens(4096), Some(VARIABLE)));
    }

    #[test]
    fn without_the_tag_all_is_as_before() {
        let (none, by_variable) = (Settings::default(), {
            let mut settings = Settings::default();
            settings.give(Flag::Context, "4096", VARIABLE).unwrap();
            settings
        });
        let moved = Settings { ctx: Context::Tokens(6000), ..by_variable.clone() };
        for (before, by) in [(none, None), (by_variable, Some(VARIABLE)), (moved, Some(Source::Screen))] {
            let mut settings = before.clone();
            for tokens in ["8192", "2048"] {
                assert!(settings.give(Flag::Context, tokens, Source::Tag).unwrap());
                assert_eq!(settings.source_of(Flag::Context), Some(Source::Tag));
                settings.take_tag_back();
                assert_eq!((&settings, settings.source_of(Flag::Context)), (&before, by));
            }
            settings.give(Flag::Context, "8192", Source::Tag).unwrap();
            settings.ctx = Context::Max;
            settings.take_tag_back();
            assert_eq!(settings.ctx, Context::Max, "moved since");
        }
    }
}
