//! A [`Model`] whose weights are safetensors: its key facts, so that all that reads models reads it too.

use std::sync::Arc;

use super::array::Allocator;
use super::error::MlxError;
use super::modes::Mode;
use super::modules::{Architecture, Module};
use super::ollama_types::OllamaType;
use super::stored::MlxModel;
use crate::gguf::{Endian, Header, Metadata, Value};
use crate::model::config::ModelConfig;
use crate::model::mixture::Quantisation;
use crate::model::quantise::QuantiseError;
use crate::model::{Model, ModelError};
use crate::safetensors::Stored;
use crate::units::Bytes;

/// The mode that `mlx_lm.convert -q` makes without further options. Source: `convert.py`, mlx-lm 0.32.2.
pub const USUAL_MODE: &str = "4bit";

impl MlxModel {
    /// The facts of a header that a GGUF file of the model would have, as far as `config.json` says them.
    pub fn header(&self, name: &str) -> Header {
        let (config, kind) = (&self.config, self.config.model_type());
        let mut metadata: Vec<(Box<str>, Value)> = vec![
            ("general.architecture".into(), Value::String(kind.into())),
            ("general.name".into(), Value::String(name.into())),
        ];
        let layers = self.architecture.as_ref().map_or_else(
            |_| config.number("num_hidden_layers").unwrap_or(0),
            |architecture| architecture.layer_count() as u64,
        );
        let heads = config.number("num_attention_heads");
        let experts =
            ["num_experts", "n_routed_experts", "num_local_experts"].into_iter().find_map(|key| config.number(key));
        let numbers = [
            ("block_count", Some(layers)),
            ("context_length", config.context()),
            ("embedding_length", config.number("hidden_size")),
            ("feed_forward_length", config.number("intermediate_size")),
            ("attention.head_count", heads),
            ("attention.head_count_kv", config.number("num_key_value_heads").or(heads)),
            ("vocab_size", config.number("vocab_size")),
            ("attention.sliding_window", config.number("sliding_window")),
            ("expert_count", experts),
            ("expert_used_count", self.used_experts()),
        ];
        let known = numbers.into_iter().filter_map(|(key, number)| Some((key, number?)));
        metadata.extend(known.map(|(key, number)| (format!("{kind}.{key}").into(), Value::U64(number))));
        Header {
            version: 3,
            endian: Endian::Little,
            metadata: Metadata::from_iter(metadata),
            tensors: Vec::new(),
            data_start: 0,
            misplaced: None,
            notes: Vec::new(),
        }
    }

    /// Experts of a layer that a token uses.
    pub fn used_experts(&self) -> Option<u64> {
        let keys = ["num_experts_per_tok", "num_experts_per_token", "top_k_experts"];
        keys.into_iter().find_map(|key| self.config.number(key))
    }

    /// Number of weights that a token needs: of the experts, as many as are used.
    fn active_parameters(&self, all: u64) -> u64 {
        let Ok(architecture) = &self.architecture else { return all };
        let used = self.used_experts();
        let idle = |count: u64, elements: u64| {
            let used = used.unwrap_or(count).min(count);
            elements - (u128::from(elements) * u128::from(used) / u128::from(count.max(1))) as u64
        };
        let leaves =
            architecture.modules.iter().filter(|module| module.is_of_experts()).flat_map(|module| &module.arrays);
        let idle: u64 = leaves.map(|leaf| idle(leaf.shape[0], leaf.elements())).fold(0, u64::saturating_add);
        all.saturating_sub(idle)
    }
}

impl Model {
    /// A model of the text of its `config.json`, and of its files where there are some.
    ///
    /// # Errors
    /// If the text is no `config.json` of a model, or its layers are not plausible.
    pub fn of_safetensors(config: &[u8], files: Option<Stored>, name: &str) -> Result<Self, ModelError> {
        Self::of_mlx(MlxModel::new(ModelConfig::read(config)?, files), name)
    }

    /// A model whose weights are safetensors.
    ///
    /// # Errors
    /// If its layers are not plausible.
    pub fn of_mlx(mlx: MlxModel, name: &str) -> Result<Self, ModelError> {
        let mut model = Self::from_header(mlx.header(name), name)?;
        // the files of Ollama hold what it keeps; else mlx-lm's class says what is a weight
        let is_of_ollama = mlx.stored.as_ref().is_some_and(|stored| stored.manifest.is_some()) || mlx.mode().is_err();
        let in_memory = if is_of_ollama { mlx.in_ollama() } else { mlx.in_mlx_lm() };
        let bytes = in_memory.map_or(0, |(weights, _)| weights.bytes(Allocator::Data));
        model.bytes = Bytes(bytes);
        model.file_bytes =
            mlx.stored.as_ref().filter(|_| mlx.asked.is_none()).map_or(model.bytes, |stored| Bytes(stored.bytes));
        model.parameters = mlx.architecture.as_ref().map_or(0, Architecture::parameters);
        model.active_parameters = mlx.active_parameters(model.parameters);
        model.file_type = mlx.label();
        model.mlx = Some(Arc::new(mlx));
        Ok(model)
    }

