//! Which settings would show what `ollama ps` shows in its column PROCESSOR.

use crate::engine::PlanRequest;
use crate::observed::gpu_percent;
use crate::plan::{OllamaPs, Plan};
use crate::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use crate::units::Bytes;

/// Contexts that are tried if none is given, in tokens.
const CONTEXTS: [u64; 7] = [4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144];
/// How far a share may be off and still be the same, in percent: free memory is never known to the byte.
const NEAR: u8 = 1;
/// Settings that are named.
const SHOWN: usize = 6;

/// What a request with some changes would show.
#[derive(Clone, Debug, PartialEq)]
pub struct PsCandidate {
    /// The changes, as options; none for the request itself.
    pub changes: Vec<String>,
    /// The columns SIZE and PROCESSOR.
    pub shows: OllamaPs,
    /// Percent on GPUs, as in the column.
    pub gpu_percent: u8,
    /// Layers on GPUs, and in all.
    pub layers: (usize, usize),
}

/// What settings would show a column PROCESSOR.
#[derive(Clone, Debug, PartialEq)]
pub struct PsAnswer {
    /// Percent on GPUs that was asked about.
    pub gpu_percent: u8,
    /// What the request itself would show.
    pub planned: PsCandidate,
    /// Settings that would show it, the likeliest first; the nearest one if there is none.
    pub candidates: Vec<PsCandidate>,
}

impl PsAnswer {
    /// Whether the request itself would show it.
    pub fn agrees(&self) -> bool {
        self.planned.is_near(self.gpu_percent)
    }
}

impl PsCandidate {
    /// Whether it would show this share.
    pub fn is_near(&self, gpu_percent: u8) -> bool {
        self.gpu_percent.abs_diff(gpu_percent) <= NEAR
    }

    fn of(plan: &Plan, changes: Vec<String>) -> Option<Self> {
        let estimated = || {
            let estimate = plan.estimate.as_ref()?;
            Some(OllamaPs { size: estimate.total_size, vram: estimate.vram_size })
        };
        let shows = plan.ollama_ps.or_else(estimated).filter(|shows| shows.size > Bytes::ZERO)?;
        let gpu_percent = gpu_percent(&shows.processor_column())?;
        Some(Self { changes, shows, gpu_percent, layers: (plan.offloaded, plan.layers.len()) })
    }
}

/// Plans `request`, and changes of it that a user may have made, and returns those that would show `column`.
///
/// # Errors
/// One sentence, if `column` is not one, or nothing can be planned.
pub fn explain(request: &PlanRequest, column: &str) -> Result<PsAnswer, String> {
    let wanted = gpu_percent(column.trim())
        .ok_or_else(|| format!("'{column}' is not a column PROCESSOR: use \"27%/73% CPU/GPU\" or \"100% GPU\""))?;
    let plan = request.plan().map_err(|error| error.to_string())?;
    let planned = PsCandidate::of(&plan, Vec::new())
        .ok_or_else(|| format!("{} shows no such column: use an engine of Ollama", request.engine.title()))?;
    let mut tried = variants(request);
    if !tried.iter().any(|candidate| candidate.is_near(wanted)) && !planned.is_near(wanted) {
        tried.extend(by_layers(request, plan.layers.len()));
    }
    let off = |candidate: &PsCandidate| candidate.gpu_percent.abs_diff(wanted);
    tried.sort_by_key(|candidate| (!candidate.is_near(wanted), candidate.changes.len(), off(candidate)));
    let near = tried.iter().filter(|candidate| candidate.is_near(wanted)).count();
    tried.truncate(if near == 0 { 0 } else { near.min(SHOWN) });
    if near == 0
        && let Some(nearest) = variants(request).into_iter().min_by_key(off)
    {
        tried.push(nearest);
    }
    Ok(PsAnswer { gpu_percent: wanted, planned, candidates: tried })
}

/// A change with the option that makes it.
type Change = (String, Box<dyn Fn(&mut Settings)>);

/// One or two changes of context, cache type, sequences and flash attention.
fn variants(request: &PlanRequest) -> Vec<PsCandidate> {
    let types = [CacheType::Q8_0, CacheType::Q4_0].map(|ty| -> Change {
        let change = move |settings: &mut Settings| {
            (settings.cache_type_k, settings.cache_type_v) = (Some(ty), Some(ty));
            settings.flash_attn = FlashAttn::On;
        };
        (format!("--kv-type {ty} --flash-attn on"), Box::new(change))
    });
    let sequences = [2, 4].map(|count| -> Change {
        (format!("--parallel {count}"), Box::new(move |settings| settings.parallel = Some(count)))
    });
    let off: Change = ("--flash-attn off".to_owned(), Box::new(|settings| settings.flash_attn = FlashAttn::Off));
    let contexts: Vec<Change> = match request.settings.ctx {
        Context::Auto => {
            let change = |tokens: u64| -> Change {
                (format!("--ctx {tokens}"), Box::new(move |settings| settings.ctx = Context::Tokens(tokens)))
            };
            CONTEXTS.into_iter().map(change).collect()
        }
        _ => Vec::new(),
    };
    let groups: [Vec<Change>; 4] = [contexts, types.into(), sequences.into(), vec![off]];
    let mut found = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for (name, change) in group {
            let one = request.changed(change);
            found.extend(candidate(&one, vec![name.clone()]));
            for (further, also) in groups.iter().skip(at + 1).flatten() {
                // flash attention is a part of the cache types' change
                if name.contains("--flash-attn") && further.contains("--flash-attn") {
                    continue;
                }
                found.extend(candidate(&one.changed(also), vec![name.clone(), further.clone()]));
            }
        }
    }
    found
}

/// Fewer layers on GPUs.
fn by_layers(request: &PlanRequest, layers: usize) -> Vec<PsCandidate> {
    let counts = (0..=layers as u64).map(|count| {
        let request = request.changed(|settings| settings.gpu_layers = GpuLayers::Count(count));
        candidate(&request, vec![format!("--gpu-layers {count}")])
    });
    counts.flatten().collect()
}

fn candidate(request: &PlanRequest, changes: Vec<String>) -> Option<PsCandidate> {
    PsCandidate::of(&request.plan().ok()?, changes)
}
