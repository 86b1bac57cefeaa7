//! What runs beside its plan, as bars with the names of what differs, and what it held over time.

use crate::answer::live::{Besides, LiveDevice, PartName};
use crate::observed::sample::{ProgramSample, Sample, Timeline};
use crate::page::chart::{Series, Stacks};
use crate::page::{Bar, Block, Hue, Page, Span};
use crate::text::one_line;
use crate::units::{Bytes, Tokens};

/// Widths of a bar's name, and of an amount.
const NAME: usize = 9;
const AMOUNT: usize = 11;
/// Rows of a chart, and cells left of it.
const ROWS: usize = 6;
const AXIS: usize = 12;

impl PartName {
    const fn title(self) -> &'static str {
        match self {
            Self::Weights => "weights",
            Self::Cache => "cache",
            Self::Graph => "compute",
        }
    }

    const fn texture(self) -> (&'static str, Hue) {
        match self {
            Self::Weights => ("█", Hue::Weights),
            Self::Cache => ("▓", Hue::Cache),
            Self::Graph => ("▒", Hue::Graph),
        }
    }
}

/// Adds the devices of a program: planned and observed as bars of one scale, and the names of what differs.
pub fn devices(devices: &[LiveDevice], bars: bool, page: &mut Page) {
    let most =
        devices.iter().map(|device| device.sum().max(device.observed.unwrap_or_default())).max().unwrap_or_default();
    for device in devices {
        let share = |bytes: Bytes| bytes.share_of(most).0;
        let free = (1.0, " ".to_owned(), Hue::Text);
        let planned = device.planned.iter().map(|part| {
            let (texture, hue) = part.part.texture();
            (share(part.bytes), texture.to_owned(), hue)
        });
        let parts: Vec<String> =
            device.planned.iter().map(|part| format!("{} {}", part.part.title(), part.bytes)).collect();
        let held = device.observed.unwrap_or_default();
        let observed = [
            (share(held.min(device.sum())), "━".to_owned(), Hue::Text),
            (share(held - device.sum()), "┅".to_owned(), Hue::InUse),
        ];
        let row = |name: &str, parts: Vec<(f64, String, Hue)>, amount: String| Bar {
            label: Span::new(&format!("  {name:<NAME$}"), Hue::Dim),
            parts: parts.into_iter().chain([free.clone()]).collect(),
            value: Span::new(&format!("{amount:>AMOUNT$}"), Hue::Text),
        };
        let amount = device.observed.map_or_else(|| "not told".to_owned(), |bytes| bytes.to_string());
        page.text(
            &format!(
                "{}: {}",
                device.device,
                if parts.is_empty() { "nothing planned".to_owned() } else { parts.join(", ") }
            ),
            Hue::Text,
        );
        if bars {
            let planned = row("planned", planned.collect(), device.sum().to_string());
            page.push(Block::Bars(vec![planned, row("observed", observed.to_vec(), amount)], usize::MAX));
        } else {
            page.text_indented(&format!("planned {}, observed {amount}", device.sum()), 2, Hue::Text);
        }
        for besides in &device.besides {
            page.item(&sentence("", besides));
        }
        if let Some(less) = &device.less {
            page.item(&sentence("less than planned by ", less));
        }
    }
}

fn sentence(before: &str, Besides { what, bytes, known }: &Besides) -> String {
    let known = known.as_ref().map_or_else(String::new, |known| format!(" ({known})"));
    format!("{before}{bytes}: {}{known}", what.title())
}

/// Adds what the program `pid` held on each of `devices` over time, in `cells` cells.
pub fn courses(
    timeline: &Timeline,
    pid: Option<u32>,
    devices: &[LiveDevice],
    cells: usize,
    textured: bool,
    page: &mut Page,
) {
    let first = timeline.samples().next().map_or(0.0, |sample| sample.time);
    for device in devices {
        let held = timeline.samples().map(|sample| {
            let program = sample.programs.iter().find(|program| program.pid == pid);
            (sample.time - first, program.and_then(|program| program.held(&device.device)).unwrap_or_default())
        });
        let held: Vec<(f64, Bytes)> = held.collect();
        let planned = device.sum();
        let most = held.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default().max(planned);
        if held.len() < 2 || most == Bytes::ZERO {
            continue;
        }
        let steps: Vec<[u64; 2]> = held.iter().map(|(_, now)| [now.0.min(planned.0), (*now - planned).0]).collect();
        let name = |at: usize| Some((at, clock(held.get(at)?.0)));
        let series = [
            Series { name: "up to the plan", sign: "█", hue: Hue::Weights },
            Series { name: "besides", sign: "▒", hue: Hue::InUse },
        ];
        page.text(
            &format!(
                "{} over {}, dotted up to the plan of {planned}",
                device.device,
                clock(held.last().map_or(0.0, |(at, _)| *at))
            ),
            Hue::Dim,
        );
        Stacks {
            series,
            steps: &steps,
            grown: &vec![planned.0; steps.len()],
            most,
            peak: None,
            cursor: None,
            step: "time",
            names: [0, held.len() / 2, held.len() - 1].into_iter().filter_map(name).collect(),
            textured,
        }
        .onto(page, cells, ROWS, AXIS);
    }
}

/// Seconds as minutes and seconds: `2:05`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// A program in a line: its process, its slots, and what it lists.
pub fn program(program: &ProgramSample) -> String {
    let mut facts = vec![match program.pid {
        Some(pid) => format!("{} (process {pid})", program.name),
        None => program.name.clone(),
    }];
    if let Some(served) = program.served.filter(|served| served.ready) {
        let slots = served.slots.zip(served.context);
        facts.extend(slots.map(|(slots, context)| format!("{slots} slots of {} tokens", Tokens(context))));
        facts.extend(served.busy.filter(|busy| *busy > 0).map(|busy| format!("{busy} at work")));
        facts.extend(served.prompt_tokens.map(|tokens| format!("{} tokens of prompts", Tokens(tokens))));
    }
    let listed = program.listed.iter();
    facts.extend(listed.map(|listed| format!("{}: {} ({} on GPUs)", listed.name, listed.size, listed.vram)));
    one_line(&facts.join(", ")).into_owned()
}

/// What a program holds, as a clause.
pub fn held(program: &ProgramSample) -> String {
    let gpus = program.gpus.iter().map(|held| format!("{} on {}", held.bytes, held.device));
    let ram = program.ram.map(|ram| format!("{} in RAM", ram.resident));
    let all: Vec<String> = gpus.chain(ram).collect();
    if all.is_empty() { "what it holds is not known".to_owned() } else { format!("it holds {}", all.join(", ")) }
}

/// Adds the devices of a sample, and what cannot be read.
pub fn machine(sample: &Sample, page: &mut Page) {
    for device in &sample.devices {
        let others = device.others.map_or_else(String::new, |bytes| format!(", {bytes} held by other programs"));
        let name = if device.name == device.id { String::new() } else { format!(" {}", device.name) };
        let line = format!("{}{name}: {} free of {}{others}", device.id, device.free, device.total);
        page.text(&one_line(&line), Hue::Text);
    }
    sample.unread.iter().for_each(|why| page.item(&one_line(why)));
}
