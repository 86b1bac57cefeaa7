//! Compares Ollama's decisions for one request with a line.

use plimsoll::engine::{self, EngineId, RequestParts, ServerStart};
use plimsoll::observed::ollama_ps;
use plimsoll::settings::OllamaVersion;
use plimsoll::units::Bytes;
use serde_json::{Value as Json, json};

use super::line::{Line, Models};

/// What differs.
#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
pub struct Difference {
    pub field: &'static str,
    pub expected: String,
    pub got: String,
}

#[derive(Default)]
pub struct Differences(pub Vec<Difference>);

impl Differences {
    #[allow(clippy::needless_pass_by_value, reason = "written in place with json!")]
    pub fn field(&mut self, field: &'static str, expected: &Json, got: Json) {
        if *expected != got {
            self.0.push(Difference { field, expected: expected.to_string(), got: got.to_string() });
        }
    }
}

pub fn differences(line: &Line, models: &mut Models) -> Vec<Difference> {
    let mut all = Differences::default();
    let answer = &line.answer["loads"][0];
    let request = &line.question["loads"][0];
    let name = request["model"].as_str().unwrap();
    let model = models.of(name);
    let failures = usize::try_from(request["fail"].as_u64().unwrap_or(0)).unwrap();
    let starts = line.settings(0).and_then(|settings| {
        let starts = engine::running_llama_cpp(EngineId::Ollama)
            .unwrap()
            .starts(RequestParts { model, machine: &line.machine, settings: &settings }, failures);
        starts.map_err(|error| error.to_string())
    });
    let starts = match starts {
        Ok(starts) => starts.unwrap(),
        Err(error) => {
            all.field("error", &answer["error"], json!(error));
            return all.0;
        }
    };
    let devices = starts.devices.iter().map(|device| {
        json!({"gpu": device.gpu, "library": device.library, "integrated": device.integrated, "total": device.total.0,
            "free": device.free.0, "libdir": device.folder.filter(|folder| folder.starts_with("cuda"))})
    });
    let mut expected = line.answer["devices"].clone();
    for device in expected.as_array_mut().unwrap() {
        let device = device.as_object_mut().unwrap();
        device.remove("compute");
        device.entry("libdir").or_insert(Json::Null);
    }
    all.field("devices", &expected, devices.collect());
    all.field("total_vram", &line.answer["total_vram"], json!(starts.total_vram));
    all.field("default_ctx", &line.answer["default_ctx"], json!(starts.default_ctx));
    let error = if starts.loaded { Json::Null } else { json!("out of memory") };
    all.field("error", &answer["error"], error);
    let each = answer["starts"].as_array().unwrap();
    all.field("starts", &json!(each.len()), json!(starts.starts.len()));
    for (expected, got) in each.iter().zip(&starts.starts) {
        all.field("args", &expected["args"], json!(got.command.args));
        all.field("env", &expected["env"], json!(got.command.env));
        all.field("sees", &expected["sees"], json!(got.command.sees));
    }
    if starts.loaded {
        decisions(&mut all, answer, starts.starts.last().unwrap());
        reported(&mut all, line, model.file_bytes, starts.starts.last().unwrap());
    }
    all.0
}

pub fn decisions(all: &mut Differences, answer: &Json, start: &ServerStart) {
    all.field("num_ctx", &answer["num_ctx"], json!(start.num_ctx));
    all.field("parallel", &answer["parallel"], json!(start.parallel));
    // none is sent
    let batch = answer["num_batch"].as_i64().map_or(0, |batch| batch.max(0));
    all.field("num_batch", &json!(batch), json!(start.num_batch));
    all.field("ctx_auto", &answer["ctx_auto"], json!(start.ctx_auto));
    all.field("batch_auto", &answer["batch_auto"], json!(start.batch_auto));
    all.field("mmap_auto_off", &answer["mmap_auto_off"], json!(start.mmap_auto_off));
    all.field("predicted", &answer["predicted"], json!(start.predicted));
    if !answer["available"].is_null() {
        all.field("available", &answer["available"], json!(start.available));
    }
    all.field("gpus", &answer["gpus"], json!(start.gpus));
}

/// What `ollama ps` shows of a log.
fn reported(all: &mut Differences, line: &Line, file: Bytes, start: &ServerStart) {
    let (request, answer) = (&line.question["loads"][0], &line.answer["loads"][0]);
    let Some(report) = request["report"].as_array() else { return };
    let text: Vec<&str> = report.iter().map(|words| words.as_str().unwrap()).collect();
    let once = line.version >= OllamaVersion { minor: 30, patch: 11 };
    let ps = ollama_ps(&text.join("\n"), file, once);
    let got = json!({"size": ps.size.0, "size_vram": ps.vram.0, "processor": ps.processor_column(),
        "context": start.num_ctx});
    all.field("ps", &answer["ps"], got);
}
