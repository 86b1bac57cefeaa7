//! `max`, `why`, `best`, `place`, `together`, `sweep` and `matrix`, as text and JSON.

use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

const SMALL: [&str; 4] = ["--gpu", "name=card,total=8GiB,free=7600MiB", "--ram", "total=64GiB,free=64GiB"];

fn asked(sandbox: &Sandbox, question: &str, arguments: &[&str]) -> Value {
    let mut command = sandbox.plimsoll();
    command.arg(question).arg(sandbox.model("llama3.1-8b")).args(SMALL).args(arguments);
    json(&mut command)
}

fn plan(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(sandbox.model("llama3.1-8b")).args(SMALL).args(arguments);
    let mut plan = json(&mut command);
    // answers do not say what a plan takes of RAM, how it reads prompts, and how llama-server is started
    for key in ["ram", "prompt", "launch"] {
        plan[key] = Value::Null;
    }
    plan
}

#[rstest]
#[case("ctx", "gpu", &[])]
#[case("parallel", "gpu", &["--ctx", "4096"])]
#[case("batch", "gpu", &["--ctx", "8192", "--engine", "ollama-0.24"])]
#[case("batch", "gpu", &["--ctx", "15360"])]
#[case("gpu-layers", "split", &["--ctx", "65536"])]
fn the_maximum_fits_and_the_next_value_does_not(#[case] knob: &str, #[case] verdict: &str, #[case] others: &[&str]) {
    let sandbox = Sandbox::new();
    let answer = asked(&sandbox, "max", &[&["--for", knob], others].concat());
    assert_eq!(answer["knob"], knob);
    let with = |value: &Value| {
        let value = value.as_u64().unwrap().to_string();
        plan(&sandbox, &[others, &[&format!("--{knob}"), &value]].concat())
    };
    assert_eq!(with(&answer["value"]), answer["plan"]);
    let keeps = |plan: &Value| plan["verdict"] == verdict && plan["devices"][0]["headroom"].as_i64().unwrap() >= 0;
    assert!(keeps(&answer["plan"]));
    assert!(!keeps(&with(&answer["next"])), "the next value is too large, or leaves less than must stay free");
}

#[test]
fn max_finds_the_largest_quantisation() {
    let sandbox = Sandbox::new();
    let answer = asked(&sandbox, "max", &["--for", "quant", "--ctx", "8192"]);
    let (value, next) = (answer["value"].as_str().unwrap(), answer["next"].as_str().unwrap());
    let verdict = |quant| plan(&sandbox, &["--ctx", "8192", "--quant", quant])["verdict"].clone();
    assert_eq!((verdict(value), verdict(next)), ("gpu".into(), "split".into()));
}

#[test]
fn max_takes_a_number_of_layers_and_reports_when_nothing_fits() {
    let sandbox = Sandbox::new();
    let some = asked(&sandbox, "max", &["--for", "ctx", "--layers", "20"]);
    assert_eq!(some["plan"]["offloaded"], 20);
    assert!(some["value"].as_u64() > asked(&sandbox, "max", &["--for", "ctx"])["value"].as_u64());
    let none = asked(&sandbox, "max", &["--for", "parallel", "--ctx", "131072"]);
    assert_eq!((&none["value"], &none["next"], &none["plan"]), (&Value::Null, &Value::from(1), &Value::Null));
    let end = asked(&sandbox, "max", &["--for", "ctx", "--gpu", "96GiB"]);
    assert_eq!((&end["value"], &end["next"]), (&Value::from(131_072), &Value::Null));
}

/// Without a GPU, what fits RAM is asked.
#[test]
fn max_without_a_gpu_is_what_fits_ram() {
    let sandbox = Sandbox::new();
    let asked = |question: &str, ram: &str, more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg(question).arg(sandbox.model("llama3.1-8b")).args(["--gpu", "none", "--ram", ram]).args(more);
        command
    };
    let (little, much) = ("total=16GiB,free=8GiB", "total=64GiB,free=12GiB");
    let [small, large] = [little, much].map(|ram| json(&mut asked("max", ram, &[])));
    assert!(small["value"].as_u64() < large["value"].as_u64(), "{small:#}");
    assert_eq!(small["plan"]["verdict"], "cpu");
    let next = small["next"].as_u64().unwrap().to_string();
    let beyond = json(&mut asked("plan", little, &["--ctx", &next]));
    assert_ne!(beyond["verdict"], "cpu", "{beyond:#}");
    let output = asked("max", little, &[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("is the largest value with all in RAM"), "{text}");
}

