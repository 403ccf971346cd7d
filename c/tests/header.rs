//! The committed header is what cbindgen writes. `TICKWHEEL_WRITE_HEADER=1 cargo test -p tickwheel-c --test header`
//! writes it anew.

use std::path::Path;

#[test]
fn the_committed_header_matches_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/tickwheel.h");
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut written = Vec::new();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/lib.rs"))
        .generate();
    bindings.expect("the code is readable").write(&mut written);
    let written = String::from_utf8(written).expect("text");
    if std::env::var_os("TICKWHEEL_WRITE_HEADER").is_some() {
        std::fs::write(&path, &written).expect("the header is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == written,
        "include/tickwheel.h differs from the code: TICKWHEEL_WRITE_HEADER=1 cargo test -p tickwheel-c --test header"
    );
}
