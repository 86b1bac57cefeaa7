//! What quantisation loses, as it was published: the mean Kullback-Leibler divergence from the distribution of the
//! unquantised model's next token.
//!
//! The figures order types; how much a user notices depends on the model and the task.

use crate::engine::EngineId;
use crate::gguf::FileType;
use crate::model::Model;
use crate::model::mixture::Quantisation;
use crate::model::quantise::Quantiser;
use crate::plan::Plan;
use crate::settings::CacheType;

/// Mean divergences of Llama 3 8B by type, in nats per token, widest first, with an importance matrix where one was
/// measured (`tools/perplexity/README.md` of llama.cpp, pull request 6936). The types that are worth trying: what is as
/// large as another and loses more is left out.
const WEIGHTS: [(FileType, f64); 22] = [
    (FileType::Bf16, 0.0),
    (FileType::F16, 0.0),
    (FileType::Q8_0, 0.001_355),
    (FileType::Q6K, 0.005_452),
    (FileType::Q5KM, 0.010_762),
    (FileType::Q5KS, 0.016_595),
    (FileType::Q4KM, 0.028_152),
    (FileType::Q4KS, 0.031_951),
    (FileType::Iq4Xs, 0.036_334),
    (FileType::Q3KL, 0.073_077),
    (FileType::Q3KM, 0.084_358),
    (FileType::Iq3M, 0.102_534),
    (FileType::Iq3Xs, 0.138_693),
    (FileType::Iq3Xxs, 0.183_625),
    (FileType::Q3KS, 0.199_821),
    (FileType::Iq2M, 0.325_989),
    (FileType::Q2K, 0.332_223),
    (FileType::Q2KS, 0.403_360),
    (FileType::Iq2S, 0.439_197),
    (FileType::Iq2Xs, 0.546_290),
    (FileType::Iq2Xxs, 0.812_022),
    (FileType::Iq1M, 1.393_084),
];

/// The same of types that are no better than one above (the same source), or whose weights lose nothing.
const OTHERS: [(FileType, f64); 9] = [
    (FileType::F32, 0.0),
    (FileType::Q5_1, 0.018_045),
    (FileType::Q5_0, 0.022_239),
    (FileType::Iq4Nl, 0.035_742),
    (FileType::Q4_1, 0.071_683),
    (FileType::Q4_0, 0.071_940),
    (FileType::Iq3S, 0.111_278),
    (FileType::Iq1S, 2.254_554),
    // no measurement is known: four bits with a scale for 32, as Q4_0
    (FileType::Mxfp4, 0.071_940),
];

/// Modes of MLX, the widest first, and the type of GGUF files that has about as many bits in groups of about the same form: whole
/// numbers with a scale and a bias, as in `Q5_1` and `Q4_1`. No measurement of their own is known.
const MODES: [(&str, FileType); 15] = [
    ("8bit", FileType::Q8_0),
    ("int8", FileType::Q8_0),
    ("mxfp8", FileType::Q8_0),
    ("6bit", FileType::Q6K),
    ("5bit", FileType::Q5_1),
    ("mixed_4_6", FileType::Q4_1),
    ("4bit", FileType::Q4_1),
    ("int4", FileType::Q4_1),
    ("mxfp4", FileType::Mxfp4),
    ("nvfp4", FileType::Q4_0),
    ("mixed_3_6", FileType::Q3KM),
    ("mixed_3_4", FileType::Q3KM),
    ("3bit", FileType::Q3KS),
    ("mixed_2_6", FileType::Q2K),
    ("2bit", FileType::Iq1M),
];

/// Those of mlx-lm that are worth trying, the widest first: what most publish.
const MLX_LADDER: [&str; 5] = ["8bit", "6bit", "5bit", "4bit", "3bit"];

/// Types that models are trained in, so that they lose nothing, and a larger one holds nothing more.
pub const TRAINED_IN: [FileType; 6] =
    [FileType::Mxfp4, FileType::Nvfp4, FileType::Tq1_0, FileType::Tq2_0, FileType::Q1_0, FileType::Q2_0];

/// What loses more is a last resort: the measured perplexity grows by more than a third.
const LAST_RESORT: f64 = 0.3;
/// What `Q6_K` loses, which few tell from more.
const SMALL: f64 = 0.006;

