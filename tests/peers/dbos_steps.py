"""DBOS Python over SQLite."""

import concurrent.futures
import pathlib
import sys
import time

from dbos import DBOS, SetWorkflowID

from figures import TEXT, figure, one_run, sizes

MODE = "DBOS, SQLite"
moments = []


@DBOS.step()
def step(n: int) -> str:
    return TEXT


@DBOS.workflow()
def chain(n: int) -> int:
    moments.append(time.perf_counter())
    total = 0
    for number in range(n):
        total += len(step(number))
        moments.append(time.perf_counter())
    return total


def main(folder, size):
    steps, runs, length, _ = sizes(size)
    DBOS(config={"name": "steps", "system_database_url": f"sqlite:///{folder / 'dbos.sqlite'}", "log_level": "ERROR",
                 "run_admin_server": False})
    DBOS.launch()
    with SetWorkflowID("a"):
        chain(steps)
    one_run(MODE, steps, [after - before for before, after in zip(moments, moments[1:])])
    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda _: chain(length), range(runs)))
    figure("W2", MODE, runs, "steps", runs * length / (time.perf_counter() - began), "1/s")
    DBOS.destroy()


main(pathlib.Path(sys.argv[1]), sys.argv[2])
