//! Neighbouring releases of llama.cpp, blocks that predict further tokens, and what older programs do not know.

use plimsoll::engine::EngineId;
use plimsoll::settings::Release;
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const MACHINE: [&str; 4] = ["--gpu", "name=card,total=24GiB,free=23GiB", "--ram", "256GiB"];

fn plan(model: &str, arguments: &[&str]) -> Value {
    json(Sandbox::new().plimsoll().args(["plan", model]).args(MACHINE).args(arguments))
}

fn text(question: &str, model: &str, arguments: &[&str]) -> String {
    let output = Sandbox::new()
        .plimsoll()
        .args([question, model])
        .args(MACHINE)
        .args(arguments)
        .assert()
        .success()
        .get_output()
        .clone();
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The neighbours' figures are those of their own plans.
#[rstest]
#[case("llama.cpp", "catalogue:llama3.1-8b", &["--ctx", "32768", "--kv-type", "q8_0"])]
#[case("llama.cpp", "catalogue:gpt-oss-20b", &[])]
#[case("ollama", "catalogue:glm-4.6", &["--ctx", "65536"])]
fn neighbouring_releases_take_what_their_own_plans_do(
    #[case] engine: &str,
    #[case] model: &str,
    #[case] others: &[&str],
) {
    let of = |release: Release, more: &[&str]| {
        plan(model, &[others, &["--engine", engine, "--release", release.name()], more].concat())
    };
    let offered = engine.parse::<EngineId>().unwrap().facts().releases;
    for (at, &release) in offered.iter().enumerate() {
        let here = of(release, &["--releases"]);
        let neighbours = here["releases"].as_array().unwrap();
        let around: Vec<_> = offered.iter().enumerate().filter(|(other, _)| other.abs_diff(at) == 1).collect();
        assert_eq!(neighbours.len(), around.len());
        for (neighbour, (_, other)) in neighbours.iter().zip(around) {
            assert_eq!(neighbour["release"], other.name());
            let there = of(*other, &[]);
            let all = |plan: &Value| plan["totals"]["all"].as_i64().unwrap();
            assert_eq!(neighbour["total"], there["totals"]["all"]);
            assert_eq!(neighbour["more"].as_i64(), Some(all(&there) - all(&here)));
            for (device, own) in
                neighbour["devices"].as_array().unwrap().iter().zip(there["devices"].as_array().unwrap())
            {
                let sum: i64 = ["weights", "cache", "graph"].map(|part| own[part].as_i64().unwrap()).iter().sum();
                assert_eq!((&device["id"], device["total"].as_i64()), (&own["id"], Some(sum)));
            }
        }
        assert!(of(release, &[])["releases"].is_null(), "only on request");
    }
}

#[test]
fn a_neighbouring_release_is_one_sentence() {
    let said = text("plan", "catalogue:glm-4.6", &["--engine", "llama.cpp", "--ctx", "32768", "--releases"]);
    let neighbour = Release::ALL[1];
    assert!(said.contains(&format!("Other releases of llama.cpp - {neighbour} would take ")), "{said}");
    assert!(said.contains("iB more on GPU0") || said.contains("iB less on GPU0"), "{said}");
    let sandbox = Sandbox::new();
    let mut classic = sandbox.plimsoll();
    classic.args(["plan", "catalogue:llama3.1-8b", "--releases", "--engine", "ollama-0.24"]).args(MACHINE);
    assert!(refused(&mut classic, 2).contains("--releases"), "the older engine has none");
}

#[rstest]
#[case("b11342", "2026-11")]
#[case("2026-11-20", "2026-11")]
#[case("b10960", "2026-09")]
#[case("2026-08-30", "2026-09")]
#[case("b10488", "2026-08-05")]
#[case("2026-08-02", "2026-08-05")]
#[case("b9509", "2026-08")]
#[case("2026-06-04", "2026-08")]
#[case("koboldcpp 1.120", "2026-09")]
#[case("lmstudio-2.28.2", "2026-08-05")]
#[case("llama-cpp-python 0.3.36", "2026-11")]
#[case("text-generation-webui 4.5", "2026-03")]
#[case("b6723", "2025-09")]
#[case("2025-12-01", "2025-11-20")]
#[case("ollama 0.32.6", "2026-08-05")]
fn a_build_a_date_or_a_program_takes_the_nearest_release(#[case] wanted: &str, #[case] release: &str) {
    assert_eq!(plan("catalogue:llama3.1-8b", &["--engine", "llama.cpp", "--release", wanted])["release"], release);
}

#[rstest]
#[case("newest")]
#[case("localai 5.0")]
fn another_text_is_no_release(#[case] text: &str) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["plan", "catalogue:llama3.1-8b", "--release", text]).args(MACHINE);
    let said = refused(&mut command, 2);
    assert!(said.contains(&format!("unknown release '{text}'")) && said.contains("2026-09-15"), "{said}");
}

#[test]
fn nextn_blocks_are_named_as_such() {
    let classic = plan("catalogue:glm-4.6", &["--engine", "ollama-0.24"]);
    let kinds: Vec<_> =
        classic["layers"].as_array().unwrap().iter().map(|layer| layer["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.len(), 94);
    assert!(kinds[..92].iter().all(|kind| *kind == "block"));
    assert_eq!(kinds[92..], ["nextn", "output"]);
    assert_eq!(classic["model"]["nextn_layers"], 1);
    let said = text("plan", "catalogue:glm-4.6", &["--engine", "ollama-0.24"]);
    assert!(said.contains("92 NextN CPU"), "{said}");
    // llama.cpp does not load the block, unless it drafts
    let loads = |arguments: &[&str]| plan("catalogue:glm-4.6", arguments)["layers"].as_array().unwrap().len();
    assert_eq!(
        (loads(&["--engine", "llama.cpp"]), loads(&["--engine", "llama.cpp", "--spec-type", "draft-mtp"])),
        (93, 94)
    );
}

/// All layers but one are on the GPU: the answer names it, and says why.
#[rstest]
#[case("llama.cpp")]
#[case("ollama")]
fn max_says_what_holds_a_model_that_never_fits(#[case] engine: &str) {
    let said = text("max", "catalogue:glm-4.6", &["--engine", engine]);
    assert!(said.contains("92 of 93 layers are on GPU then, without"), "{said}");
    assert!(said.contains("Layer 0 is in RAM: llama.cpp's fit does not count the NextN (MTP) block"), "{said}");
    let answer = json(Sandbox::new().plimsoll().args(["max", "catalogue:glm-4.6", "--engine", engine]).args(MACHINE));
    assert!(answer["value"].is_null() && answer["held"].as_str().unwrap().starts_with("92 of 93"), "{answer}");
}

/// The reasons of the layers of this model are their own.
#[test]
fn the_output_layer_and_the_first_block_have_reasons_of_their_own() {
    let plan = plan("catalogue:glm-4.6", &["--engine", "llama.cpp", "--ctx", "65536"]);
    let why = |index: usize| plan["layers"][index]["why"].as_str().unwrap().to_owned();
    let output = &plan["layers"][92];
    assert_eq!((output["kind"].as_str(), output["device"].as_str()), (Some("output"), Some("GPU0")));
    assert!(why(92).starts_with("It needs 607 MiB, and"), "{}", why(92));
    let first = why(0);
    assert!(first.contains("this one would have needed 447 MiB"), "{first}");
}

#[rstest]
#[case("ollama-0.24", "catalogue:hy4-preview", true)]
#[case("ollama-0.24", "catalogue:qwen3-next-80b-a3b", false)]
#[case("ollama-0.11", "catalogue:qwen3-next-80b-a3b", true)]
#[case("ollama-0.11", "catalogue:llama3.1-8b", false)]
#[case("ollama", "catalogue:hy4-preview", true)]
#[case("ollama", "catalogue:qwen3-next-80b-a3b", false)]
fn engines_say_what_they_did_not_know(#[case] engine: &str, #[case] model: &str, #[case] unknown: bool) {
    let plan = plan(model, &["--engine", engine]);
    let notes = plan["notes"].as_array().unwrap();
    let said = notes.iter().any(|note| note.as_str().unwrap().contains("does not know the architecture"));
    assert_eq!(said, unknown, "{notes:?}");
}
