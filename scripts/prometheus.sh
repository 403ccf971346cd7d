#!/usr/bin/env bash
# Lets Prometheus' own tool, unpacked from Debian's package below target/, read what an engine reports, the queries of
# both dashboards, and the alerts of engines and of delayed jobs. Exits with 3 where the package cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

PROMTOOL=${PROMTOOL:-$(command -v promtool || true)}
if [[ -z $PROMTOOL ]]; then
  folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/prometheus
  PROMTOOL=$folder/usr/bin/promtool
  if [[ ! -x $PROMTOOL ]]; then
    mkdir -p "$folder"
    (
      cd "$folder" &&
        { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } \
          >/dev/null 2>&1 &&
        dpkg-deb --extract prometheus_*.deb .
    ) || { echo "Prometheus is not to be had here (Debian's package prometheus)"; exit 3; }
  fi
fi
export PROMTOOL
"$PROMTOOL" --version 2>&1 | head -n 1
"$PROMTOOL" check rules docs/alerts.yml delayed-jobs/operations/alerts.yml
cargo test --quiet --package tickwheel-benches --test observability -- --ignored