    /// The MLX model in this mode of a model that a GGUF header describes.
    ///
    /// # Errors
    /// If nothing is known of its original.
    pub fn as_original(&self, mode: &'static str) -> Result<Self, MlxError> {
        // Ollama has names of its own
        if mode.parse::<OllamaType>().is_err() {
            mode.parse::<Mode>().map_err(MlxError::Mode)?;
        }
        let config = ModelConfig::of_gguf(self)?;
        let mlx = MlxModel { asked: Some(mode), ..MlxModel::new(config, None) };
        let made = Self::of_mlx(mlx, &self.name).map_err(|error| MlxError::Mode(error.to_string()))?;
        Ok(Self { entry: self.entry.clone(), dated: self.dated.clone(), ..made })
    }

    /// Whether the text of a `config.json` is that of a model, and it is quantised as mlx-lm does it; none of another text.
    pub fn is_config_of_mlx(config: &[u8]) -> Option<bool> {
        Some(ModelConfig::read(config).ok()?.quantization().is_some())
    }

    /// Whether its files are quantised as mlx-lm does it, so that no other program runs them where they are.
    pub fn is_of_mlx_alone(&self) -> bool {
        let is_in_store = |mlx: &MlxModel| mlx.stored.as_ref().is_some_and(|stored| stored.manifest.is_some());
        self.mlx.as_ref().is_some_and(|mlx| mlx.config.quantization().is_some() && !is_in_store(mlx))
    }

    /// What mlx-lm makes of the original of a model that a GGUF header describes: in the file's own type where that is a mode, else
    /// in the usual mode; none of one that is MLX's already.
    ///
    /// # Errors
    /// If nothing is known of its original.
    pub fn for_mlx(&self) -> Result<Option<Self>, QuantiseError> {
        if self.mlx.is_some() {
            return Ok(None);
        }
        let own = self.file_type.filter(|name| name.parse::<Mode>().is_ok());
        let made = self.as_original(own.unwrap_or(USUAL_MODE));
        let mut made = made.map_err(|error| QuantiseError::Mlx(error.to_string()))?;
        if own.is_none() {
            made.header.notes.push(format!(
                "MLX runs no GGUF files: planned is the original in {USUAL_MODE}, as 'mlx_lm.convert -q' makes it; --quant names \
                 another mode, such as 8bit, mxfp4 or nvfp4"
            ));
        }
        Ok(Some(made))
    }

    /// The same in a mode of MLX; none where neither the model nor the name is of MLX. Of original weights, the GGUF file in a
    /// type of such files.
    ///
    /// # Errors
    /// If the model is of MLX and the name is not, or the other way round.
    pub(in crate::model) fn in_mlx_mode(&self, to: Quantisation) -> Result<Option<Self>, QuantiseError> {
        let name = to.name();
        // files of packagers are GGUF
        let is_mode = to.packager().is_none() && (name.parse::<Mode>().is_ok() || name.parse::<OllamaType>().is_ok());
        let Some(mlx) = &self.mlx else {
            if to.file_type().is_some() || !is_mode {
                return Ok(None);
            }
            return self.as_original(name).map(Some).map_err(|error| QuantiseError::Mlx(error.to_string()));
        };
        if !is_mode {
            let converted = self
                .converted()
                .map_err(|error| QuantiseError::Mlx(format!("{name} is a type of GGUF files, and {error}")))?;
            let converted = converted.ok_or_else(|| {
                let modes = "4bit, 8bit, mxfp4, nvfp4, mixed_3_6 or bf16";
                QuantiseError::Mlx(format!("{name} is no mode of MLX: use {modes}"))
            })?;
            return converted.in_quantisation(to).map(Some);
        }
        let changed = MlxModel { asked: Some(name), ..MlxModel::clone(mlx) };
        let mut model = Self::of_mlx(changed, &self.name).map_err(|error| QuantiseError::Mlx(error.to_string()))?;
        (model.dated, model.missing_projector) = (self.dated.clone(), self.missing_projector);
        if mlx.config.quantization().is_some() {
            model.header.notes.push(format!("requantised: the size of the original weights as {name}"));
        }
        Ok(Some(model))
    }
}

impl Module {
    /// Whether it is the experts of one projection.
    pub fn is_of_experts(&self) -> bool {
        let is_stack = self.quantised && self.arrays.first().is_some_and(|leaf| leaf.shape.len() == 3);
        is_stack && (self.path.contains("expert") || self.path.contains("switch"))
    }
}
