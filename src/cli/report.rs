//! A plan as text: the verdict, devices, layers, compute graph and notes.

mod bar;
pub(super) mod check;
mod devices;
mod graph;
mod layers;

use super::error::one_line;
use super::style::{Hue, NBSP, Style};
use crate::answer::compare::OtherRelease;
use crate::answer::{KnobLimits, verdict};
use crate::machine::Origin;
use crate::page::joined;
use crate::plan::Plan;
use crate::settings::FlashAttn;
use crate::speed::Speeds;
use crate::units::{Bytes, Tokens, parameters};

pub(super) use devices::cell;

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
    let plan = &sanitize(plan.clone());
    let mut out = headline(plan, limits, speeds, style);
    out.push('\n');
    out += &style.wrap("", &model(plan));
    out += &style.wrap("", &settings(plan));
    if plan.origin == Origin::Described {
        out += &style.wrap("", "planned for a simulated machine");
    }
    if let Some(ollama_ps) = plan.ollama_ps {
        let columns = format!("{} · {}", ollama_ps.size_column(), ollama_ps.processor_column());
        out += &style.wrap("", &format!("ollama ps shows: {}", no_break(&columns)));
    }
    // estimators decide with both graphs; the others measure the one in use
    let both = plan.estimate.is_some() || extent.detail == Detail::Verbose;
    let ram: String = extent.ram.iter().map(|sentence| style.wrap("", sentence)).collect();
    let devices = devices::section(plan, style) + &ram;
    for section in [devices, layers::section(plan, style), graph::section(plan, both, style)] {
        out.push('\n');
        out += &section;
    }
    if let Some(computers) = devices::computers(plan, style) {
        out.push('\n');
        out += &computers;
    }
    if !extent.releases.is_empty() {
        out.push('\n');
        out += &format!("{}\n", style.strong("Other releases of llama.cpp"));
        out.extend(extent.releases.iter().map(|neighbour| style.wrap("- ", &one_line(&neighbour.to_string()))));
    }
    if !plan.notes.is_empty() {
        out.push('\n');
        out += &format!("{}\n", style.strong("Notes"));
        out.extend(plan.notes.iter().map(|note| style.wrap("- ", note)));
        let reason = speeds.and_then(|speeds| speeds.start.reason.as_ref());
        out.extend(reason.map(|reason| style.wrap("- ", &format!("speed: {reason}"))));
    }
    out
}

/// Removes control characters from texts that come from files and drivers.
fn sanitize(mut plan: Plan) -> Plan {
    plan.model.name = one_line(&plan.model.name);
    plan.model.architecture = one_line(&plan.model.architecture);
    for device in &mut plan.devices {
        device.name = one_line(&device.name);
        device.computer = device.computer.take().map(|name| one_line(&name).into());
    }
    for text in plan.notes.iter_mut().chain(&mut plan.refusal) {
        *text = one_line(text);
    }
    plan
}

fn headline(plan: &Plan, limits: Option<&KnobLimits>, speeds: Option<&Speeds>, style: &Style) -> String {
    let word = plan.outcome().headline();
    let text = style.wrap("", &format!("{}: {}", verdict::headline(plan), verdict::sentence(plan, limits, speeds)));
    let rest = text.strip_prefix(word).unwrap_or_default();
    let mut out = format!("{}{rest}", style.strong(&style.paint(Hue::of(plan.outcome()), word)));
    // the verdict's sentence may be about memory while the engine refuses for another reason
    if let Some(refusal) = plan.refusal.as_ref().filter(|refusal| !text.replace('\n', " ").contains(refusal.as_str())) {
        out += &style.wrap("", &format!("{} refuses: {refusal}", plan.engine_title()));
    }
    out
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
    parts.push(match effect.flash_attn {
        FlashAttn::Auto => "flash attention auto".to_owned(),
        FlashAttn::On => "flash attention on".to_owned(),
        FlashAttn::Off => "flash attention off".to_owned(),
    });
    if effect.gpu_layers >= 0 {
        parts.push(format!("{} layers on GPU requested{}", effect.gpu_layers, by("gpu_layers")));
    }
    joined(parts)
}

/// `text` with non-breaking spaces.
fn no_break(text: &str) -> String {
    text.replace(' ', &NBSP.to_string())
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::style::BarGlyphs;
    use super::*;
    use crate::answer::sweep::Axis;
    use crate::engine::EngineId;
    use crate::engine::PlanRequest;
    use crate::machine::spec::MachineSpec;
    use crate::machine::{Machine, Os, Ram};
    use crate::page::answers;
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
        let model = crate::source::catalogue::model("qwen3-30b-a3b").unwrap();
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
            let sweep = request.sweep(Knob::Context, &[4096, 8192]);
            let (rows, columns) = (Axis::Knob(Knob::Context, vec![4096]), Axis::spread(Knob::CacheType, &request, 3));
            let matrix = request.matrix(rows, columns);
            let text = |style: &Style| {
                super::plan(&plan, None, None, &Extent { detail: Detail::Verbose, ram: &[], releases: &[] }, style)
                    + &style.page(&answers::sweep(&plan, &sweep))
                    + &style.page(&answers::matrix(&plan, &matrix))
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
