//! Described machines: presets, files, and machines saved by name.

use predicates::str::contains;
use rstest::rstest;
use serde_json::Value;

use super::{Sandbox, json, refused};

/// `plimsoll plan MODEL` with these arguments.
fn plan(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    json(sandbox.plimsoll().arg("plan").arg(sandbox.model("llama3.1-8b")).args(arguments))
}

const GARAGE: [&str; 6] = [
    "--gpu",
    "name=A,total=24GiB,free=22GiB,compute=8.6",
    "--gpu",
    "M4 Max 64GB",
    "--ram",
    "total=96GiB,free=90GiB,swap=1GiB",
];

#[test]
fn a_machine_printed_elsewhere_can_be_planned_for() {
    let sandbox = Sandbox::new();
    let printed = json(sandbox.plimsoll().arg("devices").args(GARAGE));
    assert_eq!((&printed["origin"], &printed["os"]), (&"simulated".into(), &"macos".into()));
    let path = sandbox.file("garage.json", printed.to_string().as_bytes());
    let there = plan(&sandbox, &["--machine", path.to_str().unwrap()]);
    let here = plan(&sandbox, &GARAGE);
    assert_eq!(
        (&there["devices"], &there["layers"], &there["verdict"]),
        (&here["devices"], &here["layers"], &here["verdict"])
    );
    assert_eq!(there["origin"], "simulated");
    // options take precedence over the file
    let other = plan(&sandbox, &["--machine", path.to_str().unwrap(), "--gpu", "none"]);
    assert_eq!((other["devices"].as_array().unwrap().len(), &other["devices"][0]["free"]), (1, &(90_u64 << 30).into()));
    sandbox
        .plimsoll()
        .arg("plan")
        .arg(sandbox.model("llama"))
        .args(["--machine", path.to_str().unwrap(), "--engine", "ollama-0.24"])
        .assert()
        .success()
        .stdout(contains("simulated machine"));
}

#[test]
fn detected_machines_round_trip_through_a_file() {
    let sandbox = Sandbox::new();
    let sysfs = sandbox.folder.path().to_str().unwrap();
    let printed = json(sandbox.plimsoll().args(["devices", "--nvml", "/nowhere/nvml.so", "--sysfs", sysfs]));
    assert_eq!(printed["origin"], "detected");
    let path = sandbox.file("here.json", printed.to_string().as_bytes());
    let plan = plan(&sandbox, &["--machine", path.to_str().unwrap()]);
    let (ram, there) = (printed["devices"].as_array().unwrap().last().unwrap(), &plan["devices"][0]);
    assert_eq!((&plan["origin"], &there["total"], &there["free"]), (&"simulated".into(), &ram["total"], &ram["free"]));
}

#[test]
fn a_plan_on_this_machine_is_not_simulated() {
    let sandbox = Sandbox::new();
    let sysfs = sandbox.folder.path().to_str().unwrap();
    let here = plan(&sandbox, &["--nvml", "/nowhere/nvml.so", "--sysfs", sysfs]);
    assert_eq!(here["origin"], "detected");
}

#[test]
fn machines_are_saved_listed_opened_and_removed() {
    let sandbox = Sandbox::new();
    let machine = |arguments: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("machine").args(arguments);
        command
    };
    machine(&["list"]).assert().success().stdout(contains("No saved machines"));
    machine(&[&["save", "garage"], &GARAGE[..]].concat()).assert().success().stdout(contains("--machine 'garage'"));
    machine(&["save", "two cards", "--gpu", "RTX 4090", "--gpu", "RTX 4090", "--ram", "64GiB"]).assert().success();
    machine(&["list"]).assert().success().stdout(contains("2 × RTX 4090, 64.0 GiB of RAM"));
    let listed = json(&mut machine(&["list"]));
    assert_eq!(listed["machines"].as_array().unwrap().len(), 2);
    assert_eq!(listed["machines"][0]["gpus"], serde_json::json!(["A", "M4 Max 64GB"]));

    assert_eq!(plan(&sandbox, &["--machine", "garage"])["devices"], plan(&sandbox, &GARAGE)["devices"]);
    let said = refused(sandbox.plimsoll().args(["devices", "--machine", "garrage"]), 2);
    assert!(said.contains("garage") && said.contains("two cards"), "{said}");
    machine(&["remove", "garage"]).assert().success();
    refused(&mut machine(&["remove", "garage"]), 2);
    refused(&mut machine(&["save", "../garage", "--gpu", "none", "--ram", "1GiB"]), 2);
}

