use super::*;
use rstest::rstest;

fn of(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Config::of(Some("/home/me/config.toml".into()), Some(text), &get)
}

#[test]
fn every_key_of_the_example_can_be_set() {
    let example = example();
    let keys = example.lines().filter(|line| line.contains(" = ")).map(|line| line.trim_start_matches("# "));
    let text = keys.collect::<Vec<_>>().join("\n");
    let config = of(&text, &[]).unwrap();
    assert_eq!(config.entries.len(), KEYS.len(), "{text}");
    assert_eq!(of(&example, &[]).unwrap().entries.len(), 0, "all of it is comments");
    assert_eq!(config.engine, Some(EngineId::LlamaCpp));
    assert_eq!(config.preferences, Preferences { margin: Some(Bytes::gib(1)), need: Some(16_384) });
    assert_eq!(config.fit_target, Some(Bytes::gib(1)));
}

#[rstest]
#[case(
    "engin = \"ollama\"",
    "line 1, engin: there is no such key: did you mean 'engine'? the keys are engine, release"
)]
#[case("\nGPU_OVERHEAD = 1", "line 2, GPU_OVERHEAD: there is no such key: did you mean 'gpu-overhead'?")]
#[case("zzz = 1", "line 1, zzz: there is no such key: the keys are")]
#[case("[planner]\ntheme = \"dark\"", "line 1, planner: there is no such key")]
#[case("# one\nengine = llama.cpp", "line 2, engine: ")]
#[case("theme = \"pink\"", "line 1, theme: 'pink' is not a theme: use dark or light or mono")]
#[case("engine = \"vllm\"", "line 1, engine: unknown engine 'vllm': use ollama or llama.cpp")]
#[case("need = true", "line 1, need: this is neither text nor a number: write need = \"16k\"")]
#[case("need = 0", "line 1, need: '0' is out of range")]
#[case("margin = \"lots\"", "line 1, margin: ")]
#[case("need = 1\nneed = 2", "line 2, need: ")]
fn what_is_wrong_is_said_with_path_line_and_key(#[case] text: &str, #[case] said: &str) {
    let sentence = of(text, &[]).unwrap_err();
    assert!(sentence.starts_with(&format!("'/home/me/config.toml', {said}")), "{sentence}");
    assert!(!sentence.contains('\n'));
}

#[test]
fn variables_stand_over_the_file() {
    let config = of("engine = \"llama.cpp\"\nrefresh = 0.5", &[("PLIMSOLL_ENGINE", "ollama-0.24")]).unwrap();
    assert_eq!(config.engine, Some(EngineId::Ollama024));
    assert_eq!(config.refresh.and_then(|refresh| refresh.0), Some(std::time::Duration::from_millis(500)));
    assert_eq!(config.set_by("engine"), "PLIMSOLL_ENGINE");
    let wrong = of("", &[("PLIMSOLL_NEED", "much")]).unwrap_err();
    assert!(wrong.starts_with("PLIMSOLL_NEED: 'much' is not a number"), "{wrong}");
}

#[test]
fn machine_files_are_looked_for_beside_the_file() {
    let machine = |text: &str| of(&format!("machine = '{text}'"), &[]).unwrap().machine;
    assert_eq!(machine("garage").as_deref(), Some("garage"));
    assert_eq!(machine("/a/b.json").as_deref(), Some("/a/b.json"));
    let beside = Path::new("/home/me").join("b.json").display().to_string();
    assert_eq!(machine("b.json"), Some(beside));
    let by_variable = of("machine = 'a.json'", &[("PLIMSOLL_MACHINE", "b.json")]).unwrap();
    assert_eq!(by_variable.machine.as_deref(), Some("b.json"), "from the working directory");
    assert_eq!(of("machine = 'this'", &[]).unwrap().other_machine(), None);
}

#[test]
fn an_engine_is_not_given_what_it_has_no_option_for() {
    let config = of("release = '2026-08'\ngpu-overhead = '1GiB'\nfit-target = 2048", &[]).unwrap();
    let filled = |engine: EngineId| {
        let mut settings = Settings::default();
        let notes = config.fill(&mut settings, engine, &Open { gpu_overhead: true, fit_target: true });
        (settings.release.is_some(), settings.gpu_overhead, settings.fit_target, notes.len())
    };
    assert_eq!(filled(EngineId::Ollama024), (false, Bytes::gib(1), None, 1));
    assert_eq!(filled(EngineId::LlamaCpp), (true, Bytes::ZERO, Some(Bytes::gib(2)), 1));
    let mut settings = Settings::default();
    let closed = Open { gpu_overhead: false, fit_target: false };
    assert!(config.fill(&mut settings, EngineId::Ollama024, &closed).is_empty());
}
