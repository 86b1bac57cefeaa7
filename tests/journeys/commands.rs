//! Commands that are pasted, plans that are left, and values that are copied.

use plimsoll::engine::EngineId;
use plimsoll::settings::{CacheType, Context};
use plimsoll::tui::ExitReason;
use plimsoll::tui::action::Action;

use crate::harness::{self, Harness};

fn harness() -> Harness {
    Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (120, 40))
}

fn paste(harness: &mut Harness, text: &str) {
    harness.act(Action::Paste(text.to_owned()));
}

#[test]
fn a_pasted_command_is_taken_over_as_one_step() {
    let mut harness = harness();
    let before = harness.host.app.request.plan_request().unwrap();
    paste(
        &mut harness,
        "$ sudo ./llama-server \\\n  -m /models/Qwen3-8B-Q4_K_M.gguf -c 16384 \\\n  -ctk q8_0 -ctv q8_0 --host :: --foo\n",
    );
    let app = &harness.host.app;
    assert!(app.request.model.as_ref().unwrap().name.contains("Qwen3"), "{}", harness.text());
    assert_eq!((app.request.engine, app.request.settings.ctx), (EngineId::LlamaCpp, Context::Tokens(16_384)));
    assert_eq!(app.request.settings.cache_type_v, Some(CacheType::Q8_0));
    let said = app.notice.clone().unwrap();
    assert!(said.contains("--host has no effect on memory") && said.contains("--foo is not known here"), "{said}");
    harness.press("u");
    assert_eq!(harness.host.app.request.plan_request(), Some(before));
    harness.press("^R");
    assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(16_384));
}

#[test]
fn a_command_without_a_model_is_for_the_open_one() {
    let mut harness = harness();
    let opened = harness.host.app.request.opened.clone().unwrap();
    paste(&mut harness, "llama-server -m $MODEL -c 8192 -ngl 10");
    let app = &harness.host.app;
    assert!(std::sync::Arc::ptr_eq(app.request.opened.as_ref().unwrap(), &opened));
    assert_eq!(app.request.settings.ctx, Context::Tokens(8192));
    assert!(app.notice.as_ref().unwrap().contains("in the variable MODEL"), "{:?}", app.notice);
    // also into the field of the open page
    harness.press("o");
    paste(&mut harness, "OLLAMA_CONTEXT_LENGTH=4096 ollama serve");
    let app = &harness.host.app;
    assert!(harness.host.screens.is_empty());
    assert_eq!((app.request.engine, app.request.settings.ctx), (EngineId::Ollama, Context::Tokens(4096)));
}

#[test]
fn what_is_no_command_is_a_model_or_a_log() {
    for text in ["llama3.1:8b", "hf://o/r:Q4_K_M", "a server for models", "/models/llama-server/x.gguf"] {
        let mut harness = harness();
        paste(&mut harness, text);
        assert!(!harness.host.screens.is_empty(), "{text}");
    }
}

#[test]
fn a_wrong_command_changes_nothing() {
    let mut harness = harness();
    let before = harness.host.app.request.plan_request();
    for text in [
        "llama-server -m x.gguf -c 32k",
        "llama-server -m /nowhere/of-no-known-name.gguf -c 4096",
        "llama-server -ctk q3_0",
    ] {
        paste(&mut harness, text);
        assert_eq!(harness.host.app.request.plan_request(), before, "{text}");
    }
}

#[test]
fn a_changed_plan_is_left_after_asking_once() {
    let mut harness = harness();
    harness.host.app.mark_unchanged();
    harness.press("→ q");
    assert_eq!(harness.host.app.leave, None);
    assert!(harness.text().contains("q again quits"), "{}", harness.text());
    // what comes late does not hide the question
    harness.host.app.notice = Some("The model is loaded.".to_owned());
    assert!(harness.text().contains("q again quits"), "{}", harness.text());
    // another key in between, and it is asked again
    harness.press("Tab q");
    assert_eq!(harness.host.app.leave, None);
    harness.press("q");
    assert_eq!(harness.host.app.leave, Some(ExitReason::Quit));
    let scenario = harness.host.app.scenario().unwrap();
    assert!(scenario.toml().contains("\nctx = "), "{}", scenario.toml());

    for keys in ["→ u q", "→ ^C", "q"] {
        let mut harness = self::harness();
        harness.host.app.mark_unchanged();
        harness.press(keys);
        assert_eq!(harness.host.app.leave, Some(ExitReason::Quit), "{keys}");
    }
    let mut harness = self::harness();
    harness.host.app.mark_unchanged();
    harness.host.app.preferences.quits_at_once = true;
    harness.press("→ q");
    assert_eq!(harness.host.app.leave, Some(ExitReason::Quit));
}

#[test]
fn a_copied_value_can_be_pasted_back() {
    let mut harness = harness();
    harness.press("3 0 0 0 Enter y → Enter");
    let copied = harness.copied[0].clone();
    assert_eq!(copied, "3000");
    for text in [copied.as_str(), "3\u{2009}000", "3\u{202f}000", "3,000", "3 000"] {
        paste(&mut harness, text);
        harness.press("Enter");
        assert_eq!(harness.host.app.request.settings.ctx, Context::Tokens(3000), "{text}");
        harness.press("→ Enter");
    }
    harness.press("Esc Tab y");
    assert!(harness.copied[1].ends_with("iB"), "{:?}", harness.copied);
    harness.press("Tab y Tab y");
    assert_eq!(harness.copied.len(), 4, "{:?}", harness.copied);
}
