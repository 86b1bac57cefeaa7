//! What runs beside its plan: for each device the planned parts, what is observed, and names for the difference. Nothing
//! is named that the samples do not tell: what cannot be told apart has one name for all of it.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::running;
use super::ram::RamUse;
use crate::engine::PlanRequest;
use crate::observed::sample::{Course, Listed, ProgramSample, RAM};
use crate::plan::Plan;
use crate::settings::written::NO_LIMIT;
use crate::units::{Bytes, Tokens};

/// Differences below this are not named: pages of the program come and go.
const SMALL: Bytes = Bytes::mib(1);

/// The plan of a program that runs.
#[derive(Clone, Debug)]
pub struct RunningPlan {
    /// What it was asked for.
    pub request: PlanRequest,
    /// Its plan.
    pub plan: Plan,
    /// What it takes of RAM.
    pub ram: RamUse,
    /// How its model was found, where it is not the file itself.
    pub found: Option<String>,
}

impl RunningPlan {
    /// Plans `request`.
    ///
    /// # Errors
    /// One sentence, if the engine refuses.
    pub fn of(request: PlanRequest) -> Result<Self, String> {
        let plan = request.plan().map_err(|error| error.to_string())?;
        Ok(Self { ram: RamUse::of(&request, &plan), plan, request, found: None })
    }

    /// The model and what it is planned for, in a line.
    pub fn title(&self) -> String {
        let found = self.found.as_ref().map_or_else(String::new, |found| format!(" ({found})"));
        format!("{}{found}, planned for {}", self.plan.model.name, self.plan.engine_title())
    }
}

/// A program on one device, beside its plan.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct LiveDevice {
    /// `GPU0`, `RAM`.
    pub device: String,
    /// The planned parts, the largest kind first: weights, cache, graph.
    pub planned: Vec<PlannedPart>,
    /// What it holds; none where nothing tells.
    pub observed: Option<Bytes>,
    /// Names of what it holds besides the planned parts.
    pub besides: Vec<Besides>,
    /// What it holds less than is planned, and why.
    pub less: Option<Besides>,
}

/// A planned part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PlannedPart {
    /// What it is.
    pub part: PartName,
    /// How much.
    pub bytes: Bytes,
}

/// What a planned part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum PartName {
    Weights,
    Cache,
    Graph,
}

/// A named part of a difference.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Besides {
    /// What it is.
    pub what: What,
    /// How much.
    pub bytes: Bytes,
    /// What is known of it beforehand, as a clause.
    pub known: Option<String>,
}

/// What a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// What the driver and the backend keep for the program.
    DriverContext,
    /// The program itself: vocabulary, code, allocator.
    Program,
    /// What came with the first prompt.
    FirstPrompt,
    /// What has come since the first prompt, and can only be saved prompts.
    PromptCache,
    /// The same, and can only be checkpoints.
    Checkpoints,
    /// Saved prompts and checkpoints, which nothing tells apart.
    PromptCacheAndCheckpoints,
    /// Driver and first prompt: the time before that prompt was not seen.
    DriverAndFirstPrompt,
    /// Program, first prompt and what has come since: the time before that prompt was not seen.
    ProgramAndPrompts,
    /// It is not known what.
    Unknown,
    /// It is still loading.
    Loading,
    /// Mapped weights that are not in RAM now.
    NotResident,
    /// Pages of buffers that nothing has used yet.
    Untouched,
}

impl What {
    /// Its name on the screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::DriverContext => "driver context",
            Self::Program => "the program and its libraries",
            Self::FirstPrompt => "first prompt",
            Self::PromptCache => "prompt cache",
            Self::Checkpoints => "checkpoints",
            Self::PromptCacheAndCheckpoints => "prompt cache and checkpoints, which nothing tells apart",
            Self::DriverAndFirstPrompt => {
                "driver context and first prompt: not told apart, as the time before the prompt was not seen"
            }
            Self::ProgramAndPrompts => {
                "the program and its prompts: not told apart, as the time before the first prompt was not seen"
            }
            Self::Unknown => "not known",
            Self::Loading => "still loading",
            Self::NotResident => "mapped weights that are not in RAM now",
            Self::Untouched => "buffers that nothing has used yet, or other settings than planned",
        }
    }
}

impl LiveDevice {
    /// The sum of its planned parts.
    pub fn sum(&self) -> Bytes {
        self.planned.iter().map(|part| part.bytes).sum()
    }

    /// Observed less planned, in bytes.
    pub fn difference(&self) -> Option<i128> {
        Some(i128::from(self.observed?.0) - i128::from(self.sum().0))
    }

    fn add(&mut self, what: What, bytes: Bytes, known: Option<String>) {
        if bytes >= SMALL {
            self.besides.push(Besides { what, bytes, known });
        }
    }
}

/// A program beside its plan, on every device that either side uses. Of a server that lists models, it is programs of its own
/// that hold them.
pub fn beside(course: &Course, running: &RunningPlan) -> Vec<LiveDevice> {
    if !course.now.listed.is_empty() {
        return Vec::new();
    }
    let gpus = running.plan.gpus().iter().enumerate().filter_map(|(at, _)| on_gpu(course, running, at));
    gpus.chain([in_ram(course, running)]).collect()
}

/// Served slots of another size than planned, as a sentence.
pub fn other_context(program: &ProgramSample, running: &RunningPlan) -> Option<String> {
    let served = program.served?.context?;
    let planned = running.plan.settings.ctx_per_sequence;
    (served != planned).then(|| format!("each slot serves {} tokens, {} are planned", Tokens(served), Tokens(planned)))
}

