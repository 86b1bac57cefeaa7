//! A plan as text: the verdict, devices, layers, compute graph and notes.

use super::style::{BarGlyphs, Style};
use crate::answer::compare::OtherRelease;
use crate::answer::ubatch::LargerUbatch;
use crate::answer::verdict::capitalised;
use crate::answer::{KnobLimits, verdict};
use crate::machine::{DeviceKind, Origin, short_name};
use crate::page::{Block, Hue, Ink, Page, Span, joined};
use crate::plan::{
    Branch, DevicePlan, GraphPlan, GraphSize, GraphUse, LayerKind, LayerPlan, PartKind, PartMemory, Plan, Symbol, Term,
    Why,
};
use crate::question::glance;
use crate::speed::Speeds;
use crate::speed::turn::{Reuse, TurnTime};
use crate::units::{Bytes, Difference, Tokens, parameters};

/// How much a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// Of the compute graphs, those that the engine decides with.
    Usual,
    /// Both compute graphs.
    Verbose,
}

/// What a report on a plan says besides the plan.
pub(super) struct Extent<'a> {
    /// Which compute graphs.
    pub(super) detail: Detail,
    /// Sentences on RAM and on silent spills.
    pub(super) ram: &'a [String],
    /// What neighbouring releases would take, if asked.
    pub(super) releases: &'a [OtherRelease],
}

/// `plan` as text; `limits` are the limits of its knobs.
pub(super) fn plan(
    plan: &Plan,
    limits: Option<&KnobLimits>,
    speeds: Option<&Speeds>,
    extent: &Extent<'_>,
    style: &Style,
) -> String {
    let mut page = headline(plan, limits, speeds, style);
    page.blank();
    page.text(&model(plan), Hue::Text);
    page.text(&settings(plan), Hue::Text);
    if plan.origin == Origin::Described {
        page.text("planned for a simulated machine", Hue::Text);
    }
    if let Some(shown) = plan.ollama_ps {
        let columns = joined([format!("{} · {}", shown.size_column(), shown.processor_column())]);
        page.text(&format!("ollama ps shows: {columns}"), Hue::Text);
    }
    devices(plan, style, &mut page);
    extent.ram.iter().for_each(|sentence| page.text(sentence, Hue::Text));
    layers(plan, style, &mut page);
    // estimators decide with both graphs; the others measure the one in use
    graph(&plan.graph, plan.estimate.is_some() || extent.detail == Detail::Verbose, style, &mut page);
    computers(plan, &mut page);
    if !extent.releases.is_empty() {
        page.heading("Other releases of llama.cpp");
        extent.releases.iter().for_each(|neighbour| page.item(&neighbour.to_string()));
    }
    if !plan.notes.is_empty() {
        page.heading("Notes");
        plan.notes.iter().for_each(|note| page.item(note));
        if let Some(reason) = speeds.and_then(|speeds| speeds.start.reason.as_ref()) {
            page.item(&format!("speed: {reason}"));
        }
    }
    style.report(&page)
}

/// Sentences on prompts: the turn that was asked for, what a larger ubatch would do, and what is assumed or not known.
pub(super) fn prompts(
    speeds: Option<&Speeds>,
    turn: Option<&(Result<TurnTime, String>, Reuse)>,
    larger: Option<&LargerUbatch>,
) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some((time, reuse)) = turn {
        sentences.push(match time {
            Ok(time) => format!("Turn: {time}."),
            Err(why) => format!("How long a turn takes is not said: {why}."),
        });
        sentences.push(format!("Prompts again: {}.", reuse.reason));
    }
    match speeds.map(|speeds| &speeds.prompt) {
        Some(Ok(prompt)) => sentences.extend(prompt.reason.as_ref().map(|reason| format!("Prompts: {reason}."))),
        Some(Err(why)) if turn.is_none() => sentences.push(format!("How fast prompts are read is not said: {why}.")),
        _ => {}
    }
    sentences.extend(larger.map(|larger| format!("{}.", capitalised(&larger.to_string()))));
    sentences
}

