//! A model whose weights are safetensors: what its files hold, and what each program holds of it in memory.

use std::collections::BTreeMap;

use super::array::Array;
use super::error::MlxError;
use super::modes::{MODE_NAMES, Mode, Scheme, Width};
use super::modules::{Architecture, Leaf, Module};
use super::ollama_types::{self, Importer, OllamaType};
use super::weights::{self, MlxWeights, ModuleWeights};
use crate::model::config::ModelConfig;
use crate::safetensors::{Dtype, Stored, Tensor};

/// A model whose weights are safetensors, or would be.
#[derive(Clone, Debug, PartialEq)]
pub struct MlxModel {
    /// Its `config.json`.
    pub config: ModelConfig,
    /// What mlx-lm's class makes of it, or why nothing is known of that.
    pub architecture: Result<Architecture, MlxError>,
    /// What its files hold; none where only its `config.json` is known.
    pub stored: Option<Stored>,
    /// The mode that was asked for instead of that of the files.
    pub asked: Option<&'static str>,
}

/// How the arrays of weights are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// From the headers of the files.
    Headers,
    /// From the shapes that `config.json` gives.
    Shapes,
    /// From the names and shapes of the original tensors, by the importer's rules.
    Importer,
    /// By the importer's rules from the names and shapes of mlx-lm's class, which are those of the original but for what only the
    /// files have.
    ImporterOfClass,
}

impl MlxModel {
    /// A model of its `config.json`, and of its files where there are some.
    pub fn new(config: ModelConfig, stored: Option<Stored>) -> Self {
        Self { architecture: Architecture::of(&config), config, stored, asked: None }
    }

    /// The type that its weights were trained or converted in.
    pub fn source_dtype(&self) -> Dtype {
        if let Some(stored) = self.stored.as_ref().filter(|stored| !stored.tensors.is_empty()) {
            return weights::source_dtype(stored.tensors.iter().map(|tensor| (tensor.dtype, tensor.bytes)));
        }
        match self.config.dtype() {
            Some("float16") => Dtype::F16,
            Some("float32") => Dtype::F32,
            _ => Dtype::Bf16,
        }
    }

    /// The mode that was asked for, or that `config.json` names.
    ///
    /// # Errors
    /// If the name that was asked for is none of mlx-lm.
    pub fn mode(&self) -> Result<Mode, MlxError> {
        if let Some(asked) = self.asked {
            return asked.parse().map_err(MlxError::Mode);
        }
        if self.trains_experts_in_mxfp4() {
            return Ok(Mode::Experts(Width { scheme: Scheme::Float, bits: 4, group: 32 }));
        }
        Ok(Mode::written(&self.config).unwrap_or(Mode::Unquantised))
    }

    /// Whether its weights are those that were trained, in the type that they were trained in.
    pub fn is_as_trained(&self) -> bool {
        self.asked.is_none() && self.trains_experts_in_mxfp4()
    }

    /// The experts are published in MXFP4, as those of gpt-oss are.
    fn trains_experts_in_mxfp4(&self) -> bool {
        let written = self.config.outer().get("quantization_config").and_then(|entry| entry.get("quant_method"));
        self.config.quantization().is_none() && written.and_then(|method| method.as_str()) == Some("mxfp4")
    }

    /// What mlx-lm holds of it.
    ///
    /// # Errors
    /// If nothing is known of its class, or `convert` would refuse the mode.
    pub fn in_mlx_lm(&self) -> Result<(MlxWeights, Basis), MlxError> {
        let model = self.architecture.as_ref().map_err(Clone::clone)?;
        if let (None, Some(stored)) = (self.asked, &self.stored)
            && let Some(found) = MlxWeights::stored(model, stored)
        {
            return Ok((found, Basis::Headers));
        }
        Ok((MlxWeights::of(model, &self.mode()?, self.source_dtype())?, Basis::Shapes))
    }

    /// What Ollama's runner holds of it: of a manifest what is in the files, of original weights what `ollama create`
    /// would make of them.
    ///
    /// # Errors
    /// If there are no files and no type is asked for, or nothing is known of the class.
    pub fn in_ollama(&self) -> Result<(MlxWeights, Basis), MlxError> {
        let Some(stored) = self.stored.as_ref() else { return self.by_importer_of_class() };
        let asked = self.asked.map(str::parse::<OllamaType>).transpose().map_err(MlxError::Mode)?;
        let dtype = self.source_dtype();
        let importer = asked.map(|asked| Importer::new(&self.config, asked));
        let mut modules = Vec::with_capacity(stored.tensors.len());
        for (name, array) in published(stored, importer.is_some()) {
            if !self.is_kept(&name) {
                continue;
            }
            let arrays = match &importer {
                Some(importer) => {
                    ollama_types::arrays(&name, &array.shape, array.dtype, importer.type_of(&name, &array.shape))
                }
                None => vec![array],
            };
            let arrays = arrays.into_iter().map(|array| (String::new(), array)).collect();
            modules.push(ModuleWeights { layer: layer_of(&name), path: name, arrays });
        }
        let floating = modules.iter().flat_map(|module| &module.arrays).any(|(_, array)| array.dtype == Dtype::U8);
        let activations = weights::activations(dtype, floating);
        let basis = if importer.is_some() { Basis::Importer } else { Basis::Headers };
        Ok((MlxWeights { modules, activations }, basis))
    }

