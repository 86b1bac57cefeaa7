//! Manual pages and completions.

use std::fs;
use std::process::{Command as Process, Stdio};

use predicates::str::{contains, starts_with};
use rstest::rstest;

use super::{Sandbox, refused};

#[test]
fn the_manual_page_describes_the_program() {
    let sandbox = Sandbox::new();
    let page = sandbox.plimsoll().arg("man").assert().success();
    page.stdout(contains(".TH plimsoll 1")).stdout(contains("plimsoll\\-plan(1)")).stdout(contains("PLIMSOLL_THEME"));
}

#[test]
fn a_folder_gets_a_page_per_command() {
    let sandbox = Sandbox::new();
    sandbox.plimsoll().args(["man", "--folder", "share/man1"]).assert().success().stdout("");
    let pages: Vec<_> = fs::read_dir(sandbox.folder.path().join("share/man1")).unwrap().collect();
    let read = |name: &str| fs::read_to_string(sandbox.folder.path().join("share/man1").join(name)).unwrap();
    assert!(pages.len() > 15, "{pages:?}");
    assert!(read("plimsoll-plan.1").contains("\\-\\-kv\\-type"), "{}", read("plimsoll-plan.1"));
    assert!(read("plimsoll-machine-save.1").contains("\\-\\-force"));
    sandbox.file("taken", b"");
    refused(sandbox.plimsoll().args(["man", "--folder", "taken"]), 1);
}

#[rstest]
#[case("bash", "_plimsoll()")]
#[case("zsh", "#compdef plimsoll")]
#[case("fish", "# Print")]
fn completions_are_written(#[case] shell: &str, #[case] start: &str) {
    let script = Sandbox::new().plimsoll().args(["completions", shell]).assert().success();
    if shell == "fish" {
        script.stdout(contains("-a \"report\""));
    } else {
        script.stdout(starts_with(start)).stdout(contains("report"));
    }
}

/// A way to run each command that ends well, and one that cannot read what it is to read, if it reads something.
const COMMANDS: [(&[&str], &[&str]); 24] = [
    (&["plan", MODEL], &["plan", "none.gguf"]),
    (&["max", MODEL], &["max", "none.gguf"]),
    (&["why", MODEL], &["why", "none.gguf"]),
    (&["best", MODEL], &["best", "none.gguf"]),
    (&["place", MODEL, "--engine", "llama.cpp"], &["place", "none.gguf"]),
    (&["need", MODEL, "--ram", "64GiB"], &["need", "none.gguf"]),
    (&["together", MODEL], &["together", "none.gguf"]),
    (&["check", MODEL, "--ps", "100% GPU", "--gpu", "24GiB"], &["check", "none.log"]),
    (&["apply", "--help"], &["apply", "none.gguf", "--yes"]),
    (&["watch", "--once"], &["watch", "--replay", "none.jsonl"]),
    (&["sweep", MODEL], &["sweep", "none.gguf"]),
    (&["matrix", MODEL], &["matrix", "none.gguf"]),
    (&["export", MODEL], &["export", "none.gguf"]),
    (&["explain", MODEL, "--page", "formulas"], &["explain", "none.gguf", "--page", "formulas"]),
    (&["list"], &["list", "hf://o/r"]),
    (&["devices"], &[]),
    (&["machine", "list"], &[]),
    (&["cache"], &[]),
    (&["config"], &[]),
    (&["schema"], &[]),
    (&["report", MODEL], &[]),
    (&["completions", "bash"], &[]),
    (&["mcp"], &[]),
    (&["man"], &[]),
];
const MODEL: &str = "catalogue:qwen3-8b";

/// The statuses in the help of a command.
fn statuses(sandbox: &Sandbox, command: &str) -> Vec<i32> {
    let output = sandbox.plimsoll().args([command, "--help"]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, behind) = text.split_once("\nExit status:\n").unwrap_or_else(|| panic!("{command} lists none: {text}"));
    let lines = behind.lines().take_while(|line| line.starts_with("  "));
    lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn every_status_that_help_lists_can_be_seen() {
    // tests/running and tests/cli/apply.rs apply plans to stand-ins, tests/cli/agents.rs sends messages
    let elsewhere = [("apply", 1), ("apply", 4), ("apply", 130), ("mcp", 1)];
    let help = Sandbox::new().plimsoll().arg("--help").assert().success().get_output().clone();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let lines = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let listed: Vec<_> =
        lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert_eq!(listed.len(), COMMANDS.len(), "{listed:?}");
    for (well, unread) in COMMANDS {
        let (sandbox, command) = (Sandbox::new(), well[0]);
        for status in statuses(&sandbox, command) {
            let program = |arguments: &[&str]| {
                let mut program = sandbox.plimsoll();
                program.args(arguments);
                program
            };
            let seen = match status {
                _ if elsewhere.contains(&(command, status)) => continue,
                0 => program(well).output().unwrap().status,
                1 => {
                    let full = fs::File::options().write(true).open("/dev/full").unwrap();
                    let program = program(well);
                    let mut process = Process::new(program.get_program());
                    process.args(well).env("HOME", sandbox.folder.path()).stdout(full).stderr(Stdio::null());
                    process.status().unwrap()
                }
                2 => program(&[command, "--none-such"]).output().unwrap().status,
                3 => program(unread).output().unwrap().status,
                5 => program(&[command, MODEL, "--gpu", "none", "--fits", "vram"]).output().unwrap().status,
                130 => {
                    let program = program(&[]);
                    let mut process = Process::new(program.get_program());
                    process
                        .args(["watch", "--samples", "100"])
                        .env("HOME", sandbox.folder.path())
                        .stdout(Stdio::piped());
                    let mut child = process.spawn().unwrap();
                    // it catches Ctrl-C before it prints
                    std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut [0]).unwrap();
                    Process::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
                    child.wait().unwrap()
                }
                _ => panic!("{command} ends with {status} nowhere here"),
            };
            assert_eq!(seen.code(), Some(status), "{command}");
        }
    }
}

