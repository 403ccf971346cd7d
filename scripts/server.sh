#!/usr/bin/env bash
# Measures a real server under real load, with tickwheel's timers, with tokio's and with none, into
# docs/performance/server.md. Takes about eight minutes; nothing else should run on the machine meanwhile.
#
#   scripts/server.sh                                   everything, into the page
#   scripts/server.sh --repeats 1 --seconds 2 --tiny    does it work here
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v h2load >/dev/null; then
  command -v apt-get >/dev/null || { echo "h2load is missing: nghttp2's load generator"; exit 1; }
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends nghttp2-client >/dev/null
fi
# Ten thousand connections have two ends, in a process each.
ulimit -n "$(ulimit -Hn)"
[[ $(ulimit -n) == unlimited || $(ulimit -n) -ge 11000 ]] || { echo "too few descriptors: $(ulimit -n)"; exit 1; }

cargo build --release -p tickwheel-benches --bin server
if (($#)); then
  exec "${CARGO_TARGET_DIR:-target}"/release/server "$@"
fi
exec "${CARGO_TARGET_DIR:-target}"/release/server --out docs/performance/server.md