fn headline(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>, style: &Style) -> Page {
    let mut page = glance::page(plan, limits, speeds, style.lines);
    // the figures may be about memory while the engine refuses for another reason
    let said = verdict::state(plan);
    if let Some(refusal) = plan.refusal.as_ref().filter(|refusal| !said.contains(refusal.trim_end_matches('.'))) {
        page.text(&format!("{} refuses: {refusal}", plan.engine_title()), Hue::Text);
    }
    page
}

fn model(plan: &Plan) -> String {
    let model = &plan.model;
    let mut parts = vec![model.name.clone(), model.architecture.clone()];
    parts.extend(model.file_type.clone());
    parts.push(format!("{} parameters", parameters(model.parameters)));
    parts.push(model.bytes.to_string());
    parts.push(format!("{} blocks", model.layers));
    joined(parts)
}

fn settings(plan: &Plan) -> String {
    let effect = &plan.settings;
    let mut parts = vec![plan.source()];
    let trained = plan.model.context_train.map(|most| format!(" of {}", Tokens(most))).unwrap_or_default();
    let by = |key: &str| effect.sources.get(key).map(|source| format!(" ({source})")).unwrap_or_default();
    parts.push(format!("context {}{trained}{}", Tokens(effect.ctx), by("ctx")));
    if effect.parallel > 1 {
        let each = verdict::context_of_each(effect).unwrap_or_default();
        let all = match effect.ctx_total {
            all if all == effect.ctx_per_sequence || all == effect.ctx => String::new(),
            all => format!(", {} in total", Tokens(all)),
        };
        parts.push(format!("{each}{}{all}", by("parallel")));
    }
    parts.push(format!("batch {}{}", effect.batch, by("batch")));
    parts.push(if effect.cache_type_k == effect.cache_type_v {
        format!("KV cache {}{}", effect.cache_type_k, by("cache_type_k"))
    } else {
        format!("K cache {}, V cache {}", effect.cache_type_k, effect.cache_type_v)
    });
    parts.push(format!("flash attention {}", effect.flash_attn));
    if effect.gpu_layers >= 0 {
        parts.push(format!("{} layers on GPU requested{}", effect.gpu_layers, by("gpu_layers")));
    }
    joined(parts)
}

/// An amount that fits its column: from about 1000 GiB up in larger units.
fn amount(bytes: Bytes) -> String {
    let gib = bytes.0 as f64 / Bytes::gib(1).0 as f64;
    let units = ["TiB", "PiB", "EiB"].into_iter().zip([1024.0, 1_048_576.0, 1_073_741_824.0]);
    let larger = units.take_while(|(_, size)| gib >= size * 0.976).last();
    match larger {
        Some((unit, size)) => format!("{:.1} {unit}", gib / size),
        None => bytes.to_string(),
    }
}

const COLUMNS: [&str; 6] = ["weights", "cache", "compute", "kept", "free", "headroom"];
/// Widths of the device column and of one amount.
const ID: usize = 6;
const AMOUNT: usize = 10;

/// The devices and the memory that each needs.
fn devices(plan: &Plan, style: &Style, page: &mut Page) {
    page.blank();
    if style.is_narrow() {
        list(plan, style, page);
    } else {
        table(plan, style, page);
    }
    if style.bars != BarGlyphs::None {
        legend(plan.ram().by_gpus > Bytes::ZERO, style, page);
    }
    shared(plan, page);
    drivers(plan, page);
}

/// RAM as one pool, where GPUs take memory of it.
fn shared(plan: &Plan, page: &mut Page) {
    let ram = plan.ram();
    let ids = plan.gpus_in_ram();
    if ids.is_empty() {
        return;
    }
    let (who, what) =
        if ids.len() == 1 { ("shares", "its memory is a budget") } else { ("share", "theirs are budgets") };
    let left =
        if ram.left().is_short() { format!("{} short", ram.left().lacking()) } else { format!("{} left", ram.left()) };
    let text = format!(
        "unified memory: {} {who} RAM, and {what} in it: {} of it for GPUs and {} for the CPU, of {} free; {left}",
        ids.join(", "),
        ram.by_gpus,
        ram.asked - ram.by_gpus,
        ram.free
    );
    page.text(&text, Hue::Text);
}

