//! The modules of a model's class and the caches of its layers, as mlx-lm makes them of `config.json`.

use super::error::MlxError;
use super::families::{CacheRow, Family, Kind, Row};
use crate::model::config::ModelConfig;
use crate::model::config::words::LayerWords;
use crate::model::limit::MAX_BLOCKS;

/// A model as its class in mlx-lm makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// Its modules, those of a layer together.
    pub modules: Vec<Module>,
    /// The cache of each layer; none for a layer that keeps nothing, or shares another's.
    pub caches: Vec<Option<LayerCache>>,
    /// Query heads of each layer.
    pub queries: Vec<u64>,
    /// The class makes its caches itself, and so drops `--max-kv-size`.
    pub own_caches: bool,
    /// Endings of modules that the class itself wants in 8 bits.
    pub eight: Vec<&'static str>,
}

/// A module: a matrix with its bias, or arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its path: `model.layers.0.self_attn.q_proj`.
    pub path: String,
    /// The layer that it belongs to.
    pub layer: Option<usize>,
    /// Its matrix may be quantised.
    pub quantised: bool,
    /// Its arrays.
    pub arrays: Vec<Leaf>,
}

/// An array of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its name: `weight`.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// In float32, whatever the type of the model.
    pub float32: bool,
}

/// What a layer keeps of the tokens so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerCache {
    /// Keys and values of all tokens.
    Kv(Heads),
    /// Of the last tokens.
    Window {
        /// How many, at least.
        tokens: u64,
        /// Of what.
        heads: Heads,
    },
    /// Of the last chunk of attention.
    Chunk {
        /// Its tokens.
        tokens: u64,
        /// Of what.
        heads: Heads,
    },
    /// Arrays of constant size.
    States(Vec<State>),
}

/// Keys and values of one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Heads of keys and values.
    pub count: u64,
    /// Length of a key.
    pub key: u64,
    /// Length of a value.
    pub value: u64,
}

/// An array of constant size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its shape.
    pub shape: Vec<u64>,
    /// In float32, whatever the activations are in.
    pub float32: bool,
}

impl Architecture {
    /// The model of this `config.json`.
    ///
    /// # Errors
    /// If mlx-lm's class of this type is not known here, or the keys give a size of nothing.
    pub fn of(config: &ModelConfig) -> Result<Self, MlxError> {
        let name = config.model_type();
        let family = Family::of(name).ok_or_else(|| MlxError::Unknown(name.to_owned()))?;
        let layers = LayerWords::layer_count(&family.definitions, config)
            .ok_or_else(|| unknown("num_hidden_layers", "the layers"))?;
        if layers > MAX_BLOCKS {
            return Err(MlxError::Layers(layers));
        }
        let mut model = Self {
            modules: Vec::new(),
            caches: Vec::new(),
            queries: Vec::new(),
            own_caches: family.own_caches,
            eight: family.eight.clone(),
        };
        let of_model = LayerWords::new(&family.definitions, config, None, layers);
        for row in family.rows.iter().filter(|row| !row.path.starts_with("*.")) {
            model.add(&family, row, &of_model)?;
        }
        for layer in 0..layers {
            let words = of_model.of_layer(layer);
            for row in family.rows.iter().filter(|row| row.path.starts_with("*.")) {
                model.add(&family, row, &words)?;
            }
            let row = family.caches.iter().find(|row| words.holds(row.condition));
            model.queries.push(words.size("heads").or_else(|| words.size("num_attention_heads")).unwrap_or(0));
            model.caches.push(row.map(|row| LayerCache::of(row, &words)).transpose()?.flatten());
        }
        Ok(model)
    }

    /// Number of layers.
    pub fn layer_count(&self) -> usize {
        self.caches.len()
    }

    /// Number of weights: those of the modules' arrays.
    pub fn parameters(&self) -> u64 {
        self.modules.iter().flat_map(|module| &module.arrays).map(Leaf::elements).fold(0, u64::saturating_add)
    }

    fn add(&mut self, family: &Family, row: &Row, words: &LayerWords<'_>) -> Result<(), MlxError> {
        if !words.holds(row.condition) {
            return Ok(());
        }
        let below_root =
            |path: &str| [family.root, path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
        let below = match (row.path.strip_prefix("*."), words.layer) {
            (Some(path), Some(layer)) => below_root(&format!("layers.{layer}.{path}")),
            _ => row.path.strip_prefix('/').map_or_else(|| below_root(row.path), str::to_owned),
        };
        let path = if family.inside.is_empty() { below } else { format!("{}.{below}", family.inside) };
        let shape = sizes(row.sizes, &path, words)?;
        let layer = words.layer.and_then(|layer| usize::try_from(layer).ok());
        let float32 = row.kind == Kind::Float32;
        if matches!(row.kind, Kind::Array | Kind::Float32) {
            let (path, name) = path.rsplit_once('.').unwrap_or(("", path.as_str()));
            let leaf = Leaf { name: name.to_owned(), shape, float32 };
            // the arrays of one module stand together
            match self.modules.iter_mut().rev().take(64).find(|module| module.path == path) {
                Some(module) => module.arrays.push(leaf),
                None => {
                    self.modules.push(Module { path: path.to_owned(), layer, quantised: false, arrays: vec![leaf] });
                }
            }
            return Ok(());
        }
        let bias = row.bias.is_some_and(|bias| words.holds(Some(bias)));
        let bias = bias.then(|| {
            let outer = match row.kind {
                Kind::Weights => &shape[..shape.len() - 1],
                _ => &shape[..1],
            };
            Leaf { name: "bias".to_owned(), shape: outer.to_vec(), float32 }
        });
        let weight = Leaf { name: "weight".to_owned(), shape, float32 };
        let arrays = std::iter::once(weight).chain(bias).collect();
        self.modules.push(Module { path, layer, quantised: row.kind == Kind::Weights, arrays });
        Ok(())
    }
}

impl Leaf {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().copied().fold(1, u64::saturating_mul)
    }
}

impl LayerCache {
    fn of(row: &CacheRow, words: &LayerWords<'_>) -> Result<Option<Self>, MlxError> {
        if row.kind == "states" {
            let state = |text: &str| {
                let (float32, text) = text.strip_prefix("f32 ").map_or((false, text), |text| (true, text));
                let shape = sizes(text, "the states", words)?;
                Ok(State { shape: std::iter::once(1).chain(shape).collect(), float32 })
            };
            return row.sizes.split(", ").map(state).collect::<Result<_, _>>().map(Self::States).map(Some);
        }
        let sizes = sizes(row.sizes, "the cache", words)?;
        Ok(match (row.kind, sizes.as_slice()) {
            ("kv", &[count, key, value]) => Some(Self::Kv(Heads { count, key, value })),
            ("window", &[tokens, count, key, value]) => {
                Some(Self::Window { tokens, heads: Heads { count, key, value } })
            }
            ("chunk", &[tokens, count, key, value]) => Some(Self::Chunk { tokens, heads: Heads { count, key, value } }),
            _ => None,
        })
    }
}

/// The sizes of these expressions. They are not more than 2^40 each, so that what is made of them stays a number.
fn sizes(expressions: &str, of: &str, words: &LayerWords<'_>) -> Result<Vec<u64>, MlxError> {
    let size = |text: &str| words.size(text).filter(|&size| size <= 1 << 40).ok_or_else(|| unknown(text, of));
    expressions.split_whitespace().map(size).collect()
}

fn unknown(expression: &str, of: &str) -> MlxError {
    MlxError::Size { expression: expression.to_owned(), of: of.to_owned() }
}