#[rstest]
#[case::nothing(b"", "line 1")]
#[case::text(b"RTX 4090 and a lot of RAM", "line 1")]
#[case::no_devices(b"{}", "devices")]
#[case::negative(br#"{"devices":[{"kind":"cpu","total":-5}]}"#, "-5")]
#[case::absurd(br#"{"devices":[{"kind":"cpu","total":18446744073709551615}]}"#, "1 PiB")]
#[case::more_free_than_all(br#"{"devices":[{"kind":"cpu","total":5,"free":6}]}"#, "free 6 is more than total 5")]
#[case::not_utf8(b"\xff\xfe{}", "not UTF-8 text")]
fn a_malformed_machine_file_exits_with_2(#[case] bytes: &[u8], #[case] part: &str) {
    let sandbox = Sandbox::new();
    let path = sandbox.file("broken.json", bytes);
    for command in ["plan", "devices"] {
        let mut plimsoll = sandbox.plimsoll();
        plimsoll.arg(command);
        if command == "plan" {
            plimsoll.arg(sandbox.model("llama"));
        }
        let said = refused(plimsoll.arg("--machine").arg(&path), 2);
        assert!(said.contains(part) && said.contains("broken.json"), "{said}");
    }
}

#[rstest]
#[case(&["--machine", "nowhere.json"], "does not exist")]
#[case(&["--machine", "."], "folder")]
#[case(&["--machine", ""], "is not a valid machine name")]
#[case(&["--gpu", "RTX 4091"], "RTX 4090")]
#[case(&["--gpu", "M4 Max 65GB"], "M4 Max 64GB")]
#[case(&["--gpu", "total=-1GiB"], "-1GiB")]
#[case(&["--gpu", "4096TiB"], "1 PiB")]
#[case(&["--ram", "total=64GiB,swap=4096TiB"], "1 PiB")]
#[case(&["--presets", "Voodoo 2"], "Voodoo 2")]
fn an_unknown_machine_exits_with_2(#[case] arguments: &[&str], #[case] part: &str) {
    let said = refused(Sandbox::new().plimsoll().arg("devices").args(arguments), 2);
    assert!(said.contains(part), "{said}");
}

/// A machine's file with `count` cards.
fn with_cards(sandbox: &Sandbox, count: usize) -> std::path::PathBuf {
    let gpu = serde_json::json!({ "kind": "gpu", "total": 25_769_803_776_u64 });
    let mut devices = vec![gpu; count];
    devices.push(serde_json::json!({ "kind": "cpu", "total": 68_719_476_736_u64 }));
    sandbox.file("machine.json", serde_json::json!({ "devices": devices }).to_string().as_bytes())
}

#[rstest]
#[case(0, "llama.cpp")]
#[case(15, "llama.cpp")]
#[case(64, "ollama-0.24")]
fn machines_with_none_or_many_gpus_are_planned(#[case] count: usize, #[case] engine: &str) {
    let sandbox = Sandbox::new();
    let path = with_cards(&sandbox, count);
    let plan = plan(&sandbox, &["--machine", path.to_str().unwrap(), "--engine", engine]);
    assert_eq!(plan["devices"].as_array().unwrap().len(), count + 1);
}

#[rstest]
#[case(16)]
#[case(254)]
fn more_gpus_than_llama_cpp_takes_are_refused(#[case] count: usize) {
    let sandbox = Sandbox::new();
    let path = with_cards(&sandbox, count);
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(sandbox.model("llama3.1-8b")).args(["--engine", "llama.cpp", "--machine"]).arg(&path);
    let said = refused(&mut command, 2);
    assert!(said.contains("more than 15 GPUs"), "{said}");
}

