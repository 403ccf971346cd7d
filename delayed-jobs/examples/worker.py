#!/usr/bin/env python3
"""A worker: takes jobs over HTTP, extends what takes long, gives back what fails. Needs `requests`.

    worker.py [http://127.0.0.1:8080]
"""
import signal
import sys
import threading

import requests

NODE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
HOLD = 30
ending = threading.Event()


def handle(job):
    """Put your work here. An exception is a failed attempt."""
    if job["payload"] == "poison":
        raise ValueError("this job never works")
    print(f"done {job['id']} attempt {job['attempt']}: {job['payload']}", flush=True)


def keep_held(receipts, stopped):
    """Extends the holds of all jobs that are not finished yet."""
    while receipts and not stopped.wait(HOLD / 3):
        body = {"receipts": list(receipts), "hold": f"{HOLD}s"}
        requests.post(f"{NODE}/v1/deliveries/extend", json=body, timeout=10)


def work(session, jobs):
    receipts, done, stopped = [job["receipt"] for job in jobs], [], threading.Event()
    keeper = threading.Thread(target=keep_held, args=(receipts, stopped), daemon=True)
    keeper.start()
    for job in jobs:
        try:
            handle(job)
            done.append(job["receipt"])
        except Exception as error:
            body = {"receipts": [job["receipt"]], "reason": str(error)}
            session.post(f"{NODE}/v1/deliveries/nack", json=body, timeout=10)
    stopped.set()
    if done:
        session.post(f"{NODE}/v1/deliveries/ack", json={"receipts": done}, timeout=10)


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    session = requests.Session()
    while not ending.is_set():
        try:
            query = {"wait": "5s", "max": 16, "hold": f"{HOLD}s"}
            answer = session.post(f"{NODE}/v1/deliveries", params=query, timeout=15)
            answer.raise_for_status()
            work(session, answer.json()["deliveries"])
        except requests.RequestException as error:
            # What was not acknowledged comes again.
            print(f"no node: {error}", file=sys.stderr)
            ending.wait(1)


if __name__ == "__main__":
    main()
