//! The guide's table of defaults says what the builder has.

use super::{assert_none, read};
use std::collections::BTreeMap;
use tickwheel::Builder;

/// The settings of a builder by their names, those within another one as `budget.fire`, as `Debug` shows them.
fn defaults() -> BTreeMap<String, String> {
    let (mut settings, mut inside) = (BTreeMap::new(), Vec::new());
    for line in format!("{:#?}", Builder::new()).lines() {
        let line = line.trim().trim_end_matches(',');
        match line.split_once(": ") {
            Some((name, value)) if value.ends_with('{') => inside.push(name.to_owned()),
            Some((name, value)) => {
                // The settings that all timers share are a struct of their own.
                let above = inside.last().filter(|name| *name != "settings");
                let name = above.map_or(name.to_owned(), |above| format!("{above}.{name}"));
                settings.insert(name, value.trim_matches('"').to_owned());
            }
            None if line == "}" => drop(inside.pop()),
            None => {}
        }
    }
    settings
}

#[test]
fn the_guide_has_the_defaults_of_all_settings() {
    // What users do not set by itself.
    let left_out = ["is_tick_set", "membarrier", "on_executor", "in_test_time"];
    let mut defaults = defaults();
    defaults.retain(|name, _| !left_out.contains(&&**name) && !name.starts_with("hooks"));
    assert!(defaults.len() > 10, "{defaults:?}");
    let guide = read("docs/GUIDE.md");
    let chapter = guide.split("## Defaults").nth(1).expect("the chapter");
    let chapter = chapter.split("\n## ").next().unwrap_or(chapter);
    let mut found = Vec::new();
    for row in chapter.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split(" | ");
        let name = cells.next().unwrap_or("").trim_matches(['|', ' ', '`']);
        let said = cells.next().unwrap_or("").trim().replace(' ', "");
        match defaults.remove(name).as_deref() {
            Some("None" | "0" | "0ns") if said == "none" => {}
            Some(there_is) if there_is == said => {}
            there_is => found.push(format!("{name}: the table says {said}, it is {there_is:?}")),
        }
    }
    found.extend(defaults.keys().map(|name| format!("{name} is missing")));
    assert_none("defaults", &found);
}
