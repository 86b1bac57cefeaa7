//! Plans and answers as pictures in SVG; coordinates are in pixels from the upper left corner.

use std::fmt::Write;

use textwrap::{Options, WordSplitter};

use crate::answer::sweep::{DeviceSums, Matrix, PlanFigures, Sweep};
use crate::answer::verdict;
use crate::export::Caption;
use crate::page::palette::{Hue, Tone, sign};
use crate::page::svg;
use crate::plan::{DevicePlan, Outcome, Plan};
use crate::settings::knob::Knob;
use crate::speed::SpeedRange;
use crate::units::{Bytes, Tokens};

/// Left edge and full width of the bars.
const BARS_LEFT: f64 = MARGIN + 150.0;
const BARS_WIDTH: f64 = WIDTH - BARS_LEFT - MARGIN - 230.0;

/// The picture of a plan: one bar per device, one column per layer, and the verdict.
pub fn plan(plan: &Plan, caption: &Caption) -> String {
    let mut canvas = SvgCanvas::new();
    let effect = &plan.settings;
    let knobs = format!(
        "{} · context {}{} · cache {}/{} · flash attention {} · batch {}",
        plan.source(),
        Tokens(effect.ctx),
        verdict::context_of_each(effect).map_or_else(String::new, |each| format!(", {each}")),
        effect.cache_type_k,
        effect.cache_type_v,
        effect.flash_attn,
        effect.batch
    );
    canvas.heading(&model_line(plan), &knobs);
    for (at, device) in plan.devices.iter().enumerate() {
        bar(&mut canvas, device, plan.lent_to_gpus(at), plan.is_over(at));
    }
    canvas.y += 4.0;
    layers(&mut canvas, plan);
    let words: Vec<_> = PARTS
        .into_iter()
        .chain(plan.layers.iter().any(|layer| layer.elsewhere() > Bytes::ZERO).then_some((Hue::Dim, "elsewhere")))
        .chain([(Hue::Reserved, "kept free"), (Hue::InUse, "in use"), (Hue::Over, "over")])
        .collect();
    canvas.legend(&words);
    canvas.sentence(&format!("{}: {}", verdict::headline(plan), verdict::sentence(plan, None, None)));
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}

/// The memory that a device needs, compared with what it has.
fn bar(canvas: &mut SvgCanvas, device: &DevicePlan, lent: Bytes, is_over: bool) {
    let top = canvas.y;
    canvas.text(MARGIN, top + 12.0, 14, Anchor::Start, Hue::Text, &device.id);
    canvas.text(MARGIN, top + 29.0, 12, Anchor::Start, Hue::Dim, &shortened(&device.name));
    let available = device.total + device.ram.swap_free;
    let parts = [
        (device.weights, Hue::Weights),
        (device.cache, Hue::Cache),
        (device.graph, Hue::Graph),
        (lent, Hue::Part),
        (device.reserved(), Hue::Reserved),
        (device.in_use(), Hue::InUse),
    ];
    let asked: Bytes = parts.iter().map(|(bytes, _)| *bytes).sum();
    let scale = asked.max(available);
    let length = |bytes: Bytes| bytes.share_of(scale).0 * BARS_WIDTH;
    canvas.rect(BARS_LEFT, top, length(available), 26.0, Hue::Ground);
    let mut x = BARS_LEFT;
    for (bytes, hue) in parts {
        canvas.rect(x, top, length(bytes), 26.0, hue);
        x += length(bytes);
    }
    let end = BARS_LEFT + length(available);
    if asked > available {
        canvas.rect(end, top, x - end, 26.0, Hue::Over);
    }
    let hue = if is_over { Hue::Over } else { Hue::Text };
    canvas.line((end, top - 3.0), (end, top + 29.0), hue, false);
    let of = format!("{} of {} used", device.taken() + lent, device.total);
    canvas.text(WIDTH - MARGIN, top + 17.0, 13, Anchor::End, hue, &of);
    canvas.y += 44.0;
}

