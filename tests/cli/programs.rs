//! What is asked of llama.cpp: its program, embeddings, and the context of each sequence.

use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 4] = ["--gpu", "name=card,total=24GiB,free=23GiB", "--ram", "64GiB"];

fn plan(model: &str, arguments: &[&str]) -> Value {
    json(Sandbox::new().plimsoll().args(["plan", model, "--engine", "llama.cpp"]).args(MACHINE).args(arguments))
}

fn text(question: &str, model: &str, arguments: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args([question, model, "--engine", "llama.cpp"]).args(MACHINE).args(arguments);
    let output = command.assert().success().get_output().clone();
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Compute buffers on the GPU, with logits of a whole ubatch; that of 1,184,956,544 was measured.
#[rstest]
#[case("catalogue:llama3.2-3b", &["--ctx", "8192", "--ubatch", "2048"], Value::Null, 335_601_792)]
#[case("catalogue:llama3.2-3b", &["--ctx", "8192", "--ubatch", "2048", "--embeddings", "--pooling", "last"],
    "last".into(), 1_184_956_544)]
#[case("catalogue:llama3.2-3b", &["--ctx", "8192", "--ubatch", "2048", "--embedding"], "none".into(), 1_184_956_416)]
#[case("catalogue:qwen3-embedding-0.6b@q8_0", &["--ctx", "8192", "--ubatch", "8192", "--batch", "8192",
    "--embeddings=false"], Value::Null, 570_654_848)]
fn embeddings_take_logits_of_the_whole_batch(
    #[case] model: &str,
    #[case] arguments: &[&str],
    #[case] pooling: Value,
    #[case] graph: u64,
) {
    let plan = plan(model, arguments);
    assert_eq!(plan["settings"]["embeddings"], pooling);
    assert_eq!(plan["devices"][0]["graph"].as_u64(), Some(graph));
}

#[test]
fn embedders_are_asked_for_embeddings_by_every_engine() {
    let batches = ["--ctx", "8192", "--batch", "8192", "--ubatch", "8192"];
    let plan = plan("catalogue:qwen3-embedding-0.6b@q8_0", &batches);
    assert_eq!((&plan["settings"]["embeddings"], &plan["settings"]["outputs"]), (&"last".into(), &8192.into()));
    assert_eq!(plan["devices"][0]["graph"], 5_238_587_520_u64);
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    let ollama = json(command.args(["plan", "catalogue:qwen3-embedding-0.6b", "--ctx", "8192"]).args(MACHINE));
    let settings = &ollama["settings"];
    assert_eq!((&settings["embeddings"], &settings["parallel"]), (&"last".into(), &1.into()));
    assert_eq!(settings["outputs"], settings["batch"]);
}

#[test]
fn a_batch_for_embeddings_is_no_larger_than_an_ubatch() {
    let plan = plan("catalogue:llama3.2-3b", &["--reranking", "--ctx", "8192"]);
    let settings = &plan["settings"];
    assert_eq!(
        (&settings["embeddings"], &settings["batch"], &settings["outputs"]),
        (&"rank".into(), &512.into(), &512.into())
    );
    let command = text("export", "catalogue:llama3.2-3b", &["--as", "llama-server", "--reranking"]);
    assert!(command.contains(" --reranking") && !command.contains("--embeddings"), "{command}");
    let command = text("export", "catalogue:qwen3-embedding-0.6b", &["--as", "llama-server"]);
    assert!(command.contains(" --embeddings"), "llama-server has to be told: {command}");
}

#[rstest]
#[case("llama-server", 4, 4, true)]
#[case("llama-cli", 1, 1, false)]
#[case("llama-completion", 1, 512, false)]
#[case("llama-bench", 1, 512, false)]
#[case("llama-perplexity", 4, 512, false)]
#[case("fit-params", 1, 512, false)]
fn each_program_has_its_own_defaults(
    #[case] program: &str,
    #[case] sequences: u64,
    #[case] outputs: u64,
    #[case] unified: bool,
) {
    let plan = plan("catalogue:llama3.2-3b", &["--program", program]);
    let settings = &plan["settings"];
    let number = |key: &str| settings[key].as_u64().unwrap();
    assert_eq!((number("parallel"), number("outputs"), &settings["kv_unified"]), (sequences, outputs, &unified.into()));
    assert_eq!(settings["program"].is_null(), program == "llama-server");
}

#[test]
fn other_programs_are_unknown() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["plan", "catalogue:llama3.2-3b", "--program", "llama-quantize"]).args(MACHINE);
    assert!(refused(&mut command, 2).contains("llama-batched-bench"));
}

#[test]
fn the_context_of_each_sequence_is_said() {
    let model = "catalogue:qwen3-8b@q4_k_m";
    let two = ["--ctx", "8192", "--parallel", "2"];
    let said = text("plan", model, &two);
    assert!(said.contains("8 192 tokens, f16 KV, 2 sequences of 4 096 tokens each"), "{said}");
    assert!(said.contains("unified KV is off, as parallel is given: each of 2 sequences has 4 096 tokens"), "{said}");
    let shared = text("plan", model, &[&two[..], &["--kv-unified"]].concat());
    assert!(shared.contains("2 sequences sharing 8 192 tokens") && !shared.contains("4 096"), "{shared}");
    let auto = text("plan", model, &["--ctx", "8192"]);
    assert!(auto.contains("unified KV is on, as parallel is auto: 4 sequences share 8 192 tokens"), "{auto}");
    let command = text("export", model, &[&two[..], &["--as", "llama-server"]].concat());
    assert!(command.contains("# 2 sequences of 4 096 tokens each"), "{command}");
    assert!(text("why", model, &two).contains("2 sequences of 4 096 tokens each"));
    assert!(text("export", model, &[&two[..], &["--as", "svg"]].concat()).contains("2 sequences of 4 096 tokens"));
}
