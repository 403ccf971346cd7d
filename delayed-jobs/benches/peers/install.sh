#!/usr/bin/env bash
# Installs what `cargo bench` measures beside delayed-jobs into its target/peers: BullMQ, which needs node and npm, and
# apalis, which cargo builds.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p target/peers
cargo build --release --locked --manifest-path benches/peers/apalis/Cargo.toml --target-dir target/peers/build
cp target/peers/build/release/delayed-jobs-peer-apalis target/peers/apalis
cp -r benches/peers/bullmq target/peers/
cd target/peers/bullmq
npm install --no-audit --no-fund --no-package-lock --ignore-scripts