/// One column per layer, as high as its weights and cache, with its device below.
fn layers(canvas: &mut SvgCanvas, plan: &Plan) {
    const HIGH: f64 = 70.0;
    let most = plan.layers.iter().map(|layer| layer.weights + layer.cache).max().unwrap_or(Bytes::ZERO);
    let wide = (WIDTH - 2.0 * MARGIN) / plan.layers.len().max(1) as f64;
    let gap = if wide > 3.0 { 1.0 } else { 0.0 };
    let floor = canvas.y + HIGH;
    for (at, layer) in plan.layers.iter().enumerate() {
        let x = MARGIN + at as f64 * wide;
        let high = |bytes: Bytes| bytes.share_of(most).0 * HIGH;
        let (weights, cache) = (high(layer.weights), high(layer.cache));
        canvas.rect(x, floor - weights, wide - gap, weights, Hue::Weights);
        canvas.rect(x, floor - weights, wide - gap, high(layer.elsewhere()), Hue::Dim);
        canvas.rect(x, floor - weights - cache, wide - gap, cache, Hue::Cache);
    }
    let mut from = 0;
    for run in plan.layers.chunk_by(|a, b| a.device == b.device) {
        let (begin, end) = (MARGIN + from as f64 * wide, MARGIN + (from + run.len()) as f64 * wide);
        canvas.line((begin + 1.0, floor + 5.0), (end - 1.0, floor + 5.0), Hue::Dim, false);
        let id = run.first().and_then(|layer| plan.devices.get(layer.device)).map_or("", |device| &device.id);
        if end - begin > 8.0 * id.len() as f64 {
            canvas.text(f64::midpoint(begin, end), floor + 20.0, 12, Anchor::Middle, Hue::Dim, id);
        }
        from += run.len();
    }
    canvas.y = floor + 34.0;
}

fn shortened(name: &str) -> String {
    const LETTERS: usize = 22;
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}

/// Edges of a sweep's charts, and the heights of a device's and of the chart of speeds.
const LEFT: f64 = MARGIN + 84.0;
const RIGHT: f64 = WIDTH - MARGIN - 10.0;
const HIGH: f64 = 150.0;
const SPEEDS_HIGH: f64 = 80.0;

/// What the engine keeps free.
const KEPT_FREE: (Hue, &str) = (Hue::Reserved, "kept free");

/// The picture of `sweep`: a stacked area chart per device, with a line at its free memory; `plan` is the plan with the current settings.
pub fn sweep(plan: &Plan, sweep: &Sweep, caption: &Caption) -> String {
    let mut canvas = SvgCanvas::new();
    canvas.heading(&model_line(plan), &format!("memory by {} · {}", sweep.knob.title(), plan.source()));
    let planned: Vec<(f64, &PlanFigures)> = sweep
        .points
        .iter()
        .filter_map(|point| Some((across(sweep, point.value), point.figures.as_ref().ok()?)))
        .collect();
    let devices = planned.first().map_or(0, |(_, figures)| figures.devices.len());
    for device in 0..devices {
        chart(&mut canvas, sweep, &planned, device);
    }
    speeds(&mut canvas, sweep, &planned);
    let words = [KEPT_FREE, (Hue::Over, "free memory"), (Hue::Dim, "threshold")];
    canvas.legend(&PARTS.into_iter().chain(words).collect::<Vec<_>>());
    let refused = sweep.points.len() - planned.len();
    if refused > 0 {
        canvas.sentence(&format!("The engine refuses {refused} of {} values.", sweep.points.len()));
    }
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}

/// The horizontal position of `value`; logarithmic for knobs with a wide range.
fn across(sweep: &Sweep, value: u64) -> f64 {
    let (Some(first), Some(last)) = (sweep.points.first(), sweep.points.last()) else { return LEFT };
    let place = |value: u64| if logarithmic(sweep.knob) { (value.max(1) as f64).log2() } else { value as f64 };
    let whole = place(last.value) - place(first.value);
    let share = if whole > 0.0 { (place(value) - place(first.value)) / whole } else { 0.5 };
    LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
}

const fn logarithmic(knob: Knob) -> bool {
    !matches!(knob, Knob::GpuLayers | Knob::CacheType | Knob::FlashAttn)
}

fn asked(device: &DeviceSums) -> Bytes {
    device.weights + device.cache + device.graph
}

