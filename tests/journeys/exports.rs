//! Exporting a plan.

use plimsoll::engine::EngineId;
use plimsoll::gguf::FileType;
use plimsoll::settings::Settings;
use plimsoll::tui::action::Gesture;
use plimsoll::tui::screens::export::{ExportPage, Form};
use plimsoll::tui::theme::Appearance;

use crate::harness::{self, Harness};

fn harness() -> Harness {
    Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), (120, 40))
}

#[test]
fn the_shown_text_is_copied() {
    let mut harness = harness();
    harness.press("3 0 0 0 Enter x");
    assert!(harness.text().contains("PARAMETER num_ctx 3000"), "{}", harness.text());
    harness.press("Enter");
    assert!(harness.copied[0].contains("PARAMETER num_ctx 3000\n"), "{:?}", harness.copied);
    assert!(harness.text().contains("Modelfile copied."), "{}", harness.text());
    harness.press("→ y");
    assert_eq!(harness.copied[1], "{\n  \"num_ctx\": 3000\n}\n");
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
    assert_eq!(harness.copied.len(), 2);
}

/// The column and row of a format's name.
fn place_of(format: Form, harness: &Harness) -> (u16, u16) {
    let text = harness.text().replace('\u{a0}', " ");
    let title = format!("{} ", format.title());
    let found = text.lines().enumerate().find_map(|(y, line)| Some((y, line.find(&title)?, line)));
    let (y, at, line) = found.unwrap_or_else(|| panic!("no {title} in\n{text}"));
    (line[..at].chars().count() as u16, y as u16)
}

#[test]
fn a_press_of_the_mouse_shows_a_format_and_another_copies_it() {
    for size in [(60, 20), (80, 24), (120, 40)] {
        let mut harness = Harness::new(harness::model("llama3.1-8b"), harness::one_gpu(), size);
        harness.press("x");
        let formats = harness.showing::<ExportPage>().formats.clone();
        for (place, format) in formats.iter().enumerate().rev() {
            let (x, y) = place_of(*format, &harness);
            harness.mouse(Gesture::Down, x, y);
            assert_eq!(harness.showing::<ExportPage>().at, place, "{}", harness.text());
            let copied = harness.copied.len();
            let (x, y) = place_of(*format, &harness);
            harness.mouse(Gesture::Down, x + format.title().chars().count() as u16 - 1, y);
            let text = harness.showing::<ExportPage>().text.clone().unwrap().unwrap();
            assert!(
                harness.copied.len() == copied + 1 && harness.copied[copied] == text,
                "{} in {size:?}",
                format.title()
            );
        }
    }
}

#[test]
fn an_export_is_saved_under_the_typed_name_and_never_overwrites() {
    let mut harness = harness();
    harness.press("x → → → s");
    assert!(harness.text().contains("Save as ─ Enter saves"), "{}", harness.text());
    assert!(harness.text().contains("› plimsoll.conf"), "its usual name is there\n{}", harness.text());
    harness.press("Enter");
    assert!(harness.text().contains("Saved as /here/plimsoll.conf."), "{}", harness.text());
    assert!(harness.fakes.files.lock().unwrap()["plimsoll.conf"].starts_with("[Service]\n"));

    harness.press("s Enter");
    assert!(harness.text().contains("'plimsoll.conf' already exists: choose another name."), "{}", harness.text());
    harness.press("Back Back Back Back Back");
    harness.write(".two");
    harness.press("Enter");
    assert!(harness.text().contains("Saved as /here/plimsoll.two."), "{}", harness.text());
    assert_eq!(harness.fakes.files.lock().unwrap().len(), 2);

    harness.press("s Esc");
    assert!(harness.showing::<ExportPage>().naming.is_none(), "Esc leaves the name first");
    harness.press("Esc");
    assert!(harness.host.screens.is_empty());
}

#[test]
fn the_formats_are_those_of_the_engine() {
    let machine = harness::one_gpu();
    let model = harness::model("llama3.1-8b");
    let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, (120, 40), Settings::default());
    harness.press("3 0 0 0 Enter x");
    assert!(harness.text().contains("llama-server -m model.gguf -c 3000"), "{}", harness.text());
    assert!(!harness.text().contains("Modelfile"), "{}", harness.text());
}

#[test]
fn what_the_fit_decides_is_pinned_and_left_to_it_again() {
    let machine = harness::machine(2, "RTX 3060", 6, 32);
    let model = harness::model("llama3.1-8b");
    let mut harness = Harness::by(EngineId::LlamaCpp, model, machine, (120, 40), Settings::default());
    harness.press("x");
    assert!(harness.text().contains("p pins what llama-server's fit decides"), "{}", harness.text());
    let fitted = harness.showing::<ExportPage>().text.clone();
    harness.press("p");
    let text = harness.text();
    assert!(text.contains("p leaves it to llama-server's fit again") && text.contains("-ngl 33 -ts "), "{text}");
    harness.press("Enter");
    assert!(harness.copied[0].contains("# pinned as llama-server's fit decides for this machine: -c -ngl -ts\n"));
    harness.press("→");
    assert!(!harness.text().contains("fit again"), "JSON has nothing to pin\n{}", harness.text());
    harness.press("p ←");
    assert!(harness.showing::<ExportPage>().pinned, "p did nothing there");
    harness.press("p");
    assert_eq!(harness.showing::<ExportPage>().text, fitted);
}

#[test]
fn exports_name_the_source_of_an_unchanged_model() {
    let mut harness = harness();
    harness.fakes.models.insert("hf://a/b:Q8_0".to_owned(), Ok(harness::package("llama3.1-8b")));
    harness.press("b");
    harness.write("hf://a/b:Q8_0");
    harness.press("Enter x");
    assert!(harness.text().contains("FROM hf.co/a/b:Q8_0"), "{}", harness.text());
    harness.press("Esc u x");
    assert!(harness.text().contains("FROM ./model.gguf"), "the model before came from nowhere\n{}", harness.text());

    // in another quantisation the model is not a file that exists
    harness.press("Esc b");
    harness.write("hf://a/b:Q8_0");
    harness.press("Enter");
    let as_q4 =
        harness.host.app.request.plan_request().unwrap().quantised("Q4_0".parse::<FileType>().unwrap()).unwrap();
    assert_eq!(as_q4.model.file_type, Some("Q4_0"));
    harness.press("W Tab Tab Enter x");
    assert!(harness.text().contains("FROM ./model.gguf"), "{}", harness.text());
}

#[test]
fn without_a_plan_there_is_nothing_to_export() {
    let mut harness = Harness::with(None, harness::one_gpu(), (120, 40), Settings::default(), Appearance::BEST);
    harness.press("x");
    assert!(harness.text().contains("There is no plan to export."), "{}", harness.text());
}
