#!/usr/bin/env python3
"""Mutation testing: small changes of the library, of which a test must notice each.

    scripts/mutants.py                  everything; hours
    scripts/mutants.py core             those of one crate, core or src: about half of them
    scripts/mutants.py ROOM ...         the rooms of `src` and `core/src` (wheel, node, ...), or one file of them
                                        (wheel/log.rs, core/src/wheel/log.rs)

cargo-mutants says what is changed. Built one by one its mutants take days, so a few programs have all of them: each
function holds a changed copy of its body for some of its mutants, and an environment variable chooses one. A test
tells which functions it calls; each mutant runs against those tests that call its function, the quick ones first,
until one fails or does not end. What survives and has no row meets the longer tests, then the loom models, with their
quick bounds, and at last the quick tests again, with nothing beside it. Half done, it goes on where it was. What it
finds is below `target/mutants`, and stands until that file of `src` changes; what survived meets the programs of tests
that change. The last line says how long all runs of these rooms took that were needed to come to an end.

Survivors stand in scripts/mutants/survivors.tsv, each with a reason. Ends with 1 if there is another one, or if a row
there survives no more or is no mutant any more. Not tried: changes that do not compile (as copies), and `const fn`
where a constant needs one.

Needs: cargo install --locked cargo-mutants
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "mutants"
TREE = WORK / "tree"
JUDGED = ROOT / "scripts/mutants/survivors.tsv"
CORES = os.cpu_count() or 1
# How a type prints itself is nobody's business but the reader's.
UNTRIED = re.compile(r"impl (\w+::)*(Debug|Display) for")
# Its tests, with what they share, and what the models are made of.
NOT_THE_LIBRARY = re.compile(r"/tests\.rs:|/(loom-)?tests/|tests::")
# Mutants of one program, and those of one function in it: of more the compiler makes very many copies.
MOST = 1200
COPIES = 6
# Survivors meet each test, and most of the time goes into the few long ones: not into those of more seconds at first.
LONG = 2
# Nor does a test take as long each time: later they meet all of more seconds than this, so that none is left out.
NEARLY_LONG = LONG / 8
# Programs that look at the source, or measure it.
NOT_RUN = {"tidy", "api", "features", "examples", "tracing"}
CAUGHT, BY_LOOM, ALONE, ENDLESS, UNNOTICED, SURVIVED, UNBUILT = (
    "caught", "caught by loom", "caught alone", "without end", "noticed by no test", "survived", "not built")
# How often a mutant that survived all else meets each quick test: a race does not happen each time.
TRIES = 3
ANY = (-1, math.inf)
CRATES = ["--package", "tickwheel", "--package", "tickwheel-core"]
LOOM = "--cfg tickwheel_loom --cfg tickwheel_epoch_stand_in"

SWITCH = """
/// Which change is on, and which functions have been called.
#[doc(hidden)]
pub mod mutant_switch {
    use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
    static ACTIVE: AtomicU32 = AtomicU32::new(0);
    static CALLED: [AtomicU8; %d] = [const { AtomicU8::new(0) }; %d];
    #[inline(never)]
    pub fn at(function: usize) -> u32 {
        if CALLED[function].load(Ordering::Relaxed) == 0 {
            CALLED[function].store(1, Ordering::Relaxed);
        }
        ACTIVE.load(Ordering::Relaxed)
    }
    unsafe extern "C" {
        fn getenv(name: *const u8) -> *const u8;
        fn atoi(text: *const u8) -> i32;
        fn atexit(f: extern "C" fn()) -> i32;
        fn open(path: *const u8, flags: i32, mode: u32) -> i32;
        fn write(to: i32, bytes: *const u8, count: usize) -> isize;
        fn close(file: i32) -> i32;
    }
    extern "C" fn end() {
        unsafe {
            let path = getenv(c"MUTANT_CALLED".as_ptr().cast());
            // To write, made if need be, at its end.
            let file = open(path, 0o2101, 0o600);
            write(file, CALLED.as_ptr().cast(), CALLED.len());
            close(file);
        }
    }
    extern "C" fn begin() {
        unsafe {
            let active = getenv(c"MUTANT_ACTIVE".as_ptr().cast());
            if !active.is_null() {
                ACTIVE.store(atoi(active) as u32, Ordering::Relaxed);
            }
            if !getenv(c"MUTANT_CALLED".as_ptr().cast()).is_null() {
                atexit(end);
            }
        }
    }
    #[used]
    #[unsafe(link_section = ".init_array")]
    static BEGIN: extern "C" fn() = begin;
}
"""


def body_of(text, start, end):
    """Returns where the body of a function begins, behind its brace; it ends before `end - 1`."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\\\'])\'|\'\w+|[{}]', re.S)
    depth, opened = 0, None
    for found in token.finditer(text, start, end):
        if found[0] == "{":
            if depth == 0:
                opened = found.end()
            depth += 1
        elif found[0] == "}":
            depth -= 1
    return opened


