#!/usr/bin/env bash
# A worker: takes one job at a time over HTTP, extends what takes long, and says how it ended. Needs `curl` and `jq`.
#
#     worker.sh [http://127.0.0.1:8080 [QUEUE]]
# Each job has a process group of its own.
set -uo pipefail -m
node=${1:-http://127.0.0.1:8080} queue=${2:-default} hold=${HOLD:-60}

# ask PATH [curl's options]
ask() { curl -sS --fail-with-body -m 15 "$node/v1/deliveries$1" "${@:2}"; }
# tell HOW FIELDS: ends or extends the attempt of the job
tell() { jq "{receipts: [.receipt]} + $2" <<<"$job" | ask "/$1" -H content-type:application/json -d @-; }

# Put your work here: the payload is the input, and a failure is a failed attempt.
handle() {
  local payload
  payload=$(cat)
  [[ $payload != '"poison"' ]] || return 1
  echo "done $JOB_ID attempt $JOB_ATTEMPT: $payload"
}

# keep GROUP: extends the hold while the job runs, and kills one that was cancelled.
keep() {
  while sleep $((hold / 3)) && kill -0 $$; do
    if tell extend "{hold: \"${hold}s\"}" | jq -e '.cancelled != []' >/dev/null; then
      echo "cancelled $JOB_ID"
      kill -- "-$1"
    fi
  done
}

trap 'kill -- "-${work:-$$}" "-${keeper:-$$}"; exit' INT TERM
while true; do
  answer=$(ask "?queue=$queue&wait=5s&max=1&hold=${hold}s" -X POST) || { sleep 1; continue; }
  job=$(jq -c '.deliveries[0] // empty' <<<"$answer")
  [[ -n $job ]] || continue
  JOB_ID=$(jq -r .id <<<"$job") JOB_ATTEMPT=$(jq -r .attempt <<<"$job")
  handle <<<"$(jq -c .payload <<<"$job")" & work=$!
  keep "$work" & keeper=$!
  if wait "$work" 2>/dev/null; then
    tell ack '{}' >/dev/null
  else
    # A job that was cancelled is stale.
    tell nack '{reason: "the worker refused it"}' >/dev/null
  fi
  kill -- "-$keeper"
  wait "$keeper" 2>/dev/null
done
