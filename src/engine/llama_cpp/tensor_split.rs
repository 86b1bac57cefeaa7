//! A model split over GPUs by tensors or by rows (`--split-mode tensor` and `row`). For llama.cpp's figures a split by tensors
//! is one device; what each card then holds of it follows the names of tensors (`llama_meta_device_get_split_state` in
//! `llama-model.cpp`, 0.1.161).

use super::devices::Device;
use super::release::ReleaseTraits;
use super::weights::{LlmTensor, TensorSuffix, Weight};
use crate::engine::error::EngineError;
use crate::machine::{Backend, Machine};
use crate::settings::SplitMode;

/// The cards that a model is split over by tensors, which are one device for everything that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSplit {
    /// The share of each card, which add up to one.
    pub shares: Vec<f64>,
}

impl TensorSplit {
    /// By the proportions that the user set, or equal parts.
    pub fn new(cards: usize, proportions: &[f32]) -> Self {
        let of = |card: usize| f64::from(proportions.get(card).copied().unwrap_or(0.0));
        let sum: f64 = (0..cards).map(of).sum();
        let share = |card: usize| if sum > 0.0 { of(card) / sum } else { 1.0 / cards as f64 };
        Self { shares: (0..cards).map(share).collect() }
    }

    /// The device that stands for all cards.
    pub fn device(devices: &[Device]) -> Vec<Device> {
        let free = devices.iter().map(|device| device.free).sum();
        devices.first().map(|first| Device { free, ..first.clone() }).into_iter().collect()
    }

    /// `bytes` divided over the cards, of which each has all of `mirrored`.
    pub fn divide(&self, bytes: u64, mirrored: u64) -> Vec<u64> {
        let (mut sum, mut given) = (0.0, 0);
        let each = self.shares.iter().enumerate().map(|(card, share)| {
            sum += share;
            let last = card + 1 == self.shares.len();
            let end = if last { bytes } else { (bytes as f64 * sum) as u64 };
            let own = end.saturating_sub(given);
            given = end.max(given);
            own + mirrored
        });
        each.collect()
    }

    /// Whether every card has a part of this weight, rather than all of it.
    pub fn divides(weight: &Weight) -> bool {
        use LlmTensor as T;
        let Some((slot, suffix)) = weight.role else { return false };
        match suffix {
            TensorSuffix::Weight => matches!(
                slot,
                T::AttnQ
                    | T::AttnK
                    | T::AttnV
                    | T::AttnQkv
                    | T::AttnOutput
                    | T::AttnSinks
                    | T::AttnGate
                    | T::SsmA
                    | T::SsmAlpha
                    | T::SsmBeta
                    | T::SsmBetaAlpha
                    | T::SsmConv1d
                    | T::SsmOut
                    | T::FfnUp
                    | T::FfnUpExps
                    | T::FfnGate
                    | T::FfnGateExps
                    | T::FfnGateUpExps
                    | T::FfnDown
                    | T::FfnDownExps
                    | T::Output
            ),
            TensorSuffix::Bias => {
                matches!(slot, T::AttnQ | T::AttnK | T::AttnV | T::AttnQkv | T::FfnUp | T::FfnGate | T::SsmDt)
            }
            _ => false,
        }
    }
}

/// Refuses a split by rows over GPUs whose backends have no buffers for that (`make_gpu_buft_list` in `llama-model.cpp`,
/// 0.1.161: SYCL's alone, and CUDA's in older builds).
///
/// # Errors
/// One sentence that names the first such GPU.
pub fn check_rows(
    mode: SplitMode,
    machine: &Machine,
    used: &[usize],
    release: &ReleaseTraits,
) -> Result<(), EngineError> {
    let splits = |gpu: &usize| {
        let gpu = machine.gpus.get(*gpu);
        gpu.is_some_and(|gpu| match gpu.backend {
            Backend::Sycl => gpu.computer.is_none(),
            Backend::Cuda | Backend::Rocm => gpu.computer.is_none() && release.cuda_splits_rows,
            _ => false,
        })
    };
    let lacking = used.iter().find(|gpu| !splits(gpu)).filter(|_| mode == SplitMode::Row);
    lacking.map_or(Ok(()), |gpu| {
        let name = machine.device_name(*gpu).unwrap_or_default();
        Err(EngineError::Settings(format!(
            "llama.cpp cannot load a model with --split-mode row here: {name} does not support split buffers; use layer"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_what_is_mirrored_is_everywhere() {
        let split = TensorSplit::new(3, &[2.0, 1.0, 1.0]);
        let cards = split.divide(1001, 10);
        assert_eq!((cards[0], cards.iter().sum::<u64>()), (510, 1001 + 30));
        assert_eq!(TensorSplit::new(2, &[]).divide(8, 0), [4, 4]);
    }
}
