//! Who set a value.

use std::fmt;

use crate::settings::knob::Knob;
use crate::settings::{Context, GpuLayers, Settings};

/// Who set a value, in the order in which one overrides the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The request: an option of the command line, or a knob.
    Request,
    /// The model's Modelfile.
    Modelfile,
    /// A variable of the server.
    Variable(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("by request"),
            Self::Modelfile => f.write_str("by the Modelfile"),
            Self::Variable(name) => write!(f, "by {name}"),
        }
    }
}

/// The values of knobs that a Modelfile or a variable set, each with its source; what a knob holds besides was asked
/// for by the user.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<(Knob, Value, Source)>);

/// Who set a value does not make settings differ.
impl PartialEq for Sources {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A knob's value, to notice when the user moves it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Context(Context),
    Layers(GpuLayers),
    Number(Option<u64>),
    Text(String),
}

impl Value {
    fn of(knob: Knob, settings: &Settings) -> Self {
        match knob {
            Knob::Context => Self::Context(settings.ctx),
            Knob::GpuLayers => Self::Layers(settings.gpu_layers),
            Knob::Parallel => Self::Number(settings.parallel),
            Knob::Batch => Self::Number(settings.batch),
            Knob::FlashAttn => Self::Text(settings.flash_attn.name().to_owned()),
            Knob::CacheTypeK => Self::Text(format!("{:?}", settings.cache_type_k)),
            Knob::CacheTypeV => Self::Text(format!("{:?}", settings.cache_type_v)),
            _ => Self::Number(None),
        }
    }
}

impl Settings {
    /// Remembers that `source` set `knob` to what it is now.
    pub fn set_by(&mut self, knob: Knob, source: Source) {
        let value = Value::of(knob, self);
        self.ollama.sources.0.retain(|(other, ..)| *other != knob);
        self.ollama.sources.0.push((knob, value, source));
    }

    /// Who set `knob`; none if nobody did, and the engine decides.
    pub fn source_of(&self, knob: Knob) -> Option<Source> {
        let now = Value::of(knob, self);
        let known = self.ollama.sources.0.iter().find(|(other, value, _)| *other == knob && *value == now);
        known
            .map(|(.., source)| *source)
            .or_else(|| (now != Value::of(knob, &Self::default())).then_some(Source::Request))
    }
}
