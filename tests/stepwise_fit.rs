//! A fit leaves out steps that are certain to fail; here all of them are taken, and end at the same. And a fit that llama.cpp
//! never ends is said to be one.

use crate::support::description;
use std::sync::Arc;

use plimsoll::engine::ggml::backend::Plain;
use plimsoll::engine::llama_cpp::context::ContextParams;
use plimsoll::engine::llama_cpp::fit::{FitLimits, NoRoom, fit};
use plimsoll::engine::llama_cpp::{Device, LayerSplit, LoadedModel, Reservation};
use plimsoll::settings::Release;
use rstest::rstest;

use crate::support;

/// A model that is placed layer by layer.
struct StepwiseFit<'a> {
    model: &'a LoadedModel,
    devices: Vec<Device>,
    options: ContextParams,
    margin: i64,
}

impl StepwiseFit<'_> {
    fn spread(shares: &[u32]) -> LayerSplit {
        LayerSplit {
            gpu_layers: Some(u64::from(shares.iter().sum::<u32>())),
            tensor_split: if shares.len() > 1 {
                shares.iter().map(|layers| *layers as f32).collect()
            } else {
                Vec::new()
            },
            ..LayerSplit::default()
        }
    }

    fn used(&self, spread: &LayerSplit, gpu: usize) -> i64 {
        let measured = self.model.measure(&self.devices, spread, &self.options, Reservation::Measured).unwrap();
        i64::try_from(measured.model[gpu] + measured.context[gpu] + measured.compute[gpu]).unwrap()
    }

    fn target(&self, gpu: usize) -> i64 {
        i64::try_from(self.devices[gpu].free).unwrap() - self.margin
    }

    /// False position, every step measured (`common/fit.cpp`, 0.1.161).
    fn by_every_step(&self) -> (LayerSplit, Option<NoRoom>, usize) {
        let layers = u32::try_from(self.model.hparams.n_layer()).unwrap() + 1;
        let mut shares = vec![0; self.devices.len()];
        let (mut refused, mut steps) = (None, 0);
        for gpu in (0..shares.len()).rev() {
            let with = |count: u32| {
                let mut more = shares.clone();
                more[gpu] = count;
                (count, self.used(&Self::spread(&more), gpu))
            };
            let mut low = with(0);
            let mut high = with(layers - shares.iter().sum::<u32>());
            refused = None;
            if high.0 > 0 && high.1 <= self.target(gpu) {
                low = high;
            }
            while high.0 > low.0 + 1 {
                let (between, growth) = (i64::from(high.0 - low.0), high.1 - low.1);
                let guess = if growth == 0 { i64::MAX } else { between * (self.target(gpu) - low.1) / growth };
                let guess = if guess < 0 { i64::MAX } else { guess };
                let test = with(low.0 + u32::try_from(guess.clamp(1, between - 1)).unwrap());
                if test.1 <= self.target(gpu) {
                    low = test;
                } else {
                    high = test;
                }
                steps += 1;
            }
            if high.0 > low.0 {
                let [needed, room] =
                    [high.1 - low.1, self.target(gpu) - low.1].map(|bytes| bytes.max(0).cast_unsigned());
                refused = Some(NoRoom { gpu, needed, room });
            }
            shares[gpu] = low.0;
        }
        (Self::spread(&shares), refused, steps)
    }
}

/// MiB free per GPU, of which one GiB is to stay free.
#[rstest]
#[case("qwen2.5-0.5b", &[600])]
#[case("qwen2.5-0.5b", &[1300, 900])]
#[case("qwen2.5-0.5b", &[500, 1200, 1100])]
#[case("mamba-2.8b", &[1100, 700])]
#[case("mamba-2.8b", &[700, 2000])]
#[case("gemma3-4b", &[1030, 1500])]
#[case("gemma3-4b", &[200, 100])]
fn steps_that_are_left_out_change_nothing(#[case] name: &str, #[case] free: &[u64]) {
    let model = LoadedModel::new(&support::model(name), Release::default()).unwrap();
    let devices: Vec<Device> = free.iter().map(|mib| Device { backend: Arc::new(Plain), free: mib << 20 }).collect();
    for n_ctx in [2048, 65_536] {
        let options =
            ContextParams { n_ctx, n_seq_max: 4, n_outputs_max: 4, kv_unified: true, ..ContextParams::default() };
        let limits = FitLimits { margins: vec![1 << 30; free.len()], min_ctx: 4096, ram: 1 << 40 };
        let fitted = fit(&model, &devices, &LayerSplit::default(), &options, &limits).unwrap();
        let filling = StepwiseFit { model: &model, devices: devices.clone(), options, margin: 1 << 30 };
        let (spread, refused, steps) = filling.by_every_step();
        assert!(steps > 1, "one GPU at least is looked at more closely");
        assert_eq!((fitted.spread, fitted.refused), (spread, refused), "{name} with {n_ctx} tokens on {free:?}");
    }
}

/// One layer far larger than all others makes the last GPU take its few layers one by one, experts and all; a first GPU
/// that then has room for all experts but those looks for more of them to give back (seen of llama.cpp, 0.1.161: ends with
/// 29.5 GB on the first GPU and with 31, not within 4 seconds with 30 and 30.8).
#[test]
fn a_fit_without_an_end_is_refused() {
    let json = support::model_json("deepseek-v2-lite").replace("10944", "4194304");
    let model = LoadedModel::new(&description::header(&json).unwrap(), Release::default()).unwrap();
    let options = ContextParams { n_ctx: 4096, n_batch: 16, n_ubatch: 16, ..ContextParams::default() };
    let limits = FitLimits { margins: vec![1 << 30; 2], min_ctx: 4096, ram: 1 << 40 };
    let fitted = |free: u64| {
        let devices = [free, 2_200_000_000].map(|free| Device { backend: Arc::new(Plain), free });
        fit(&model, &devices, &LayerSplit::default(), &options, &limits).map(|fitted| fitted.spread)
    };
    let before = fitted(29_500_000_000).unwrap();
    assert_eq!((before.gpu_layers, before.tensor_split), (Some(28), vec![25.0, 3.0]));
    assert_eq!(before.overrides.iter().map(|overflow| overflow.block).collect::<Vec<_>>(), [23, 24]);
    for free in [30_000_000_000, 30_800_000_000] {
        assert!(fitted(free).unwrap_err().to_string().contains("never finish"));
    }
    assert_eq!(fitted(31_000_000_000), Ok(LayerSplit::default()));
}