#[test]
fn every_change_of_why_works_on_the_command_line() {
    let sandbox = Sandbox::new();
    let knobs = ["--ctx", "15000", "--parallel", "2"];
    let answer = asked(&sandbox, "why", &knobs);
    assert_eq!(answer["layers"].as_array().unwrap().len(), 33);
    let first = &answer["layers"][0];
    assert_eq!(first["device"], "CPU");
    assert!(first["needed"].as_u64() > first["available"].as_u64() && first["reason"].is_string());
    let changes = answer["changes"].as_array().unwrap();
    assert!(changes.len() > 3, "{changes:#?}");
    for change in changes {
        let mut arguments: Vec<String> = knobs.map(str::to_owned).to_vec();
        let value = change["value"].as_str().map_or_else(|| change["value"].to_string(), str::to_owned);
        match change["knob"].as_str().unwrap() {
            "free" | "memory" => {
                let more: u64 = value.parse().unwrap();
                let (free, total) = ((7600 << 20) + more, ((8 << 30).max((7600 << 20) + more)));
                arguments.extend(["--gpu".to_owned(), format!("total={total},free={free}")]);
            }
            knob => {
                let flag = format!("--{knob}");
                if let Some(at) = arguments.iter().position(|argument| *argument == flag) {
                    arguments.drain(at..at + 2);
                }
                arguments.extend([flag, value]);
                if let Some(flash) = change["with"]["flash-attn"].as_str() {
                    arguments.extend(["--flash-attn".to_owned(), flash.to_owned()]);
                }
                arguments.extend(SMALL[..2].iter().map(|&argument| argument.to_owned()));
            }
        }
        let mut command = sandbox.plimsoll();
        command.arg("plan").arg(sandbox.model("llama3.1-8b")).args(["--ram", "64GiB"]).args(&arguments);
        let plan = json(&mut command);
        match change["brings"].as_str().unwrap() {
            "vram" => assert_eq!(plan["outcome"], "vram", "{change}"),
            "all layers" => assert_eq!(plan["verdict"], "gpu", "{change}"),
            layer => {
                let index: usize = layer.strip_prefix("layer ").unwrap().parse().unwrap();
                assert_ne!(plan["layers"][index]["device"], "CPU", "{change}");
            }
        }
    }
}

#[test]
fn one_layer_can_be_asked_about() {
    let sandbox = Sandbox::new();
    let answer = asked(&sandbox, "why", &["--layer", "5", "--ctx", "32768"]);
    assert_eq!(answer["layers"].as_array().unwrap().len(), 1);
    assert_eq!(answer["layers"][0]["index"], 5);
    assert!(answer["changes"].as_array().unwrap().iter().any(|change| change["brings"] == "layer 5"));
}

#[test]
fn tables_are_the_same_plans_in_json_and_csv() {
    let sandbox = Sandbox::new();
    let sweep = asked(&sandbox, "sweep", &["--values", "4k,20000"]);
    assert_eq!(sweep["points"][1]["value"], 20_000);
    let single = plan(&sandbox, &["--ctx", "20000"]);
    for (key, other) in [("verdict", "verdict"), ("offloaded", "offloaded"), ("totals", "totals")] {
        assert_eq!(sweep["points"][1][key], single[other]);
    }
    assert!(sweep["cliffs"].as_array().unwrap().len() > 20);

    let matrix = |form: &str| {
        let mut command = sandbox.plimsoll();
        command.arg("matrix").arg(sandbox.model("llama3.1-8b")).args(SMALL).args(["--flash-attn", "on", form]);
        command.args(["--row-values", "8192,32768"]).assert().success().stderr("").get_output().stdout.clone()
    };
    let cells: Value = serde_json::from_slice(&matrix("--json")).unwrap();
    let single = plan(&sandbox, &["--ctx", "32768", "--kv-type", "q8_0", "--flash-attn", "on"]);
    assert_eq!(cells["columns"]["values"], serde_json::json!(["f16", "q8_0", "q4_0"]));
    assert_eq!(cells["cells"][1][1]["totals"], single["totals"]);
    let csv = String::from_utf8(matrix("--csv")).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 7);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    assert_eq!(lines[0][..3], ["ctx", "kv-type", "verdict"]);
    assert_eq!(lines[5][..4], ["32768", "q8_0", "split", &single["offloaded"].to_string()]);
}

