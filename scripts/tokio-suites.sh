#!/usr/bin/env bash
# Runs tokio's own tests of time, and tokio-util's of `DelayQueue`, on tickwheel-util. The tests come out of the archives
# that cargo has from the registry, in the versions of Cargo.lock; nothing of them is kept here.
#
# In front of each file go modules named `tokio` and `tokio_util` whose `time` is ours. No other line changes:
# `#[tokio::test(start_paused = true)]` stays, too. docs/TOKIO.md has a row for each test that does not pass; any other
# failure, and a row whose test passes, is an error. Those that would never end are not run.
set -euo pipefail
cd "$(dirname "$0")/.."

suites="time_sleep time_timeout time_interval time_pause time_rt rt_time_start_paused"
endless="exactly_max no_out_of_bounds_close_to_max"
work=${1:-$(mktemp -d)}
mkdir -p "$work/src" "$work/tests"

version() { # of a package in Cargo.lock
  awk -v name="\"$1\"" '$1 == "name" { found = $3 == name } found && $1 == "version" { gsub("\"", "", $3); print $3; exit }' Cargo.lock
}
cat > "$work/Cargo.toml" <<TOML
[package]
name = "suites"
version = "0.0.0"
edition = "2021"

[features]
default = ["full", "rt-multi-thread", "test-util"]
full = []
rt-multi-thread = []
test-util = []

[dependencies]
futures = "0.3"
rand = "0.9"
tickwheel-util = { path = "$PWD/util", features = ["stream", "test-util", "tokio"] }
tokio = { version = "=$(version tokio)", features = ["full", "test-util"] }
tokio-test = "0.4"
tokio-util = { version = "=$(version tokio-util)", features = ["full"] }

[profile.dev]
debug = 0

[workspace]
TOML
echo > "$work/src/lib.rs"
cp Cargo.lock "$work"
(cd "$work" && cargo fetch -q)

archive() { # the folder of a package's archive
  cargo metadata --manifest-path "$work/Cargo.toml" --format-version 1 | python3 -c '
import json, os, sys
package = next(it for it in json.load(sys.stdin)["packages"] if it["name"] == sys.argv[1])
print(os.path.dirname(package["manifest_path"]))' "$1"
}
shadow='#[allow(unused_imports)] mod tokio { pub use ::tokio::*; pub use ::tickwheel_util::time; }
#[allow(unused)] mod tokio_util { pub use ::tokio_util::*; pub use ::tickwheel_util::time; }'
tokio=$(archive tokio)
util=$(archive tokio-util)
for suite in $suites time_delay_queue; do
  from=$tokio/tests/$suite.rs
  [ -e "$from" ] || from=$util/tests/$suite.rs
  # Behind the attributes of the file, whose last lines may be `))]` or the like.
  awk -v shadow="$shadow" '!done && (/^use / || /^$/ && seen && !open) { print shadow; done = 1 }
    /^#!\[/ { seen = 1; open = 1 } open && /\]$/ { open = 0 } { print }' "$from" > "$work/tests/$suite.rs"
done

log=$work/log
(cd "$work" && timeout 900 cargo test --no-fail-fast -- $(printf -- "--skip %s " $endless) 2>&1) > "$log" || true
awk '/Running tests\// { file = $2; sub("tests/", "", file); sub(".rs", "", file) }
  / \.\.\. FAILED$/ { sub(" - should panic", ""); print file "::" $2 }' "$log" | sort > "$work/failed"
sed -nE 's/^\| `([a-z_]+)` \| `([a-z_]+)` \|.*/\1::\2/p' docs/TOKIO.md | sort > "$work/told"
ran=$(grep -c '^test .* \.\.\. ' "$log" || true)
echo "tokio $(version tokio), tokio-util $(version tokio-util): $ran tests ran, $(wc -l < "$work/failed") failed"
# A file that does not compile, or that hangs, has no result.
for suite in $suites time_delay_queue; do
  awk -v file="tests/$suite.rs" '$0 ~ "Running " file { at = 1 } at && /^test result:/ { ok = 1; exit } END { exit !ok }' "$log" \
    || { echo "$suite has no result:"; grep -E -A9 '^error' "$log" | head -40; exit 1; }
done
diff "$work/told" "$work/failed" && echo "docs/TOKIO.md names them all"