#[test]
fn every_page_has_statuses_variables_and_files() {
    let sandbox = Sandbox::new();
    sandbox.plimsoll().args(["man", "--folder", "man"]).assert().success();
    for page in fs::read_dir(sandbox.folder.path().join("man")).unwrap() {
        let text = fs::read_to_string(page.unwrap().path()).unwrap();
        for section in [".SH \"EXIT STATUS\"", ".SH ENVIRONMENT", ".SH FILES", "PLIMSOLL_OFFLINE", "OLLAMA_HOST"] {
            assert!(text.contains(section), "{section}\n{text}");
        }
        let home = sandbox.folder.path().to_str().unwrap();
        assert!(text.contains("/config.toml") && !text.contains(home), "{text}");
    }
}

/// Each file that the pages list is one that the program opens: it stands in the way if it is a folder or a file.
#[cfg(target_os = "linux")]
#[rstest]
#[case(".config/plimsoll/config.toml", true, &["plan", MODEL], 2)]
#[case(".config/plimsoll/lessons", false, &["explain", MODEL, "--page", "lessons"], 2)]
#[case(".config/plimsoll/machines", false, &["machine", "list"], 2)]
#[case(".config/plimsoll/measured.json", true, &["machine", "forget"], 2)]
#[case(".cache/plimsoll/headers", false, &["cache"], 1)]
fn listed_files_are_opened(
    #[case] place: &str,
    #[case] is_file: bool,
    #[case] arguments: &[&str],
    #[case] status: i32,
) {
    let sandbox = Sandbox::new();
    let page = sandbox.plimsoll().arg("man").assert().success().get_output().stdout.clone();
    let page = String::from_utf8(page).unwrap().replace("\\-", "-").replace("\\.", ".");
    assert!(page.contains(&format!("~/{place}")), "{place}\n{page}");
    let path = sandbox.folder.path().join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let stands_there = if is_file { fs::create_dir(&path) } else { fs::write(&path, "") };
    stands_there.unwrap();
    let said = refused(sandbox.plimsoll().args(arguments), status);
    assert!(said.contains(place), "{said}");
}

#[test]
fn scripts_ask_the_program_for_what_it_knows() {
    let sandbox = Sandbox::new();
    let values = |arguments: &[&str]| {
        let output = sandbox.plimsoll().arg("complete-values").args(arguments).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    sandbox.plimsoll().args(["machine", "save", "garage", "--gpu", "24GiB"]).assert().success();
    assert_eq!(values(&["machine"]), "garage\nthis\n");
    assert_eq!(values(&["machine", "ga"]), "garage\n");
    assert!(
        values(&["card", "rtx 40"]).lines().count() > 2
            && values(&["card", "rtx 40"]).lines().all(|card| card.starts_with("RTX 40"))
    );
    assert!(values(&["model", "catalogue:qwen3-8"]).contains("catalogue:qwen3-8b\n"));
    assert_eq!(values(&["model", "--none"]), "");
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.plimsoll().args(["completions", shell]).assert().success();
        let script = String::from_utf8(script.get_output().stdout.clone()).unwrap();
        assert!(script.contains("plimsoll complete-values"), "{shell}");
        // in zsh a model in the command's place would count
        assert!(!script.contains("$line[2]"), "{shell}");
    }
    // it is told to nobody
    let help = sandbox.plimsoll().arg("--help").assert().success().get_output().stdout.clone();
    assert!(!String::from_utf8(help).unwrap().contains("complete-values"));
}