#[rstest]
#[case("max", &["max", "--for", "ctx"])]
#[case("max-none", &["max", "--for", "parallel", "--ctx", "65536"])]
#[case("max-quant", &["max", "--for", "quant"])]
#[case("why", &["why", "--ctx", "15000"])]
#[case("why-layer", &["why", "--layer", "5", "--ctx", "32768"])]
#[case("best", &["best", "--ctx", "8192"])]
#[case("sweep", &["sweep", "--over", "parallel", "--points", "5"])]
#[case("matrix", &["matrix", "--flash-attn", "on"])]
#[case("matrix-quant", &["matrix", "--rows", "quant", "--columns", "ctx"])]
fn answers_read_well(#[case] name: &str, #[case] arguments: &[&str]) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg(arguments[0]).arg(sandbox.model("llama3.1-8b")).args(SMALL).args(&arguments[1..]);
    let output = command.assert().success().stderr("").get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
    insta::assert_snapshot!(format!("answer-{name}"), text);
}

/// What is loaded beside the model is explained: where it is, why its size, what leaves it out.
#[test]
fn why_explains_projectors_and_drafts() {
    let sandbox = Sandbox::new();
    let why = |ctx: &str, more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(["why", "catalogue:gemma3-4b", "--engine", "llama.cpp", "--ctx", ctx, "--ram", "64GiB"]);
        command.args(["--gpu", "name=card,total=6GiB,free=6GiB,backend=plain"]);
        command.args(["--model-draft", "catalogue:gemma3-1b", "--spec-type", "draft-simple"]).args(more);
        command
    };
    let output = why("4096", &[]).assert().success().stderr("").get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
    insta::assert_snapshot!("answer-why-beside", text);

    let answer = json(&mut why("4096", &["--no-mmproj-offload"]));
    let [vision, draft] = [0, 1].map(|part| &answer["beside"][part]);
    assert_eq!((&vision["part"], &draft["part"]), (&"vision".into(), &"draft".into()));
    assert_eq!((&vision["devices"][0]["device"], vision["devices"].as_array().unwrap().len()), (&"CPU".into(), 1));
    assert!(vision["reasons"][0].as_str().unwrap().starts_with("--no-mmproj-offload keeps it in RAM"), "{vision:#}");
    // a projector in RAM is one of the changes that help
    let changes = json(&mut why("65536", &[]))["changes"].clone();
    let in_ram = changes.as_array().unwrap().iter().find(|change| change["options"] == "--no-mmproj-offload");
    assert!(in_ram.is_some_and(|change| change["knob"] == "mmproj-device"), "{changes:#}");
}

#[test]
fn models_together_read_well() {
    let sandbox = Sandbox::new();
    let paths = ["llama3.2-1b", "llama3.1-8b", "qwen3-8b"].map(|name| sandbox.model(name));
    let names = paths.each_ref().map(|path| path.file_name().unwrap().to_str().unwrap());
    let mut command = sandbox.plimsoll();
    // relative paths, so that the lines do not depend on the folder
    command.current_dir(paths[0].parent().unwrap()).args(["together", names[0], names[1]]);
    command.arg(format!("{},kv-type=q8_0", names[2])).args(["--gpu", "name=card,total=12GiB,free=11600MiB"]);
    command.args(["--ram", "64GiB", "--ctx", "8192", "--engine", "ollama"]);
    let output = command.assert().success().stderr("").get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    insta::assert_snapshot!("answer-together", text);
}

