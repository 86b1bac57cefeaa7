//! The tensors that the loader asks for, in its order; all others of the file cost nothing
//! (`clip_model_loader::load_tensors` in `clip.cpp`, 0.1.161).

use std::collections::HashSet;

use super::Modality;
use super::hparams::ClipHparams;
use super::kind::{ProjectorType, Trait};
use crate::engine::ggml::{Backend, Tensor, Type};
use crate::engine::llama_cpp::error::LoadError;
use crate::gguf::{self, Header};

/// Limit of one dimension of a tensor.
const MAX_DIMENSION: u64 = 1 << 24;
/// Limit of a tensor's elements.
const MAX_ELEMENTS: u64 = 1 << 40;

/// A tensor that is loaded.
#[derive(Clone, Debug)]
pub struct ClipTensor {
    /// Its name in the file.
    pub name: Box<str>,
    /// Element type.
    pub ty: Type,
    /// Shape.
    pub ne: [u64; 4],
    /// Its block; -1 for none.
    pub layer: i16,
}

impl ClipTensor {
    fn tensor(&self) -> Tensor {
        Tensor::new(self.ty, self.ne)
    }
}

/// The loaded tensors of one encoder.
#[derive(Clone, Debug, Default)]
pub struct ClipWeights {
    /// In the order in which they are asked for.
    pub all: Vec<ClipTensor>,
    /// Those outside blocks: indices into `all`.
    globals: Vec<usize>,
    /// Per block, the name in it and the index into `all`.
    layers: Vec<Vec<(&'static str, usize)>>,
}

/// What every encoder is asked for before its blocks; `?` marks what may be missing, `%` the encoder's prefix.
const FIRST: [&str; 11] = [
    "v.class_embd?",
    "%.pre_ln.weight?",
    "%.pre_ln.bias?",
    "%.post_ln.weight?",
    "%.post_ln.bias?",
    "v.patch_embd.bias?",
    "v.patch_embd.weight?",
    "v.patch_embd.weight.1?",
    "v.norm_embd.weight?",
    "v.norm_embd.bias?",
    "%.position_embd.weight?",
];

/// What every block is asked for.
const BLOCK: [&str; 33] = [
    "attn_k.weight?",
    "attn_q.weight?",
    "attn_v.weight?",
    "attn_out.weight",
    "attn_qkv.weight?",
    "attn_k_norm.weight?",
    "attn_q_norm.weight?",
    "ln1.weight?",
    "ln2.weight?",
    "ls1.weight?",
    "ls2.weight?",
    "out_scale.weight?",
    "attn_post_norm.weight?",
    "ffn_post_norm.weight?",
    "attn_k.bias?",
    "attn_q.bias?",
    "attn_v.bias?",
    "attn_out.bias?",
    "attn_qkv.bias?",
    "ln1.bias?",
    "ln2.bias?",
    "ffn_gate_inp.weight?",
    "ffn_gate_exps.weight?",
    "ffn_up_exps.weight?",
    "ffn_down_exps.weight?",
    "exp_probs_b.weight?",
    "ffn_up.weight?",
    "ffn_up.bias?",
    "ffn_gate.weight?",
    "ffn_gate.bias?",
    "ffn_down.weight?",
    "ffn_down.bias?",
    "attn_sinks?",
];

/// What every block is asked for under `v.deepstack.N`, whatever the encoder.
const DEEPSTACK: [&str; 6] = ["norm.weight?", "norm.bias?", "fc1.weight?", "fc1.bias?", "fc2.weight?", "fc2.bias?"];

/// The names of [`DEEPSTACK`] in a block's table.
const DEEPSTACK_IN_BLOCK: [&str; 6] = [
    "deepstack.norm.weight",
    "deepstack.norm.bias",
    "deepstack.fc1.weight",
    "deepstack.fc1.bias",
    "deepstack.fc2.weight",
    "deepstack.fc2.bias",
];

/// Splits the mark of what may be missing from a name.
fn required(name: &'static str) -> (&'static str, bool) {
    name.strip_suffix('?').map_or((name, true), |name| (name, false))
}

/// A block as tensors know it.
fn index_of(il: usize) -> i16 {
    i16::try_from(il).unwrap_or(i16::MAX)
}

/// The tensors of a file with their names, sorted by these.
type NamedTensors<'a> = [(&'a str, &'a gguf::Tensor)];

/// Those whose names begin with `prefix`.
fn under<'n, 'a>(named: &'n NamedTensors<'a>, prefix: &str) -> &'n NamedTensors<'a> {
    let from = &named[named.partition_point(|(name, _)| *name < prefix)..];
    &from[..from.partition_point(|(name, _)| name.starts_with(prefix))]
}

struct Loader<'a> {
    named: &'a NamedTensors<'a>,
    weights: ClipWeights,
    prefix: &'static str,
}

