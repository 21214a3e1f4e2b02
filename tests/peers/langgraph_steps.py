"""LangGraph's functional API over SQLite, durability "sync"."""

import asyncio
import pathlib
import sys
import time

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task
from langgraph.types import interrupt

from figures import TEXT, figure, one_run, sizes

MODE = "LangGraph, SQLite"
moments = []


@task
async def step(n: int) -> str:
    return TEXT


def flows(saver):
    @entrypoint(checkpointer=saver)
    async def chain(n: int) -> int:
        moments.append(time.perf_counter())
        total = 0
        for number in range(n):
            total += len(await step(number))
            moments.append(time.perf_counter())
        return total

    @entrypoint(checkpointer=saver)
    async def pauses(n: int) -> int:
        total = 0
        for number in range(n):
            total += len(await step(number))
        moments.append(time.perf_counter())
        interrupt("go on?")
        return total

    return chain, pauses


def thread(name):
    return {"configurable": {"thread_id": name}, "recursion_limit": 1_000_000}


async def main(folder, size):
    steps, runs, length, finished = sizes(size)
    path = str(folder / "langgraph.sqlite")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        chain, pauses = flows(saver)
        await chain.ainvoke(steps, thread("a"), durability="sync")
        one_run(MODE, steps, [after - before for before, after in zip(moments, moments[1:])])
        began = time.perf_counter()
        waiting = asyncio.Semaphore(256)

        async def run(number):
            async with waiting:
                await chain.ainvoke(length, thread(f"run-{number}"), durability="sync")

        await asyncio.gather(*(run(number) for number in range(runs)))
        figure("W2", MODE, runs, "steps", runs * length / (time.perf_counter() - began), "1/s")
        for n in finished:
            await pauses.ainvoke(n, thread(f"pauses-{n}"), durability="sync")
    for n in finished:
        moments.clear()
        began = time.perf_counter()
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            _, pauses = flows(saver)
            await pauses.ainvoke(None, thread(f"pauses-{n}"), durability="sync")
        figure("W3", MODE, n, "a replayed step, with opening", (moments[0] - began) / n * 1e6, "us")


asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
