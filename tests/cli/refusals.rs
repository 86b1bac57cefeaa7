//! Errors: the right exit status, one line on standard error, and never a panic.

use rstest::rstest;

use super::{Sandbox, json, refused};

#[rstest]
#[case::no_file("nothing.gguf", None, "does not exist")]
#[case::empty("empty.gguf", Some(&[][..]), "empty.gguf")]
#[case::random("random.gguf", Some(&[0x5a; 4096][..]), "random.gguf")]
#[case::text("notes.txt", Some(&b"just some words\n"[..]), "notes.txt")]
#[case::magic_alone("magic.gguf", Some(&b"GGUF"[..]), "magic.gguf")]
#[case::line_break("two\nlines.gguf", None, "lines.gguf")]
fn a_file_that_is_no_model_exits_with_3(#[case] name: &str, #[case] bytes: Option<&[u8]>, #[case] part: &str) {
    let sandbox = Sandbox::new();
    let path = match bytes {
        Some(bytes) => sandbox.file(name, bytes),
        None => sandbox.folder.path().join(name),
    };
    let said = refused(sandbox.plimsoll().arg("plan").arg(&path), 3);
    assert!(said.contains(part), "{said}");
    // the planner reports it before it takes over the screen
    refused(sandbox.plimsoll().arg(&path), 3);
}

#[rstest]
#[case::mistyped("plann model.gguf --ctx 4k", "did you mean 'plimsoll plan'?")]
#[case::mistyped_with_an_option("devcies --json", "did you mean 'plimsoll devices'?")]
#[case::behind("model.gguf plan", "the command must come first: 'plimsoll plan model.gguf'")]
#[case::none_such("x y", "'x' is not a command")]
#[case::no_task("machine", "save, list, remove")]
fn an_unknown_command_exits_with_2(#[case] words: &str, #[case] part: &str) {
    let said = refused(Sandbox::new().plimsoll().args(words.split(' ')), 2);
    assert!(said.contains(part) && !said.contains("Usage") && !said.contains("Examples"), "{said}");
}

#[test]
fn a_folder_exits_with_3() {
    let sandbox = Sandbox::new();
    let said = refused(sandbox.plimsoll().arg("plan").arg(sandbox.folder.path()), 3);
    assert!(said.contains("folder"), "{said}");
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_exits_with_3() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let path = sandbox.model("llama");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        eprintln!("skipped: this user (root?) may read every file");
        return;
    }
    let said = refused(sandbox.plimsoll().arg("plan").arg(&path), 3);
    assert!(said.contains("permission"), "{said}");
}

#[test]
fn a_header_cut_anywhere_exits_with_3() {
    let sandbox = Sandbox::new();
    let whole = std::fs::read(sandbox.model("llama")).unwrap();
    for part in [5, 9, 24, 100, whole.len() / 2, whole.len() * 9 / 10] {
        let path = sandbox.file("cut.gguf", &whole[..part.min(whole.len() - 1)]);
        refused(sandbox.plimsoll().arg("plan").arg(&path), 3);
    }
}

#[test]
fn a_model_without_block_count_is_named_with_its_key() {
    let sandbox = Sandbox::new();
    let whole = std::fs::read(sandbox.model("llama")).unwrap();
    let key = b"llama.block_count";
    let at = whole.windows(key.len()).position(|bytes| bytes == key).unwrap();
    let mut other = whole;
    other[at..at + key.len()].copy_from_slice(b"llama.block_cuont");
    let path = sandbox.file("nameless.gguf", &other);
    let said = refused(sandbox.plimsoll().arg("plan").arg(&path), 3);
    assert!(said.contains("llama.block_count") && said.contains("nameless.gguf"), "{said}");
}

#[rstest]
#[case(&["--ctx", "-1"], "--ctx")]
#[case(&["--ctx", "1099511627777"], "--ctx")]
#[case(&["--ctx", "lots"], "--ctx")]
#[case(&["--parallel", "0"], "--parallel")]
#[case(&["--batch", "0"], "--batch")]
#[case(&["--kv-type", "q7"], "--kv-type")]
#[case(&["--kv-type", "f16", "--cache-type-k", "q8_0"], "--cache-type-k")]
#[case(&["--flash-attn", "maybe"], "--flash-attn")]
#[case(&["--gpu-layers", "-2"], "--gpu-layers")]
#[case(&["--gpu-layers", "most"], "--gpu-layers")]
#[case(&["--outputs", "some"], "--outputs")]
#[case(&["--tensor-split", "1,x"], "--tensor-split")]
#[case(&["--gpu-overhead", "512XB"], "--gpu-overhead")]
#[case(&["--gpu-overhead", "-1"], "--gpu-overhead")]
#[case(&["--gpu", "24XB"], "--gpu")]
#[case(&["--gpu", "total=24GiB,free=25GiB"], "--gpu")]
#[case(&["--gpu", "total=99999999999999999999"], "--gpu")]
#[case(&["--gpu", "total=18446744073709551615"], "1 PiB")]
#[case(&["--gpu", "none", "--gpu", "24GiB"], "--gpu")]
#[case(&["--gpu", "RTX 4091"], "RTX 4090")]
#[case(&["--ram", "total=1GiB,free=2GiB"], "--ram")]
#[case(&["--ram", "much"], "--ram")]
#[case(&["--engine", "vllm"], "ollama-0.24")]
#[case(&["--cxt", "8192"], "--cxt")]
#[case(&["--ctx"], "--ctx")]
fn wrong_arguments_exit_with_2(#[case] arguments: &[&str], #[case] part: &str) {
    let sandbox = Sandbox::new();
    let said = refused(sandbox.plimsoll().arg("plan").arg(sandbox.model("llama")).args(arguments), 2);
    assert!(said.contains(part), "{said}");
    // the planner takes the same flags
    refused(sandbox.plimsoll().arg(sandbox.model("llama")).args(arguments), 2);
}