class Function:
    """A function that has mutants."""

    def __init__(self, number, file, span):
        self.number, self.file, self.span, self.mutants = number, file, span, []


class Mutant:
    """A change, by its name without the line, which other changes move."""

    def __init__(self, number, name, span, text):
        self.number, self.name, self.span, self.text = number, name, span, text
        self.is_built = True
        # The hashes of the programs of tests that did not notice it.
        self.met = set()


class Source:
    """A file with the functions that have mutants."""

    def __init__(self, path):
        self.path = path
        self.text = (ROOT / path).read_text()
        self.lines = [0]
        for line in self.text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.functions = []
        self.constant = set()
        self.owners = []
        hashed = hashlib.sha256(self.text.encode()).hexdigest()[:12]
        self.log = WORK / f"{inside(path).replace('/', '-')}-{hashed}.tsv"

    def results(self):
        """Returns what is known of its mutants: what was found, and the hashes of the programs of tests that they met."""
        found = {}
        for line in self.log.read_text().splitlines() if self.log.exists() else []:
            name, said, _, met = line.split("\t")
            found[name] = said, set(met.split())
        return found

    def note(self, name, said, test, met):
        with self.log.open("a") as log:
            log.write(f"{name}\t{said}\t{test}\t{' '.join(sorted(met))}\n")

    def offset(self, place):
        return self.lines[place["line"] - 1] + place["column"] - 1

    def span(self, span):
        return self.offset(span["start"]), self.offset(span["end"])

    def render(self):
        """Returns the text with the copies; `owners` then says whose lines are whose."""
        self.owners, pieces = [], []
        self.line = 1

        def put(text):
            pieces.append(text)
            self.line += text.count("\n")

        def range_of(low, high):
            at = low
            for function in sorted(self.functions, key=lambda it: it.span):
                start, end = function.span
                if start < at or end > high or (start, end) == (low, high):
                    continue
                put(self.text[at:start])
                one(function)
                at = end
            put(self.text[at:high])

        def one(function):
            start, end = function.span
            inner = body_of(self.text, start, end)
            alive = [it for it in function.mutants if it.is_built]
            first = self.line
            head = self.text[start:inner]
            if function not in self.constant:
                put(re.sub(r"\bconst (?=(unsafe )?fn\b)", "", head, count=1))
                put(f" match crate::mutant_switch::at({function.number}) {{\n")
                for mutant in alive:
                    low, high = mutant.span
                    changed = f"{self.text[inner:low]} {mutant.text} {self.text[high:end - 1]}"
                    begin = self.line
                    put(f"{mutant.number} => return {{\n{changed}\n}},\n")
                    self.owners.append((begin, self.line - 1, mutant))
                put("_ => {} }\n")
            else:
                put(head)
            range_of(inner, end - 1)
            put(self.text[end - 1:end])
            self.owners.append((first, self.line, function))

        range_of(0, len(self.text))
        return "".join(pieces)

    def owner(self, line):
        """Returns the smallest thing that has this line."""
        having = [it for it in self.owners if it[0] <= line <= it[1]]
        return min(having, key=lambda it: it[1] - it[0])[2] if having else None


