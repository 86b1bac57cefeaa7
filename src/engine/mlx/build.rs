//! A plan of weights, caches and peak: for mlx-lm, and for Ollama's runner of the same models.

use std::sync::Arc;

use super::basis_note;
use super::caches::{self, Feed, Held, HeldCache};
use super::device::MlxDevice;
use super::peak::{self, Scores};
use crate::engine::error::EngineError;
use crate::engine::llama_cpp::PreparedModel;
use crate::machine::Machine;
use crate::model::mlx::{Allocator, Architecture, Basis, Heads, LayerCache, MlxModel, MlxWeights};
use crate::plan::{Confidence, DevicePlan, LayerPlan, Part, Plan, Term, Totals, Uncertainty, Verdict, Why};
use crate::settings::{EngineId, InEffect};
use crate::units::{Bytes, Tokens};

/// What a plan is made of besides weights.
pub(in crate::engine) struct MlxCase<'a> {
    /// Whose plan it is.
    pub engine: EngineId,
    /// The model.
    pub model: &'a PreparedModel,
    /// The same as MLX runs it.
    pub mlx: &'a MlxModel,
    /// The machine.
    pub machine: &'a Machine,
    /// How the weights are known.
    pub basis: Basis,
    /// How the tokens come in.
    pub feed: Feed,
    /// Sequences at once, whose arrays are padded to the longest.
    pub sequences: u64,
    /// Caches of a draft inside the model, each like that of a layer with full attention.
    pub draft_caches: u64,
}

impl MlxCase<'_> {
    /// The plan.
    ///
    /// # Errors
    /// If nothing is known of the model's class.
    pub fn plan(&self, weights: &MlxWeights, settings: InEffect, mut notes: Vec<String>) -> Result<Plan, EngineError> {
        let architecture = self.mlx.architecture.as_ref().map_err(|error| EngineError::Model(error.to_string()))?;
        let device = MlxDevice::of(self.machine);
        let dtype = weights.activations;
        let (moments, refusal) = match caches::held(architecture, &self.feed, dtype) {
            Ok(moments) => (moments, None),
            Err(said) => {
                let plain = Feed { kv_bits: None, ..self.feed };
                let moments = caches::held(architecture, &plain, dtype).map_err(EngineError::Settings)?;
                let from = Tokens(self.feed.quantised_from);
                (moments, Some(format!("mlx-lm fails at {from} tokens with a quantised KV cache: \"{said}\"")))
            }
        };
        let layers = self.layers(architecture, weights, &moments.after, device.allocator);
        let place = device.gpu.map_or(self.machine.gpus.len(), |_| 0);
        let mut devices = DevicePlan::all_of(self.machine);
        let layers: Vec<LayerPlan> = placed(layers, place, &devices[place]);
        let scores = Scores::largest(architecture, &device, &self.feed, dtype);
        let graph = peak::graph(scores, &moments, self.sequences);
        let held = &mut devices[place];
        for layer in &layers {
            held.hold(layer);
        }
        let after_prompt = self.all(&moments.after_prompt);
        (held.graph, held.after_prompt) = (graph.full.bytes, Some(after_prompt));
        let offloaded = if device.gpu.is_some() { layers.len() } else { 0 };
        notes.extend(self.notes(&devices[place], after_prompt, &device));
        notes.extend(basis_note(self.basis).map(str::to_owned));
        let mut plan = Plan {
            engine: self.engine,
            confidence: Confidence::Exact,
            uncertainties: Vec::new(),
            origin: self.machine.origin,
            model: self.model.summary(),
            settings,
            parts: Part::alone(&devices),
            verdict: Verdict::of(&devices, offloaded, layers.len(), refusal.is_some()),
            totals: Totals::of(&devices),
            devices,
            layers,
            graph,
            estimate: None,
            own_caches: None,
            load_check: None,
            v_transposed: None,
            offloaded,
            refusal,
            ollama_ps: None,
            notes,
            decided: Vec::new(),
        };
        let reason = "the peak of a prompt is an upper bound: exact terms and LM Studio's 3 GiB for all else";
        plan.uncertainties.push(Uncertainty { confidence: Confidence::Modelled, reason: reason.to_owned() });
        plan.confidence = Uncertainty::worst(&plan.uncertainties);
        Ok(plan)
    }

    fn all(&self, held: &Held) -> Bytes {
        Bytes(held.bytes().saturating_mul(self.sequences))
    }

    /// Weights, cache, bytes of a token and formula of each layer; embeddings, output and what belongs to no layer last.
    fn layers(
        &self,
        model: &Architecture,
        weights: &MlxWeights,
        after: &Held,
        allocator: Allocator,
    ) -> Vec<(Bytes, Bytes, Bytes, Arc<Term>)> {
        let element = caches::element(weights.activations);
        let mut terms: Vec<(&Option<LayerCache>, Arc<Term>)> = Vec::new();
        let mut layers = Vec::with_capacity(model.layer_count() + 1);
        let mut full = None;
        for (at, (cache, held)) in model.caches.iter().zip(&after.layers).enumerate() {
            let bytes = Bytes(held.as_ref().map_or(0, HeldCache::bytes).saturating_mul(self.sequences));
            let term = if let Some((_, term)) = terms.iter().find(|(other, _)| *other == cache) {
                Arc::clone(term)
            } else {
                let term = Arc::new(term(cache.as_ref(), held.as_ref(), element, self.sequences, bytes));
                terms.push((cache, Arc::clone(&term)));
                term
            };
            let per_token = match cache {
                Some(LayerCache::Kv(Heads { count, key, value })) => {
                    full = full.or(Some(bytes));
                    Bytes(count.saturating_mul(key + value).saturating_mul(element * self.sequences))
                }
                _ => Bytes::ZERO,
            };
            layers.push((Bytes(weights.bytes_of(Some(at), allocator)), bytes, per_token, term));
        }
        // what is of no layer, or of one beyond the model's
        let of_layers: u64 = layers.iter().map(|(weights, ..)| weights.0).sum();
        let draft = Bytes(full.unwrap_or(Bytes::ZERO).0.saturating_mul(self.draft_caches));
        let term = if draft > Bytes::ZERO {
            Term { name: "cache of the MTP head".to_owned(), bytes: draft, ..Term::default() }
        } else {
            Term::nothing("no cache")
        };
        layers.push((Bytes(weights.bytes(allocator) - of_layers), draft, Bytes::ZERO, Arc::new(term)));
        layers
    }

    fn notes(&self, on: &DevicePlan, after_prompt: Bytes, device: &MlxDevice<'_>) -> Vec<String> {
        let mut notes = vec![format!(
            "nothing is allocated ahead: {} tokens in use hold {} of cache, and {} when all but the last of a prompt of this length \
             is read",
            Tokens(self.feed.prompt),
            on.cache,
            after_prompt
        )];
        notes.push(format!(
            "each 256th token a cache is copied into a larger one: for that moment up to {} more, seen was one layer's",
            on.cache
        ));
        let files = self.mlx.stored.as_ref().filter(|_| self.mlx.asked.is_none()).map(|stored| Bytes(stored.bytes));
        if let Some(files) = files.filter(|files| *files > on.weights + Bytes::mib(1)) {
            notes.push(format!(
                "{} of the files' {files} are not kept in memory: towers, heads and tensors that this program drops",
                files - on.weights
            ));
        }
        let others = self.machine.gpus.len().saturating_sub(1);
        match device.gpu {
            Some(gpu) if on.weights + on.cache > on.free => notes.push(format!(
                "weights and caches are {} more than {} may use: MLX goes on and memory is paged",
                (on.weights + on.cache) - on.free,
                gpu.name
            )),
            Some(gpu) if on.asked() > on.free => notes.push(format!(
                "weights and caches fit on {}; a long prompt may page at its peak, which is a bound",
                gpu.name
            )),
            None if !self.machine.gpus.is_empty() => {
                notes.push("MLX runs on Apple silicon and with CUDA: it computes on the CPU here".to_owned());
            }
            _ => {}
        }
        if device.gpu.is_some() && others > 0 {
            notes.push("MLX uses the first GPU alone".to_owned());
        }
        notes
    }
}