#[rstest]
#[case(&["max", "--for", "kv-type"], "--for")]
#[case(&["max", "--for", "ctx", "--layers", "34"], "--layers")]
#[case(&["why", "--layer", "33"], "--layer")]
#[case(&["sweep", "--over", "colour"], "--over")]
#[case(&["sweep", "--values", "4k,lots"], "--values")]
#[case(&["sweep", "--values", "auto"], "--values")]
#[case(&["sweep", "--json", "--csv"], "--csv")]
#[case(&["matrix", "--rows", "ctx", "--columns", "ctx"], "--rows")]
#[case(&["matrix", "--rows", "quant", "--row-values", "Q9_K"], "--row-values")]
fn unanswerable_questions_are_refused(#[case] arguments: &[&str], #[case] part: &str) {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg(arguments[0]).arg(sandbox.model("llama3.1-8b")).args(SMALL).args(&arguments[1..]);
    let said = refused(&mut command, 2);
    assert!(said.contains(part), "{said}");
}

#[rstest]
#[case("ollama")]
#[case("ollama-0.24")]
#[case("llama.cpp")]
fn the_best_settings_work_and_keep_what_is_given(#[case] engine: &str) {
    let sandbox = Sandbox::new();
    let given = ["--engine", engine, "--ctx", "24576"];
    let best = asked(&sandbox, "best", &given);
    assert_eq!((&best["engine"], &best["held"]), (&engine.into(), &serde_json::json!(["ctx"])));
    assert_eq!((best["confidence"].as_str(), best["release"].is_string()), (Some("exact"), engine != "ollama-0.24"));
    let cards = best["cards"].as_array().unwrap();
    for card in cards {
        let options: Vec<&str> = card["options"].as_str().unwrap().split_whitespace().collect();
        let plan = plan(&sandbox, &[&given, &options[..]].concat());
        assert_eq!(plan["settings"]["ctx"], 24_576, "{options:?}");
        assert_eq!((&plan["outcome"], &plan["totals"]), (&card["outcome"], &card["plan"]["totals"]), "{options:?}");
        assert_eq!(plan["outcome"], "vram", "{options:?}");
    }
    assert_eq!(cards[0]["names"][0], "balanced");
    let is_safe = |card: &&Value| card["names"].as_array().unwrap().contains(&"safe".into());
    let safe = cards.iter().find(is_safe).unwrap();
    assert!(safe["margin"].as_u64() >= best["margin"].as_u64(), "{best:#}");
}

#[test]
fn the_command_of_a_placement_plans_the_same() {
    let sandbox = Sandbox::new();
    let machine = ["--gpu", "RTX 3060", "--gpu", "RTX 4090", "--ram", "total=64GiB,free=60GiB"];
    let place = || {
        let mut command = sandbox.plimsoll();
        command.args(["place", "catalogue:qwen3-8b", "--ctx", "8192", "--no-mmproj"]).args(machine);
        command
    };
    let answer = json(&mut place());
    let placed = &answer["placed"];
    assert_eq!((&answer["engine"], &placed["settings"]["device"]), (&"llama.cpp".into(), &"CUDA1".into()));
    let line = placed["command"].as_str().unwrap();
    let mut again = sandbox.plimsoll();
    again.args(["plan", "catalogue:qwen3-8b", "--command", line]).args(machine);
    let again = json(&mut again);
    assert_eq!((&again["totals"], &again["offloaded"]), (&placed["plan"]["totals"], &placed["plan"]["offloaded"]));
    let speed = |plan: &Value| plan["speed"]["tokens_per_second"].as_f64().unwrap();
    assert!(speed(&placed["plan"]) > 1.2 * speed(&answer["now"]) && placed["times"].as_f64().unwrap() > 1.2);
    let text = place().assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().any(|shown| shown.trim() == line), "{text}");
    let reason = placed["reason"].as_str().unwrap();
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(reason), "{text}");
    assert!(text.contains("times as fast"), "{text}");
}

