//! A line: machine, environment and requests of the question, and the answer.

use std::collections::BTreeMap;

use plimsoll::engine::PreparedModel;
use plimsoll::machine::{Backend, Drivers, Gpu, Listed, Machine, Origin, Os, Ram};
use plimsoll::model::{Model, Projector};
use plimsoll::settings::ollama::{DraftModel, Endpoint, apply_options, apply_variables};
use plimsoll::settings::{OllamaVersion, Settings, Source};
use plimsoll::units::Bytes;
use serde_json::Value as Json;

use crate::support;

/// A question and its answer.
pub struct Line {
    pub text: String,
    pub machine: Machine,
    pub question: Json,
    pub answer: Json,
    pub version: OllamaVersion,
}

/// The models by name, with the sizes of the files that were asked about.
#[derive(Default)]
pub struct Models {
    read: BTreeMap<String, PreparedModel>,
}

impl Models {
    pub fn of(&mut self, name: &str) -> &PreparedModel {
        let read = |name: &str| {
            let mut model = Model::from_header(support::model(name), name).unwrap();
            model.file_bytes = file_size(name);
            // Ollama names a model as it was asked for
            name.clone_into(&mut model.name);
            model.into()
        };
        self.read.entry(name.to_owned()).or_insert_with(|| read(name))
    }
}

fn file_size(name: &str) -> Bytes {
    let sizes: BTreeMap<String, u64> =
        serde_json::from_str(include_str!("../vectors/ollama-0.30/file_sizes.json")).unwrap();
    Bytes(*sizes.get(name).unwrap_or_else(|| panic!("no size of {name}")))
}

impl Line {
    pub fn read(text: &str, version: OllamaVersion) -> Self {
        let mut line: Json = serde_json::from_str(text).unwrap();
        let (question, answer) = (line["in"].take(), line["out"].take());
        Self { text: text.to_owned(), machine: machine(&question), question, answer, version }
    }

    /// The settings of the request at `place`, or Ollama's own refusal.
    pub fn settings(&self, place: usize) -> Result<Settings, String> {
        let request = &self.question["loads"][place];
        let mut settings = Settings::default();
        let env = self.question["env"].as_object().cloned().unwrap_or_default();
        let env: Vec<(String, String)> =
            env.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        settings.ollama.version = self.version;
        apply_variables(&mut settings, &env, true);
        settings.ollama.endpoint = if request["endpoint"] == "embed" { Endpoint::Embed } else { Endpoint::Generate };
        settings.ollama.shift = request["shift"].as_bool();
        settings.ollama.go_template = request["go_template"].as_bool().unwrap_or(false);
        if let Some(name) = request["projector"].as_str() {
            let bytes = support::model(name).tensors.iter().map(|tensor| tensor.bytes).sum();
            settings.projector = Projector::sized(bytes);
        }
        if let Some(name) = request["draft"].as_str() {
            let dflash = support::model(name)
                .metadata
                .get("general.architecture")
                .is_some_and(|of| of.as_str() == Some("dflash"));
            settings.ollama.draft = Some(if dflash { DraftModel::Dflash } else { DraftModel::Other });
        }
        settings.ollama.adapters = usize::from(request["adapter"].is_string());
        for (options, source) in [("modelfile", Source::Modelfile), ("options", Source::Request)] {
            if let Some(options) = request[options].as_object() {
                apply_options(&mut settings, options, source)?;
            }
        }
        Ok(settings)
    }
}

fn machine(question: &Json) -> Machine {
    let bytes = |value: &Json| Bytes(value.as_u64().unwrap());
    let text = |value: &Json| value.as_str().map(std::sync::Arc::from);
    let gpu = |gpu: &Json| Gpu {
        name: gpu["name"].as_str().unwrap().to_owned(),
        backend: gpu["library"].as_str().unwrap().parse::<Backend>().unwrap(),
        total: bytes(&gpu["total"]),
        free: bytes(&gpu["free"]),
        integrated: gpu["integrated"].as_bool().unwrap(),
        compute: gpu["compute"].as_array().map(|pair| {
            let number = |place: usize| u32::try_from(pair[place].as_u64().unwrap()).unwrap();
            (number(0), number(1))
        }),
        driver_major: None,
        computer: None,
        vulkan: None,
        listed: Listed {
            gfx: text(&gpu["gfx"]),
            pci: text(&gpu["pci"]),
            also_vulkan: gpu["also_vulkan"].as_bool().unwrap_or(false),
        },
        dedicated: None,
        driver_memory: None,
        display: None,
        link: None,
    };
    let system = &question["system"];
    let os = match question["os"].as_str().unwrap() {
        "linux" => Os::Linux,
        "darwin" => Os::MacOs,
        "windows" => Os::Windows,
        other => panic!("{other}"),
    };
    let nvidia = question["nvidia_driver"].as_u64().map(|branch| u32::try_from(branch).unwrap());
    let jetpack = question["jetpack"].as_str().map(|version| plimsoll::machine::drivers::major(version).unwrap());
    Machine {
        disk: None,
        os,
        cpu: plimsoll::machine::Cpu::default(),
        gpus: question["gpus"].as_array().unwrap().iter().map(gpu).collect(),
        ram: Ram {
            total: bytes(&system["total"]),
            free: bytes(&system["free"]),
            swap_free: bytes(&system["free_swap"]),
            bandwidth: None,
        },
        origin: Origin::Described,
        drivers: Drivers { nvidia, jetpack },
    }
}
