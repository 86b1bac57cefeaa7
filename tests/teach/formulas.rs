//! The page of formulas: they evaluate to the plan's figures, and plans change at the crossovers.

use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::engine::{self, EngineId};
use plimsoll::machine::{Machine, Origin, Os, Ram};
use plimsoll::plan::{GraphSize, GraphUse, Plan, Symbol};
use plimsoll::settings::knob::Knob;
use plimsoll::settings::{CacheType, Context, FlashAttn, GpuLayers, Settings};
use plimsoll::teach::formulas::{Amount, FormulaNode, FormulasPage, NodeRole};
use plimsoll::units::Bytes;
use proptest::prelude::*;
use proptest::sample::select;

use crate::harness;
use crate::laws::{any_model, machine, models};

const CLASSIC: [EngineId; 2] = [EngineId::Ollama024, EngineId::Ollama011];

fn page(
    engine: EngineId,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
) -> Option<(Plan, FormulasPage)> {
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().ok()?;
    let page = FormulasPage::of(&request, &plan, None).unwrap();
    Some((plan, page))
}

fn no_gpu() -> Machine {
    let ram = Ram { total: Bytes::gib(512), free: Bytes::gib(512), swap_free: Bytes::ZERO, bandwidth: None };
    Machine {
        disk: None,
        os: Os::Linux,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: Vec::new(),
        ram,
        origin: Origin::Described,
        drivers: plimsoll::machine::Drivers::default(),
    }
}

fn part<'n>(node: &'n FormulaNode, at: usize, name: &str) -> &'n FormulaNode {
    let part = &node.parts[at];
    assert!(part.name.contains(name), "{} is not {name}", part.name);
    part
}