#[test]
fn only_llama_server_is_told_a_placement() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.args(["place", "catalogue:qwen3-8b", "--engine", "ollama"]).args(SMALL);
    assert!(refused(&mut command, 2).contains("only llama-server can be told a placement"));
    let mut command = sandbox.plimsoll();
    let one_card = command.args(["place", "catalogue:qwen3-8b"]).args(SMALL).assert().success();
    let text = String::from_utf8(one_card.get_output().stdout.clone()).unwrap();
    assert!(text.contains("No placement was found"), "{text}");
}

#[test]
fn a_held_knob_cannot_be_the_objective() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plimsoll();
    command.arg("best").arg(sandbox.model("llama3.1-8b")).args(SMALL).args(["--for", "context", "--ctx", "8192"]);
    let said = refused(&mut command, 2);
    assert!(said.contains("--ctx is given and therefore fixed"), "{said}");
}

#[test]
fn models_together_are_listed_one_by_one() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.2-1b").display().to_string();
    let together = |models: &[&str], machine: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("together").args(models).args(machine).args(["--engine", "ollama", "--ctx", "4096"]);
        json(&mut command)
    };
    let (large, other) = (sandbox.model("llama3.1-8b").display().to_string(), format!("{model},ctx=8k"));
    let both = together(&[&model, &large], &["--gpu", "24GiB", "--ram", "64GiB"]);
    assert_eq!((&both["together"], &both["release"]), (&Value::Bool(true), &"2026-08-05".into()));
    let taken: u64 =
        both["models"].as_array().unwrap().iter().map(|model| model["plan"]["totals"]["gpu"].as_u64().unwrap()).sum();
    let gpu = &both["devices"][0];
    let [free, left, drivers] = ["free", "left", "drivers"].map(|key| gpu[key].as_u64().unwrap());
    assert_eq!(free - left, taken + drivers);

    let crowded = together(&[&model, &large], &["--gpu", "total=6GiB,free=6GiB", "--ram", "64GiB"]);
    let first = &crowded["models"][0];
    assert_eq!((&crowded["together"], &first["fate"], &first["by"]), (&false.into(), &"evicted".into(), &1.into()));
    assert!(first["why"].as_str().unwrap().contains("80 %"), "{first:#}");

    let anew = together(&[&model, &model, &other], &["--gpu", "24GiB", "--ram", "64GiB"]);
    let outcomes: Vec<_> = anew["models"].as_array().unwrap().iter().map(|model| &model["fate"]).collect();
    assert_eq!(outcomes, ["evicted", "evicted", "loaded"]);
    assert_eq!(anew["models"][2]["plan"]["totals"]["cache"], 268_435_456);
}

#[test]
fn unknown_knobs_are_refused_with_the_known_ones() {
    let sandbox = Sandbox::new();
    let named = format!("{},context=3", sandbox.model("llama3.2-1b").display());
    let said = refused(sandbox.plimsoll().arg("together").arg(named).args(SMALL), 2);
    assert!(said.contains("'context'") && said.contains("use one of ctx"), "{said}");
    let named = format!("{},ctx=many", sandbox.model("llama3.2-1b").display());
    let said = refused(sandbox.plimsoll().arg("together").arg(named).args(SMALL), 2);
    assert!(said.contains("'many' is not a number"), "{said}");
}

#[rstest]
#[case("max", &["--for", "ctx"])]
#[case("why", &[])]
#[case("best", &[])]
#[case("sweep", &["--values", "4096,8192"])]
#[case("matrix", &["--row-values", "4096", "--column-values", "f16"])]
fn every_answer_names_its_engine_and_confidence(#[case] question: &str, #[case] arguments: &[&str]) {
    let sandbox = Sandbox::new();
    for (engine, release, title) in [
        ("llama.cpp", Value::from("2026-08"), "llama.cpp, release 2026-08 · exact"),
        ("ollama-0.24", Value::Null, "Ollama ≤ 0.24 · exact"),
    ] {
        let who = ["--engine", engine, "--ctx", "8192", "--kv-type", "f16"];
        let release_flag: &[&str] = if release.is_null() { &[] } else { &["--release", "2026-08"] };
        let all = [arguments, &who, release_flag].concat();
        let answer = asked(&sandbox, question, &all);
        assert_eq!((&answer["engine"], &answer["release"]), (&Value::from(engine), &release));
        assert_eq!(answer["confidence"], "exact");
        let mut command = sandbox.plimsoll();
        let text = command.arg(question).arg(sandbox.model("llama3.1-8b")).args(SMALL).args(&all).assert().success();
        let text = String::from_utf8(text.get_output().stdout.clone()).unwrap().replace('\n', " ");
        assert!(text.contains(title), "{text}");
    }
}

