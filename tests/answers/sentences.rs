//! Figures in sentences: what is read out of them is what the plan's JSON says, and a sentence with a figure is short.

use plimsoll::answer::{Change, verdict};
use plimsoll::export::json;
use plimsoll::plan::{LayerPlan, Plan};
use plimsoll::question::glance;
use plimsoll::speed::Speed;
use plimsoll::units::{Bytes, Difference, Tokens};
use serde_json::Value;

use super::glance::{ASKED, Asked};

/// Words of a sentence with a figure, at most.
const WORDS: usize = 25;

/// What is assumed that a desktop takes besides.
const DESKTOP: u64 = 256 << 20;

/// A plan with what its JSON says.
struct Case<'a> {
    asked: &'a Asked,
    json: Value,
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no whole number: {value}"))
}

fn bytes(value: &Value) -> String {
    Bytes(value.as_u64().unwrap_or_else(|| panic!("no size: {value}"))).to_string()
}

fn difference(bytes: i64) -> String {
    Difference(bytes).to_string()
}

fn length(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

/// `350 MiB`, or `451 MiB to 456 MiB`.
fn span([least, most]: [u64; 2]) -> String {
    let [least, most] = [least, most].map(|bytes| Bytes(bytes).to_string());
    if least == most { least } else { format!("{least} to {most}") }
}

/// With two significant digits.
fn two_digits(value: f64) -> String {
    let digits = 1 - value.log10().floor() as i32;
    let unit = 10_f64.powi(digits.abs());
    let rounded = if digits > 0 { (value * unit).round() / unit } else { (value / unit).round() * unit };
    let decimals = (1 - rounded.log10().floor() as i32).max(0) as usize;
    format!("{rounded:.decimals$}")
}

/// `≈ 28 tok/s (17–38)`
fn speed(value: &Value) -> String {
    let [middle, low, high] = ["tokens_per_second", "low", "high"]
        .map(|key| two_digits(value[key].as_f64().unwrap_or_else(|| panic!("{value}"))));
    let ends = if low == middle && high == middle { String::new() } else { format!(" ({low}–{high})") };
    format!("≈ {middle} tok/s{ends}")
}

/// Free memory less what the plan takes.
fn left(device: &Value) -> i64 {
    int(&device["headroom"]) + int(&device["reserved"])
}

/// What a driver takes once the model is loaded.
fn driver(device: &Value) -> [u64; 2] {
    let driver = &device["driver"];
    let context = driver["context"]["bytes"].as_u64().unwrap_or(0);
    ["least", "most"].map(|end| driver["loaded"][end].as_u64().unwrap_or(0) + context)
}

impl<'a> Case<'a> {
    fn of(asked: &'a Asked) -> Self {
        Self { asked, json: serde_json::from_str(&json(&asked.plan).unwrap()).unwrap() }
    }

    fn plan(&self) -> &Plan {
        &self.asked.plan
    }

    fn tokens(&self, pointer: &str) -> String {
        Tokens(self.json.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"))).to_string()
    }

    fn devices(&self) -> &[Value] {
        self.json["devices"].as_array().unwrap()
    }

    fn device(&self, id: &str) -> &Value {
        self.devices().iter().find(|device| device["id"] == id).unwrap_or_else(|| panic!("no {id}"))
    }

    fn cpu(&self) -> &Value {
        self.devices().last().unwrap()
    }

    fn layers(&self) -> [String; 2] {
        [length(&self.cpu()["layers"]).to_string(), self.json["layer_count"].to_string()]
    }

    fn first_prompt(&self, device: &Value) -> u64 {
        let kind = if self.plan().model.experts.is_some() { "experts" } else { "dense" };
        device["driver"]["first_prompt"][kind].as_u64().unwrap_or(0)
    }

    /// The GPU that is named, which is the fullest one where that is said.
    fn gpu(&self, named: &str) -> &Value {
        let (id, is_fullest) = match named.split_once(", ") {
            Some((id, what)) => (id, what == "the fullest GPU,"),
            None => (named, false),
        };
        let used = || self.devices().iter().filter(|device| device["kind"] == "gpu" && length(&device["layers"]) > 0);
        let above =
            |device: &Value| left(device) - int(&device["reserved"]).max(i64::try_from(driver(device)[1]).unwrap());
        let device = self.device(id);
        assert!(!is_fullest || used().map(above).min() == Some(above(device)), "{named} is not the fullest GPU");
        assert!(is_fullest || used().count() == 1 || !named.ends_with(','), "{named}");
        device
    }

    /// The name of its driver, where it is known.
    fn driver_name(&self, gpu: &str) -> String {
        let at = self.plan().devices.iter().position(|device| device.id == gpu).unwrap();
        self.plan().devices[at].driver.map_or_else(String::new, |driver| driver.backend.name().to_owned())
    }

    /// How much of what a driver takes is known, as it is said.
    fn known(&self, gpu: &str) -> String {
        let at = self.plan().devices.iter().position(|device| device.id == gpu).unwrap();
        self.plan().devices[at].driver.map_or_else(String::new, |driver| driver.known_from())
    }

    /// This plan with the first change that would help.
    fn after_first(&self) -> Case<'static> {
        let Asked { request, limits, .. } = self.asked;
        let change = &limits.remedies.first().unwrap().change;
        let then = changed(self.asked, change);
        let asked = Asked { plan: then.plan().unwrap(), limits: limits.clone(), speeds: None, request: then };
        assert_eq!(request.model.name, asked.request.model.name);
        Case::of(Box::leak(Box::new(asked)))
    }

    /// The GPU with the least left above what drivers take, with layers.
    fn least_spare(&self) -> (String, i64, &Value) {
        let used = self.devices().iter().filter(|device| device["kind"] == "gpu" && length(&device["layers"]) > 0);
        let spare = |device: &&Value| {
            let at = self.devices().iter().position(|one| one["id"] == device["id"]).unwrap();
            let desktop = if self.asked.request.machine.gpus[at].shows_desktop() { DESKTOP } else { 0 };
            left(device) - i64::try_from(driver(device)[1] + self.first_prompt(device) + desktop).unwrap()
        };
        let device = used.min_by_key(spare).unwrap();
        (device["id"].as_str().unwrap().to_owned(), spare(&device), device)
    }
}

fn changed(asked: &Asked, change: &Change) -> plimsoll::engine::PlanRequest {
    let mut machine = (*asked.request.machine).clone();
    let mut settings = asked.request.settings.clone();
    change.apply(&mut settings, &mut machine);
    asked.request.with(settings).on_machine(machine)
}

/// What stands in the places `{}` of `form` in `text`, if it has that form.
fn read<'a>(form: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut parts = form.split("{}");
    let mut rest = text.strip_prefix(parts.next()?)?;
    let mut found = Vec::new();
    for part in parts {
        let end = if part.is_empty() { rest.len() } else { rest.find(part)? };
        found.push(&rest[..end]);
        rest = &rest[end + part.len()..];
    }
    rest.is_empty().then_some(found)
}