fn settings() -> impl Strategy<Value = Settings> {
    let kv = select(vec![CacheType::F16, CacheType::Q8_0, CacheType::Q4_0]);
    let flash = select(vec![FlashAttn::Auto, FlashAttn::On, FlashAttn::Off]);
    (256..200_000_u64, 1..8_u64, 32..2048_u64, kv, flash).prop_map(|(ctx, parallel, batch, kv, flash_attn)| Settings {
        ctx: Context::Tokens(ctx),
        parallel: Some(parallel),
        batch: Some(batch),
        cache_type_k: Some(kv),
        cache_type_v: Some(kv),
        flash_attn,
        ..Settings::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Weights, caches and graphs equal the plan's, and so do the sums of their parts.
    #[test]
    fn figures_equal_the_plans(
        engine in select(EngineId::ALL.to_vec()), model in any_model(), machine in machine(), settings in settings(),
    ) {
        let Some((plan, page)) = page(engine, model, &machine, &settings) else { return Ok(()) };
        prop_assert_eq!(page.whole.bytes(), plan.totals.all);
        let (weights, caches, graphs) =
            (part(&page.whole, 0, "weights"), part(&page.whole, 1, "caches"), &page.whole.parts[2]);
        prop_assert_eq!(
            (weights.bytes(), caches.bytes(), graphs.bytes()),
            (plan.totals.weights, plan.totals.cache, plan.totals.graph)
        );
        for sum in [&page.whole, weights, caches] {
            prop_assert_eq!(sum.parts.iter().map(FormulaNode::bytes).sum::<Bytes>(), sum.bytes(), "{}", sum.name);
        }
        for group in &weights.parts {
            prop_assert_eq!(group.parts.iter().map(FormulaNode::bytes).sum::<Bytes>(), group.bytes(), "{}", group.name);
        }
        if CLASSIC.contains(&engine) {
            let used = if plan.graph.used == GraphUse::Full { &plan.graph.full } else { &plan.graph.partial };
            prop_assert_eq!(graphs.parts[0].role, NodeRole::Wins);
            same_terms(&graphs.parts[0], used)?;
        } else {
            prop_assert_eq!(graphs.parts.iter().map(FormulaNode::bytes).sum::<Bytes>(), plan.totals.graph);
        }
    }
}

/// llama.cpp lays out the caches before it finds out that flash attention has to be off.
#[test]
fn caches_keep_their_layout_when_flash_attention_is_turned_off() {
    let machine = crate::harness::machine(1, "card", 80, 512);
    let settings = Settings { ctx: Context::Tokens(8192), gpu_layers: GpuLayers::Count(5), ..Settings::default() };
    let pages = models().iter().filter_map(|model| page(EngineId::LlamaCpp, model, &machine, &settings));
    let mut turned_off = pages.filter(|(plan, _)| plan.settings.flash_attn == FlashAttn::Off).peekable();
    assert!(turned_off.peek().is_some(), "some model's attention is elsewhere than its block");
    for (plan, page) in turned_off {
        let caches = part(&page.whole, 1, "caches");
        assert_eq!(
            caches.parts.iter().map(FormulaNode::bytes).sum::<Bytes>(),
            plan.totals.cache,
            "{}",
            plan.model.name
        );
    }
}

/// The winning branch has the plan's terms.
fn same_terms(node: &FormulaNode, size: &GraphSize) -> Result<(), TestCaseError> {
    prop_assert_eq!(node.bytes(), size.bytes);
    let winner = node.parts.iter().find(|part| part.role == NodeRole::Wins && size.branches.len() > 1).unwrap_or(node);
    let mut shown: Vec<Bytes> = winner.parts.iter().map(FormulaNode::bytes).collect();
    shown.sort_unstable_by(|a, b| b.cmp(a));
    let terms: Vec<Bytes> = size.terms().iter().map(|term| term.bytes).collect();
    prop_assert_eq!(shown, terms);
    Ok(())
}

#[test]
fn formulas_evaluate_to_their_results() {
    let settings = Settings {
        ctx: Context::Tokens(8192),
        parallel: Some(2),
        flash_attn: FlashAttn::On,
        cache_type_k: Some(CacheType::Q4_0),
        cache_type_v: Some(CacheType::Q4_0),
        ..Settings::default()
    };
    let cases = models().iter().flat_map(|model| CLASSIC.map(|engine| (engine, model)));
    let checked: usize = cases.map(|(engine, model)| evaluated(engine, model, &settings)).sum();
    assert!(checked > 1000, "{checked}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn formulas_evaluate_to_their_results_with_any_knobs(
        engine in select(&CLASSIC[..]), model in any_model(), settings in settings(),
    ) {
        evaluated(engine, model, &settings);
    }
}

/// Evaluates every graph's formula on the page and returns their number.
fn evaluated(engine: EngineId, model: &PreparedModel, settings: &Settings) -> usize {
    let Some((_, page)) = page(engine, model, &no_gpu(), settings) else { return 0 };
    // negative head counts wrap to huge numbers; such formulas are skipped
    let sane = |symbol: &Symbol| symbol.value.parse::<f64>().is_ok_and(|value| value < 1e12);
    if !page.legend.iter().filter(|symbol| symbol.letter != "H_kv,i").all(sane) {
        return 0;
    }
    let graphs = page.whole.parts[2].parts.iter().filter(|graph| !graph.parts.is_empty());
    graphs.map(|graph| evaluate_all(graph, &page.legend)).sum()
}

/// Evaluates `node` and its parts and returns the number of formulas.
fn evaluate_all(node: &FormulaNode, legend: &[Symbol]) -> usize {
    let expected = match node.amount {
        Amount::Bytes(Bytes(bytes)) => bytes as f64,
        Amount::Number(number) => number as f64,
        Amount::Fraction(number) => number,
    };
    for text in [&node.formula, &node.numbers] {
        let found = Evaluator { rest: text, legend }.sum();
        assert!((found.floor() - expected.floor()).abs() < 0.5, "{}: {text} is {found}, not {expected}", node.name);
    }
    1 + node.parts.iter().map(|part| evaluate_all(part, legend)).sum::<usize>()
}

/// Evaluates a formula as written: numbers and letters, `+ − · /`, brackets and `max`; quotients are truncated.
struct Evaluator<'a> {
    rest: &'a str,
    legend: &'a [Symbol],
}

impl Evaluator<'_> {
    fn takes(&mut self, what: &str) -> bool {
        let rest = self.rest.trim_start();
        let taken = rest.strip_prefix(what);
        self.rest = taken.unwrap_or(rest);
        taken.is_some()
    }

    fn sum(&mut self) -> f64 {
        let mut sum = self.product();
        loop {
            if self.takes("+") {
                sum += self.product();
            } else if self.takes("−") {
                sum -= self.product();
            } else {
                return sum;
            }
        }
    }

    fn product(&mut self) -> f64 {
        let mut product = self.factor();
        loop {
            if self.takes("·") {
                product *= self.factor();
            } else if self.takes("/") {
                product = (product / self.factor()).floor();
            } else {
                return product;
            }
        }
    }

    fn factor(&mut self) -> f64 {
        if self.takes("max(") {
            let mut largest = self.sum();
            while self.takes(",") {
                largest = largest.max(self.sum());
            }
            assert!(self.takes(")"));
            return largest;
        }
        if self.takes("(") {
            let inner = self.sum();
            assert!(self.takes(")"));
            return inner;
        }
        let rest = self.rest.trim_start();
        let symbol = self.legend.iter().filter(|symbol| rest.starts_with(symbol.letter));
        if let Some(symbol) = symbol.max_by_key(|symbol| symbol.letter.len()) {
            self.rest = &rest[symbol.letter.len()..];
            return symbol.value.parse().unwrap();
        }
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        self.rest = after;
        number.parse().unwrap_or_else(|_| panic!("'{rest}' begins with no number"))
    }
}