impl Loader<'_> {
    /// Loads a tensor.
    fn load(&mut self, found: &gguf::Tensor, layer: i16) -> Result<usize, LoadError> {
        let mut ne = [1; 4];
        let fits = |dims: &[u64]| {
            let elements = dims.iter().try_fold(1, |product: u64, n| product.checked_mul(*n));
            dims.len() <= 4
                && dims.iter().all(|n| (1..=MAX_DIMENSION).contains(n))
                && elements.is_some_and(|elements| elements <= MAX_ELEMENTS)
        };
        if !fits(&found.dims) {
            return Err(LoadError::model(format!("tensor {} has a shape that clip does not support", found.name)));
        }
        ne[..found.dims.len()].copy_from_slice(&found.dims);
        self.weights.all.push(ClipTensor { name: found.name.clone(), ty: found.ty, ne, layer });
        Ok(self.weights.all.len() - 1)
    }

    /// Loads tensors outside blocks.
    fn globals(&mut self, names: &[&'static str]) -> Result<(), LoadError> {
        for name in names {
            if let Some((name, marks)) = [(".*?", [true, false]), (".??", [false; 2]), (".*", [true; 2])]
                .into_iter()
                .find_map(|(mark, required)| Some((name.strip_suffix(mark)?, required)))
            {
                self.global(&format!("{name}.weight"), marks[0])?;
                self.global(&format!("{name}.bias"), marks[1])?;
            } else {
                let (name, required) = required(name);
                self.global(&name.replace('%', self.prefix), required)?;
            }
        }
        Ok(())
    }

    fn global(&mut self, name: &str, required: bool) -> Result<(), LoadError> {
        match self.named.binary_search_by(|(known, _)| (*known).cmp(name)) {
            Ok(at) => {
                let index = self.load(self.named[at].1, -1)?;
                self.weights.globals.push(index);
                Ok(())
            }
            Err(_) if required => Err(lacks(name)),
            Err(_) => Ok(()),
        }
    }

    /// Loads all other tensors that may belong to the encoder: what its loader asks for is not known.
    fn rest(&mut self, header: &Header, modality: Modality) -> Result<(), LoadError> {
        let names = header.tensors.iter().map(|tensor| &*tensor.name);
        let loaded: HashSet<Box<str>> = self.weights.all.iter().map(|tensor| tensor.name.clone()).collect();
        for name in names.filter(|name| modality.owns(name) && !loaded.contains(*name)) {
            self.global(name, false)?;
        }
        Ok(())
    }

    /// Loads tensors of block `il`.
    fn block(&mut self, il: usize, names: &[&'static str]) -> Result<(), LoadError> {
        self.in_block(il, &format!("{}.blk.{il}.", self.prefix), names.iter().map(|name| (*name, *name)))
    }

    fn deepstack(&mut self, il: usize) -> Result<(), LoadError> {
        self.in_block(il, &format!("v.deepstack.{il}."), DEEPSTACK.into_iter().zip(DEEPSTACK_IN_BLOCK))
    }

    /// Loads tensors of block `il` whose names begin with `prefix`: of each the rest of its name, and what it is known as.
    fn in_block(
        &mut self,
        il: usize,
        prefix: &str,
        names: impl Iterator<Item = (&'static str, &'static str)>,
    ) -> Result<(), LoadError> {
        let of_block = under(self.named, prefix);
        for (name, known_as) in names {
            let (name, is_required) = required(name);
            match of_block.binary_search_by(|(known, _)| known[prefix.len()..].cmp(name)) {
                Ok(at) => {
                    let index = self.load(of_block[at].1, index_of(il))?;
                    self.weights.layers[il].push((required(known_as).0, index));
                }
                Err(_) if is_required => return Err(lacks(&format!("{prefix}{name}"))),
                Err(_) => {}
            }
        }
        Ok(())
    }
}

fn lacks(name: &str) -> LoadError {
    LoadError::model(format!("the projector's file has no tensor {name}, which its type requires: convert it again"))
}

impl ClipWeights {
    /// Loads the tensors of an encoder.
    ///
    /// # Errors
    /// When one that its type requires is missing or has an impossible shape.
    pub fn load(
        header: &Header,
        kind: ProjectorType,
        modality: Modality,
        hparams: &ClipHparams,
    ) -> Result<Self, LoadError> {
        let mut named: Vec<_> = header.tensors.iter().map(|tensor| (&*tensor.name, tensor)).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        let mut loader = Loader { named: &named, weights: Self::default(), prefix: modality.prefix() };
        loader.globals(&FIRST)?;
        for il in 0..hparams.n_layer {
            loader.weights.layers.push(Vec::new());
            loader.block(il, &BLOCK)?;
            loader.deepstack(il)?;
            loader.weights.check_feed_forward(il)?;
            if kind.has(Trait::MaySwapNames) {
                loader.weights.swap_feed_forward(il, hparams.n_embd);
            }
        }
        let row = kind.row();
        if let Some(names) = row.tensors {
            loader.globals(names)?;
            for il in 0..hparams.n_layer {
                loader.block(il, row.in_blocks)?;
            }
        } else {
            loader.rest(header, modality)?;
        }
        Ok(loader.weights)
    }

    /// Blocks have a feed-forward network or experts.
    fn check_feed_forward(&self, il: usize) -> Result<(), LoadError> {
        let has = |name| self.in_block(il, name).is_some();
        if has("ffn_gate_exps.weight") || (has("ffn_up.weight") && has("ffn_down.weight")) {
            return Ok(());
        }
        Err(LoadError::model(format!("block {il} of the projector has no ffn_up or no ffn_down: convert it again")))
    }

    /// Gives up and down each other's names where an old script mixed them up.
    fn swap_feed_forward(&mut self, il: usize, n_embd: u64) {
        let mixed_up = self.in_block(il, "ffn_down.weight").is_some_and(|down| self.all[down].ne[0] == n_embd)
            && self.in_block(il, "ffn_up.weight").is_some();
        for (name, _) in self.layers[il].iter_mut().filter(|_| mixed_up) {
            *name = match *name {
                "ffn_up.weight" => "ffn_down.weight",
                "ffn_down.weight" => "ffn_up.weight",
                "ffn_up.bias" => "ffn_down.bias",
                "ffn_down.bias" => "ffn_up.bias",
                other => other,
            };
        }
    }

    /// The tensor of block `il` with this name: an index into [`Self::all`].
    pub fn in_block(&self, il: usize, name: &str) -> Option<usize> {
        self.layers.get(il)?.iter().find(|(known, _)| *known == name).map(|(_, index)| *index)
    }

    /// Names in the block, types and shapes of its tensors.
    pub fn of_block(&self, il: usize) -> impl Iterator<Item = (&'static str, Type, [u64; 4])> {
        let of_block = self.layers.get(il).into_iter().flatten();
        of_block.map(|(name, index)| (*name, self.all[*index].ty, self.all[*index].ne))
    }

    /// The tensor outside blocks with this name: an index into [`Self::all`].
    pub fn global(&self, name: &str) -> Option<usize> {
        self.globals.iter().copied().find(|index| *self.all[*index].name == *name)
    }

    /// Bytes of the tensors themselves.
    pub fn tensor_bytes(&self) -> u64 {
        self.all.iter().map(|tensor| tensor.tensor().bytes()).sum()
    }

    /// Bytes of their buffer on `backend`.
    pub fn on(&self, backend: &dyn Backend) -> u64 {
        self.all.iter().map(|tensor| backend.align(backend.bytes(&tensor.tensor()))).sum()
    }
}