/// Sentences, without their full stops.
fn sentences(text: &str) -> Vec<&str> {
    text.trim().trim_end_matches('.').split(". ").map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether a sentence states a figure; names of types, devices and versions are none.
fn has_figure(sentence: &str) -> bool {
    let mut words = sentence.split(|c: char| c.is_ascii_whitespace() || "(),;:".contains(c));
    words.any(|word| word.starts_with(|c: char| c.is_ascii_digit()))
}

/// Words of a sentence; groups of digits are one.
fn words(sentence: &str) -> usize {
    sentence.split_ascii_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

/// What is read from a sentence, and the plan that it is of, give what should stand in it.
type Expected = fn(&Case, &[&str]) -> Vec<String>;

/// Each form of a sentence of the verdict that has figures, and what its places hold.
const FORMS: &[(&str, Expected)] = &[
    ("{} of {} layers is in RAM", |case, _| case.layers().into()),
    ("{} of {} layers are in RAM", |case, _| case.layers().into()),
    ("{} of {} layers is in RAM, with {} of other layers' weights", with_parts),
    ("{} of {} layers are in RAM, with {} of other layers' weights", with_parts),
    ("all {} layers are in RAM", |case, _| vec![case.layers()[1].clone()]),
    ("no GPU, so all {} layers are in RAM and use {} of the {} free", |case, _| {
        let cpu = case.cpu();
        let used = int(&cpu["weights"]) - int(&cpu["read_once"]) + int(&cpu["cache"]) + int(&cpu["graph"]);
        vec![case.layers()[1].clone(), difference(used), bytes(&cpu["free"])]
    }),
    ("{} of weights and {} of cache run from RAM", |case, _| {
        vec![bytes(&case.json["parts_in_ram"]), bytes(&case.cpu()["cache"])]
    }),
    ("{} of weights run from RAM", |case, _| vec![bytes(&case.json["parts_in_ram"])]),
    ("{} of cache run from RAM", |case, _| vec![bytes(&case.cpu()["cache"])]),
    ("{} has only {} above the {} kept free", above_kept),
    ("{} has {} above the {} kept free", above_kept),
    ("{} has only {} of headroom", |case, found| {
        vec![found[0].to_owned(), difference(int(&case.gpu(found[0])["headroom"]))]
    }),
    ("{} has {} of headroom", |case, found| {
        vec![found[0].to_owned(), difference(int(&case.gpu(found[0])["headroom"]))]
    }),
    ("{} lacks {} of the {} kept free", |case, found| {
        let gpu = case.gpu(found[0]);
        vec![found[0].to_owned(), difference(-int(&gpu["headroom"])), bytes(&gpu["reserved"])]
    }),
    ("{} needs {} more than is free", |case, found| vec![found[0].to_owned(), difference(-left(case.gpu(found[0])))]),
    ("{} has {} left, {} too little for {}", |case, found| {
        let gpu = case.gpu(found[0]);
        let lacking = i64::try_from(driver(gpu)[1]).unwrap() - left(gpu);
        let id = gpu["id"].as_str().unwrap();
        vec![found[0].to_owned(), difference(left(gpu)), difference(lacking), case.driver_name(id)]
    }),
    ("RAM holds all but {} of {} of mapped weights", |case, _| {
        let ram = case.plan().ram();
        vec![(ram.asked - ram.free).to_string(), ram.mapped.to_string()]
    }),
    ("RAM lacks {} of the {} needed", |case, _| {
        let ram = case.plan().ram();
        vec![(ram.asked - ram.free - ram.swap_free).to_string(), ram.asked.to_string()]
    }),
    ("RAM lacks {} of the {} needed, {}'s share included", |case, _| {
        let (ram, pool) = (case.plan().ram(), &case.json["pools"][0]);
        let gpus = pool["devices"].as_array().unwrap().split_last().unwrap().1;
        let gpus: Vec<&str> = gpus.iter().filter_map(Value::as_str).collect();
        let lacking = int(&pool["asked"]) - int(&pool["free"]) - int(&pool["swap_free"]);
        assert_eq!(Bytes(lacking.unsigned_abs()), ram.asked - ram.free - ram.swap_free);
        vec![difference(lacking), bytes(&pool["asked"]), gpus.join(" and ")]
    }),
    ("{} needs {} but has {} free", |case, found| {
        let gpu = case.gpu(found[0]);
        let asked = int(&gpu["weights"]) + int(&gpu["cache"]) + int(&gpu["graph"]);
        let growth = case.plan().devices.iter().find(|device| device.id == found[0]).unwrap().growth;
        vec![found[0].to_owned(), difference(asked + i64::try_from(growth.0).unwrap()), bytes(&gpu["free"])]
    }),
    ("{} has {} left for {}'s {} ({}): {}", |case, found| {
        let gpu = case.device(found[0]);
        let driver = span(driver(gpu));
        let left = difference(left(gpu).max(0));
        vec![found[0].into(), left, case.driver_name(found[0]), driver, case.known(found[0]), found[5].into()]
    }),
    ("The first prompt may take up to {} more for {} ({}); {} has {} left", |case, found| {
        let gpu = case.device(found[3]);
        let more = Bytes(case.first_prompt(gpu)).to_string();
        let left = difference(left(gpu).max(0));
        vec![more, case.driver_name(found[3]), case.known(found[3]), found[3].into(), left]
    }),
    ("{} takes {} ({}): {}", |case, found| {
        let gpu = case.plan().tightest_gpu().unwrap().0.id.clone();
        vec![case.driver_name(&gpu), span(driver(case.device(&gpu))), case.known(&gpu), found[3].into()]
    }),
    ("With that target {} stay free on {}", |case, _| {
        let then = case.after_first();
        let (gpu, spare, _) = then.least_spare();
        vec![difference(spare), gpu]
    }),
    ("With that target {} stay free", |case, _| vec![difference(case.after_first().least_spare().1)]),
    ("Beside that {} has {} and {} at the first prompt ({})", |case, found| {
        let then = case.after_first();
        let (gpu, _, device) = then.least_spare();
        let first = Bytes(then.first_prompt(device)).to_string();
        vec![then.driver_name(&gpu), span(driver(device)), first, how_known(&then, &gpu, found[3])]
    }),
    ("Beside that its desktop has {} (assumed)", |_, _| vec![Bytes(DESKTOP).to_string()]),
    ("Beside that {} has {} ({})", |case, found| {
        let then = case.after_first();
        let (gpu, _, device) = then.least_spare();
        vec![then.driver_name(&gpu), span(driver(device)), how_known(&then, &gpu, found[2])]
    }),
    ("Parts of {} layers ({}) are on a different GPU from the rest of the layer", elsewhere),
    ("Parts of {} layer ({}) are on a different GPU from the rest of the layer", elsewhere),
    ("RAM is full: {} of {} stay free", |case, _| {
        vec![case.plan().ram().left().left().to_string(), bytes(&case.cpu()["total"])]
    }),
    ("RAM is full: {} of {} stay free, less than the {} for the system (--keep-ram)", |case, _| {
        let ram = case.plan().ram();
        vec![ram.left().left().to_string(), bytes(&case.cpu()["total"]), ram.kept.to_string()]
    }),
    ("RAM is full: {} of {} stay free, {} of it for the system (--keep-ram)", |case, _| {
        let ram = case.plan().ram();
        vec![ram.left().left().to_string(), bytes(&case.cpu()["total"]), ram.kept.to_string()]
    }),
    ("It runs without pipeline parallelism: {}, prompts slower", |case, found| vec![without_pipeline(case, found[0])]),
    ("That is already without pipeline parallelism: {}, prompts slower", |case, found| {
        vec![without_pipeline(case, found[0])]
    }),
    ("The model was trained for {} tokens: {}", |case, found| {
        vec![case.tokens("/model/context_train"), found[1].to_owned()]
    }),
    ("Prompts are read at {}", |case, _| {
        let speeds = case.asked.speeds.as_ref().unwrap();
        vec![speed(&serde_json::to_value(speeds.prompt.as_ref().unwrap().range()).unwrap())]
    }),
    // the verdict in one piece
    ("It writes {}, ≈ {} at full context{}", |case, found| {
        let speeds = case.asked.speeds.as_ref().unwrap();
        let shown = |speed_of: &Speed| speed(&serde_json::to_value(speed_of).unwrap());
        let full = shown(&speeds.full).replacen("≈ ", "", 1).replace(" tok/s", "");
        vec![shown(&speeds.start), full, found[2].to_owned()]
    }),
    ("It writes {}", |case, found| {
        let start = speed(&serde_json::to_value(&case.asked.speeds.as_ref().unwrap().start).unwrap());
        let assumed = found[0].strip_prefix(&start).unwrap_or_else(|| panic!("{start}: {found:?}"));
        assert!(assumed.is_empty() || assumed.ends_with(" assumed)"), "{found:?}");
        vec![start + assumed]
    }),
    ("A context of up to {}, the model's training context, {}", |case, found| {
        let most = case.asked.limits.vram.context.max(case.asked.limits.all_layers.context).unwrap();
        assert_eq!(case.tokens("/model/context_train"), found[0]);
        vec![Tokens(most).to_string(), found[1].to_owned()]
    }),
    ("A context of up to {} stays in VRAM", |case, _| {
        vec![Tokens(case.asked.limits.vram.context.unwrap()).to_string()]
    }),
    ("A context of up to {} keeps enough free", |case, _| {
        vec![Tokens(case.asked.limits.vram.context.unwrap()).to_string()]
    }),
    ("A context of up to {} keeps all layers on GPU", |case, _| {
        vec![Tokens(case.asked.limits.all_layers.context.unwrap()).to_string()]
    }),
    ("A context of {} fits", |case, _| vec![Tokens(case.asked.limits.context_in_all.unwrap()).to_string()]),
];

fn with_parts(case: &Case, _: &[&str]) -> Vec<String> {
    let [in_ram, all] = case.layers();
    vec![in_ram, all, case.plan().cpu().ram.run_in_part.to_string()]
}

fn above_kept(case: &Case, found: &[&str]) -> Vec<String> {
    let gpu = case.gpu(found[0]);
    vec![found[0].to_owned(), difference(int(&gpu["headroom"])), bytes(&gpu["reserved"])]
}

fn elsewhere(case: &Case, _: &[&str]) -> Vec<String> {
    let parts: Vec<Bytes> = case.plan().layers.iter().map(LayerPlan::elsewhere).collect();
    let count = parts.iter().filter(|bytes| **bytes > Bytes::ZERO).count();
    vec![count.to_string(), parts.into_iter().sum::<Bytes>().to_string()]
}

fn how_known(case: &Case, gpu: &str, said: &str) -> String {
    let known = case.known(gpu);
    if known == "assumed" && said.starts_with("assumed; ") { said.to_owned() } else { known }
}

/// Each size without a pipeline is one of a device's compute buffers.
fn without_pipeline(case: &Case, said: &str) -> String {
    for size in said.split(", ") {
        let (now, _) = size.split_once(" instead of ").unwrap();
        let model = &case.json["parts"][0]["devices"];
        let graphs = model.as_array().unwrap().iter().map(|device| bytes(&device["graph"]));
        assert!(graphs.clone().any(|graph| graph == now), "{now} is none of {:?}", graphs.collect::<Vec<_>>());
    }
    said.to_owned()
}

/// What a verdict holds for, and the rest of its first sentence.
fn held_for<'a>(case: &Case, sentence: &'a str) -> &'a str {
    let heads: [(&str, Expected); 3] = [
        ("At {} tokens, {} KV, {} sequences of {} tokens each: {}", |case, found| {
            let each = case.tokens("/settings/ctx_per_sequence");
            vec![
                case.tokens("/settings/ctx"),
                found[1].into(),
                case.tokens("/settings/parallel"),
                each,
                found[4].into(),
            ]
        }),
        ("At {} tokens, {} KV, {} sequences sharing {} tokens: {}", |case, found| {
            let all = case.tokens("/settings/ctx_total");
            vec![case.tokens("/settings/ctx"), found[1].into(), case.tokens("/settings/parallel"), all, found[4].into()]
        }),
        ("At {} tokens, {} KV: {}", |case, found| {
            assert_eq!(case.tokens("/settings/parallel"), "1", "{found:?}");
            vec![case.tokens("/settings/ctx"), found[1].into(), found[2].into()]
        }),
    ];
    for (form, expected) in heads {
        if let Some(found) = read(form, sentence) {
            assert_eq!(found, expected(case, &found), "{sentence}");
            return found.last().unwrap();
        }
    }
    panic!("of which plan is '{sentence}'?")
}