/// What bash completes at the end of a line.
#[cfg(target_os = "linux")]
#[rstest]
#[case("plimsoll devices --machine ga", &["garage"])]
#[case("plimsoll plan catalogue:qwen3-8", &["qwen3-8b"])]
#[case("plimsoll plan x.gguf --gpu RTX", &[r"RTX\ 4090"])]
#[case("plimsoll plan x.gguf --engine oll", &["ollama", "ollama-0.24"])]
#[case("plimsoll explain x.gguf --page sched", &["schedule"])]
#[case("plimsoll dev", &["devices"])]
fn bash_completes(#[case] line: &str, #[case] expected: &[&str]) {
    let sandbox = Sandbox::new();
    sandbox.plimsoll().args(["machine", "save", "garage", "--gpu", "24GiB"]).assert().success();
    let script = sandbox.plimsoll().args(["completions", "bash"]).assert().success().get_output().stdout.clone();
    let script = sandbox.file("plimsoll.bash", &script);
    let program = sandbox.plimsoll().get_program().to_owned();
    // as bash calls it: words split where it splits them
    let asked = format!(
        "plimsoll() {{ '{}' \"$@\"; }}\nsource '{}'\nCOMP_LINE={line:?}\nCOMP_POINT=${{#COMP_LINE}}\n\
         read -ra COMP_WORDS <<< \"${{COMP_LINE//:/ : }}\"\n\
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _plimsoll_known plimsoll \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\" 2>/dev/null\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        program.display(),
        script.display()
    );
    let output = Process::new("bash").args(["-c", &asked]).env("HOME", sandbox.folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let completed: Vec<&str> = text.lines().collect();
    for word in expected {
        assert!(completed.contains(word), "{line}: {completed:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The replies of bash for `line`, each as the words that it is on a command line.
#[cfg(target_os = "linux")]
fn replies(sandbox: &Sandbox, words: &[&str]) -> Vec<Vec<String>> {
    let line = words.join(" ");
    let words = words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" ");
    let script = sandbox.plimsoll().args(["completions", "bash"]).assert().success().get_output().stdout.clone();
    let script = sandbox.file("plimsoll.bash", &script);
    assert!(!fs::read_to_string(&script).unwrap().contains("compgen -f"), "names of files would stand as they are");
    let program = sandbox.plimsoll().get_program().to_owned();
    let asked = format!(
        "plimsoll() {{ '{}' \"$@\"; }}\nsource '{}'\nCOMP_LINE={line:?}\nCOMP_POINT=${{#COMP_LINE}}\n\
         COMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _plimsoll_known plimsoll \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\" 2>/dev/null\n\
         for reply in \"${{COMPREPLY[@]}}\"; do eval \"set -- $reply\"; printf '%s\\n' \"$#\" \"$@\"; done",
        program.display(),
        script.display()
    );
    let mut bash = Process::new("bash");
    bash.args(["-c", &asked]).env("HOME", sandbox.folder.path()).current_dir(sandbox.folder.path());
    let output = bash.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let mut all = Vec::new();
    while let Some(count) = lines.next() {
        all.push(lines.by_ref().take(count.parse().unwrap()).map(str::to_owned).collect());
    }
    all
}

#[cfg(target_os = "linux")]
#[test]
fn what_bash_completes_names_the_very_file_or_nothing() {
    let sandbox = Sandbox::new();
    let whole = std::fs::read(sandbox.model("qwen2.5-0.5b")).unwrap();
    let folder = sandbox.folder.path().join(".lmstudio/models/pub/set");
    fs::create_dir_all(&folder).unwrap();
    // those that a shell reads otherwise would make a file here
    let harmless = ["plain.gguf", "d e.gguf", "ü+1.gguf"];
    let others = [
        "a$(touch made).gguf",
        "b;touch made;.gguf",
        "c`touch made`.gguf",
        "f&g.gguf",
        "h'i.gguf",
        "j(k).gguf",
        "l\nm.gguf",
        "n>made.gguf",
    ];
    for name in harmless.iter().chain(&others) {
        fs::write(folder.join(name), &whole).unwrap();
    }
    let listed = String::from_utf8(
        sandbox.plimsoll().args(["complete-values", "model", ""]).assert().success().get_output().stdout.clone(),
    )
    .unwrap();
    let start = folder.display().to_string();
    let found = replies(&sandbox, &["plimsoll", "plan", &format!("{start}/")]);
    let names: Vec<&str> = found
        .iter()
        .map(|words| match words.as_slice() {
            [one] => one.rsplit('/').next().unwrap(),
            other => panic!("one word each: {other:?}"),
        })
        .filter(|name| name.contains(".gguf"))
        .collect();
    for name in harmless {
        assert!(names.contains(&name), "{name}: {names:?}\n{listed}");
    }
    assert!(names.iter().all(|name| harmless.contains(name)), "{names:?}");
    assert!(others.iter().all(|name| !listed.contains(name)), "{listed}");
    assert!(!sandbox.folder.path().join("made").exists());
    // in the middle of a name with a blank
    let found = replies(&sandbox, &["plimsoll", "plan", &format!("{start}/d\\ ")]);
    assert!(found.contains(&vec![format!("{start}/d e.gguf")]), "{found:?}");
    let found = replies(&sandbox, &["plimsoll", "plan", "x.gguf", "--gpu", r"RTX\ 40"]);
    assert!(found.contains(&vec!["RTX 4090".to_owned()]), "{found:?}");
    // within quotes that are open it stands as it is
    let found = replies(&sandbox, &["plimsoll", "plan", "x.gguf", "--gpu", "'RTX 40"]);
    assert!(found.contains(&vec!["RTX".to_owned(), "4090".to_owned()]), "{found:?}");
}
