//! The knob and machine options, shared by the commands.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::super::value;
use super::OllamaArgs;
use crate::engine::EngineId;
use crate::machine::spec::RamLimit;
use crate::machine::{CpuInstructions, Link, Os, drivers};
use crate::settings::Flag;
use crate::settings::flag::Takes;
use crate::settings::{ProgramDefaults, Settings, Source};
use crate::units::Bandwidth;

const KNOBS: &str = "Knobs";
const LLAMA_CPP: &str = "llama.cpp knobs (accepted everywhere; an engine that does not use one says so)";

/// The knobs of an engine. What is not given, the engine chooses.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct KnobArgs {
    /// The engine.
    pub(in super::super) engine: Option<EngineId>,
    /// What only Ollama is asked.
    pub(in super::super) ollama: OllamaArgs,
    /// What the options give.
    pub(in super::super) settings: Settings,
    /// The projector's file.
    pub(in super::super) mmproj: Option<PathBuf>,
    /// The draft.
    pub(in super::super) model_draft: Option<PathBuf>,
    /// What is to be said of options that are none of these.
    pub(in super::super) remarks: Vec<String>,
    /// What the program of `--release`, or of a command that was pasted, sets by itself.
    pub(in super::super) defaults: Option<&'static ProgramDefaults>,
    /// A scenario says all that a plan depends on: neither the environment nor config.toml do.
    pub(in super::super) is_complete: bool,
}