/// Reads the figures of a sentence, and adds it to those that are `wrong` where they are others; whether it has any.
fn check(case: &Case, sentence: &str, wrong: &mut Vec<String>) -> bool {
    if !has_figure(sentence) {
        return false;
    }
    let forms = FORMS.iter().filter_map(|(form, expected)| Some((form, expected, read(form, sentence)?)));
    // of forms that fit, the one with the most places
    let Some((form, expected, found)) = forms.max_by_key(|(form, ..)| form.len()) else {
        let refusal = case.plan().refusal.as_deref().unwrap_or_default();
        if !refusal.contains(sentence) {
            wrong.push(format!("nothing here reads '{sentence}'"));
        }
        return false;
    };
    compare(form, sentence, &found, &expected(case, &found), wrong);
    true
}

fn compare(form: &str, sentence: &str, found: &[&str], expected: &[String], wrong: &mut Vec<String>) {
    if found != expected {
        wrong.push(format!("{form}: '{sentence}' should have {expected:?}"));
    }
}

#[test]
fn figures_in_sentences_are_the_plans() {
    let (mut read, mut wrong) = (0, Vec::new());
    for asked in &*ASKED {
        let Asked { plan, limits, speeds, .. } = asked;
        let case = Case::of(asked);
        let state = glance::state(plan);
        let (first, others) = state.trim_end_matches('.').split_once(". ").unwrap_or((state.trim_end_matches('.'), ""));
        read += usize::from(check(&case, held_for(&case, first), &mut wrong));
        let besides = glance::besides(plan, Some(limits), speeds.as_ref());
        let whole = verdict::sentence(plan, None, speeds.as_ref());
        for sentence in sentences(others).into_iter().chain(sentences(&besides)).chain(sentences(&whole)) {
            read += usize::from(check(&case, sentence, &mut wrong));
        }
    }
    assert!(wrong.is_empty(), "{} of {read}: {wrong:#?}", wrong.len());
    assert!(read > 1000, "{read}");
}

