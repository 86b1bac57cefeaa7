//! The real program on the command line.

mod agents;
mod apply;
mod bug_reports;
mod canary;
mod check;
mod commands;
mod config;
mod containers;
mod contract;
mod described;
mod devices;
mod doors;
mod exact;
mod explain;
mod exports;
mod fits;
mod hostile;
mod inputs;
mod lessons;
mod list;
mod list_order;
mod machines;
mod manual;
pub(crate) mod nvidia;
mod ollama;
mod ollama_011;
mod programs;
mod projector;
mod questions;
mod refusals;
mod releases;
mod scenarios;
pub(crate) mod schema;
mod several;
mod speed;
mod sysfs;
mod terminal;
mod text;
mod words;
mod writes;

use std::path::PathBuf;

use crate::support::description;
use assert_cmd::Command;
use plimsoll::gguf::write::Encoding;
use serde_json::Value;
use tempfile::TempDir;

use crate::support;

/// A temporary folder for models and the program's home directory.
struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes the header of a model in `tests/models` as a file.
    fn model(&self, name: &str) -> PathBuf {
        let bytes = description::bytes(&support::model_json(name), Encoding::default()).unwrap();
        self.file(&format!("{name}.gguf"), &bytes)
    }

    fn projector(&self, name: &str) -> PathBuf {
        let bytes = description::bytes(&support::projector_json(name), Encoding::default()).unwrap();
        self.file(&format!("mmproj-{name}.gguf"), &bytes)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The program, without the environment variables that it reads.
    fn plimsoll(&self) -> Command {
        let mut command = assert_cmd::cargo::cargo_bin_cmd!("plimsoll");
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["OLLAMA_", "CUDA_", "HF_", "XDG_", "LLAMA_", "ROCR_", "HIP_", "PLIMSOLL_"]
                .iter()
                .any(|start| name.starts_with(start))
            {
                command.env_remove(name);
            }
        }
        // nothing listens there, so unknown names are not looked up on the network
        for server in ["OLLAMA_HOST", "OLLAMA_REGISTRY", "HF_ENDPOINT"] {
            command.env(server, "http://127.0.0.1:9");
        }
        command.env("HOME", self.folder.path()).current_dir(self.folder.path());
        command
    }

    /// `plimsoll plan MODEL` with the estimator, which plans any header, on a described machine.
    fn plan(&self, model: &str) -> Command {
        self.plan_by("ollama-0.24", model)
    }

    /// `plimsoll plan MODEL --engine ENGINE` on a described machine.
    fn plan_by(&self, engine: &str, model: &str) -> Command {
        let mut command = self.plimsoll();
        command.arg("plan").arg(self.model(model)).args(["--ram", "total=64GiB,free=48GiB,swap=2GiB"]);
        command.args(["--engine", engine]);
        command
    }
}

/// Runs it and parses its JSON, which must be as its schema says.
fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").assert().success().get_output().clone();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    schema::printed(command, &output.stdout)
}

/// Runs it and returns its one line of error.
fn refused(command: &mut Command, status: i32) -> String {
    let output = command.assert().code(status).get_output().clone();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: ") && said.ends_with('\n') && said.lines().count() == 1, "{said}");
    said
}
