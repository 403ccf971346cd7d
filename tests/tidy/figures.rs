//! A figure that a page quotes in a link stands on the page of figures that the link leads to, as it was printed.

use super::links::{pages, plain};
use super::{assert_none, read};
use std::collections::BTreeSet;

/// The pages that hold figures: written from a program's output, and changed only with it.
const FIGURES: [&str; 3] = [
    "docs/PERFORMANCE.md",
    "docs/performance/",
    "benches/results/",
];

/// The numbers of a text, each as it is written there: `0.63`, `100 000`.
fn numbers(text: &str) -> BTreeSet<String> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let numbers = parts.map(|part| part.trim_matches('.'));
    let numbers = numbers.filter(|part| !part.is_empty());
    numbers.map(str::to_owned).collect()
}

/// The links of a page: their text, which may go over the end of a line, and what they lead to.
fn links(page: &str) -> Vec<(String, String)> {
    let text = read(page).replace('\n', " ");
    let ends = text.match_indices("](").map(|(end, _)| end);
    ends.filter_map(|end| {
        let start = text[..end].rfind('[')?;
        let target = text[end + 2..].split([')', ' ', '#']).next()?;
        Some((text[start + 1..end].to_owned(), target.to_owned()))
    })
    .collect()
}

#[test]
fn figures_stand_on_the_page_that_they_are_quoted_from() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for page in pages() {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (text, target) in links(&page) {
            let target = plain(&format!("{folder}/{target}"));
            let quoted = numbers(&text);
            let is_figures = FIGURES.iter().any(|it| target.starts_with(it));
            if !is_figures || quoted.is_empty() || target == page {
                continue;
            }
            seen += 1;
            let there = numbers(&read(&target));
            let missing = quoted.difference(&there);
            found.extend(missing.map(|it| format!("{page}: {it} is not in {target}")));
        }
    }
    assert!(seen > 2, "only {seen} links with figures");
    assert_none("figures", &found);
}
