#!/usr/bin/env python3
"""A worker: takes jobs over HTTP, extends what takes long, gives back what fails. Needs `requests`.

    worker.py [http://127.0.0.1:8080 [QUEUE]]
"""
import signal
import sys
import threading

import requests

NODE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
QUEUE = sys.argv[2] if len(sys.argv) > 2 else "default"
HOLD = 30
ending = threading.Event()


def handle(job):
    """Put your work here. An exception is a failed attempt."""
    if job["payload"] == "poison":
        raise ValueError("this job never works")
    print(f"done {job['id']} attempt {job['attempt']}: {job['payload']}", flush=True)


def tell(session, what, **body):
    """Says how jobs go. A node that does not answer is no reason to stop: what it was not told comes again."""
    try:
        url = f"{NODE}/v1/deliveries/{what}"
        answer = session.post(url, json=body, timeout=10)
        answer.raise_for_status()
        return answer.json()
    except requests.RequestException as error:
        print(f"{what} not told: {error}", file=sys.stderr, flush=True)
        return {}


def keep_held(receipts, cancelled, stopped):
    """Extends the holds of all jobs of a batch until it is finished; those that have ended are left out by the node."""
    session = requests.Session()
    while receipts and not stopped.wait(HOLD / 3):
        cancelled.update(tell(session, "extend", receipts=receipts, hold=f"{HOLD}s").get("cancelled", []))


def work(session, jobs):
    receipts, cancelled, stopped = [job["receipt"] for job in jobs], set(), threading.Event()
    keeper = threading.Thread(target=keep_held, args=(receipts, cancelled, stopped), daemon=True)
    keeper.start()
    try:
        for job in jobs:
            if job["receipt"] in cancelled:
                print(f"cancelled {job['id']}", flush=True)
                continue
            try:
                handle(job)
            except Exception as error:
                tell(session, "nack", receipts=[job["receipt"]], reason=str(error))
            else:
                tell(session, "ack", receipts=[job["receipt"]])
    finally:
        stopped.set()


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    session = requests.Session()
    while not ending.is_set():
        try:
            query = {"queue": QUEUE, "wait": "5s", "max": 16, "hold": f"{HOLD}s"}
            answer = session.post(f"{NODE}/v1/deliveries", params=query, timeout=15)
            answer.raise_for_status()
            work(session, answer.json()["deliveries"])
        except requests.RequestException as error:
            # What was not acknowledged comes again.
            print(f"no node: {error}", file=sys.stderr, flush=True)
            ending.wait(1)


if __name__ == "__main__":
    main()