/// The plan's winning branch changes exactly at the crossover.
#[test]
fn plans_change_at_the_crossovers() {
    let settings = Settings { ctx: Context::Tokens(4096), ..Settings::default() };
    let (machine, mut turned) = (no_gpu(), 0);
    for model in models() {
        for engine in CLASSIC {
            let Some((plan, page)) = page(engine, model, &machine, &settings) else { continue };
            for (contest, size) in page.contests.iter().filter_map(|contest| {
                let size: fn(&Plan) -> &GraphSize = match contest.name.as_str() {
                    "compute buffer, some layers in RAM" => |plan| &plan.graph.partial,
                    "compute buffer, all layers on GPU" => |plan| &plan.graph.full,
                    _ => return None,
                };
                Some((contest, size))
            }) {
                assert_eq!(contest.winner, size(&plan).winner);
                for along in &contest.along {
                    let winner_at = |value: u64| {
                        let mut turned = settings.clone();
                        along.knob.set(&mut turned, value);
                        let plan = engine::plan(engine, model, &machine, &turned).unwrap();
                        (plan.settings.ctx, size(&plan).winner, size(&plan).branches[size(&plan).winner].bytes)
                    };
                    for crossing in &along.crossings {
                        let (_, before, _) = winner_at(crossing.at - 1);
                        let (ctx, after, bytes) = winner_at(crossing.at);
                        assert!(along.knob != Knob::Context || ctx == crossing.at);
                        assert_ne!(before, after, "{} {:?} {}", model.name, along.knob, contest.name);
                        assert_eq!((after, bytes), (crossing.winner, Bytes(crossing.size)));
                        turned += 1;
                    }
                }
            }
        }
    }
    assert!(turned > 50, "{turned}");
}

/// The words of a cache's formula stand for its numbers, and these make its bytes; what a token adds is the same on both
/// sides of a longer context.
#[test]
fn the_formula_of_a_cache_is_its_bytes() {
    for (model, kv) in [
        ("llama3.1-8b", CacheType::F16),
        ("llama3.1-8b", CacheType::Q8_0),
        ("gemma3-4b", CacheType::F16),
        ("gpt-oss-20b", CacheType::F16),
        ("qwen3-coder-next", CacheType::Q4_0),
        ("mamba-2.8b", CacheType::F16),
    ] {
        let prepared: PreparedModel = harness::model(model).into();
        let at = |ctx: u64| {
            let settings = Settings { cache_type_k: Some(kv), cache_type_v: Some(kv), ..super::settings_of(ctx) };
            let machine = harness::machine(1, "RTX 3090", 24, 64);
            PlanRequest::new(EngineId::LlamaCpp, prepared.clone(), machine, settings).plan().unwrap()
        };
        let (plan, longer) = (at(8192), at(8192 + 1024));
        let sum: u64 = plan.cache_formulas().iter().map(|(count, term)| *count as u64 * term.bytes.0).sum();
        assert_eq!(Bytes(sum), plan.totals.cache, "{model}");
        for (_, term) in plan.cache_formulas() {
            let numbers = computed(&term.numbers);
            assert!((numbers - term.bytes.0 as f64).abs() < 0.5, "{model}: {} is {numbers}", term.numbers);
        }
        let grown = longer.totals.cache - plan.totals.cache;
        assert_eq!(plan.cache_per_token().unwrap_or_default(), Bytes(grown.0 / 1024), "{model}");
    }
}

/// The value of sums of products with brackets and divisions.
fn computed(text: &str) -> f64 {
    fn sum(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> f64 {
        let mut all = product(text);
        while text.next_if_eq(&'+').is_some() {
            all += product(text);
        }
        all
    }
    fn product(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> f64 {
        let mut all = factor(text);
        while let Some(sign) = text.next_if(|sign| ['×', '/'].contains(sign)) {
            all = if sign == '×' { all * factor(text) } else { all / factor(text) };
        }
        all
    }
    fn factor(text: &mut std::iter::Peekable<std::str::Chars<'_>>) -> f64 {
        if text.next_if_eq(&'(').is_some() {
            let inside = sum(text);
            assert_eq!(text.next(), Some(')'));
            return inside;
        }
        let mut digits = String::new();
        while let Some(digit) = text.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().unwrap()
    }
    let plain: String = text.chars().filter(|sign| !sign.is_whitespace()).collect();
    sum(&mut plain.chars().peekable())
}