#[test]
fn wrong_arguments_are_reported_before_the_model_is_read() {
    refused(Sandbox::new().plimsoll().args(["plan", "nothing.gguf", "--gpu", "24XB"]), 2);
}

#[test]
fn settings_that_the_engine_refuses_exit_with_2() {
    let sandbox = Sandbox::new();
    let said =
        refused(sandbox.plan("llama").args(["--gpu", "8GiB", "--cache-type-k", "q8_0", "--cache-type-v", "q4_0"]), 2);
    assert!(said.contains("q8_0"), "{said}");
}

#[test]
fn no_model_and_unknown_commands_exit_with_2() {
    let sandbox = Sandbox::new();
    refused(sandbox.plimsoll().arg("plan"), 2);
    refused(sandbox.plimsoll().args(["devices", "everything"]), 2);
    refused(sandbox.plimsoll().args(["completions", "cmd"]), 2);
    refused(sandbox.plimsoll().args(["plan", "a.gguf", "b.gguf"]), 2);
}

#[test]
fn a_planner_without_a_terminal_says_so() {
    let said = refused(&mut Sandbox::new().plimsoll(), 2);
    assert!(said.contains("plimsoll plan"), "{said}");
}

#[rstest]
#[case::smallest_context(&["--ctx", "1", "--gpu", "8GiB"])]
#[case::largest_context(&["--ctx", "1099511627776", "--gpu", "8GiB"])]
#[case::largest_of_all(&["--ctx", "1099511627776", "--parallel", "1099511627776", "--batch", "1099511627776", "--gpu", "8GiB"])]
#[case::raw_largest(&["--raw-settings", "--ctx", "1099511627776", "--parallel", "1099511627776", "--batch", "1099511627776", "--gpu", "8GiB"])]
#[case::no_context(&["--ctx", "0", "--gpu", "8GiB"])]
#[case::raw_no_context(&["--raw-settings", "--ctx", "0", "--gpu", "8GiB"])]
#[case::no_gpu(&["--gpu", "none"])]
#[case::nothing_free(&["--gpu", "total=8GiB,free=0"])]
#[case::no_memory_at_all(&["--gpu", "total=0", "--ram", "0"])]
#[case::as_much_as_is_believed(&["--gpu", "total=1125899906842624", "--gpu", "total=1125899906842624"])]
#[case::most_overhead(&["--gpu", "8GiB", "--gpu-overhead", "18446744073709551615"])]
#[case::more_layers_than_there_are(&["--gpu", "8GiB", "--gpu-layers", "1099511627776"])]
#[case::no_layers(&["--gpu", "8GiB", "--gpu-layers", "0"])]
fn extremes_are_planned(#[case] arguments: &[&str]) {
    let sandbox = Sandbox::new();
    for model in ["llama", "gemma3", "deepseek2", "hybrid"] {
        let mut command = sandbox.plimsoll();
        command.arg("plan").arg(sandbox.model(model)).args(["--engine", "ollama-0.24"]);
        if !arguments.contains(&"--ram") {
            command.args(["--ram", "64GiB"]);
        }
        let plan = json(command.args(arguments));
        assert!(plan["verdict"].is_string());
        // the text report does not panic either
        let mut text = sandbox.plimsoll();
        text.arg("plan").arg(sandbox.model(model)).args(["--engine", "ollama-0.24"]).args(arguments);
        if !arguments.contains(&"--ram") {
            text.args(["--ram", "64GiB"]);
        }
        text.assert().success();
    }
}

#[test]
fn sixty_four_gpus_are_planned() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.plan("llama3.1-70b");
    for index in 0..64 {
        command.args(["--gpu", &format!("name=g{index},total=24GiB,free=23GiB")]);
    }
    assert_eq!(json(&mut command)["devices"].as_array().unwrap().len(), 65);
}