/// The loss of a quantised KV cache: `q8_0` for both as measured on Llama 3 8B (llama.cpp, pull request 7412), 4 bits as
/// measured on Qwen 3.6 27B (0.09 to 0.12; localbench, 2026), and those between by their bits.
const CACHES: [(CacheType, f64); 9] = [
    (CacheType::F32, 0.0),
    (CacheType::F16, 0.0),
    (CacheType::Bf16, 0.0),
    (CacheType::Q8_0, 0.000_98),
    (CacheType::Q5_1, 0.02),
    (CacheType::Q5_0, 0.03),
    (CacheType::Iq4Nl, 0.08),
    (CacheType::Q4_1, 0.08),
    (CacheType::Q4_0, 0.1),
];

/// The types worth trying, widest first.
pub fn ladder() -> impl DoubleEndedIterator<Item = FileType> {
    WEIGHTS.into_iter().map(|(to, _)| to)
}

/// The same of the files that `engine` runs: modes of MLX where those are the only ones.
pub fn ladder_of(engine: EngineId) -> Vec<Quantisation> {
    if engine.facts().runs_gguf {
        return ladder().map(Quantisation::from).collect();
    }
    let modes = MLX_LADDER.iter().filter_map(|name| name.parse().ok());
    std::iter::once(FileType::Bf16.into()).chain(modes).collect()
}

/// The type of GGUF files of this name, or that loses about as much.
fn like(to: Quantisation) -> Option<FileType> {
    let plain = to.name().split("-g").next().unwrap_or_default();
    let of_mlx = MODES.iter().find(|(mode, _)| mode.eq_ignore_ascii_case(plain)).map(|(_, like)| *like);
    to.file_type().or(of_mlx).or_else(|| Some(to.nearest()).filter(|_| to.is_of_gguf()))
}

/// What weights of this type lose; for one that was never measured, more than all that were.
pub fn of_weights(to: impl Into<Quantisation>) -> f64 {
    let like = like(to.into());
    let found = WEIGHTS.iter().chain(&OTHERS).find(|(known, _)| Some(*known) == like);
    found.map_or(f64::INFINITY, |(_, loss)| *loss)
}

/// What a model's weights lose in their own type; of one whose type is not known, what the type of as many bits loses.
pub fn of_model(model: &Model) -> f64 {
    match own_type(model) {
        Some(_) if is_trained_in(model) => 0.0,
        Some(own) => of_weights(own),
        None => {
            let quantiser = Quantiser::of(model);
            let no_wider = |to: &FileType| quantiser.bytes_in(*to).is_ok_and(|bytes| bytes <= model.bytes);
            ladder().find(no_wider).map_or(f64::INFINITY, of_weights)
        }
    }
}

/// The type of a model's weights, where its header names one, or its mode.
pub fn own_type(model: &Model) -> Option<Quantisation> {
    let name = model.file_type?;
    // a packager's own name says nothing of each tensor
    let file_type = name.parse::<FileType>().map(Quantisation::from).ok();
    file_type.or_else(|| name.parse::<Quantisation>().ok().filter(|own| !own.is_of_gguf()))
}

/// Whether a model's weights are in the type that it was trained in.
pub fn is_trained_in(model: &Model) -> bool {
    let own = own_type(model).and_then(Quantisation::file_type);
    let is_as_published = model.mlx.as_ref().is_none_or(|mlx| mlx.is_as_trained());
    is_as_published && own.is_some_and(|own| TRAINED_IN.contains(&own))
}

/// What a KV cache of these types loses: half of it by each. A type that was never measured loses as much as the widest of
/// those that were and are no wider, or as the narrowest.
pub fn of_caches(k: CacheType, v: CacheType) -> f64 {
    let bits = |ty: CacheType| ty.format().block_bytes() as f64 / ty.format().block() as f64;
    let of = |ty| {
        let own = CACHES.iter().find(|(known, _)| *known == ty);
        let found = own.or_else(|| CACHES.iter().find(|(known, _)| bits(*known) <= bits(ty))).or(CACHES.last());
        found.map_or(f64::INFINITY, |(_, loss)| *loss)
    };
    f64::midpoint(of(k), of(v))
}

/// What the weights of `model` and the cache of its plan lose together.
pub fn of_plan(model: &Model, plan: &Plan) -> f64 {
    let caches = of_caches(plan.settings.cache_type_k, plan.settings.cache_type_v);
    of_model(model) + if plan.totals.cache.0 > 0 { caches } else { 0.0 }
}

/// Whether few would notice a loss.
pub(super) fn is_small(loss: f64) -> bool {
    loss <= SMALL
}

/// Whether a loss is so large that it is only taken where nothing else runs.
pub fn is_last_resort(loss: f64) -> bool {
    loss > LAST_RESORT
}
