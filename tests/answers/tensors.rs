//! Which tensors are where.

use plimsoll::answer::tensors::{TensorRow, TensorTable};
use plimsoll::engine::{EngineId, PlanRequest};
use plimsoll::plan::PartKind;
use plimsoll::settings::{GpuLayers, Settings};
use plimsoll::units::Bytes;

use crate::{fixtures, support};

/// Models of all kinds of blocks.
const MODELS: [&str; 10] = [
    "llama3.1-8b",
    "gemma3-4b",
    "gemma-4-e2b",
    "gpt-oss-20b",
    "qwen3-30b-a3b",
    "glm-4.5-air",
    "deepseek-v2-lite",
    "mamba-2.8b",
    "qwen3-coder-next",
    "llama4-scout",
];

fn request(name: &str, gibibytes: &[u64], settings: Settings) -> PlanRequest {
    PlanRequest::new(EngineId::LlamaCpp, fixtures::model(name), fixtures::cards(gibibytes), settings)
}

fn table(request: &PlanRequest) -> TensorTable {
    TensorTable::of(request, true).unwrap().unwrap()
}

/// Bytes on a device.
fn held(table: &TensorTable, device: usize) -> Bytes {
    let cells = (0..table.rows.len()).flat_map(|row| (0..table.parts.len()).map(move |column| (row, column)));
    let cells = cells.filter_map(|(row, column)| table.cell(row, column));
    cells.filter_map(|cell| cell.devices.get(&device)).copied().sum()
}

#[test]
fn the_table_holds_every_byte_of_the_models_weights() {
    for name in MODELS {
        for gibibytes in [&[][..], &[4], &[12, 6], &[80, 80]] {
            let request = request(name, gibibytes, Settings::default());
            let Ok(plan) = request.plan() else { continue };
            let table = table(&request);
            let model = plan.parts.iter().find(|part| part.kind == PartKind::Model).unwrap();
            for (device, memory) in model.devices.iter().enumerate() {
                assert_eq!(held(&table, device), memory.weights, "{name} on {gibibytes:?}, device {device}");
            }
        }
    }
}

#[test]
fn without_overrides_tensors_are_where_they_are_by_themselves() {
    for name in support::names_in(&["models"]) {
        let settings = Settings { gpu_layers: GpuLayers::Count(9), ..Settings::default() };
        let request = request(&name, &[24, 12], settings);
        let Ok(Some(resolved)) = request.resolved() else { continue };
        let moved: Vec<_> = resolved.tensors(2).into_iter().filter(|tensor| tensor.device != tensor.own).collect();
        assert!(moved.is_empty(), "{name}: {moved:?}");
    }
}

#[test]
fn moved_tensors_are_on_the_device_that_they_are_moved_to() {
    for name in MODELS {
        let mut request = request(name, &[12, 6], Settings::default());
        if request.plan().is_err() {
            continue;
        }
        let before = table(&request);
        // every cell once, one after the other
        for row in &before.rows {
            for column in 0..before.parts.len() {
                let now = table(&request);
                let here = now.find(row).unwrap();
                let Some(to) = now.next_device(here, column) else { continue };
                let Ok(then) = now.moved(here, column, false, Some(to)) else { panic!("{name}: {row:?}") };
                let Ok(Some(after)) = TensorTable::of(&then, true) else { continue };
                let cell = after.cell(after.find(row).unwrap(), column).unwrap();
                let is_there = cell.devices.keys().all(|device| *device == to);
                assert!(is_there || *row == TensorRow::Output, "{name}: {row:?} {column} to {to}: {cell:?}");
                request = then;
            }
        }
    }
}
