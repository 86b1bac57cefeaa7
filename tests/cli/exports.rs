//! `plimsoll export`, and answers as SVG.

use predicates::str::{contains, starts_with};

use super::Sandbox;

#[test]
fn a_modelfile_is_what_ollama_users_get() {
    let sandbox = Sandbox::new();
    sandbox.model("llama");
    let mut command = sandbox.plimsoll();
    command.args([
        "export",
        "llama.gguf",
        "--ctx",
        "8192",
        "--engine",
        "ollama-0.24",
        "--gpu",
        "24GiB",
        "--ram",
        "64GiB",
    ]);
    command.assert().success().stdout(starts_with("FROM ./llama.gguf\nPARAMETER num_ctx 8192\n"));
}

#[test]
fn each_engine_lists_its_formats() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.2-1b");
    let mut command = sandbox.plimsoll();
    command.arg("export").arg(&model).args([
        "--as",
        "env",
        "--engine",
        "llama.cpp",
        "--gpu",
        "24GiB",
        "--ram",
        "64GiB",
    ]);
    command.assert().code(2).stderr(contains(
        "--as: llama.cpp has no env: use one of llama-server, compose, k8s, plimsoll, scenario, json, markdown, svg",
    ));

    let mut command = sandbox.plimsoll();
    command.arg("export").arg(&model).args([
        "--engine",
        "llama.cpp",
        "--gpu",
        "24GiB",
        "--ram",
        "64GiB",
        "--ctx",
        "8192",
    ]);
    command.assert().success().stdout(contains("\nllama-server -m ")).stdout(contains(" -c 8192\n"));

    let mut command = sandbox.plimsoll();
    command.arg("export").arg(&model).args(["--as", "poem"]);
    command.assert().code(2).stderr(contains("use one of modelfile, options, env, systemd"));
}

#[test]
fn a_llama_server_command_is_pinned() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama3.2-1b");
    let export = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("export").arg(&model).args(["--pin", "--gpu", "2GiB", "--ram", "64GiB"]).args(more);
        command.assert()
    };
    let pinned = export(&["--engine", "llama.cpp"]).success();
    pinned
        .stdout(contains("# pinned as llama-server's fit decides for this machine: -c -ngl\n"))
        .stdout(contains(" -ngl "));
    let own = export(&["--as", "llama-server"]).success();
    own.stdout(contains("# pinned as llama-server's fit decides for this machine: "));
    let refused = export(&["--as", "json"]).code(2);
    refused.stderr(contains("--pin: json has no such options: use it with --as llama-server"));
}

#[test]
fn existing_files_are_not_overwritten() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama");
    let export = |more: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.arg("export").arg(&model).args(["--gpu", "none", "--ram", "64GiB", "--engine", "ollama-0.24"]);
        command.args(["--as", "options", "--output", "options.json"]).args(more);
        command.assert()
    };
    export(&[]).success().stdout("");
    let kept = sandbox.file("options.json", b"mine");
    export(&[]).code(1).stderr(contains("options.json' cannot be written: ")).stderr(contains("--force"));
    assert_eq!(std::fs::read(&kept).unwrap(), b"mine");
    export(&["--force"]).success();
    assert!(std::fs::read_to_string(&kept).unwrap().contains("num_ctx"));
}

#[test]
fn answers_export_as_svg() {
    let sandbox = Sandbox::new();
    let model = sandbox.model("llama");
    for question in ["sweep", "matrix"] {
        let mut command = sandbox.plimsoll();
        command.arg(question).arg(&model).args(["--gpu", "8GiB", "--ram", "64GiB", "--engine", "ollama-0.24", "--svg"]);
        command.assert().success().stdout(starts_with("<svg ")).stdout(predicates::str::ends_with("</svg>\n"));
    }
}

#[test]
fn original_weights_are_planned_and_exported_as_the_file_made_of_them() {
    let sandbox = Sandbox::new();
    let folder = sandbox.folder.path().join("new-model");
    let files = crate::original::files("qwen3 moe stacked", 3, 1);
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.json"), files.config).unwrap();
    std::fs::write(folder.join("model.safetensors"), &files.weights[0].1).unwrap();
    let on_machine = ["--engine", "llama.cpp", "--gpu", "24GiB", "--ram", "64GiB"];
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(&folder).args(on_machine);
    let planned = command.assert().success();
    planned
        .stdout(contains("new-model · qwen3moe · BF16"))
        .stdout(contains("to be made: python convert_hf_to_gguf.py"));

    let file = sandbox.folder.path().join("header.gguf");
    let mut command = sandbox.plimsoll();
    command.arg("export").arg(&folder).args(on_machine).args(["--quant", "Q8_0", "--as", "gguf-header"]);
    command.assert().code(2).stderr(contains("name a new file with --output"));
    command.arg("--output").arg(&file).assert().success();
    let mut command = sandbox.plimsoll();
    command.arg("plan").arg(&file).args(on_machine);
    command.assert().success().stdout(contains("new-model · qwen3moe · Q8_0"));

    let mut command = sandbox.plimsoll();
    command
        .arg("plan")
        .arg(&folder)
        .args(["--engine", "ollama", "--quant", "Q4_Z", "--gpu", "24GiB", "--ram", "64GiB"]);
    command.assert().code(2);
}

#[test]
fn what_starts_a_model_of_the_catalogue_ends_with_how_to_have_it() {
    let sandbox = Sandbox::new();
    let last = |model: &str, format: &str, quant: &[&str]| {
        let mut command = sandbox.plimsoll();
        command.args(["export", model, "--as", format, "--gpu", "RTX 4090", "--ram", "64GiB"]).args(quant);
        let output = command.assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap().lines().last().unwrap().to_owned()
    };
    for format in ["modelfile", "env", "systemd", "ollama-start"] {
        assert_eq!(last("catalogue:qwen3-14b", format, &[]), "# to have the model: ollama pull qwen3:14b", "{format}");
    }
    for format in ["llama-server", "compose", "k8s"] {
        let said = last("catalogue:qwen3-14b", format, &[]);
        assert!(
            said.starts_with("# to have the model: ollama pull qwen3:14b; where its file is: "),
            "{format}: {said}"
        );
    }
    let nowhere = last("catalogue:qwen3-14b", "modelfile", &["--quant", "IQ3_M"]);
    assert_eq!(nowhere, "# no place is known that has the model in this quantisation");
}
