//! `plan --fits`: a status that scripts go on by.

use rstest::rstest;

use super::{Sandbox, json, refused};

/// From the strictest on.
const WAYS: [&str; 4] = ["vram", "gpu", "experts", "load"];

/// How many of [`WAYS`] are met, counted from the last: whoever meets one meets those that follow.
#[rstest]
#[case("qwen3-8b", &["--gpu", "24GiB", "--ram", "64GiB"], 4, "vram")]
#[case("qwen3-8b", &["--gpu", "8GiB", "--ram", "64GiB", "--ctx", "32k"], 1, "layers-in-ram")]
#[case("qwen3-8b", &["--gpu", "none", "--ram", "64GiB"], 1, "cpu")]
#[case("qwen3-30b-a3b", &["--gpu", "12GiB", "--ram", "64GiB", "--engine", "llama.cpp", "--ctx", "8k"], 2, "experts-in-ram")]
#[case("llama3.1-70b", &["--gpu", "none", "--ram", "16GiB"], 0, "does-not-fit")]
#[case("qwen3-8b", &["--gpu", "16GiB", "--ram", "64GiB", "--engine", "llama.cpp", "--fit", "off", "--ctx", "max"], 4, "vram")]
fn a_plan_fits_as_asked_or_ends_with_status_5(
    #[case] model: &str,
    #[case] arguments: &[&str],
    #[case] met: usize,
    #[case] outcome: &str,
) {
    let sandbox = Sandbox::new();
    let plan = || {
        let mut command = sandbox.plimsoll();
        command.arg("plan").arg(format!("catalogue:{model}")).args(arguments);
        command
    };
    let answer = json(&mut plan());
    assert_eq!(answer["outcome"], outcome);
    for (at, way) in WAYS.into_iter().enumerate() {
        let fits = at + met >= WAYS.len();
        let output = plan().args(["--fits", way]).assert().code(if fits { 0 } else { 5 }).get_output().clone();
        // the plan is printed in any case
        assert!(String::from_utf8_lossy(&output.stdout).contains("on GPU"), "{way}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), usize::from(!fits), "{said}");
        assert!(fits || said.starts_with(&format!("error: --fits {way}: ")), "{said}");
        let printed = plan().args(["--fits", way, "--json"]).output().unwrap().stdout;
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&printed).unwrap(), answer);
    }
}

#[test]
fn other_ways_are_refused_and_ignored_options_said() {
    let sandbox = Sandbox::new();
    let plan = |arguments: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(["plan", "catalogue:qwen3-8b", "--gpu", "24GiB", "--ram", "64GiB"]).args(arguments);
        command
    };
    let said = refused(&mut plan(&["--fits", "split"]), 2);
    assert!(WAYS.iter().all(|way| said.contains(way)), "{said}");
    let notes = json(&mut plan(&["--require-full"]))["notes"].to_string();
    assert!(notes.contains("--require-full is ignored: Ollama has no such option"), "{notes}");
    let several = "llama-server -m a.gguf; llama-server -m b.gguf";
    let said = refused(sandbox.plimsoll().args(["plan", "--command", several, "--fits", "vram"]), 2);
    assert!(said.contains("--pick"), "{said}");
}
