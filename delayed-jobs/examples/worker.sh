#!/usr/bin/env bash
# A worker: takes one job at a time over HTTP, and says how it ended. Needs `curl` and `jq`.
#
#     worker.sh [http://127.0.0.1:8080 [QUEUE]]
set -uo pipefail
node=${1:-http://127.0.0.1:8080} queue=${2:-default}

# ask PATH [curl's options]
ask() { curl -sS --fail-with-body -m 15 "$node/v1/deliveries$1" "${@:2}"; }
# tell HOW FIELDS: ends the attempt of the job
tell() { jq "{receipts: [.receipt]} + $2" <<<"$job" | ask "/$1" -o /dev/null -H content-type:application/json -d @-; }

# Put your work here: the payload is the input, and a failure is a failed attempt.
handle() {
  local payload
  payload=$(cat)
  [[ $payload != '"poison"' ]] || return 1
  echo "done $JOB_ID attempt $JOB_ATTEMPT: $payload"
}

while true; do
  answer=$(ask "?queue=$queue&wait=5s&max=1&hold=60s" -X POST) || { sleep 1; continue; }
  job=$(jq -c '.deliveries[0] // empty' <<<"$answer")
  [[ -n $job ]] || continue
  JOB_ID=$(jq -r .id <<<"$job") JOB_ATTEMPT=$(jq -r .attempt <<<"$job")
  if jq -c .payload <<<"$job" | handle; then
    tell ack '{}'
  else
    tell nack '{reason: "the worker refused it"}'
  fi
done
