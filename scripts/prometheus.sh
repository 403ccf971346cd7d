#!/usr/bin/env bash
# Lets a real Prometheus, unpacked from Debian's package below target/, scrape what an engine reports.
# Exits with 3 where the package cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -z ${PROMETHEUS-} ]]; then
  PROMETHEUS=$(command -v prometheus || true)
fi
if [[ -z $PROMETHEUS ]]; then
  folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/prometheus
  PROMETHEUS=$folder/usr/bin/prometheus
  if [[ ! -x $PROMETHEUS ]]; then
    mkdir -p "$folder"
    (
      cd "$folder" &&
        { apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }; } \
          >/dev/null 2>&1 &&
        dpkg-deb --extract prometheus_*.deb .
    ) || { echo "Prometheus is not to be had here (Debian's package prometheus)"; exit 3; }
  fi
fi
export PROMETHEUS
"$PROMETHEUS" --version 2>&1 | head -n 1
promtool=$(dirname "$PROMETHEUS")/promtool
[[ ! -x $promtool ]] || "$promtool" check rules delayed-jobs/operations/alerts.yml
cargo test --quiet --package tickwheel-benches --test observability -- --ignored