    /// What `ollama create` would make of the tensors of mlx-lm's class.
    fn by_importer_of_class(&self) -> Result<(MlxWeights, Basis), MlxError> {
        let asked = self.asked.ok_or(MlxError::NoNames)?;
        let importer = Importer::new(&self.config, asked.parse().map_err(MlxError::Mode)?);
        let model = self.architecture.as_ref().map_err(Clone::clone)?;
        let dtype = self.source_dtype();
        let module = |module: &Module| {
            let tensor = |leaf: &Leaf| {
                let whole = [module.path.as_str(), &leaf.name].join(".");
                // published names have the experts of a projection there
                let name = whole.replace(".switch_mlp.", ".experts.");
                let kept = if leaf.float32 { Dtype::F32 } else { dtype };
                let to = importer.type_of(&name, &leaf.shape);
                ollama_types::arrays(&name, &leaf.shape, kept, to)
            };
            let arrays = module.arrays.iter().flat_map(tensor).map(|array| (String::new(), array)).collect();
            ModuleWeights { path: module.path.clone(), layer: module.layer, arrays }
        };
        let modules: Vec<ModuleWeights> = model.modules.iter().map(module).collect();
        let floating = modules.iter().flat_map(|module| &module.arrays).any(|(_, array)| array.dtype == Dtype::U8);
        Ok((MlxWeights { modules, activations: weights::activations(dtype, floating) }, Basis::ImporterOfClass))
    }

    /// Whether Ollama's runner keeps a tensor of this name after the load. Source: `x/models`, Ollama fb30760.
    fn is_kept(&self, name: &str) -> bool {
        let architecture = self.config.architecture().unwrap_or_default();
        let is_tower = ollama_types::is_vision(name) || ollama_types::is_audio(name);
        if architecture.starts_with("Gemma") {
            return !is_tower && !name.contains("multi_modal_projector");
        }
        let unread = ["vision_model.", "mlp1.", "sound_encoder.", "sound_projection."];
        !(architecture.starts_with("NemotronH") && unread.iter().any(|begin| name.starts_with(begin)))
    }

    /// Whether a module of this path is beside the language model: of a tower for images or sound, or of what drafts.
    pub fn is_beside(&self, path: &str) -> bool {
        let drafts = path.starts_with("draft.") || path.split('.').any(|part| part == "mtp");
        drafts || ollama_types::is_vision(path) || ollama_types::is_audio(path)
    }

    /// The name of how it is quantised, where it has one.
    pub fn label(&self) -> Option<&'static str> {
        let known = |name: &str| MODE_NAMES.iter().copied().find(|known| known.eq_ignore_ascii_case(name));
        let file_type = || Some(self.stored.as_ref()?.manifest.as_ref()?.file_type.as_str());
        if let Some(name) = self.asked.or_else(|| file_type().and_then(known)) {
            return known(name).or(self.asked);
        }
        let plain = match self.source_dtype() {
            Dtype::F16 => "f16",
            Dtype::F32 => "f32",
            _ => "bf16",
        };
        match self.mode() {
            Ok(Mode::Unquantised) if file_type().is_none() => Some(plain),
            Ok(Mode::Experts(_)) => Some("mxfp4"),
            Ok(mode) => known(&mode.to_string()).filter(|_| mode != Mode::Unquantised),
            Err(_) => None,
        }
    }
}

/// The tensors by their names; for the importer the experts of one projection as one.
fn published(stored: &Stored, stacks: bool) -> Vec<(String, Array)> {
    let mut experts: BTreeMap<String, (u64, Array)> = BTreeMap::new();
    let mut all = Vec::with_capacity(stored.tensors.len());
    for Tensor { name, dtype, shape, .. } in &stored.tensors {
        let array = Array { dtype: *dtype, shape: shape.clone() };
        match expert_of(name).filter(|_| stacks) {
            Some(whole) => experts.entry(whole).or_insert((0, array)).0 += 1,
            None => all.push((name.clone(), array)),
        }
    }
    all.extend(experts.into_iter().map(|(name, (count, array))| {
        let shape = std::iter::once(count).chain(array.shape).collect();
        (name, Array { shape, ..array })
    }));
    all
}

/// The name of all experts of the projection that this is of one expert: `….mlp.experts.3.up_proj.weight`.
fn expert_of(name: &str) -> Option<String> {
    let (before, rest) = name.split_once(".experts.")?;
    let (number, projection) = rest.split_once('.')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{before}.experts.{projection}"))
}

/// The layer in a tensor's name.
fn layer_of(name: &str) -> Option<usize> {
    // an MTP head's or a draft's own layers are none of the model's
    if name.starts_with("mtp.") || name.starts_with("draft.") {
        return None;
    }
    let (_, rest) =
        name.split_once(".layers.").or_else(|| name.split_once("layers.").filter(|(before, _)| before.is_empty()))?;
    rest.split_once('.')?.0.parse().ok()
}