/// What drivers take besides on the GPUs with layers, which no column has; alike GPUs together.
fn drivers(plan: &Plan, page: &mut Page) {
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for gpu in plan.gpus().iter().filter(|gpu| !gpu.layers.is_empty()) {
        let Some(driver) = gpu.driver else { continue };
        let mut words = format!("{} {}", driver.backend.name(), driver.loaded);
        let growth = driver.first_prompt(plan.model.experts.is_some());
        if growth > Bytes::ZERO {
            words += &format!(", up to {growth} more at the first prompt");
        }
        if let Some(context) = driver.context {
            words += &format!(", {context}");
        }
        words += &format!(" ({})", driver.known_from());
        match lines.iter_mut().find(|(_, known)| *known == words) {
            Some((ids, _)) => ids.push(&gpu.id),
            None => lines.push((vec![&gpu.id], words)),
        }
    }
    for (ids, words) in lines {
        page.text(&format!("besides, not counted: {words} on {}", ids.join(", ")), Hue::Text);
    }
}

/// The devices with figures below their names, for narrow terminals.
fn list(plan: &Plan, style: &Style, page: &mut Page) {
    let indent = " ".repeat(ID);
    let facts = |of: &str, amounts: &[Bytes]| -> Vec<String> {
        COLUMNS.into_iter().zip(amounts).map(|(column, bytes)| format!("{of}{column} {}", amount(*bytes))).collect()
    };
    page.line(vec![Span::new("Devices", Hue::Text.bold())]);
    for (at, device) in plan.devices.iter().enumerate() {
        page.spans(&format!("{:<ID$}", device.id), vec![short_name(&device.label()).into()]);
        page.line(below(at, device, plan, style));
        let mut of = facts("", &[device.weights, device.cache, device.graph, kept(plan, device), device.free]);
        of.push(format!("headroom {}", signed(plan.headroom(at))));
        page.spans(&indent, vec![joined(of).into()]);
        for (part, memory) in parts(plan, at) {
            let own = facts(&format!("{} ", part.name()), &[memory.weights, memory.cache, memory.graph]);
            page.spans(&indent, vec![joined(own).into()]);
        }
    }
    let totals = plan.totals;
    let mut all = facts("", &[totals.weights, totals.cache, totals.graph]);
    all.push(format!("{} total", amount(totals.all)));
    page.spans("all   ", vec![joined(all).into()]);
}

fn table(plan: &Plan, style: &Style, page: &mut Page) {
    let name = style.width - ID - COLUMNS.len() * AMOUNT;
    let hues = [Hue::Weights, Hue::Cache, Hue::Graph, Hue::Reserved, Hue::Dim, Hue::Dim];
    let titles = COLUMNS.into_iter().zip(hues).map(|(title, hue)| Span::new(&format!("{title:>AMOUNT$}"), hue));
    let head = Span::new(&format!("{:<width$}", "Devices", width = ID + name), Hue::Text.bold());
    page.line([head].into_iter().chain(titles).collect());
    for (at, device) in plan.devices.iter().enumerate() {
        let head = format!("{:<ID$}{:<name$}", device.id, cell(short_name(&device.label()), name - 1));
        let amounts = [device.weights, device.cache, device.graph, kept(plan, device), device.free].map(column);
        let left = plan.headroom(at);
        let hue = if left.is_short() { Hue::Over } else { Hue::Text };
        let left = Span::new(&format!("{:>AMOUNT$}", signed(left)), hue);
        page.line(vec![(head + &amounts.concat()).into(), left]);
        page.line(below(at, device, plan, style));
        for (part, memory) in parts(plan, at) {
            let amounts = [memory.weights, memory.cache, memory.graph].map(column).concat();
            let row = format!("{:ID$}{:<name$}{amounts}", "", format!("  {}", part.name()));
            page.line(vec![Span::new(&row, Hue::Dim)]);
        }
    }
    let totals = plan.totals;
    let sums = [totals.weights, totals.cache, totals.graph].map(column).concat();
    page.line(vec![format!("{:<width$}{sums}   {} total", "all", amount(totals.all), width = ID + name).into()]);
}