impl KnobArgs {
    /// Gives `flag` the value `text`, unless a source above `by` has.
    ///
    /// # Errors
    /// One sentence that names the accepted values.
    pub(in super::super) fn give(&mut self, flag: Flag, text: &str, by: Source) -> Result<(), String> {
        if self.settings.give(flag, text, by)? {
            match flag {
                Flag::Release => self.defaults = ProgramDefaults::named(text),
                // the command line's need not be text
                Flag::Mmproj if by == Source::Command => self.mmproj = Some(text.into()),
                Flag::ModelDraft if by == Source::Command => self.model_draft = Some(text.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Args for KnobArgs {
    fn augment_args(command: Command) -> Command {
        let engine = Arg::new("engine").long("engine").value_name("ENGINE").value_parser(value::engines());
        let engine = engine.help("The engine that places the layers [default: ollama]");
        let flags = |is_llama_cpp: bool| {
            Flag::ALL.iter().filter(move |flag| flag.row().is_llama_cpp == is_llama_cpp).filter_map(|flag| arg(*flag))
        };
        let command = command.next_help_heading(KNOBS).arg(engine).args(flags(false));
        OllamaArgs::augment_args(command).next_help_heading(LLAMA_CPP).args(flags(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KnobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let file = |flag: Flag| matches.get_one::<PathBuf>(flag.name()).cloned();
        let mut knobs = Self {
            engine: matches.get_one("engine").copied(),
            ollama: OllamaArgs::from_arg_matches(matches)?,
            mmproj: file(Flag::Mmproj),
            model_draft: file(Flag::ModelDraft),
            ..Self::default()
        };
        // some count in the order in which they are given
        let first = |flag: &Flag| matches.indices_of(flag.name()).and_then(|mut all| all.next());
        let mut flags: Vec<Flag> =
            Flag::ALL.iter().copied().filter(|flag| flag.row().takes != Takes::NotTyped).collect();
        flags.sort_by_key(first);
        for flag in flags {
            let text = match flag.row().takes {
                Takes::NotTyped => continue,
                Takes::File(_) => file(flag).map(|_| String::new()),
                Takes::Nothing => matches.get_flag(flag.name()).then(|| "true".to_owned()),
                _ => matches
                    .get_many::<String>(flag.name())
                    .map(|texts| texts.map(String::as_str).collect::<Vec<_>>().join(",")),
            };
            if let Some(text) = text {
                knobs
                    .give(flag, &text, Source::CommandLine)
                    .map_err(|sentence| clap::Error::raw(ErrorKind::ValueValidation, sentence))?;
            }
        }
        Ok(knobs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The option for clap; none where it is set otherwise.
fn arg(flag: Flag) -> Option<Arg> {
    let row = flag.row();
    let arg = Arg::new(flag.name()).long(flag.name()).help(row.help).conflicts_with_all(row.conflicts);
    let arg = arg.aliases(row.names.get(1..).unwrap_or_default()).overrides_with_all(row.opposite);
    let parser = FlagParser(flag);
    Some(match row.takes {
        Takes::NotTyped => return None,
        Takes::Nothing => arg.action(ArgAction::SetTrue),
        Takes::File(name) => arg.value_name(name).value_parser(clap::value_parser!(PathBuf)),
        Takes::Word(name) => arg.value_name(name).value_parser(parser).hide_possible_values(!row.shows_words),
        Takes::Number(name) => arg.value_name(name).value_parser(parser).allow_hyphen_values(true),
        Takes::List(name) => arg.value_name(name).value_parser(parser).value_delimiter(',').action(ArgAction::Append),
        Takes::Numbers(name) => {
            let list = arg.value_name(name).value_parser(parser).value_delimiter(',').action(ArgAction::Append);
            list.allow_hyphen_values(true)
        }
        Takes::Truth(name) => {
            let truth = arg.value_name(name).value_parser(["true", "false"]);
            truth.num_args(0..=1).require_equals(true).default_missing_value("true")
        }
    })
}

/// Checks a value by the option's own reader.
#[derive(Clone, Copy)]
struct FlagParser(Flag);

impl TypedValueParser for FlagParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let Self(flag) = *self;
        let checked = move |text: &str| flag.read(&mut Settings::default(), text).map(|()| text.to_owned());
        TypedValueParser::parse_ref(&checked, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = (self.0.row().words)();
        (!words.is_empty()).then(|| Box::new(words.into_iter().map(PossibleValue::new)) as Box<_>)
    }
}

/// The machine to plan for.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Machine")]
pub(in super::super) struct MachineArgs {
    /// A GPU, once per GPU: a card ("RTX 4090"), a size (24GiB),
    /// name=…,total=…,free=…,backend=…,integrated=…,compute=…,driver=…,gfx=…,pci=…,link=…,computer=HOST[:PORT],also-vulkan, or none. If given, GPUs are not detected.
    #[arg(long, value_name = "GPU", allow_hyphen_values = true)]
    pub(in super::super) gpu: Vec<String>,
    /// System RAM: a size, or total=…,free=…,swap=…,bandwidth=80GB/s. If given, RAM is not detected.
    #[arg(long, value_name = "RAM", allow_hyphen_values = true)]
    pub(in super::super) ram: Option<String>,
    /// The link from RAM to the cards: 'pcie4 x8', or what copies reach, such as 25GB/s [default: detected or assumed].
    #[arg(long, value_name = "LINK", value_parser = Link::from_str)]
    pub(in super::super) link: Option<Link>,
    /// How fast the disk with the model is read, such as 3GB/s, where RAM cannot hold all of it [default: assumed].
    #[arg(long, value_name = "SPEED", value_parser = Bandwidth::from_str)]
    pub(in super::super) disk: Option<Bandwidth>,
    /// Another machine: a saved one, or a file written there by 'plimsoll devices --json'. --gpu and --ram override
    /// it. 'this' is the present one, where config.toml names another.
    #[arg(long, value_name = "NAME|FILE")]
    pub(in super::super) machine: Option<String>,
    /// Another machine, saved or in a file, whose GPUs are added over llama.cpp's RPC; once per machine.
    #[arg(long, value_name = "NAME|FILE")]
    pub(in super::super) join: Vec<String>,
    /// The machine's operating system: linux, macos or windows.
    #[arg(long, value_name = "OS", value_parser = value::systems(), hide_possible_values = true)]
    pub(in super::super) os: Option<Os>,
    /// The CPU's vector instructions, by which llama.cpp repacks weights: avx2, avx512, amx, neon-dotprod, neon-i8mm or
    /// none [default: detected; of a specified machine assumed].
    #[arg(long, value_name = "CPU", value_parser = value::instructions(), hide_possible_values = true)]
    pub(in super::super) cpu: Option<CpuInstructions>,
    /// The branch of NVIDIA's driver, such as 580.
    #[arg(long, value_name = "VERSION", value_parser = drivers::major)]
    pub(in super::super) driver: Option<u32>,
    /// The version of NVIDIA's JetPack on a Jetson.
    #[arg(long, value_name = "VERSION", value_parser = drivers::major)]
    pub(in super::super) jetpack: Option<u32>,
    /// Load NVIDIA's management library (NVML) from this path.
    #[arg(long, value_name = "PATH")]
    pub(in super::super) nvml: Option<PathBuf>,
    /// Read AMD and Intel GPUs from this directory instead of /sys.
    #[arg(long, value_name = "DIR")]
    pub(in super::super) sysfs: Option<PathBuf>,
    /// Variables of a command that was pasted.
    #[arg(skip)]
    pub(in super::super) variables: Vec<(String, String)>,
    /// The most RAM that what it starts may use.
    #[arg(skip)]
    pub(in super::super) ram_limit: Option<RamLimit>,
}
