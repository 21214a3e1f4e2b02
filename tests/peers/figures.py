"""What each program prints: one line of JSON a figure."""

import json
import statistics

TEXT = "0123456789" * 10


def sizes(size):
    """How many steps in one run, runs at once, steps a run, finished steps of a run that goes on."""
    return (100, 50, 10, [100]) if size == "quick" else (1000, 200, 10, [1000])


def figure(workload, mode, n, metric, value, unit):
    line = {"workload": workload, "mode": mode, "n": n, "metric": metric, "value": value, "unit": unit}
    print(json.dumps(line), flush=True)


def one_run(mode, n, times):
    """W1: the time of each step, in seconds."""
    figure("W1", mode, n, "a step", sum(times) / len(times) * 1e6, "us")
    figure("W1", mode, n, "p50", statistics.median(times) * 1e6, "us")
    figure("W1", mode, n, "steps", len(times) / sum(times), "1/s")
