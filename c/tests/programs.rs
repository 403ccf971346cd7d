//! Installs the C interface below `target`, compiles the examples and the programs of this folder against it, and runs
//! them: with each compiler that is here, under AddressSanitizer, and under valgrind. Builds the program of the README
//! in a folder of its own, as somebody else would.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PROGRAMS: [&str; 6] = [
    "tests/interface.c",
    "tests/waits.c",
    "tests/wrapper.cpp",
    "tests/crosswise.cpp",
    "examples/remote.c",
    "examples/echo_server.c",
];

fn is_here(tool: &str) -> bool {
    let found = Command::new(tool)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no {tool} here");
    }
    found
}

/// Runs a command that must succeed; returns what it says.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}{complained}",
        output.status
    );
    said
}

/// Returns the folder of the installation, with `usr` in it.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let set = |name: &str, value: &dyn AsRef<OsStr>| {
            let mut word = std::ffi::OsString::from(name);
            word.push("=");
            word.push(value);
            word
        };
        // Root, who installs, may have no cargo.
        for (goal, cargo) in [("all", env!("CARGO")), ("install", "false")] {
            run(Command::new("make")
                .args(["-C", env!("CARGO_MANIFEST_DIR"), goal, "PROFILE=dev"])
                .arg("PREFIX=/usr")
                .arg(set("DESTDIR", &root))
                .arg(set("TARGET", &target))
                .arg(set("CARGO", &cargo)));
        }
        root
    })
}

/// Compiles a program; `linked` says how it comes to the library.
fn compile(compiler: &str, source: &str, options: &[&str], linked: &[String]) -> PathBuf {
    let name = Path::new(source).file_stem().unwrap().to_string_lossy();
    let program = installed().join(format!("{name}-{compiler}{}", options.concat()));
    let strict = [
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-g",
    ];
    let (compiler, standard) = match compiler {
        "gcc" if source.ends_with("cpp") => ("g++", "-std=c++17"),
        "clang" if source.ends_with("cpp") => ("clang++", "-std=c++17"),
        _ => (compiler, "-std=c11"),
    };
    run(Command::new(compiler)
        .args(strict)
        .arg(standard)
        .args(options)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source))
        .args(linked)
        .arg("-lpthread")
        .arg("-o")
        .arg(&program));
    program
}

/// Returns the compiler's options for the shared library, as pkg-config tells them.
fn shared() -> Vec<String> {
    let root = installed();
    let told = run(Command::new("pkg-config")
        .env("PKG_CONFIG_LIBDIR", root.join("usr/lib/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", root)
        // Otherwise /usr goes without saying.
        .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")
        .args(["--cflags", "--libs", "tickwheel"]));
    told.split_whitespace().map(String::from).collect()
}

/// Returns the same for the static library.
fn r#static() -> Vec<String> {
    let usr = installed().join("usr");
    let (include, library) = (usr.join("include"), usr.join("lib/libtickwheel.a"));
    let include = format!("-I{}", include.display());
    let library = library.display().to_string();
    [&include, &library, "-lm", "-ldl"].map(String::from).into()
}

/// Runs a compiled program, below `wrapper` if there is one, and judges what it does.
fn judge(program: &Path, wrapper: &[&str]) {
    judge_with(program, wrapper, &[]);
}

/// Like [`judge`], with arguments for the programs of `tests`.
fn judge_with(program: &Path, wrapper: &[&str], arguments: &[&str]) {
    let mut words: Vec<&OsStr> = wrapper.iter().map(OsStr::new).collect();
    words.push(program.as_os_str());
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.env("LD_LIBRARY_PATH", installed().join("usr/lib"));
    let name = program.file_name().unwrap().to_string_lossy();
    if name.starts_with("echo_server") {
        judge_server(&mut command);
    } else if name.starts_with("remote") {
        let said = run(&mut command);
        let order = "cancelled: after a minute\nafter 20 ms, in time\nafter 40 ms, in time\n";
        assert_eq!(said, format!("{order}1 pending\nthe loop is gone\n"));
    } else if name.starts_with("libuv") {
        let said = run(&mut command);
        assert_eq!(said, "tick\ntick\ntick\ntimeout of slow\n");
    } else {
        let said = run(command.args(arguments));
        assert_eq!(said, "all as expected\n");
    }
}