/// What Ollama lists beside the plan of it, as a sentence.
pub fn listed(program: &ProgramSample, running: &RunningPlan) -> Option<String> {
    let (seen, planned) = (program.listed.first()?, running::listed(&running.plan)?);
    let Listed { name, size, vram, .. } = seen;
    Some(format!("{name} is listed with {size} ({vram} on GPUs); planned are {} ({})", planned.size, planned.vram))
}

fn parts(parts: [(PartName, Bytes); 3]) -> Vec<PlannedPart> {
    let parts = parts.into_iter().filter(|(_, bytes)| *bytes > Bytes::ZERO);
    parts.map(|(part, bytes)| PlannedPart { part, bytes }).collect()
}

fn on_gpu(course: &Course, running: &RunningPlan, at: usize) -> Option<LiveDevice> {
    let gpu = running.plan.gpus().get(at)?;
    let device = format!("GPU{at}");
    let observed = course.now.held(&device);
    if observed.is_none() && gpu.asked() == Bytes::ZERO {
        return None;
    }
    let planned = parts([(PartName::Weights, gpu.weights), (PartName::Cache, gpu.cache), (PartName::Graph, gpu.graph)]);
    let mut live = LiveDevice { device, planned, observed, besides: Vec::new(), less: None };
    let (Some(now), asked) = (observed, gpu.asked()) else { return Some(live) };
    if now < asked {
        live.less = Some(less(course, asked - now));
        return Some(live);
    }
    let has_experts = running.plan.model.experts.is_some();
    let fresh = course.fresh.as_ref().and_then(|fresh| fresh.held(&live.device)).filter(|fresh| *fresh >= asked);
    if let Some(fresh) = fresh {
        live.add(What::DriverContext, fresh.min(now) - asked, gpu.driver.map(|driver| driver.to_string()));
        let first = gpu.driver.map(|driver| driver.first_prompt(has_experts));
        let known = first.filter(|first| *first > Bytes::ZERO).map(|first| format!("up to {first} were seen"));
        let prompted = course.now.served.is_some_and(|served| served.prompted == Some(true));
        live.add(if prompted { What::FirstPrompt } else { What::Unknown }, now - fresh, known.filter(|_| prompted));
    } else {
        let most = gpu.driver.map(|driver| format!("up to {} were seen", driver.most(has_experts)));
        live.add(What::DriverAndFirstPrompt, now - asked, most);
    }
    Some(live)
}

fn in_ram(course: &Course, running: &RunningPlan) -> LiveDevice {
    let RunningPlan { plan, ram, .. } = running;
    let cpu = plan.cpu();
    let planned = parts([(PartName::Weights, cpu.weights), (PartName::Cache, cpu.cache), (PartName::Graph, cpu.graph)]);
    let held = course.now.ram;
    let mut live = LiveDevice {
        device: RAM.to_owned(),
        planned,
        observed: held.map(|held| held.resident),
        besides: Vec::new(),
        less: None,
    };
    let Some(own) = held.and_then(|held| held.own) else {
        if let Some(held) = held {
            live.add(What::Unknown, held.resident - live.sum(), None);
        }
        return live;
    };
    // mapped weights may be paged out, so that only what is the program's own is a sum
    let mapped = held.and_then(|held| held.mapped).unwrap_or_default();
    let missing = ram.warm + ram.idle_experts - mapped;
    if own < ram.must {
        live.less = Some(match course.now.served {
            Some(served) if !served.ready => less(course, ram.must - own),
            _ => Besides { what: What::Untouched, bytes: ram.must - own, known: None },
        });
    } else if missing > SMALL {
        live.less = Some(Besides { what: What::NotResident, bytes: missing, known: None });
    }
    let own_of = |program: &ProgramSample| program.ram.and_then(|ram| ram.own);
    let Some(fresh) = course.fresh.as_ref().and_then(own_of) else {
        live.add(What::ProgramAndPrompts, own - ram.must, None);
        return live;
    };
    // buffers that nothing had used before its first prompt are planned
    let base = fresh.max(ram.must);
    live.add(What::Program, base.min(own) - ram.must, None);
    let after = course.prompted.as_ref().and_then(own_of);
    let first = after.unwrap_or(own).min(own).max(base.min(own));
    let prompted = course.now.served.is_some_and(|served| served.prompted == Some(true));
    live.add(if prompted { What::FirstPrompt } else { What::Unknown }, first - base, None);
    if after.is_some() {
        let (saves, checks) = (ram.prompt_cache.unwrap_or_default(), ram.checkpoints);
        let (what, most) = match (saves, checks) {
            (Bytes::ZERO, Bytes::ZERO) => (What::Unknown, None),
            (saves, Bytes::ZERO) => (What::PromptCache, Some(saves)),
            (Bytes::ZERO, checks) => (What::Checkpoints, Some(checks)),
            (saves, checks) => (What::PromptCacheAndCheckpoints, Some(saves + checks)),
        };
        let limit =
            |most: Bytes| if saves == NO_LIMIT { "without a limit".to_owned() } else { format!("at most {most}") };
        live.add(what, own - first, most.map(limit));
    }
    live
}

/// What is missing of the planned bytes.
fn less(course: &Course, bytes: Bytes) -> Besides {
    let loads = course.now.served.is_some_and(|served| !served.ready);
    Besides { what: if loads { What::Loading } else { What::Unknown }, bytes, known: None }
}
