//! The page of the layers: what each device has, and what is taken off it.

use serde_json::{Value, json};

use super::super::alike;
use super::super::page::{Paper, Tab, TeachPage};
use super::{DeviceWalk, LayersPage, SubtractionKind};
use crate::page::{Column, Hue, Narrow, Page, Span};
use crate::units::{Bytes, Difference};

impl TeachPage for LayersPage {
    fn tab(&self) -> Tab {
        Tab::Layers
    }

    /// `{"devices":[{"id","free","steps":[{"title","taken","left",…}],"end"}],"result"}`
    fn json(&self) -> Value {
        json!({ "devices": self.devices, "result": self.result })
    }

    fn printed(&self, _: Paper) -> Page {
        self.page()
    }

    fn last_step(&self) -> Option<u64> {
        Some(self.steps() as u64)
    }
}

impl LayersPage {
    /// A table for each device; layers that take the same are in one row.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        page.heading("Where the layers go");
        page.text(&self.result, Hue::Text);
        for device in self.devices.iter().filter(|device| !device.steps.is_empty()) {
            page.heading(&format!("{}, {}: {} free", device.id, device.name, device.free));
            let columns = vec![Column::left("", 0), Column::right("takes", 0), Column::right("left", 0)];
            page.table(columns, device.rows().into_iter().map(SubtractionRow::cells).collect(), Narrow::Below(1));
            page.blank();
            page.text(&device.end, Hue::Text);
        }
        page
    }
}

/// Amounts in one row: one, or layers in a row that take the same.
#[derive(Clone, Debug, PartialEq)]
pub struct SubtractionRow {
    /// `layers 12–31`.
    pub title: String,
    /// Their places among the steps of the device, in order.
    pub steps: Vec<usize>,
    /// What each takes.
    pub taken: Bytes,
    /// Whether it is given back.
    pub given_back: bool,
    /// What is left after the last.
    pub left: Difference,
}

impl SubtractionRow {
    /// What they take: `12 × 150 MiB`.
    pub fn takes(&self) -> String {
        match (self.steps.len(), self.given_back) {
            (_, true) => format!("+{}", self.taken),
            (1, false) => self.taken.to_string(),
            (count, false) => format!("{count} × {}", self.taken),
        }
    }

    fn cells(self) -> Vec<Span> {
        let takes = self.takes();
        let hue = if self.left.is_short() { Hue::Over } else { Hue::Text };
        vec![self.title.into(), takes.into(), Span::new(&self.left.to_string(), hue)]
    }
}

impl DeviceWalk {
    /// Its amounts in rows.
    pub fn rows(&self) -> Vec<SubtractionRow> {
        let mut rows: Vec<(SubtractionRow, Vec<usize>)> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            let layer = if let SubtractionKind::Layer(layer) = step.kind { Some(layer) } else { None };
            let follows = |row: &&mut (SubtractionRow, Vec<usize>)| {
                row.0.taken == step.taken && layer.is_some_and(|layer| row.1.last() == Some(&(layer + 1)))
            };
            match (rows.last_mut().filter(follows), layer) {
                (Some((row, layers)), Some(layer)) => {
                    layers.push(layer);
                    let ascending: Vec<usize> = layers.iter().rev().copied().collect();
                    (row.title, row.left) = (format!("layers {}", alike::ranges(ascending)), step.left);
                    row.steps.push(at);
                }
                (_, layer) => rows.push((
                    SubtractionRow {
                        title: step.title.clone(),
                        steps: vec![at],
                        taken: step.taken,
                        given_back: step.given_back,
                        left: step.left,
                    },
                    // the output layer is not one of the blocks
                    layer.filter(|_| step.title.starts_with("layer ")).into_iter().collect(),
                )),
            }
        }
        rows.into_iter().map(|(row, _)| row).collect()
    }
}