fn chart(canvas: &mut SvgCanvas, sweep: &Sweep, planned: &[(f64, &PlanFigures)], at: usize) {
    let sums: Vec<(f64, &DeviceSums)> =
        planned.iter().filter_map(|(x, figures)| Some((*x, figures.devices.get(at)?))).collect();
    let Some((_, first)) = sums.first() else { return };
    let top = canvas.y + 6.0;
    let floor = top + HIGH;
    let most = sums.iter().map(|(_, device)| asked(device)).max().unwrap_or(Bytes::ZERO);
    // include the line of free memory unless it is far above the rest
    let highest = if first.free.0 / 3 > most.0 { most } else { most.max(first.free) };
    let scale = Bytes((highest.0 as f64 * 1.06) as u64 + 1);
    let high = |bytes: Bytes| floor - bytes.share_of(scale).0 * HIGH;

    canvas.rect(LEFT, top, RIGHT - LEFT, HIGH, Hue::Ground);
    let mut base: Vec<(f64, f64)> = sums.iter().map(|(x, _)| (*x, floor)).collect();
    let stacked: [fn(&DeviceSums) -> Bytes; 4] =
        [|d| d.weights, |d| d.weights + d.cache, asked, |d| asked(d) + d.reserved.min(d.free - asked(d))];
    for ((hue, _), part) in PARTS.into_iter().chain([KEPT_FREE]).zip(stacked) {
        let line: Vec<(f64, f64)> = sums.iter().map(|(x, device)| (*x, high(part(device)))).collect();
        canvas.area(&line, &base, hue);
        base = line;
    }
    for (nth, threshold) in sweep.thresholds.iter().enumerate() {
        let x = across(sweep, threshold.last);
        // full height for the first threshold and for changes of other knobs; layers lost one by one get ticks
        let marked = nth == 0 || !threshold.jumps.is_empty();
        canvas.line((x, top), (x, if marked { floor } else { top + 8.0 }), Hue::Dim, marked);
    }
    if first.free <= scale {
        canvas.line((LEFT, high(first.free)), (RIGHT, high(first.free)), Hue::Over, false);
    }
    canvas.text(MARGIN - 8.0, top + HIGH / 2.0, 14, Anchor::Start, Hue::Text, &first.id);
    canvas.text(LEFT - 8.0, high(highest) + 5.0, 12, Anchor::End, Hue::Dim, &highest.to_string());
    canvas.text(LEFT - 8.0, floor, 12, Anchor::End, Hue::Dim, "0");
    labels(canvas, sweep, floor);
    canvas.y = floor + 36.0;
}

/// The values of the knob, as many as there is room for.
fn labels(canvas: &mut SvgCanvas, sweep: &Sweep, floor: f64) {
    let mut free = 0.0;
    for point in &sweep.points {
        let (x, text) = (across(sweep, point.value), sweep.knob.show(point.value));
        let half = text.chars().count() as f64 * 3.6;
        let is_edge =
            sweep.thresholds.iter().any(|threshold| point.value == threshold.last || point.value == threshold.first);
        if x - half >= free && !is_edge {
            canvas.text(x, floor + 18.0, 12, Anchor::Middle, Hue::Dim, &text);
            free = x + half + 8.0;
        }
    }
}

