#!/usr/bin/env bash
# A worker: takes one job at a time over HTTP, and says how it ended. Needs `curl` and `jq`.
#
#     worker.sh [http://127.0.0.1:8080]
set -uo pipefail
node=${1:-http://127.0.0.1:8080}

ask() { curl -sS --fail-with-body -m 15 "$@"; }

# Put your work here: the payload is the input, and a failure is a failed attempt.
handle() {
  local payload
  payload=$(cat)
  [[ $payload != '"poison"' ]] || return 1
  echo "done $JOB_ID attempt $JOB_ATTEMPT: $payload"
}

while true; do
  job=$(ask -X POST "$node/v1/deliveries?wait=5s&max=1&hold=60s" | jq -c '.deliveries[0] // empty') || { sleep 1; continue; }
  [[ -n $job ]] || continue
  JOB_ID=$(jq -r .id <<<"$job") JOB_ATTEMPT=$(jq -r .attempt <<<"$job")
  if jq -c .payload <<<"$job" | handle; then
    jq '{receipts: [.receipt]}' <<<"$job" | ask -o /dev/null -d @- "$node/v1/deliveries/ack"
  else
    jq '{receipts: [.receipt], reason: "the worker refused it"}' <<<"$job" | ask -o /dev/null -d @- "$node/v1/deliveries/nack"
  fi
done