#[test]
fn figures_in_rows_of_changes_are_those_of_the_plans_with_them() {
    let mut read = 0;
    for asked in &*ASKED {
        for (way, row) in asked.limits.remedies.iter().zip(plimsoll::answer::glance::ways(&asked.plan, &asked.limits)) {
            let then = changed(asked, &way.change);
            let plan = then.plan().unwrap();
            let now = &asked.plan.settings;
            if let Change::Context(tokens) = way.change {
                assert!(row.options.ends_with(&format!("--ctx {tokens}")), "{row:?}");
                let fewer = now.ctx - tokens;
                assert_eq!(row.costs, format!("{} tokens less", Tokens(fewer)));
            }
            if let Change::Parallel(to) = way.change {
                assert_eq!(row.costs, format!("{to} at once instead of {}", now.parallel));
            }
            let brings = plan.outcome().headline().to_lowercase();
            assert!(row.brings == "enough headroom" || row.brings.to_lowercase() == brings, "{row:?} {brings}");
            let fast = Speed::of(&then.model, &then.machine, &plan, 0)
                .map(|found| speed(&serde_json::to_value(found).unwrap()));
            let shown = row.speed.map(|range| range.to_string());
            assert_eq!(shown, fast, "{row:?}");
            read += 1;
        }
    }
    assert!(read > 50, "{read}");
}