/// Three clients: one hangs up, one falls silent at once, and one after its second message.
fn judge_server(command: &mut Command) {
    const IDLE: Duration = Duration::from_millis(300);
    let mut server = command
        .args(["0", "300", "3"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut line = String::new();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let connect = || TcpStream::connect(address).unwrap_or_else(|error| panic!("{line}: {error}"));
    drop(connect());
    let since = Instant::now();
    let mut silent = connect();
    let mut talking = connect();
    let mut last = Instant::now();
    for message in [b"first ", b"second"] {
        last = Instant::now();
        talking.write_all(message).unwrap();
        let mut echo = [0; 6];
        talking.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, message);
    }
    for (client, since) in [(&mut silent, since), (&mut talking, last)] {
        assert_eq!(client.read(&mut [0; 6]).unwrap(), 0, "the server closes it");
        assert!(
            since.elapsed() >= IDLE,
            "closed after {:?}",
            since.elapsed()
        );
    }
    assert!(server.wait().unwrap().success());
}

#[test]
fn programs_run_with_each_compiler() {
    if !["make", "pkg-config"].iter().all(|tool| is_here(tool)) {
        return;
    }
    for compiler in ["gcc", "clang"].into_iter().filter(|tool| is_here(tool)) {
        // The last one leaves a loop behind, as leak checkers would say.
        for source in PROGRAMS.into_iter().chain(["tests/leaving.cpp"]) {
            judge(&compile(compiler, source, &["-O2"], &shared()), &[]);
        }
    }
}

#[test]
fn timers_run_inside_of_a_libuv_loop() {
    let tools = ["make", "pkg-config", "gcc"];
    let has_libuv = || {
        let found = Command::new("pkg-config").arg("libuv").status();
        found.is_ok_and(|status| status.success())
    };
    if !tools.iter().all(|tool| is_here(tool)) || !has_libuv() {
        println!("skipped: there is no libuv here");
        return;
    }
    let told = run(Command::new("pkg-config").args(["--cflags", "--libs", "libuv"]));
    let linked = shared().into_iter();
    let linked: Vec<_> = linked
        .chain(told.split_whitespace().map(String::from))
        .collect();
    let source = "examples/libuv.c";
    judge(&compile("gcc", source, &["-O2"], &linked), &[]);
}

/// A candidate's name is its own; a release's is that of its major version.
#[test]
fn the_shared_library_names_its_version() {
    if !["make", "readelf"].iter().all(|tool| is_here(tool)) {
        return;
    }
    let library = installed().join("usr/lib/libtickwheel.so");
    let said = run(Command::new("readelf").arg("-d").arg(library));
    let version = match env!("CARGO_PKG_VERSION_PRE") {
        "" => env!("CARGO_PKG_VERSION_MAJOR"),
        _ => env!("CARGO_PKG_VERSION"),
    };
    let soname = format!("[libtickwheel.so.{version}]");
    assert!(said.contains(&soname), "{said}");
}

#[test]
fn programs_run_under_address_sanitizer() {
    if !["make", "gcc"].iter().all(|tool| is_here(tool)) {
        return;
    }
    for source in PROGRAMS {
        let checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover"];
        judge(&compile("gcc", source, &checks, &r#static()), &[]);
    }
}

#[test]
fn programs_run_under_valgrind() {
    if !["make", "gcc", "valgrind"].iter().all(|tool| is_here(tool)) {
        return;
    }
    // glibc keeps the stacks of threads that have ended; what lies there is possibly lost, to valgrind.
    let leaks = [
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    let strict = [&["valgrind", "-q", "--error-exitcode=9"], &leaks[..]].concat();
    for source in PROGRAMS {
        let program = compile("gcc", source, &["-O1"], &r#static());
        judge_with(&program, &strict, &["30"]);
    }
}

#[test]
fn the_header_is_cpp_as_well() {
    if !["make", "g++"].iter().all(|tool| is_here(tool)) {
        return;
    }
    let include = installed().join("usr/include");
    let mut compiler = Command::new("g++");
    compiler.args([
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-fsyntax-only",
    ]);
    for header in ["tickwheel.h", "tickwheel.hpp"] {
        run(Command::new(compiler.get_program())
            .args(compiler.get_args())
            .arg("-include")
            .arg(include.join(header))
            .args(["-x", "c++", "/dev/null"]));
    }
}

/// Returns the first block of the README in a language.
fn block(language: &str) -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```\n").unwrap().0.to_owned()
}

/// Gives the README's program a line: it echoes it, and ends when no other one comes.
fn judge_loop(folder: &Path, program: &str) {
    let mut run = Command::new(folder.join(program))
        .env("LD_LIBRARY_PATH", installed().join("usr/lib"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = run.stdin.take().unwrap();
    input.write_all(b"hello\n").unwrap();
    let said = run.wait_with_output().unwrap();
    drop(input);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success(), "{program}: {text}");
    assert!(text.starts_with("hello\nidle, and "), "{program}: {text}");
}

fn needed(program: &Path) -> bool {
    let said = run(Command::new("readelf").arg("-d").arg(program));
    said.contains("[libtickwheel.so.")
}

#[test]
fn the_readmes_program_is_built_elsewhere_with_pkg_config() {
    let tools = ["make", "pkg-config", "gcc", "readelf"];
    if !tools.iter().all(|tool| is_here(tool)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("loop.c"), block("c")).unwrap();
    let commands = block("sh");
    // Where nothing is installed in /usr.
    let environment = format!(
        "export PKG_CONFIG_LIBDIR={0}/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR={0} PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
         PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 LIBRARY_PATH={0}/usr/lib",
        installed().display()
    );
    let mut tried = 0;
    for command in commands.lines().filter(|line| line.starts_with("cc ")) {
        let script = format!("{environment}; set -e; {command}");
        run(Command::new("sh")
            .current_dir(folder.path())
            .args(["-c", &script]));
        judge_loop(folder.path(), "loop");
        let is_shared = needed(&folder.path().join("loop"));
        assert_eq!(is_shared, !command.contains("libtickwheel.a"), "{command}");
        tried += 1;
    }
    assert_eq!(tried, 2);
}

#[test]
fn the_readmes_program_is_built_elsewhere_with_cmake() {
    let tools = ["make", "cmake", "gcc", "readelf"];
    if !tools.iter().all(|tool| is_here(tool)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("loop.c"), block("c")).unwrap();
    let project = block("cmake");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed().join("usr").display());
    for (target, is_shared) in [("tickwheel", true), ("static", false)] {
        let linked = project.replace("tickwheel::tickwheel", &format!("tickwheel::{target}"));
        std::fs::write(folder.path().join("CMakeLists.txt"), linked).unwrap();
        for arguments in [
            &["-B", target, "-S", ".", &prefix][..],
            &["--build", target],
        ] {
            let mut cmake = Command::new("cmake");
            run(cmake.current_dir(folder.path()).args(arguments));
        }
        let program = format!("{target}/loop");
        judge_loop(folder.path(), &program);
        assert_eq!(needed(&folder.path().join(program)), is_shared);
    }
    // A major version that is not here.
    let other = project.replace("tickwheel 1.0 ", "tickwheel 2.0 ");
    assert_ne!(other, project);
    std::fs::write(folder.path().join("CMakeLists.txt"), other).unwrap();
    let mut cmake = Command::new("cmake");
    let refused = cmake
        .current_dir(folder.path())
        .args(["-B", "other", "-S", ".", &prefix])
        .output()
        .unwrap();
    assert!(!refused.status.success());
}

#[test]
fn licences_are_installed() {
    if !is_here("make") {
        return;
    }
    let folder = installed().join("usr/share/licenses/tickwheel");
    for (file, part) in [
        ("LICENSE-MIT", "Permission is hereby granted"),
        ("LICENSE-APACHE", "Apache License"),
        ("THIRD-PARTY.txt", "crossbeam-epoch"),
    ] {
        let text = std::fs::read_to_string(folder.join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(part), "{file}");
    }
}