/// The speed with a full cache, as a band from low to high with a line in the middle.
fn speeds(canvas: &mut SvgCanvas, sweep: &Sweep, planned: &[(f64, &PlanFigures)]) {
    let known: Vec<(f64, SpeedRange)> =
        planned.iter().filter_map(|(x, figures)| Some((*x, figures.speed_at_full_context?))).collect();
    let most = known.iter().map(|(_, range)| range.high).fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let (top, floor) = (canvas.y + 6.0, canvas.y + 6.0 + SPEEDS_HIGH);
    let high = |speed: f64| floor - speed / (most * 1.06) * SPEEDS_HIGH;
    canvas.rect(LEFT, top, RIGHT - LEFT, SPEEDS_HIGH, Hue::Ground);
    let line = |of: fn(&SpeedRange) -> f64| known.iter().map(|(x, range)| (*x, high(of(range)))).collect::<Vec<_>>();
    canvas.area(&line(|range| range.high), &line(|range| range.low), Hue::InUse);
    for pair in line(|range| range.tokens_per_second).windows(2) {
        canvas.line(pair[0], pair[1], Hue::Text, false);
    }
    canvas.text(MARGIN - 8.0, top + SPEEDS_HIGH / 2.0, 14, Anchor::Start, Hue::Text, "tok/s");
    canvas.text(MARGIN - 8.0, top + SPEEDS_HIGH / 2.0 + 16.0, 11, Anchor::Start, Hue::Dim, "context full,");
    canvas.text(MARGIN - 8.0, top + SPEEDS_HIGH / 2.0 + 29.0, 11, Anchor::Start, Hue::Dim, "modelled");
    canvas.text(LEFT - 8.0, high(most) + 5.0, 12, Anchor::End, Hue::Dim, &format!("{most:.0}"));
    labels(canvas, sweep, floor);
    canvas.y = floor + 36.0;
}

/// The picture of `matrix`; `plan` is the plan with the current settings.
pub fn matrix(plan: &Plan, matrix: &Matrix, caption: &Caption) -> String {
    const LEFT: f64 = MARGIN + 110.0;
    const HIGH: f64 = 30.0;
    let mut canvas = SvgCanvas::new();
    let (rows, columns) = (matrix.rows.shown(), matrix.columns.shown());
    canvas.heading(
        &model_line(plan),
        &format!("{} by {} · {}", matrix.rows.title(), matrix.columns.title(), plan.source()),
    );
    let wide = (WIDTH - MARGIN - LEFT) / columns.len().max(1) as f64;
    for (at, column) in columns.iter().enumerate() {
        canvas.text(LEFT + (at as f64 + 0.5) * wide, canvas.y + 12.0, 13, Anchor::Middle, Hue::Dim, column);
    }
    canvas.y += 22.0;
    for (row, name) in rows.iter().enumerate() {
        canvas.text(LEFT - 12.0, canvas.y + 19.0, 13, Anchor::End, Hue::Dim, name);
        for column in 0..columns.len() {
            let (hue, words) = match matrix.cell(row, column) {
                Some(Ok(figures)) => (Hue::of(figures.outcome), words(figures)),
                Some(Err(_)) => (Hue::Dim, "refused".to_owned()),
                None => continue,
            };
            let x = LEFT + column as f64 * wide;
            canvas.tint(x + 1.0, canvas.y + 1.0, wide - 2.0, HIGH - 2.0, hue);
            canvas.text(x + wide / 2.0, canvas.y + 19.0, 12, Anchor::Middle, Hue::Text, &words);
        }
        canvas.y += HIGH;
    }
    canvas.y += 10.0;
    canvas.caption(caption);
    canvas.finish(&model_line(plan))
}

fn words(figures: &PlanFigures) -> String {
    let unit =
        if figures.speed_at_full_context.is_some() && figures.outcome != Outcome::DoesNotFit { " tok/s" } else { "" };
    format!("{} {}{unit}", sign(figures.outcome).0, figures.cell())
}

/// The parts of a device's memory and their colours.
const PARTS: [(Hue, &str); 3] = [(Hue::Weights, "weights"), (Hue::Cache, "cache"), (Hue::Graph, "compute")];

