//! Each example is run by a test, and the README leads to it.

use super::{assert_none, read, root};

#[test]
fn examples_are_run_and_stand_in_the_readme() {
    let readme = read("README.md");
    let (mut found, mut seen) = (Vec::new(), 0);
    for (folder, tests) in [
        ("examples", "tests/examples.rs"),
        ("util/examples", "util/tests/examples.rs"),
    ] {
        let tests = read(tests);
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder exists") {
            let file = entry.expect("it can be read").file_name();
            let file = file.to_string_lossy();
            // A folder is a package of its own, with tests of its own.
            let Some(name) = file.strip_suffix(".rs") else {
                continue;
            };
            seen += 1;
            if !tests.contains(&format!("../examples/{file}")) {
                found.push(format!("{folder}/{file} is not run"));
            }
            if !readme.contains(&format!("`{name}`")) {
                found.push(format!("{folder}/{file} is not in the README"));
            }
        }
    }
    assert!(seen > 20, "only {seen} examples were looked at");
    assert_none("examples", &found);
}
