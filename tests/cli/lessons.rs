//! Lessons of a teacher's own: `--lessons FOLDER`, and the folder beside the configuration file.

use std::fs;
use std::path::PathBuf;

use plimsoll::teach::lessons;
use rstest::rstest;

use super::{Sandbox, json, refused};

/// The first built-in lesson, under another id.
fn written() -> String {
    let (_, first) = include_str!("../../assets/lessons.toml").split_once("[[lesson]]").unwrap();
    let (first, _) = first.split_once("[[lesson]]").unwrap();
    let (_, rest) = first.split_once("title = ").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    format!("[[lesson]]\nid = \"own\"\ntitle = \"A lesson of our own\"\n{rest}")
}

fn folder(sandbox: &Sandbox, texts: &[(&str, &str)]) -> PathBuf {
    let folder = sandbox.folder.path().join("course");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in texts {
        fs::write(folder.join(name), text).unwrap();
    }
    folder
}

fn explain(sandbox: &Sandbox, number: usize) -> assert_cmd::Command {
    let mut command = sandbox.plimsoll();
    command.args(["explain", "catalogue:llama3.1-8b", "--gpu", "24GiB", "--ram", "64GiB", "--page", "lessons"]);
    command.args(["--lesson", &number.to_string()]);
    command
}

#[test]
fn own_lessons_follow_the_built_in_ones() {
    let sandbox = Sandbox::new();
    let (first, second) = (written(), written().replace("\"own\"", "\"second\"").replace("of our own", "more"));
    let folder = folder(&sandbox, &[("2.toml", &second), ("1.toml", &first), ("notes.md", "not a lesson")]);
    let count = lessons::all().len();
    let page = |command: &mut assert_cmd::Command| json(command)["pages"][0].clone();
    let one = page(explain(&sandbox, count + 1).arg("--lessons").arg(&folder));
    let two = page(explain(&sandbox, count + 2).arg("--lessons").arg(&folder));
    assert_eq!((&one["title"], &two["title"]), (&"A lesson of our own".into(), &"A lesson more".into()));
    assert_eq!(one["question"], page(&mut explain(&sandbox, 1))["question"]);
    assert!(refused(&mut explain(&sandbox, count + 1), 2).contains(&format!("1 to {count}")), "elsewhere they are not");
    // beside the configuration file they need no option
    let said = sandbox.plimsoll().arg("config").output().unwrap().stdout;
    let config = PathBuf::from(String::from_utf8(said).unwrap().lines().next().unwrap());
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::rename(folder, config.with_file_name("lessons")).unwrap();
    assert_eq!(page(&mut explain(&sandbox, count + 1)), one);
    assert_eq!(page(&mut explain(&sandbox, count + 2)), two);
}

#[rstest]
#[case::no_toml("title = ", "title: = ", "line 3 (lesson 1): ")]
#[case::no_such_key("title = ", "titel = ", "line 3 (lesson 1): unknown field `titel`")]
#[case::engine("engine = \"llama.cpp\"", "engine = \"vllm\"", "unknown engine 'vllm'")]
#[case::comparison("\"cache > 0\"", "\"cache 0\"", "'cache 0' is no comparison of figures")]
#[case::guess("guess = { figure", "guess = { number", "a guess is a `figure`")]
#[case::figure_of("of = \"weights\"", "of = \"wieghts\"", "plans have no figure 'wieghts': did you mean 'weights'?")]
#[case::source("{ minus = [", "{ less = [", "a figure is `of` a plan")]
#[case::case("long = { ctx", "longer = { ctx", "there is no case 'long'")]
#[case::unnamed("graph = {", "grahp = {", "there is no figure 'graph'")]
#[case::in_a_text("{long_ctx} tokens they", "{lng_ctx} tokens they", "there is no figure 'lng_ctx'")]
#[case::itself("minus = [\"all\", \"weights\"]", "minus = [\"more_than_file\", \"weights\"]", "or from itself")]
#[case::model("model = \"llama3.1-8b\"", "model = \"llama\"", "the catalogue has no model 'llama'")]
#[case::machine("[\"24GiB\"]", "[\"24 parsec\"]", "its machine: ")]
#[case::no_gpu("[\"24GiB\"]", "[]", "its machine has no GPU")]
#[case::range("ctx = 16384", "ctx = 99999999999999", "knobs, ctx: '99999999999999' is out of range")]
#[case::gpus("long = { ctx = 32768 }", "long = { gpus = 999999999 }", "case 'long', gpus: use a number from 1 to")]
#[case::founded(", from = \"llama-model.cpp, 0.1.157\"", "", "nothing shows “The weights are there")]
#[case::id("id = \"own\"", "id = \"kinds\"", "another lesson has this id")]
#[case::character("title = \"A", "title = \"\\u001b[31mA", "has a character that cannot be shown")]
fn what_is_wrong_is_said_with_file_and_lesson(#[case] right: &str, #[case] wrong: &str, #[case] said: &str) {
    let sandbox = Sandbox::new();
    let text = written();
    assert!(text.contains(right), "{text}");
    let folder = folder(&sandbox, &[("broken.toml", &text.replacen(right, wrong, 1))]);
    let sentence = refused(explain(&sandbox, 1).arg("--lessons").arg(&folder), 2);
    assert!(sentence.contains("broken.toml', l") && sentence.contains("lesson 1"), "{sentence}");
    assert!(sentence.contains(said), "{sentence}");
    assert!(!sentence.contains('\u{1b}'), "{sentence}");
    assert_eq!(sentence.trim_end().lines().count(), 1, "{sentence}");
    // the planner says the same before it opens
    assert_eq!(refused(sandbox.plimsoll().arg("--lessons").arg(&folder), 2), sentence);
}

#[test]
fn what_is_no_folder_of_lessons_is_refused() {
    let sandbox = Sandbox::new();
    let said = |folder: &PathBuf| refused(explain(&sandbox, 1).arg("--lessons").arg(folder), 2);
    let course = folder(&sandbox, &[]);
    assert!(said(&course).contains("has no file that ends in .toml"));
    assert!(said(&course.join("nowhere")).contains("cannot be read"));
    fs::write(course.join("empty.toml"), "").unwrap();
    assert!(said(&course).contains("there is no lesson in it"));
    fs::write(course.join("empty.toml"), [0xff, 0xfe]).unwrap();
    assert!(said(&course).contains("not UTF-8"));
    fs::write(course.join("empty.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(said(&course).contains("longer than 1 MiB"));
    fs::remove_file(course.join("empty.toml")).unwrap();
    fs::create_dir(course.join("a.toml")).unwrap();
    assert!(said(&course).contains("it is a folder"));
    fs::remove_dir(course.join("a.toml")).unwrap();
    let many: String = (0..101).map(|at| written().replace("\"own\"", &format!("\"own {at}\""))).collect();
    fs::write(course.join("many.toml"), many).unwrap();
    assert!(said(&course).contains("more than 100 lessons"));
    fs::remove_file(course.join("many.toml")).unwrap();
    for at in 0..65 {
        fs::write(course.join(format!("{at}.toml")), written()).unwrap();
    }
    assert!(said(&course).contains("more than 64 files"));
}

#[cfg(unix)]
#[test]
fn devices_are_no_lessons() {
    let sandbox = Sandbox::new();
    let course = folder(&sandbox, &[]);
    std::os::unix::fs::symlink("/dev/zero", course.join("zero.toml")).unwrap();
    assert!(refused(explain(&sandbox, 1).arg("--lessons").arg(course), 2).contains("a device or a pipe"));
}