def is_in(path, rooms):
    """Returns whether a file is one of these rooms, or lies in one or in a crate that is named. No room means all."""
    own = inside(path)
    return not rooms or path.split("/")[0] in rooms or any(
        own == room or own.startswith(room + "/") or own == room + ".rs" for room in rooms)


def inside(path):
    """Returns a file's path below the sources of its crate."""
    return path.removeprefix("core/").removeprefix("src/")


def listed(rooms):
    """Returns the sources with their mutants, as cargo-mutants has them."""
    command = ["cargo", "mutants", "--list", "--json", "--no-config", *CRATES]
    rows = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    sources, functions, names, number = {}, {}, collections.Counter(), 0
    for row in rows:
        path, name = row["file"], re.sub(r":\d+:\d+:", ":", row["name"], count=1)
        if not row.get("function") or UNTRIED.search(row["name"]) or NOT_THE_LIBRARY.search(name):
            continue
        names[name] += 1
        if names[name] > 1:
            name += f" ({names[name]})"
        number += 1
        if not is_in(path, rooms):
            continue
        if path not in sources:
            sources[path] = Source(path)
        source = sources[path]
        span = source.span(row["function"]["span"])
        function = functions.get((path, span))
        if function is None:
            function = functions[path, span] = Function(len(functions), source, span)
            source.functions.append(function)
        function.mutants.append(Mutant(number, name, source.span(row["span"]), row["replacement"]))
    return sources, list(functions.values())


def cargo(arguments, flags):
    level = "3" if flags else "1"
    environment = dict(
        os.environ, CARGO_TARGET_DIR=str(WORK / ("loom" if flags else "build")),
        RUSTFLAGS=f"--cap-lints=allow {flags}", CARGO_INCREMENTAL="0",
        CARGO_PROFILE_TEST_DEBUG="0", CARGO_PROFILE_DEV_DEBUG="0",
        CARGO_PROFILE_TEST_OPT_LEVEL=level, CARGO_PROFILE_DEV_OPT_LEVEL=level)
    done = subprocess.run(["cargo", *arguments, "--message-format=json"], cwd=TREE, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def copy_tree():
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    shutil.rmtree(TREE, ignore_errors=True)
    for name in files.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)


def write(sources, functions):
    for source in sources.values():
        (TREE / source.path).write_text(source.render())
    count = max(len(functions), 1)
    for name, switch in ("core/src/lib.rs", SWITCH % (count, count)), ("src/lib.rs", "use tickwheel_core::mutant_switch;\n"):
        text = (TREE if name in sources else ROOT).joinpath(name).read_text()
        (TREE / name).write_text(text + switch)


def drop_what_does_not_compile(sources, functions, flags=""):
    while True:
        write(sources, functions)
        # The library by itself as well: without `cfg(test)` other code is there. And its tests: they have constants.
        errors = []
        for part in ([] if flags else [["--lib"], programs()]) + [["--lib", "--profile", "test"]]:
            status, said, stderr = cargo(["check", *CRATES, *part], flags)
            errors += [it["message"] for it in said
                       if it.get("reason") == "compiler-message" and it["message"]["level"] == "error"]
            if status and not errors:
                sys.exit(stderr)
        if not errors:
            return
        dropped = 0
        for error in errors:
            name = re.search(r"non-const (?:associated )?(?:function|method) `(?:.*::)?(\w+)", error["message"])
            for span in error["spans"]:
                source = sources.get(span["file_name"])
                owner = source.owner(span["line_start"]) if source else None
                if not span["is_primary"] or (owner is None and name is None):
                    continue
                if name and not isinstance(owner, Mutant):
                    named = [it for other in sources.values() for it in other.functions
                             if re.search(rf"\bconst (unsafe )?fn {name[1]}\b", other.text[it.span[0]:it.span[1]])]
                    for function in named:
                        dropped += keep_constant(function)
                    owner = None if named else owner
                if isinstance(owner, Mutant):
                    dropped += drop([owner])
                elif isinstance(owner, Function):
                    dropped += keep_constant(owner)
        if not dropped:
            sys.exit("\n".join(error["rendered"] for error in errors[:3]))
        progress(f"{len(errors)} errors, {dropped} changes do not compile")


