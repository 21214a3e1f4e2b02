"""One table of the figures that are common to all, each beside durably's."""

import json
import sys

# Some of them log to their standard output too.
figures = [json.loads(line) for line in sys.stdin if line.startswith('{"workload"')]
ROWS = [
    ("W1", "steps", "steps one after another, each kept, per second", True),
    ("W2", "steps", "steps of many runs at once, per second", True),
    ("W3", "a replayed step, with opening", "us for a finished step when a run goes on", False),
]
OURS = {"W1": "sync", "W2": "sync", "W3": "sled"}
NOT_PEERS = {"sled alone", "append and sync", "memory", "memory, in parallel"}

for workload, metric, what, more_is_better in ROWS:
    rows = [f for f in figures if f["workload"] == workload and f["metric"] == metric and f["mode"] not in NOT_PEERS]
    ours = [f for f in rows if f["mode"] == OURS[workload]]
    if not ours:
        continue
    print(f"\n{workload}: {what}")
    for row in rows:
        mine = row in ours
        # Runs of one length are compared where there are such; else the nearest.
        base = min(ours, key=lambda f: abs(f["n"] - row["n"]))
        ratio = base["value"] / row["value"] if more_is_better else row["value"] / base["value"]
        name = f"durably, {row['mode']}" if mine else row["mode"]
        beside = "" if mine else f"durably is {ratio:10.1f} times as fast"
        print(f"  {name:<22} n = {row['n']:>7}  {row['value']:>12.1f}  {beside}")