/// What the screen shows of a device with `i`; as JSON and CSV, the layers there.
#[test]
fn why_says_what_takes_the_memory_of_a_device() {
    let sandbox = Sandbox::new();
    let planned = plan(&sandbox, &["--ctx", "49152"]);
    let answers = ["gpu0", "CPU", "ram"].map(|device| {
        let mut command = sandbox.plimsoll();
        command.arg("why").arg(sandbox.model("llama3.1-8b")).args(SMALL).args(["--ctx", "49152", "--on", device]);
        let text = String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
        (text, asked(&sandbox, "why", &["--ctx", "49152", "--on", device]))
    });
    assert_eq!(answers[1], answers[2], "RAM is the CPU's");
    for ((text, json), device) in answers.iter().zip(planned["devices"].as_array().unwrap()) {
        let bytes = device["weights"].as_u64().unwrap().to_string();
        let digits = text.replace('\u{2009}', "");
        assert!(digits.contains(&format!("{bytes} bytes")) && text.contains("Confidence"), "{text}");
        let layers: Vec<&Value> = json["layers"].as_array().unwrap().iter().map(|layer| &layer["index"]).collect();
        assert_eq!(layers, device["layers"].as_array().unwrap().iter().collect::<Vec<_>>());
    }
    let mut command = sandbox.plimsoll();
    let said = refused(command.arg("why").arg(sandbox.model("llama3.1-8b")).args(SMALL).args(["--on", "GPU7"]), 2);
    assert_eq!(said, "error: --on: there is no device 'GPU7': use one of GPU0, RAM\n");
}

/// Where less kept free brings all into VRAM, best says so, and the plan with that option is all in VRAM.
#[test]
fn best_says_what_a_lower_margin_brings() {
    let sandbox = Sandbox::new();
    let ask = |question: &str, ctx: &str, more: &[&str]| {
        let machine = ["--gpu", "RTX 3060", "--ram", "32GiB", "--ctx", ctx];
        json(sandbox.plimsoll().args([question, "catalogue:qwen3-14b"]).args(machine).args(more))
    };
    let best = ask("best", "16k", &[]);
    let options = best["less_kept_free"]["options"].as_str().unwrap();
    assert!(options.starts_with("--fit-target "), "{options}");
    assert!(best["less_kept_free"]["stays_free"].as_str().unwrap().contains("stay free"), "{best}");
    let options: Vec<&str> = options.split(' ').collect();
    let outcomes = [ask("plan", "16k", &[]), ask("plan", "16k", &options)].map(|plan| plan["outcome"].clone());
    assert_eq!(outcomes, ["layers-in-ram", "vram"]);
    let short = ask("best", "4k", &[]);
    assert!(short["less_kept_free"].is_null(), "{short}");
}

/// Speeds are those of the tokens that are planned.
#[test]
fn need_says_where_less_context_is_planned_than_was_given() {
    let sandbox = Sandbox::new();
    let asked = |ctx: &str| {
        let mut need = sandbox.plimsoll();
        need.args(["need", "catalogue:qwen3-14b", "--ctx", ctx]);
        String::from_utf8(need.assert().success().get_output().stdout.clone()).unwrap()
    };
    let text = asked("64k");
    assert!(text.starts_with("Not the context that was given"), "{text}");
    assert!(text.contains("≈ tok/s at 40k") && !text.contains("at 64k"), "{text}");
    let text = asked("32k");
    assert!(text.starts_with("Asked for") && text.contains("≈ tok/s at 32k"), "{text}");
}
