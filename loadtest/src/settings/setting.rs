//! One setting of a run as reports show it: a typed value for machines, a text for people.

use std::fmt::Display;
use std::time::Duration;

use serde_json::{Value, json};

use super::parse::show;
use crate::numbers;

/// Name, typed value and text of one setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// As the option is called, without the dashes.
    pub name: &'static str,
    /// The name in JSON, with the unit where the value has one.
    pub key: String,
    /// For machines.
    pub value: Value,
    /// For people.
    pub shown: String,
}

impl Setting {
    fn new(name: &'static str, unit: &str, value: Value, shown: String) -> Self {
        Self { name, key: format!("{}{unit}", name.replace('-', "_")), value, shown }
    }

    /// A whole number.
    pub fn count(name: &'static str, count: usize) -> Self {
        Self::new(name, "", json!(count), count.to_string())
    }

    /// A number such as a share.
    pub fn number(name: &'static str, number: f64) -> Self {
        Self::new(name, "", json!(number), number.to_string())
    }

    /// A duration, in nanoseconds for machines.
    pub fn duration(name: &'static str, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self::new(name, "_ns", json!(nanos), show(duration))
    }

    /// A limit; `null` for machines where there is none.
    pub fn limit(name: &'static str, most: Option<usize>) -> Self {
        let shown = most.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
        Self::new(name, "", json!(most), shown)
    }

    /// A rate; `null` for machines where it is as high as possible.
    pub fn rate(name: &'static str, per_second: Option<f64>) -> Self {
        let shown = per_second.map(|per_second| format!("{}/s", numbers::rate(per_second)));
        let shown = shown.unwrap_or_else(|| "as high as possible".to_owned());
        Self::new(name, "_per_second", json!(per_second), shown)
    }

    /// The choice of one thing among several.
    pub fn text(name: &'static str, text: impl Display) -> Self {
        Self::new(name, "", json!(text.to_string()), text.to_string())
    }

    /// Yes or no.
    pub fn flag(name: &'static str, flag: bool) -> Self {
        let shown = if flag { "yes" } else { "no" };
        Self::new(name, "", json!(flag), shown.to_owned())
    }

    /// The seed of the random choices.
    pub fn seed(seed: u64) -> Self {
        Self::new("seed", "", json!(seed), seed.to_string())
    }
}
