//! What runs: a plan applied to a stand-in of Ollama's API and of llama-server, recordings, and what a stub of NVML says of
//! processes.
#![cfg(all(unix, feature = "net"))]

mod apply;
pub(crate) mod live;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::net::server::{RecordedRequest, Reply};

/// Ollama's API on the loopback, as far as a load needs it.
pub(crate) struct StandIn {
    /// The models that it has loaded: name, size, on GPUs, context.
    pub loaded: Vec<(&'static str, u64, u64, u64)>,
    /// What is loaded once a load was asked for.
    pub then: Vec<(&'static str, u64, u64, u64)>,
    /// The answer to a load, where it is not as it should be.
    pub load: Option<Reply>,
    loads: AtomicUsize,
}

impl StandIn {
    pub fn new() -> Self {
        Self { loaded: Vec::new(), then: Vec::new(), load: None, loads: AtomicUsize::new(0) }
    }

    pub fn answer(&self, seen: &RecordedRequest) -> Reply {
        match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/api/version") => Reply::ok(json!({ "version": "0.33.0" }).to_string()),
            ("GET", "/api/ps") => {
                let now = if self.loads.load(Ordering::Relaxed) > 0 { &self.then } else { &self.loaded };
                Reply::ok(json!({ "models": now.iter().map(row).collect::<Vec<_>>() }).to_string())
            }
            ("POST", "/api/generate" | "/api/embed") => {
                self.loads.fetch_add(1, Ordering::Relaxed);
                let model = serde_json::from_str::<Value>(&seen.body).unwrap()["model"].clone();
                let loaded = json!({
                    "model": model, "created_at": "2026-11-26T16:00:00Z", "response": "", "done": true, "done_reason": "load",
                });
                self.load.clone().unwrap_or_else(|| Reply::ok(loaded.to_string()))
            }
            _ => Reply { body: b"{\"error\":\"not found\"}".to_vec(), ..Reply::status(404) },
        }
    }
}

/// A row of `/api/ps` (`api/types.go`, `ProcessModelResponse`, Ollama 0.33).
fn row(&(name, size, vram, context): &(&str, u64, u64, u64)) -> Value {
    json!({
        "name": name, "model": name, "size": size, "digest": "46e0c10c039e019119339687c3c1757cc81b9da49709a3b3924863ba87ca666e",
        "details": {
            "parent_model": "", "format": "gguf", "family": "llama", "families": ["llama"], "parameter_size": "8.0B",
            "quantization_level": "Q4_K_M",
        },
        "expires_at": "2026-11-26T16:05:00.123456789Z", "size_vram": vram, "context_length": context,
    })
}