/// `Llama 3.1 8B · Q4_K_M · 4.6 GiB`
fn model_line(plan: &Plan) -> String {
    let model = &plan.model;
    let parts = [Some(model.name.clone()), model.file_type.clone(), Some(model.bytes.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Width of every picture.
const WIDTH: f64 = 880.0;
/// Margin around the content.
const MARGIN: f64 = 28.0;

/// Pictures are for paper.
const TONE: Tone = Tone::Light;
/// The colour of the paper.
const PAPER: &str = "#ffffff";

/// The colour of `hue`, as on the planner's screen.
fn rgb(hue: Hue) -> String {
    svg::hex(hue.rgb(TONE))
}

/// Which point of a text its position refers to.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture filled from top to bottom.
struct SvgCanvas {
    shapes: String,
    /// Lower edge of what is drawn so far.
    y: f64,
}

impl SvgCanvas {
    const fn new() -> Self {
        Self { shapes: String::new(), y: MARGIN }
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, hue: Hue) {
        if width <= 0.0 || height <= 0.0 {
            return;
        }
        let (x, y, width, height) = (number(x), number(y), number(width), number(height));
        let fill = rgb(hue);
        // writing to a String cannot fail
        let _ = writeln!(self.shapes, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#);
    }

    /// A pale rectangle, for text on it.
    fn tint(&mut self, x: f64, y: f64, width: f64, height: f64, hue: Hue) {
        let (x, y, width, height, fill) = (number(x), number(y), number(width), number(height), rgb(hue));
        let place = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#);
        let _ = writeln!(self.shapes, r#"<rect {place} fill="{fill}" fill-opacity="0.3"/>"#);
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), hue: Hue, dashed: bool) {
        let (x1, y1, x2, y2, stroke) = (number(x1), number(y1), number(x2), number(y2), rgb(hue));
        let dashes = if dashed { r#" stroke-dasharray="5 4""# } else { "" };
        let _ = writeln!(self.shapes, r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{stroke}"{dashes}/>"#);
    }

    /// The area between `points` and `base`.
    fn area(&mut self, points: &[(f64, f64)], base: &[(f64, f64)], hue: Hue) {
        let path: Vec<String> =
            points.iter().chain(base.iter().rev()).map(|&(x, y)| format!("{} {}", number(x), number(y))).collect();
        if path.len() > 2 {
            let _ = writeln!(self.shapes, r#"<path d="M{}Z" fill="{}"/>"#, path.join("L"), rgb(hue));
        }
    }

    fn text(&mut self, x: f64, y: f64, size: u8, anchor: Anchor, hue: Hue, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (x, y, fill, text) = (number(x), number(y), rgb(hue), escaped(text));
        let _ =
            writeln!(self.shapes, r#"<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{anchor}>{text}</text>"#);
    }

    /// A heading with a line below it.
    fn heading(&mut self, heading: &str, below: &str) {
        self.text(MARGIN, self.y + 16.0, 20, Anchor::Start, Hue::Text, heading);
        self.text(MARGIN, self.y + 38.0, 13, Anchor::Start, Hue::Dim, below);
        self.y += 56.0;
    }

    /// A sentence, wrapped.
    fn sentence(&mut self, text: &str) {
        self.lines(text, 108, 14, 20.0, Hue::Text);
        self.y += 6.0;
    }

    /// What the picture is about, in small letters, wrapped.
    fn caption(&mut self, caption: &Caption) {
        self.lines(&caption.to_string(), 130, 11, 15.0, Hue::Dim);
    }

    /// Lines of at most so many letters of this size, one below the other.
    fn lines(&mut self, text: &str, columns: usize, size: u8, apart: f64, hue: Hue) {
        let options = Options::new(columns).break_words(false).word_splitter(WordSplitter::NoHyphenation);
        for line in textwrap::wrap(text, options) {
            self.text(MARGIN, self.y + f64::from(size), size, Anchor::Start, hue, &line);
            self.y += apart;
        }
    }

    /// A legend of the colours.
    fn legend(&mut self, words: &[(Hue, &str)]) {
        let mut x = MARGIN;
        for (hue, word) in words {
            self.rect(x, self.y + 3.0, 12.0, 12.0, *hue);
            self.text(x + 18.0, self.y + 13.5, 13, Anchor::Start, Hue::Dim, word);
            x += 40.0 + 7.4 * word.chars().count() as f64;
        }
        self.y += 26.0;
    }

    /// The complete SVG document.
    fn finish(self, title: &str) -> String {
        let height = number(self.y + MARGIN - 8.0);
        let (title, white, faint) = (escaped(title), PAPER, rgb(Hue::Ground));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif\">\n<title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"10\" fill=\"{white}\" stroke=\"{faint}\"/>\n{}</svg>\n",
            self.shapes
        )
    }
}

fn number(value: f64) -> String {
    let text = format!("{:.1}", if value.is_finite() { value } else { 0.0 });
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// `text` for XML.
fn escaped(text: &str) -> String {
    svg::escaped(text).replace('"', "&quot;")
}
