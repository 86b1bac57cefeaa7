//! Hyperparameters derived from the tensors, for architectures that are not listed.

use super::super::error::LoadError;
use super::super::transformer::gating;
use super::super::weights::{LlmTensor, TensorSuffix, Weights};
use super::Hparams;
use super::header_keys::HeaderKeys;

/// The required tensors of a recurrent block, for each kind.
const RECURRENT: [&[LlmTensor]; 3] = [
    &[LlmTensor::ShortConvIn, LlmTensor::ShortConvConv, LlmTensor::ShortConvOut],
    &[
        LlmTensor::SsmIn,
        LlmTensor::SsmConv1d,
        LlmTensor::SsmX,
        LlmTensor::SsmDt,
        LlmTensor::SsmA,
        LlmTensor::SsmD,
        LlmTensor::SsmOut,
    ],
    &[LlmTensor::SsmIn, LlmTensor::SsmConv1d, LlmTensor::SsmA, LlmTensor::SsmD, LlmTensor::SsmOut],
];

/// The tensors with the keys of an attention block.
const KEYS: [LlmTensor; 3] = [LlmTensor::AttnK, LlmTensor::AttnQkv, LlmTensor::AttnKvAMqa];

impl Hparams {
    /// Determines which blocks are recurrent, which have attention, and of what kind.
    ///
    /// # Errors
    /// When the size of a cache exceeds the limits.
    pub fn read_blocks(&mut self, keys: &HeaderKeys<'_>, weights: &Weights) -> Result<(), LoadError> {
        let holds = |il: usize, slot: LlmTensor| weights.find(il, slot, TensorSuffix::Weight).is_some();
        let anywhere = |slot: LlmTensor| (0..self.n_layer_all).any(|il| holds(il, slot));
        let (latent, short, first) =
            (anywhere(LlmTensor::AttnKvAMqa), anywhere(LlmTensor::ShortConvIn), anywhere(LlmTensor::SsmX));
        self.reads_only = !self.causal;
        if self.expert_gating == gating::NONE {
            self.expert_gating = gating::SOFTMAX;
        }
        self.expert_weights_norm = keys.flag("expert_weights_norm").unwrap_or(true);
        self.read_window(keys);
        if latent {
            self.read_latent(keys);
        }
        self.n_shortconv_l_cache = if short { keys.number("shortconv.l_cache").unwrap_or(0) } else { 0 };
        let sized = self.n_shortconv_l_cache > 0 || self.read_ssm(keys).is_ok_and(|()| self.ssm.is_sized());
        if first {
            self.ssm.n_group = 0;
        }
        for il in 0..self.n_layer_all {
            self.is_recr[il] = sized && RECURRENT.iter().any(|slots| slots.iter().all(|slot| holds(il, *slot)));
            self.attends[il] = !self.is_recr[il] && KEYS.into_iter().any(|slot| holds(il, slot));
        }
        self.guess_heads(weights);
        self.check_bounds()
    }

    /// Windows count only if the header has their pattern: without one assume full attention, which overestimates.
    fn read_window(&mut self, keys: &HeaderKeys<'_>) {
        let has_pattern = keys.list("attention.sliding_window_pattern").is_some()
            || keys.number("attention.sliding_window_pattern").is_some();
        self.n_swa = keys.number("attention.sliding_window").filter(|window| *window > 0 && has_pattern);
        if self.n_swa.is_some() {
            self.swa_pattern(keys, 1);
        }
    }

    /// Without head counts, assume one head as wide as the matrices.
    fn guess_heads(&mut self, weights: &Weights) {
        if self.n_head.iter().any(|heads| *heads > 0) {
            return;
        }
        let width = |il, slot| weights.find(il, slot, TensorSuffix::Weight).map(|at| weights.all[at].ne[1]);
        for (slot, sizes) in [(LlmTensor::AttnK, &mut self.n_embd_head_k), (LlmTensor::AttnV, &mut self.n_embd_head_v)]
        {
            *sizes = [(0..self.n_layer_all).find_map(|il| width(il, slot)).unwrap_or(0); 2];
        }
        self.n_head = self.attends.iter().map(|attends| u64::from(*attends)).collect();
        self.n_head_kv.clone_from(&self.n_head);
    }
}