/// Each form of a note that has figures, and what its places hold.
const NOTES: &[(&str, Expected)] = &[
    ("{} layers have weights on another device{}", |case, found| vec![elsewhere(case, &[]).remove(0), found[1].into()]),
    ("1 layer has weights on another device{}", |case, found| {
        assert_eq!(elsewhere(case, &[])[0], "1", "{found:?}");
        vec![found[0].into()]
    }),
    ("context lowered to {}, {}", |case, found| vec![case.tokens("/settings/ctx"), found[1].into()]),
    ("parallel lowered to {}: {}", |case, found| vec![case.tokens("/settings/parallel"), found[1].into()]),
    ("batch {}: Ollama raises it for a context of {} tokens{}", |case, found| {
        let batch = case.json["settings"]["batch"].to_string();
        vec![batch, case.tokens("/settings/ctx_total"), found[2].into()]
    }),
    ("batch {} instead of the {} that Ollama prefers for a context of {} tokens: {}", |case, found| {
        let batch = case.json["settings"]["batch"].to_string();
        vec![batch, found[1].into(), case.tokens("/settings/ctx_total"), found[3].into()]
    }),
    (
        "unified KV is off, as parallel is given: each of {} sequences has {} tokens; with --kv-unified each may use all {}",
        |case, _| {
            let [sequences, each] = ["/settings/parallel", "/settings/ctx_per_sequence"].map(|key| case.tokens(key));
            vec![sequences, each, case.tokens("/settings/ctx_total")]
        },
    ),
    ("1 of {} GPUs: Ollama expects to need {}, within 80 % of the {} of {}, and uses that one alone", |case, found| {
        let gpus = case.asked.request.machine.gpus.len().to_string();
        let index: usize = found[3].trim_start_matches("GPU").parse().unwrap();
        let free = case.asked.request.machine.gpus[index].free.to_string();
        vec![gpus, found[1].into(), free, found[3].into()]
    }),
    ("{} of weights in RAM are repacked for the CPU {}", |case, found| {
        vec![bytes(&case.cpu()["repacked"]), found[1].into()]
    }),
    ("the projector's buffers grow from {} to {} with {}", |case, found| {
        let part = case.json["parts"].as_array().unwrap().iter().find(|part| part["name"] == "vision").unwrap();
        let most = |key: &str| {
            let sizes = part["devices"].as_array().unwrap().iter().map(|device| device[key].as_u64().unwrap());
            Bytes(sizes.max().unwrap()).to_string()
        };
        vec![most("graph"), most("graph_ready"), found[2].into()]
    }),
];

