#!/usr/bin/env bash
# Installs what `delayed-jobs figures` measures beside itself into target/peers. Needs node and npm.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p target/peers
cp -r delayed-jobs/peers/bullmq target/peers/
cd target/peers/bullmq
npm install --no-audit --no-fund --no-package-lock --ignore-scripts