/// The layers one after another on their device.
fn placed(layers: Vec<(Bytes, Bytes, Bytes, Arc<Term>)>, place: usize, on: &DevicePlan) -> Vec<LayerPlan> {
    let mut room = on.free;
    let mut placed = Vec::with_capacity(layers.len());
    for (index, (weights, cache, per_token, cache_term)) in layers.into_iter().enumerate() {
        let needed = weights + cache;
        let why = if on.backend.is_none() { Why::NoGpu } else { Why::Fits { needed, room } };
        room = room - needed;
        placed.push(LayerPlan { index, device: place, weights, cache, per_token, cache_term, why });
    }
    placed
}

/// The formula of one layer's cache.
fn term(cache: Option<&LayerCache>, held: Option<&HeldCache>, element: u64, sequences: u64, bytes: Bytes) -> Term {
    let (Some(cache), Some(held)) = (cache, held) else { return Term::nothing("no cache, or that of another layer") };
    let room = held.arrays.first().and_then(|array| array.shape.get(2)).copied().unwrap_or(0);
    let times = |numbers: String| if sequences > 1 { format!("{numbers}·{sequences}") } else { numbers };
    let kv = |name: &str, heads: &Heads| Term {
        name: name.to_owned(),
        formula: "e·H_kv·(D_k + D_v)·R".to_owned(),
        numbers: times(format!("{element}·{}·({} + {})·{room}", heads.count, heads.key, heads.value)),
        bytes,
    };
    match cache {
        LayerCache::Kv(_) if held.class == "QuantizedKVCache" => Term {
            name: "quantised keys and values".to_owned(),
            formula: "words + scales + biases".to_owned(),
            numbers: times(format!("{} arrays of {room}", held.arrays.len())),
            bytes,
        },
        LayerCache::Kv(heads) => kv("keys and values of all tokens, in steps of 256", heads),
        LayerCache::Window { tokens, heads } => {
            kv(&format!("keys and values of a window of {}", Tokens(*tokens)), heads)
        }
        LayerCache::Chunk { tokens, heads } => kv(&format!("keys and values of a chunk of {}", Tokens(*tokens)), heads),
        LayerCache::States(states) => {
            let shapes: Vec<String> = states
                .iter()
                .map(|state| state.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("·"))
                .collect();
            let numbers = times(shapes.join(" + "));
            Term {
                name: "recurrent state, whatever the tokens".to_owned(),
                formula: "states".to_owned(),
                numbers,
                bytes,
            }
        }
    }
}

/// GiB with one decimal, MiB below one, as Ollama's messages have them.
pub(in crate::engine) fn gib(bytes: Bytes) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes.0 >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes.0 as f64 / unit as f64),
        None => format!("{} B", bytes.0),
    }
}