def keep_constant(function):
    """Leaves a function as it is, because something needs it at compile time; returns whether that is new."""
    is_new = function not in function.file.constant
    function.file.constant.add(function)
    return drop(function.mutants) + is_new


def drop(mutants):
    alive = [it for it in mutants if it.is_built]
    for mutant in alive:
        mutant.is_built = False
    return len(alive)


def progress(text):
    print(f"\r\x1b[K[{int(time.monotonic() - START):5} s] {text}", end="", file=sys.stderr, flush=True)


def execute(program, test, seconds, **variables):
    """Runs one test; returns whether it passed, or None if it did not end."""
    environment = dict(os.environ, PROPTEST_CASES="64", RUST_BACKTRACE="0", CARGO_MANIFEST_DIR=str(TREE),
                       TICKWHEEL_MODELS="quick", **variables)
    environment["LD_LIBRARY_PATH"] = LIBRARIES
    child = subprocess.Popen([program, "--exact", test, "--test-threads=1"], cwd=TREE, env=environment,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)
    try:
        return child.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def programs():
    folder = ROOT / "tests"
    names = {it.stem for it in folder.glob("*.rs")} | {it.parent.name for it in folder.glob("*/main.rs")}
    return [f"--test={name}" for name in sorted(names - NOT_RUN)]


def build(flags=""):
    tests = [] if flags else programs()
    status, said, stderr = cargo(["test", "--no-run", *CRATES, "--lib", *tests], flags)
    if status:
        sys.exit(stderr)
    return [it["executable"] for it in said
            if it.get("reason") == "compiler-artifact" and it.get("executable") and it["profile"]["test"]]


def tests_of(built, functions, only_models, times):
    """Returns for each function the tests that call it and take so long, quick ones first, each with its time."""
    tests = []
    for program in built:
        said = subprocess.run([program, "--list"], cwd=TREE, check=True, stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, LD_LIBRARY_PATH=LIBRARIES)).stdout
        names = [line.removesuffix(": test") for line in said.splitlines() if line.endswith(": test")]
        tests += [(program, name) for name in names if name.startswith("models::") or not only_models]
    calling = collections.defaultdict(list)
    unfit = []

    def look(numbered):
        number, (program, test) = numbered
        called = WORK / f"called-{number}"
        called.unlink(missing_ok=True)
        begin = time.monotonic()
        passed = execute(program, test, 120, MUTANT_CALLED=str(called))
        taken = time.monotonic() - begin
        # One piece for each process that the test had.
        noted = called.read_bytes() if called.exists() else b""
        called.unlink(missing_ok=True)
        return program, test, passed, taken, {at % len(functions) for at, it in enumerate(noted) if it}

    with concurrent.futures.ThreadPoolExecutor(2 * CORES) as pool:
        for done, (program, test, passed, taken, called) in enumerate(pool.map(look, enumerate(tests)), 1):
            progress(f"{done} of {len(tests)} tests looked at")
            if not passed:
                unfit.append(test)
                continue
            for function in called if times[0] < taken <= times[1] else ():
                calling[function].append((taken, program, test))
    if unfit:
        print(f"\nnot used, they fail as it is: {', '.join(unfit)}", file=sys.stderr)
    return {function: sorted(tests) for function, tests in calling.items()}


