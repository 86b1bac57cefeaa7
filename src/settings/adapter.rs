//! What is loaded besides a model: adapters of its weights (`LoRA`), and keys of its header that are said anew.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::gguf::{GgmlType, Header, Tensor, Value};

/// A `LoRA` adapter: a pair of matrices beside some of the model's (`--lora`).
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// Its file as the user named it, or what is assumed of it.
    pub name: Box<str>,
    /// Its matrices.
    pub pairs: LoraPairs,
}

/// The matrices of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub enum LoraPairs {
    /// Those of a file that is not read yet.
    Unread,
    /// Those of a file.
    Read(Arc<[LoraPair]>),
    /// Two of f32 with this rank beside every matrix of the blocks with one of these names.
    Assumed {
        /// The side that both share.
        rank: u64,
        /// `attn_q`, `ffn_up` and so on.
        targets: Vec<Box<str>>,
    },
}

/// Two matrices of an adapter's file.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraPair {
    /// The name of the model's matrix beside which they are.
    pub beside: Box<str>,
    /// Type and shape of the first, with which the input is multiplied, and of the second.
    pub matrices: [(GgmlType, [u64; 4]); 2],
}

/// The matrices that adapters are trained for unless others are named.
const TARGETS: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

impl Lora {
    /// The file that is still to be read.
    pub fn unread(&self) -> Option<&str> {
        (self.pairs == LoraPairs::Unread).then_some(&*self.name)
    }

    /// Takes the matrices of its file with this header.
    ///
    /// # Errors
    /// If the file is no adapter.
    pub fn read(&mut self, header: &Header) -> Result<(), String> {
        let matrix = |tensor: &Tensor| (tensor.ty, std::array::from_fn(|at| tensor.dims.get(at).copied().unwrap_or(1)));
        let mut pairs = Vec::new();
        for first in &header.tensors {
            let Some(beside) = first.name.strip_suffix(".lora_a") else { continue };
            let second = format!("{beside}.lora_b");
            let second = header.tensors.iter().find(|tensor| *tensor.name == *second);
            let second = second.ok_or_else(|| format!("'{}' has no second matrix beside {}", self.name, first.name))?;
            pairs.push(LoraPair { beside: beside.into(), matrices: [matrix(first), matrix(second)] });
        }
        if pairs.is_empty() {
            return Err(format!("'{}' is no adapter: none of its tensors is called .lora_a", self.name));
        }
        self.pairs = LoraPairs::Read(pairs.into());
        Ok(())
    }
}

impl FromStr for Lora {
    type Err = String;

    /// A file, perhaps with a factor (`a.gguf:0.5`), or `rank=16`, or `rank=16:attn_q+attn_v`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(assumed) = text.strip_prefix("rank=") else {
            // `--lora-scaled` has a factor behind the file, which changes no size
            let scaled = text.rsplit_once(':').filter(|(_, factor)| factor.parse::<f32>().is_ok());
            let name = scaled.map_or(text, |(file, _)| file);
            return Ok(Self { name: name.into(), pairs: LoraPairs::Unread });
        };
        let (rank, targets) = assumed.split_once(':').map_or((assumed, None), |(rank, list)| (rank, Some(list)));
        let rank = rank.parse().ok().filter(|rank| (1..=65_536).contains(rank));
        let rank = rank.ok_or_else(|| format!("'{text}' has no rank: use rank=16, or rank=16:attn_q+attn_v"))?;
        let targets = match targets {
            Some(list) => list.split('+').map(Into::into).collect(),
            None => TARGETS.map(Into::into).to_vec(),
        };
        Ok(Self { name: text.into(), pairs: LoraPairs::Assumed { rank, targets } })
    }
}

impl fmt::Display for Lora {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

/// A key of the model's header with another value (`--override-kv KEY=TYPE:VALUE`).
#[derive(Clone, Debug, PartialEq)]
pub struct KvOverride {
    /// The key.
    pub key: Box<str>,
    /// Its value.
    pub value: Value,
    /// As the user wrote it.
    text: Box<str>,
}

impl FromStr for KvOverride {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("'{text}' cannot be read: use KEY=TYPE:VALUE with the type int, float, bool or str");
        let (key, typed) = text.split_once('=').ok_or_else(refuse)?;
        let (kind, value) = typed.split_once(':').ok_or_else(refuse)?;
        let value = match kind {
            "int" => value.parse().ok().map(Value::I64),
            "float" => value.parse().ok().map(Value::F64),
            "bool" => value.parse().ok().map(Value::Bool),
            "str" => Some(Value::String(value.into())),
            _ => None,
        };
        Ok(Self { key: key.into(), value: value.ok_or_else(refuse)?, text: text.into() })
    }
}

impl fmt::Display for KvOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl KvOverride {
    /// Sets the key in `header`. What has another type there stays, and so do lists (`try_override` in
    /// `llama-model-loader.cpp`, 0.1.161).
    pub fn apply(&self, header: &mut Header) {
        use Value as V;
        let is_number = |value: &Value| value.as_i64().is_some() || matches!(value, V::U64(_));
        let fits = header.metadata.get(&self.key).is_none_or(|now| match (&self.value, now) {
            (V::I64(_), now) => is_number(now),
            (V::F64(_), V::F32(_) | V::F64(_))
            | (V::Bool(_), V::Bool(_))
            | (V::String(_), V::String(_) | V::LongString(_)) => true,
            _ => false,
        });
        if fits {
            header.metadata.set(&self.key, self.in_memory());
        }
    }

    /// The value as llama.cpp holds it: a value that is set has the type that is asked for.
    fn in_memory(&self) -> Value {
        match self.value {
            Value::I64(number) => u32::try_from(number).map_or(Value::I64(number), Value::U32),
            Value::F64(number) => Value::F32(number as f32),
            ref other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_files_or_assumed() {
        let of = |text: &str| text.parse::<Lora>();
        assert_eq!(of("a.gguf").unwrap().unread(), Some("a.gguf"));
        let LoraPairs::Assumed { rank, targets } = of("rank=16:attn_q+attn_v").unwrap().pairs else { panic!() };
        assert_eq!((rank, targets.len()), (16, 2));
        assert_eq!(of("a.gguf:0.5").unwrap().unread(), Some("a.gguf"));
        assert!(of("rank=").is_err() && of("rank=0").is_err());
    }

    #[test]
    fn keys_have_a_type_and_a_value() {
        let of = |text: &str| text.parse::<KvOverride>();
        assert_eq!(of("qwen3moe.expert_used_count=int:4").unwrap().value, Value::I64(4));
        assert_eq!(of("a=bool:true").unwrap().value, Value::Bool(true));
        for wrong in ["a", "a=4", "a=int:x", "a=list:1"] {
            assert!(of(wrong).unwrap_err().contains("KEY=TYPE:VALUE"), "{wrong}");
        }
    }
}
