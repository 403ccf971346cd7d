//! Installs the C interface below `target`, compiles the examples and `interface.c` against it, and runs them: with
//! each compiler that is here, under AddressSanitizer, and under valgrind.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PROGRAMS: [&str; 3] = [
    "tests/interface.c",
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
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-g",
    ];
    run(Command::new(compiler)
        .args(strict)
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
    } else {
        assert_eq!(run(&mut command), "all as expected\n");
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
        for source in PROGRAMS {
            judge(&compile(compiler, source, &["-O2"], &shared()), &[]);
        }
    }
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
        judge(&compile("gcc", source, &["-O1"], &r#static()), &strict);
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
    run(compiler
        .arg("-include")
        .arg(include.join("tickwheel.h"))
        .args(["-x", "c++", "/dev/null"]));
}