/// What is kept free of a device: by the engine, and of RAM for the system.
fn kept(plan: &Plan, device: &DevicePlan) -> Bytes {
    let for_system = if device.kind == DeviceKind::Cpu { plan.ram().kept } else { Bytes::ZERO };
    device.reserved() + for_system
}

/// What each part of the plan takes on device `at`, if there are several parts.
fn parts(plan: &Plan, at: usize) -> Vec<(PartKind, PartMemory)> {
    let several = plan.parts.iter().filter(|_| plan.parts.len() > 1);
    several
        .filter_map(|part| Some((part.kind, *part.devices.get(at)?)))
        .filter(|(_, memory)| memory.asked() > Bytes::ZERO)
        .collect()
}

/// The share of each computer, if there are several.
fn computers(plan: &Plan, page: &mut Page) {
    let computers = plan.computers();
    if computers.len() < 2 {
        return;
    }
    page.heading("Machines");
    for computer in &computers {
        let layers = match computer.layers {
            1 => "1 layer".to_owned(),
            n => format!("{n} layers"),
        };
        let devices = computer.devices.join(", ");
        let (asked, free) = (amount(computer.asked), amount(computer.free));
        let lacking: Vec<String> = computer.lacking.iter().map(|(id, bytes)| format!("; {id} lacks {bytes}")).collect();
        let lacking = lacking.concat();
        let name = computer.display_name();
        page.text(&format!("{name} ({devices}): {layers}, {asked} used of {free} free{lacking}"), Hue::Text);
    }
}

/// The bar, if bars are drawn, and the layers on the device.
fn below(at: usize, device: &DevicePlan, plan: &Plan, style: &Style) -> Vec<Span> {
    let mut words = match device.layers.len() {
        0 => "no layers".to_owned(),
        1 => "1 layer".to_owned(),
        n => format!("{n} of {} layers", plan.layers.len()),
    };
    if device.ram.repacked > Bytes::ZERO {
        words += &format!(", {} of weights repacked", device.ram.repacked);
    }
    if device.ram.read_once > Bytes::ZERO {
        words += &format!(", {} of the mapped file read once", device.ram.read_once);
    }
    let lack = device.needed() + plan.lent_to_gpus(at) - device.free;
    if lack > Bytes::ZERO && device.kind == DeviceKind::Cpu && device.ram.swap_free > Bytes::ZERO {
        words += &format!(", {} in swap", lack.min(device.ram.swap_free));
    } else if device.in_use() > Bytes::ZERO {
        words += &format!(", {} in use", device.in_use());
    }
    let indent = Span::from(" ".repeat(ID));
    if style.bars == BarGlyphs::None {
        return vec![indent, words.into()];
    }
    let cells = style.lines.saturating_sub(ID + 2 + 34).max(8);
    let bar = bar(device, plan.lent_to_gpus(at), cells, style.bars);
    [indent].into_iter().chain(bar).chain([format!("  {words}").into()]).collect()
}

fn signed(bytes: Difference) -> String {
    let sign = if bytes.is_short() { "-" } else { "" };
    format!("{sign}{}", amount(bytes.left() + bytes.lacking()))
}

fn column(bytes: Bytes) -> String {
    let text = if bytes == Bytes::ZERO { "–".to_owned() } else { amount(bytes) };
    format!("{text:>AMOUNT$}")
}