/// Sizes in a text: `1.8 GiB`.
fn sizes(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|c: char| c.is_ascii_whitespace() || "(),;:".contains(c)).collect();
    let pairs = words.windows(2).filter(|pair| ["GiB", "MiB", "KiB"].contains(&pair[1]));
    pairs.filter(|pair| pair[0].starts_with(|c: char| c.is_ascii_digit())).map(|pair| pair.join(" ")).collect()
}

/// Every size that a JSON value has, as it is written.
fn all_sizes(value: &Value, into: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Number(number) => drop(number.as_i64().map(|size| into.insert(Bytes(size.unsigned_abs()).to_string()))),
        Value::Array(values) => values.iter().for_each(|value| all_sizes(value, into)),
        Value::Object(fields) => fields.values().for_each(|value| all_sizes(value, into)),
        _ => {}
    }
}

/// What a note says of the plan, and each other size in it, is a figure of the plan, of its machine, of what Ollama asks for and
/// expects, or the engine's own constant.
#[test]
fn figures_in_notes_are_the_plans() {
    let (mut read_here, mut wrong, mut unknown) = (0, Vec::new(), Vec::new());
    for asked in &*ASKED {
        let case = Case::of(asked);
        let mut known = std::collections::BTreeSet::from(["1 GiB", "8 GiB"].map(str::to_owned));
        all_sizes(&case.json, &mut known);
        let machine = asked.request.machine.gpus.iter().flat_map(|gpu| [gpu.free, gpu.total]);
        known.extend(machine.chain([asked.plan.ram().total, asked.plan.ram().free]).map(|size| size.to_string()));
        for sentence in asked.plan.notes.iter().flat_map(|note| sentences(note)) {
            let forms = NOTES.iter().filter_map(|(form, expected)| Some((form, expected, read(form, sentence)?)));
            if let Some((form, expected, found)) = forms.max_by_key(|(form, ..)| form.len()) {
                compare(form, sentence, &found, &expected(&case, &found), &mut wrong);
                read_here += 1;
                continue;
            }
            let expects = sentence.contains("Ollama expects") || sentence.starts_with("Ollama asks for");
            unknown.extend(
                sizes(sentence)
                    .into_iter()
                    .filter(|size| !expects && !known.contains(size))
                    .map(|size| format!("{size}: {sentence}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{} of {read_here}: {wrong:#?}", wrong.len());
    assert!(read_here > 50, "{read_here}");
    unknown.sort();
    unknown.dedup();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn a_sentence_with_a_figure_is_short() {
    let mut long = Vec::new();
    for Asked { plan, limits, speeds, .. } in &*ASKED {
        let (state, whole) = (glance::state(plan), verdict::sentence(plan, Some(limits), speeds.as_ref()));
        let besides = glance::besides(plan, Some(limits), speeds.as_ref());
        let all = [state.as_str(), &whole, &besides].into_iter().chain(plan.notes.iter().map(String::as_str));
        for sentence in all.flat_map(sentences).filter(|sentence| has_figure(sentence)) {
            if words(sentence) > WORDS {
                long.push(format!("{} words: {sentence}", words(sentence)));
            }
        }
    }
    long.sort();
    long.dedup();
    assert!(long.is_empty(), "{} sentences: {long:#?}", long.len());
}