#[test]
fn presets_are_listed_and_found() {
    let sandbox = Sandbox::new();
    let all = json(sandbox.plimsoll().args(["devices", "--presets"]));
    let all = all["presets"].as_array().unwrap();
    assert!(all.len() >= 80);
    for preset in all {
        assert!(preset["total"].as_u64() >= preset["free_assumed"].as_u64(), "{preset}");
        assert!(preset["bytes_per_second"].as_u64() > Some(0), "{preset}");
    }
    let found = json(sandbox.plimsoll().args(["devices", "--presets", "halo 128"]));
    assert_eq!(found["presets"][0]["name"], "Strix Halo 128GB");
    let text = sandbox.plimsoll().args(["devices", "--presets", "4090"]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("RTX 4090") && text.contains("1008") && text.contains("assumed"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_system_by_name_sets_its_ram() {
    let sandbox = Sandbox::new();
    let system = plan(&sandbox, &["--gpu", "M4 Max 64GB,macos=15"]);
    assert_eq!(
        (&system["devices"][0]["total"], &system["devices"][1]["total"]),
        (&(48_u64 << 30).into(), &(64_u64 << 30).into())
    );
    assert!(system["notes"].to_string().contains("macOS 13 to 15 (48.0 GiB) is assumed free"), "{}", system["notes"]);
    let newest = plan(&sandbox, &["--gpu", "M4 Max 128GB"]);
    assert_eq!(newest["devices"][0]["total"], 110_100_u64 << 20);
    assert!(
        newest["notes"].to_string().contains("on macOS 26 (107.5 GiB; macos= states another version)"),
        "{}",
        newest["notes"]
    );
    let refused = sandbox.plimsoll().args(["devices", "--gpu", "RTX 4090,macos=15"]).assert().failure();
    let words = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(words.contains("a Mac that is known by name"), "{words}");
}

#[test]
fn joined_computers_are_listed_in_the_plan() {
    let sandbox = Sandbox::new();
    let save = |name: &str, card: &str| {
        let arguments = ["machine", "save", name, "--gpu", card, "--gpu", card, "--ram", "64GiB"];
        sandbox.plimsoll().args(arguments).assert().success();
    };
    save("garage", "total=6GiB,name=A");
    save("attic", "total=4GiB,name=B");
    let here = ["--gpu", "total=3GiB,name=C", "--ram", "32GiB", "--engine", "llama.cpp", "--ctx", "8192"];
    let alone = plan(&sandbox, &here);
    let both = plan(&sandbox, &[&here[..], &["--join", "garage", "--join", "attic"]].concat());
    assert_eq!(
        (&alone["verdict"], &both["verdict"], &both["origin"]),
        (&"split".into(), &"gpu".into(), &"simulated".into())
    );
    assert_eq!(both["confidence"], "modelled");
    let computers: Vec<_> = both["devices"].as_array().unwrap().iter().map(|device| &device["computer"]).collect();
    assert_eq!(
        computers,
        [&Value::Null, &"garage".into(), &"garage".into(), &"attic".into(), &"attic".into(), &Value::Null]
    );

    // each computer's total is the sum over its devices, and the totals cover everything
    let held = both["computers"].as_array().unwrap();
    assert_eq!(held.len(), 3);
    let sum = |key: &str| held.iter().map(|computer| computer[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("asked"), both["totals"]["all"].as_u64().unwrap());
    assert_eq!(sum("layers"), both["layer_count"].as_u64().unwrap());
    // the joined GPUs come first: the first layer on a GPU is remote, the output layer is local or on the last remote one
    assert_eq!(both["layers"][0]["device"], "GPU1");

    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(sandbox.model("llama3.1-8b")).args(here).args(["--join", "garage"]);
    let text = command.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Machines") && text.contains("garage (GPU1, GPU2)") && text.contains("@garage"), "{text}");

    // the commands to start there and here
    let mut command = sandbox.plimsoll();
    command.arg("export").arg(sandbox.model("llama3.1-8b")).args(here).args([
        "--join",
        "garage",
        "--as",
        "llama-server",
    ]);
    let text = String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
    for part in ["on garage, in a trusted network: ggml-rpc-server -H 0.0.0.0 -p 50052", "--rpc garage:50052"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // a computer without GPUs, an engine of Ollama's, and one computer too many
    let ollama = plan(&sandbox, &["--gpu", "24GiB", "--ram", "32GiB", "--join", "garage"]);
    assert!(ollama["notes"].to_string().contains("are not used") && ollama["devices"].as_array().unwrap().len() == 2);
    for (arguments, part) in [
        (vec!["--join", "nowhere"], "neither a file"),
        (vec!["--join", "4090"], "for a machine with RTX 4090 use --gpu '4090'"),
        (vec!["--join", "garage", "--join", "garage"], "already joined"),
    ] {
        let said = refused(sandbox.plimsoll().arg("devices").args(arguments), 2);
        assert!(said.contains("--join") && said.contains(part), "{said}");
    }
    sandbox.plimsoll().args(["machine", "save", "bare", "--gpu", "none", "--ram", "8GiB"]).assert().success();
    assert!(refused(sandbox.plimsoll().args(["devices", "--join", "bare"]), 2).contains("no GPU to add"));
}