def verdict(mutant, tests, caught):
    chosen, late = {"MUTANT_ACTIVE": str(mutant.number)}, []
    for taken, program, test in tests:
        passed = execute(program, test, 3 + 8 * taken, **chosen)
        if passed is False:
            # On a busy machine a test may fail by itself.
            passed = execute(program, test, 3 + 8 * taken, **chosen)
        if passed is False:
            return caught, test
        # A model that has more to explore may take its time.
        if passed is None and caught == CAUGHT:
            late.append((taken, program, test))
            if len(late) == 2 and mutant.name not in judged():
                return ENDLESS, test
    # On a busy machine a test may take long, above all where its threads spin for each other.
    for taken, program, test in late:
        passed = execute(program, test, 60 + 8 * taken, **chosen)
        if not passed:
            return (caught if passed is False else ENDLESS), test
    return (UNNOTICED if caught == CAUGHT else SURVIVED), ""


def verdict_alone(mutant, tests):
    """Tries one that has survived all else: on a busy machine its race may never happen."""
    for taken, program, test in tests:
        for _ in range(TRIES):
            if execute(program, test, 3 + 8 * taken, MUTANT_ACTIVE=str(mutant.number)) is False:
                return ALONE, test
    return SURVIVED, ""


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM")
    wanted = [inside(room) for room in parser.parse_args().rooms]
    WORK.mkdir(parents=True, exist_ok=True)
    copy_tree()
    sources, functions = listed(wanted)
    tried = [mutant for function in functions for mutant in function.mutants]
    if not tried:
        sys.exit(f"no mutant lies in {', '.join(wanted)}")
    known = {name: it for source in sources.values() for name, it in source.results().items()}
    hashes, found = set(hashes_of_programs().values()), {}
    for mutant in tried:
        said, mutant.met = known.get(mutant.name, (UNNOTICED, set()))
        # One that lived meets changed tests.
        if said not in (UNNOTICED, SURVIVED) or hashes <= mutant.met:
            found[mutant.name] = said
    left = [mutant for mutant in tried if mutant.name not in found]
    runs = Runs(wanted)
    run(sources, functions, found, left, CAUGHT, (-1, LONG), runs)
    # One that may live by its nature need not meet more.
    for caught, times, so_far in [
            (CAUGHT, (NEARLY_LONG, math.inf), UNNOTICED), (BY_LOOM, ANY, UNNOTICED), (ALONE, (-1, LONG), SURVIVED)]:
        left = [mutant for mutant in tried if found[mutant.name] == so_far and mutant.name not in judged()]
        for mutant in left:
            mutant.met = set()
        run(sources, functions, found, left, caught, times, runs)
    sys.exit(judge(wanted, found, runs))


