//! Each ablation still fits the tree, and says what it is and who is measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tickwheel_benches::figure::Figure;

#[test]
fn every_patch_applies_and_names_figures_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut patches = 0;
    for entry in fs::read_dir(root.join("benches/ablations")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        patches += 1;
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("What: "), "{}", path.display());
        let measured = lines.next().unwrap().strip_prefix("Measured: ").unwrap();
        for group in measured.split(';') {
            let (_peer, figures) = group.trim().split_once(": ").unwrap();
            for figure in figures.split_whitespace() {
                assert!(Figure::of_id(figure).is_some(), "{}: {figure}", path.display());
            }
        }
        let applied = Command::new("patch")
            .args(["--dry-run", "--strip=1", "--force"])
            .current_dir(root)
            .stdin(Stdio::from(fs::File::open(&path).unwrap()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&applied.stdout).into_owned();
        assert!(applied.status.success(), "{} does not apply:\n{said}", path.display());
    }
    assert!(patches >= 6, "{patches} patches");
}
