//! What is written is whole, or the file stays as it was; what a person may have edited is not overwritten.

use std::fs;
use std::process::{Command, Output};

use rstest::rstest;

use super::{Sandbox, refused};

const MODEL: &str = "catalogue:qwen3-8b";
const MACHINE: [&str; 4] = ["--gpu", "24GiB", "--ram", "64GiB"];

/// Runs the program where no file may have a byte, as on a full disk.
fn on_a_full_disk(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let program = sandbox.plimsoll().get_program().to_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(program).args(arguments);
    shell.env("HOME", sandbox.folder.path()).current_dir(sandbox.folder.path());
    shell.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME").env_remove("XDG_CACHE_HOME");
    shell.output().unwrap()
}

#[cfg(target_os = "linux")]
#[rstest]
#[case("plan.toml", &["export", MODEL, "--as", "scenario", "--output", "plan.toml", "--force"], 1)]
#[case("set.ini", &["together", MODEL, "--engine", "llama.cpp", "--as", "presets", "--output", "set.ini", "--force"], 1)]
#[case("out/handout.md", &["explain", MODEL, "--page", "all", "--markdown", "--output", "out", "--force"], 1)]
#[case("man/plimsoll.1", &["man", "--folder", "man"], 1)]
#[case(".config/plimsoll/machines/garage.json", &["machine", "save", "garage", "--force"], 2)]
fn a_full_disk_leaves_the_old_file_whole(#[case] place: &str, #[case] arguments: &[&str], #[case] status: i32) {
    let sandbox = Sandbox::new();
    let path = sandbox.folder.path().join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "what was there").unwrap();
    let machine: &[&str] = if arguments[0] == "man" { &[] } else { &MACHINE };
    let output = on_a_full_disk(&sandbox, &[arguments, machine].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1 && said.contains("cannot be written"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "what was there");
    let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "nothing is left beside it");
    // and where there is room it is written
    sandbox.plimsoll().args(arguments).args(machine).assert().success();
    assert_ne!(fs::read_to_string(&path).unwrap(), "what was there");
}

#[rstest]
#[case("plan.toml", &["export", MODEL, "--as", "scenario", "--output", "plan.toml"], 1)]
#[case("set.ini", &["together", MODEL, "--engine", "llama.cpp", "--as", "presets", "--output", "set.ini"], 1)]
#[case("out/handout.md", &["explain", MODEL, "--page", "all", "--markdown", "--output", "out"], 1)]
#[case(".config/plimsoll/machines/garage.json", &["machine", "save", "garage"], 2)]
#[case("seen.jsonl", &["watch", "--once", "--record", "seen.jsonl"], 2)]
fn nothing_is_overwritten_unasked(#[case] place: &str, #[case] arguments: &[&str], #[case] status: i32) {
    let sandbox = Sandbox::new();
    let path = sandbox.folder.path().join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "what a person wrote").unwrap();
    let machine: &[&str] = if arguments[0] == "watch" { &[] } else { &MACHINE };
    let said = refused(sandbox.plimsoll().args(arguments).args(machine), status);
    assert!(said.contains("exist") || said.contains("is saved already"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "what a person wrote");
}

#[test]
fn what_is_no_folder_is_said() {
    let sandbox = Sandbox::new();
    sandbox.file("file", b"");
    let said = refused(sandbox.plimsoll().args(["export", MODEL, "--output", "file/plan.txt"]).args(MACHINE), 1);
    assert!(said.contains("'file/plan.txt' cannot be written"), "{said}");
    let said = refused(sandbox.plimsoll().args(["export", MODEL, "--output", "none/plan.txt"]).args(MACHINE), 1);
    assert!(said.contains("'none/plan.txt' cannot be written") && !said.contains(".tmp"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_written_can_be_read_by_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    sandbox.plimsoll().args(["export", MODEL, "--output", "plan.txt"]).args(MACHINE).assert().success();
    let other = sandbox.file("other", b"");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&sandbox.folder.path().join("plan.txt")), mode(&other));
}

#[test]
fn this_machine_keeps_its_name() {
    let sandbox = Sandbox::new();
    let said = refused(sandbox.plimsoll().args(["machine", "save", "this"]).args(MACHINE), 2);
    assert!(said.contains("'this' names the present machine in --machine this"), "{said}");
    sandbox.plimsoll().args(["machine", "save", "that"]).args(MACHINE).assert().success();
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_ends_early_is_said_once() {
    let sandbox = Sandbox::new();
    let run = |log: &str| sandbox.plimsoll().args(["plan", MODEL, "--log", log]).args(MACHINE).output().unwrap();
    let output = run("/dev/full");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{said}");
    assert!(said.starts_with("note: the log '/dev/full' is not complete") && said.lines().count() == 1, "{said}");
    assert!(run("whole.log").stderr.is_empty());
    let status = Command::new("mkfifo").arg(sandbox.folder.path().join("pipe")).status().unwrap();
    assert!(status.success());
    let said = refused(
        sandbox.plimsoll().args(["plan", MODEL, "--log", "pipe"]).timeout(std::time::Duration::from_secs(20)),
        2,
    );
    assert!(said.contains("it is a pipe"), "{said}");
}