def run(sources, functions, found, mutants, caught, times, runs):
    """Tries these mutants against tests that take so long, in some programs that have as few of each function as can
    be.

    Where a generic function with copies calls another one, the compiler makes copies of copies.
    """
    flags, tests = (LOOM if caught == BY_LOOM else ""), None
    homes = {mutant: function for function in functions for mutant in function.mutants}
    of_function = max(collections.Counter(homes[mutant] for mutant in mutants).values(), default=0)
    count = max(-(-len(mutants) // MOST), -(-of_function // COPIES))
    for number in range(count):
        name = f"program {number + 1} of {count}" + (" with the models" if flags else "")
        chosen = mutants[number::count]
        for mutant in homes:
            mutant.is_built = False
        for mutant in chosen:
            mutant.is_built = homes[mutant] not in homes[mutant].file.constant
        drop_what_does_not_compile(sources, functions, flags)
        if not flags:
            for mutant in (it for it in chosen if not it.is_built):
                found[mutant.name] = UNBUILT
                homes[mutant].file.note(mutant.name, UNBUILT, "", [])
            chosen = [it for it in chosen if it.is_built]
        progress(f"{name}: building")
        built = build(flags)
        # Which test calls what is the same in each program.
        tests = tests or tests_of(built, functions, bool(flags), times)
        meet(name, homes, tests, found, chosen, caught, runs)


class Runs:
    """How long the runs of these rooms took since one passed, this one included; a run may be killed at any moment."""

    def __init__(self, rooms):
        self.path = WORK / "-".join(["runs", *(room.replace("/", "-") for room in rooms)])
        self.earlier = [int(it) for it in self.path.read_text().split()] if self.path.exists() else []
        self.note()

    def all(self):
        return [*self.earlier, int(time.monotonic() - START)]

    def note(self):
        self.path.write_text(" ".join(map(str, self.all())))

    def end(self, passed):
        """Says how long they took; where one passed, the next begins a new account."""
        said = f"{sum(self.all())} s in {len(self.all())} runs"
        self.note()
        if passed:
            self.path.unlink()
        return said


def files_of(path):
    """Returns a program's files: one or those of a folder, and what they name by a path."""
    files = [path] if path.is_file() else sorted(path.rglob("*.rs"))
    named = {(it.parent / name).resolve() for it in files
             for name in re.findall(r'^ *#\[path = "(.*?)"\]', it.read_text(), re.M)}
    return files + [file for other in sorted(named) for file in files_of(other)]


def hashes_of_programs():
    """Returns a hash for each program of tests. That of the unit tests of both crates is of the models."""
    programs = {it.stem: it for it in (TREE / "tests").iterdir() if it.is_file() or (it / "main.rs").exists()}
    programs["tickwheel"] = programs["tickwheel_core"] = TREE / "loom-tests"
    hashes = {}
    for name in programs.keys() - NOT_RUN:
        hashed = hashlib.sha256(name.encode())
        for file in files_of(programs[name]):
            hashed.update(file.read_bytes())
        hashes[name] = hashed.hexdigest()[:12]
    return hashes


def meet(name, homes, tests, found, mutants, caught, runs):
    """Runs mutants against the tests that call their functions; a later line of the results counts."""
    lock, done, hashes = threading.Lock(), 0, hashes_of_programs()

    def one(mutant):
        nonlocal done
        # Of one that cannot be built for the models, they tell nothing.
        calling = tests.get(homes[mutant].number, []) if mutant.is_built else []
        calling = [it for it in calling if hashes[pathlib.Path(it[1]).name.rsplit("-", 1)[0]] not in mutant.met]
        said, test = verdict_alone(mutant, calling) if caught == ALONE else verdict(mutant, calling, caught)
        with lock:
            done += 1
            found[mutant.name] = said
            homes[mutant].file.note(mutant.name, said, test, hashes.values())
            runs.note()
            progress(f"{name}: {done} of {len(mutants)}, {mutant.name}")

    # Many tests sleep.
    with concurrent.futures.ThreadPoolExecutor(1 if caught == ALONE else 3 * CORES) as pool:
        list(pool.map(one, mutants))


def judged():
    rows = JUDGED.read_text().splitlines()
    return {row.split("\t")[0] for row in rows if row and not row.startswith("#")}


def judge(rooms, found, runs):
    living = {name for name, it in found.items() if it in (SURVIVED, UNNOTICED)}
    new = sorted(living - judged())
    rows = {name for name in judged() if is_in(name.split(":")[0], rooms)}
    noticed = sorted(rows & set(found) - living)
    gone = sorted(rows - set(found))
    passed = not (new or noticed or gone)
    counts = collections.Counter(SURVIVED if it == UNNOTICED else it for it in found.values())
    said = ", ".join(f"{counts[it]} {it}" for it in (CAUGHT, BY_LOOM, ALONE, ENDLESS, SURVIVED, UNBUILT))
    print(f"\r\x1b[K{len(found)} mutants tested: {said}; {runs.end(passed)}")
    for name in new:
        print(f"{name}\tsurvives, and is not judged")
    for name in noticed:
        print(f"{name}\tstands in {JUDGED.name}, and is noticed")
    for name in gone:
        print(f"{name}\tstands in {JUDGED.name}, and is no mutant any more")
    return int(not passed)


START = time.monotonic()
LIBRARIES = subprocess.run(["rustc", "--print", "target-libdir"], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.strip()
if __name__ == "__main__":
    main()