/// `text` truncated to `width` columns with an ellipsis.
pub(super) fn cell(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A device's memory as one bar in `cells` columns: the plan's parts, free memory, memory in use, and a mark at the total,
/// past which a plan runs that needs more. `by_gpus` is what GPUs take of RAM, if it is RAM.
fn bar(device: &DevicePlan, by_gpus: Bytes, cells: usize, glyphs: BarGlyphs) -> Vec<Span> {
    let asked = device.needed() + by_gpus + device.reserved();
    let needed = asked + device.in_use();
    let whole = device.total.max(needed);
    let glyph = |unicode, plain| if glyphs == BarGlyphs::Ascii { plain } else { unicode };
    let mark = || Span::new(glyph("┃", "|"), Hue::Text.bold());
    let parts = [
        (device.weights - device.ram.read_once, glyph("█", "#"), Hue::Weights),
        (device.cache, glyph("▓", "="), Hue::Cache),
        (device.graph, glyph("▒", "+"), Hue::Graph),
        (by_gpus, glyph("▚", "%"), Hue::Part),
        (device.reserved(), glyph("░", ":"), Hue::Reserved),
        (device.total - needed, glyph("·", "."), Hue::Dim),
        (device.in_use(), glyph("╱", "/"), Hue::InUse),
    ];
    let cells = cells.saturating_sub(1);
    let column = |bytes: Bytes| (bytes.share_of(whole).0 * cells as f64).round() as usize;
    let end = column(device.total);
    let mut spans = Vec::new();
    let (mut sum, mut at) = (Bytes::ZERO, 0);
    for (bytes, glyph, hue) in parts {
        sum += bytes;
        let to = column(sum).min(cells);
        let filled = |cells: usize, hue: Hue| Span::new(&glyph.repeat(cells), hue);
        // parts beyond the mark are coloured as over
        if at <= end && end < to {
            spans.extend([filled(end - at, hue), mark(), filled(to - end, Hue::Over)]);
        } else {
            spans.push(filled(to - at, if at > end { Hue::Over } else { hue }));
        }
        at = to;
    }
    if end >= at {
        spans.extend([" ".repeat(end - at).into(), mark()]);
    }
    spans
}

/// The legend of the bars.
fn legend(shared: bool, style: &Style, page: &mut Page) {
    let mut words = vec![
        ('█', '#', "weights", Hue::Weights),
        ('▓', '=', "cache", Hue::Cache),
        ('▒', '+', "compute", Hue::Graph),
        ('░', ':', "kept", Hue::Reserved),
        ('·', '.', "free", Hue::Dim),
        ('╱', '/', "in use", Hue::InUse),
    ];
    if shared {
        words.insert(3, ('▚', '%', "GPU's", Hue::Part));
    }
    for some in words.chunks(if style.is_narrow() { 3 } else { words.len() }) {
        let mut spans = vec![Span::from(" ".repeat(ID))];
        for (at, (unicode, plain, word, hue)) in some.iter().enumerate() {
            let glyph = if style.bars == BarGlyphs::Ascii { plain } else { unicode };
            let gap = if at + 1 < some.len() { "  " } else { "" };
            spans.extend([Span::new(&glyph.to_string(), *hue), format!(" {word}{gap}").into()]);
        }
        page.line(spans);
    }
}

/// The layers, grouped by consecutive layers on one device.
fn layers(plan: &Plan, style: &Style, page: &mut Page) {
    let head = if style.is_narrow() {
        "Layers".to_owned()
    } else {
        format!("{:<12}{:<8}{:>22}{:>22}{:>12}", "Layers", "device", "weights each", "cache each", "total")
    };
    page.heading(&head);
    for run in plan.layers.chunk_by(|one, next| same_group(one, next, plan)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let numbers = if first.index == last.index {
            first.index.to_string()
        } else {
            format!("{}–{}", first.index, last.index)
        };
        let numbers = match plan.layer_kind(first.index) {
            LayerKind::Block => numbers,
            LayerKind::Nextn => format!("{numbers} NextN"),
            LayerKind::Output => format!("{numbers} output"),
        };
        let device = plan.devices.get(first.device).map_or("?", |device| device.id.as_str());
        let sum: Bytes = run.iter().map(|layer| layer.weights + layer.cache).sum();
        let weights = range(run.iter().map(|layer| layer.weights));
        let cache = range(run.iter().map(|layer| layer.cache));
        if style.is_narrow() {
            let each = if run.len() > 1 { " each" } else { "" };
            let place = format!("{device}, {} total", amount(sum));
            let facts = [place, format!("weights {weights}{each}"), format!("cache {cache}{each}")];
            page.spans(&format!("{numbers:<11} "), vec![joined(facts).into()]);
        } else {
            page.line(vec![format!("{numbers:<11} {device:<8}{weights:>22}{cache:>22}{:>12}", amount(sum)).into()]);
        }
        // layers are placed from last to first: explain the one with the least memory left
        let tight = if matches!(first.why, Why::NoRoom { .. }) { last } else { first };
        let why = tight.reason(&plan.devices);
        let one_of_many = matches!(tight.why, Why::Fits { .. } | Why::NoRoom { .. }) && run.len() > 1;
        let of = if one_of_many { format!("{}: ", capitalised(&plan.layer_name(tight.index))) } else { String::new() };
        page.text_indented(&format!("{of}{why}"), 12, Hue::Text);
    }
}

/// Same device, kind of layer and kind of reason.
fn same_group(one: &LayerPlan, next: &LayerPlan, plan: &Plan) -> bool {
    let why = std::mem::discriminant(&one.why) == std::mem::discriminant(&next.why);
    one.device == next.device && why && plan.layer_kind(one.index) == plan.layer_kind(next.index)
}

/// The smallest and largest amount, or one if they are equal.
fn range(amounts: impl Iterator<Item = Bytes> + Clone) -> String {
    let (Some(least), Some(most)) = (amounts.clone().min(), amounts.max()) else { return String::new() };
    if most == Bytes::ZERO {
        "–".to_owned()
    } else if amount(least) == amount(most) {
        amount(most)
    } else {
        format!("{} – {}", amount(least), amount(most))
    }
}

/// Widths of a term's name and of the bar of its share.
const NAME: usize = 32;
const GAUGE: usize = 8;
/// Minimum width for the bars.
const MIN_WIDTH_FOR_GAUGE: usize = 96;

/// The compute graph: its partial and full sizes, both if `both`, which is used and why, and the formulas term by term.
fn graph(graph: &GraphPlan, both: bool, style: &Style, page: &mut Page) {
    let shown = sizes(graph, both);
    page.heading("Compute buffer");
    for &(name, size, when) in &shown {
        let head = format!("  {name:<8}{:>10}", amount(size.bytes));
        if when == graph.used {
            page.spans(&format!("{head}   "), vec![format!("used: {}", graph.why).into()]);
        } else {
            page.line(vec![head.into()]);
        }
    }
    let (used, other): (Vec<_>, Vec<_>) = shown.into_iter().partition(|(_, _, when)| *when == graph.used);
    for (name, size, _) in used.into_iter().chain(other) {
        breakdown(name, size, style, page);
    }
    letters(graph, both, page);
}

/// The meaning of the letters in the formulas.
fn letters(graph: &GraphPlan, both: bool, page: &mut Page) {
    let winners = sizes(graph, both).into_iter().flat_map(|(_, size, _)| size.terms());
    let formulas: Vec<_> = winners.map(|term| term.formula.as_str()).collect();
    let occurs_in = |formula: &&str, letter: &str| {
        let mut words = formula.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        words.any(|word| word == letter) || letter.contains(',') && formula.contains(letter)
    };
    let is_used = |symbol: &&Symbol| formulas.iter().any(|formula| occurs_in(formula, symbol.letter));
    for (at, symbol) in graph.legend.iter().filter(is_used).enumerate() {
        if at == 0 {
            page.line(vec!["  where".into()]);
        }
        page.spans(&format!("    {:<8}{:>10}   ", symbol.letter, symbol.shown()), vec![symbol.meaning.into()]);
    }
}

fn sizes(graph: &GraphPlan, both: bool) -> Vec<(&'static str, &GraphSize, GraphUse)> {
    let sizes = [("partial", &graph.partial, GraphUse::Partial), ("full", &graph.full, GraphUse::Full)];
    sizes.into_iter().filter(|(_, _, when)| both || *when == graph.used).collect()
}

/// The largest branch with its terms, and the sizes of all branches.
fn breakdown(name: &str, size: &GraphSize, style: &Style, page: &mut Page) {
    let Some(winner) = size.branches.get(size.winner) else { return };
    let sizes = size.branches.iter().map(|branch| joined([format!("{} {}", branch.name, amount(branch.bytes))]));
    let title = match size.branches.len() {
        1 => format!("{name}: {}", winner.name),
        _ => format!("{name}: {}, the largest of {}", winner.name, sizes.collect::<Vec<_>>().join(", ")),
    };
    page.text_indented(&title, 2, Hue::Text);
    winner.terms.iter().for_each(|term| row(term, winner, style, page));
}

fn row(term: &Term, branch: &Branch, style: &Style, page: &mut Page) {
    let share = term.bytes.share_of(branch.bytes);
    let amounts = format!("{:>10}{:>7}", amount(term.bytes), share.to_string());
    let with_gauge = style.bars != BarGlyphs::None && style.width >= MIN_WIDTH_FOR_GAUGE;
    let below = if style.is_narrow() {
        let name = style.lines.saturating_sub(4 + 1 + 17).clamp(8, NAME);
        page.line(vec![format!("    {:<name$} {amounts}", cell(&term.name, name)).into()]);
        page.text_indented(&term.formula, 8, Hue::Text);
        "      = ".to_owned()
    } else {
        let space = style.width.saturating_sub(4 + NAME + 1 + 17 + if with_gauge { 1 + GAUGE } else { 0 });
        let fits = term.formula.chars().count() <= space;
        let (name, beside) = (cell(&term.name, NAME), if fits { term.formula.as_str() } else { "" });
        let mut spans = vec![Span::from(format!("    {name:<NAME$} {beside:<space$}{amounts}"))];
        spans.extend(gauge(share.0, style.bars).filter(|_| with_gauge));
        page.line(spans);
        if !fits {
            page.text_indented(&term.formula, 8, Hue::Text);
        }
        " ".repeat(4 + NAME + 1) + "= "
    };
    if term.numbers != term.formula && term.bytes > Bytes::ZERO {
        let ink = Ink::from(Hue::Dim);
        page.push(Block::Text { first: Span::new(&below, ink), spans: vec![Span::new(&term.numbers, ink)] });
    }
}

/// A share as a short bar.
fn gauge(share: f64, glyphs: BarGlyphs) -> Option<Span> {
    let glyph = if glyphs == BarGlyphs::Ascii { "#" } else { "█" };
    let cells = ((share * GAUGE as f64).round() as usize).min(GAUGE);
    (cells > 0).then(|| Span::new(&format!(" {}", glyph.repeat(cells)), Hue::Graph))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::answer::sweep::Axis;
    use crate::engine::EngineId;
    use crate::engine::PlanRequest;
    use crate::export::ModelSource;
    use crate::machine::spec::MachineSpec;
    use crate::machine::{Machine, Os, Ram};
    use crate::question::matrix::{MatrixRequest, Side};
    use crate::question::sweep::SweepRequest;
    use crate::question::{About, Question};
    use crate::settings::knob::Knob;
    use crate::settings::{Context, Settings};

    /// Numbers with their units.
    fn figures(text: &str) -> BTreeSet<String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words.windows(2).filter(|pair| ["KiB", "MiB", "GiB", "%"].contains(&pair[1].trim_end_matches(',')));
        pairs.map(|pair| format!("{} {}", pair[0], pair[1].trim_end_matches(','))).collect()
    }

    #[test]
    fn narrow_terminals_show_the_same_figures() {
        let model = crate::catalogue::model("qwen3-30b-a3b").unwrap();
        let gpus = ["RTX 3060".to_owned(), "name=a card with a name that goes on and on,total=4GiB".to_owned()];
        let machine = MachineSpec::read(&gpus, Some("64GiB")).unwrap();
        let machine = machine.complete(Machine {
            disk: None,
            os: Os::Linux,
            cpu: crate::machine::Cpu::default(),
            gpus: Vec::new(),
            ram: Ram { total: Bytes::ZERO, free: Bytes::ZERO, swap_free: Bytes::ZERO, bandwidth: None },
            origin: Origin::Described,
            drivers: crate::machine::Drivers::default(),
        });
        for (engine, ctx) in [(EngineId::Ollama024, 4096), (EngineId::LlamaCpp, 32_768)] {
            let settings = Settings { ctx: Context::Tokens(ctx), ..Settings::default() };
            let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings);
            let plan = request.plan().unwrap();
            let about = About { request: &request, plan: &plan, source: &ModelSource::UNKNOWN };
            let sweep = SweepRequest { knob: Knob::Context, values: vec![4096, 8192] };
            let along = sweep.answer(about).unwrap();
            let rows = Side::Given(Axis::Knob(Knob::Context, vec![4096]));
            let columns = Side::Given(Axis::spread(Knob::CacheType, &request, 3));
            let matrix = MatrixRequest { rows, columns };
            let over = matrix.answer(about).unwrap();
            let text = |style: &Style| {
                super::plan(&plan, None, None, &Extent { detail: Detail::Verbose, ram: &[], releases: &[] }, style)
                    + &style.page(&sweep.page(about, &along))
                    + &style.page(&matrix.page(about, &over))
            };
            let style = |lines: usize| Style { lines, bars: BarGlyphs::Unicode, ..Style::PLAIN };
            let wide = figures(&text(&style(80)));
            assert!(wide.len() > 20, "{wide:?}");
            for lines in [60, 68, 79] {
                let narrow = text(&style(lines));
                let long = narrow.lines().find(|line| line.chars().count() > lines);
                assert_eq!(long, None, "{narrow}");
                let lost: Vec<_> = wide.iter().filter(|figure| !figures(&narrow).contains(*figure)).collect();
                assert!(lost.is_empty(), "{lost:?}: {narrow}");
            }
        }
    }

    #[test]
    fn huge_amounts_stay_within_their_column() {
        for (bytes, text) in [
            (Bytes::ZERO, "0 MiB"),
            (Bytes::gib(999), "999.0 GiB"),
            (Bytes::gib(1000), "1.0 TiB"),
            (Bytes::gib(1 << 20), "1.0 PiB"),
            (Bytes(u64::MAX), "16.0 EiB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}

#[cfg(test)]
mod bar_tests {
    use super::*;
    use crate::machine::{Backend, DeviceKind};
    use crate::plan::Reserve;
    use proptest::prelude::*;

    fn device(total: u64, free: u64, [weights, cache, graph, reserved]: [u64; 4]) -> DevicePlan {
        DevicePlan {
            backend: Some(Backend::Cuda),
            own: Bytes(total),
            weights: Bytes(weights),
            cache: Bytes(cache),
            graph: Bytes(graph),
            reserves: vec![Reserve { name: "minimum memory", bytes: Bytes(reserved) }],
            ..DevicePlan::empty("GPU0", DeviceKind::Gpu, "a GPU", Bytes(total), Bytes(free))
        }
    }

    fn drawn(device: &DevicePlan, cells: usize) -> String {
        bar(device, Bytes::ZERO, cells, BarGlyphs::Unicode).into_iter().map(|span| span.text).collect()
    }

    #[test]
    fn a_bar_shows_every_part_and_the_total() {
        assert_eq!(drawn(&device(100, 90, [30, 20, 10, 10]), 21), "██████▓▓▓▓▒▒░░····╱╱┃");
    }

    #[test]
    fn overflow_runs_past_the_mark() {
        assert_eq!(drawn(&device(100, 100, [100, 100, 0, 0]), 21), "██████████┃▓▓▓▓▓▓▓▓▓▓");
        assert_eq!(drawn(&device(100, 100, [200, 0, 0, 0]), 21), "██████████┃██████████");
    }

    #[test]
    fn a_device_without_memory_is_only_a_mark() {
        assert_eq!(drawn(&device(0, 0, [0; 4]), 10), "┃");
    }

    proptest! {
        #[test]
        fn a_bar_has_the_requested_width(total in 1..u64::MAX / 2, free: u64, parts: [u64; 4], cells in 2..200usize) {
            let text = drawn(&device(total, free.min(total), parts), cells);
            prop_assert_eq!(text.chars().count(), cells, "{}", text);
            prop_assert_eq!(text.matches('┃').count(), 1);
        }
    }
}
