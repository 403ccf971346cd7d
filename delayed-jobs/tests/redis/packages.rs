//! Packages: what the script makes is complete, and its program runs.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::support::{PROGRAM, Scene, node_of};

async fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_script_makes_packages_whose_program_serves() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/package.sh");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let out = path("out");
    let made = run(script, &["--program", PROGRAM, &out]).await;
    let made: Vec<&str> = made.lines().collect();
    let has_dpkg = Command::new("dpkg-deb")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .await;
    assert_eq!(made.len(), if has_dpkg.is_ok() { 2 } else { 1 }, "{made:?}");
    for package in made {
        let root = path(if package.ends_with(".deb") {
            "deb"
        } else {
            "tar"
        });
        std::fs::create_dir(&root).unwrap();
        if package.ends_with(".deb") {
            let fields = run("dpkg-deb", &["--field", package]).await;
            assert!(fields.contains("Depends: libc6 (>= 2."), "{fields}");
            run("dpkg-deb", &["--extract", package, &root]).await;
        } else {
            let options = ["-xzf", package, "-C", &root, "--strip-components", "1"];
            run("tar", &options).await;
        }
        for file in [
            "usr/lib/systemd/system/delayed-jobs.service",
            "usr/share/doc/delayed-jobs/README.md",
            "usr/share/doc/delayed-jobs/MY-JOB-DOES-NOT-COME.md",
            "usr/share/doc/delayed-jobs/operations/alerts.yml",
            "usr/share/doc/delayed-jobs/examples/worker.py",
        ] {
            assert!(Path::new(&root).join(file).is_file(), "{package}: {file}");
        }
        let notices = Path::new(&root).join("usr/share/doc/delayed-jobs/THIRD-PARTY.txt");
        let notices = std::fs::read_to_string(notices).unwrap();
        for name in ["redis", "axum", "tokio", "ring"] {
            assert!(notices.contains(&format!("\n{name} ")), "{package}: {name}");
        }
        let program = Path::new(&root).join("usr/bin/delayed-jobs");
        let scene = Scene::new().await;
        let node = node_of(&program, &scene.settings).await;
        scene.shared_by(1).await;
        assert_eq!(node.creates().await.0, 201);
    }
}
