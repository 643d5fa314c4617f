"""Whether an object costs more where there are ten times the objects, in each tool kit.

One operator gets its objects and updates of as many; then nine times as many more, and updates of as many as before.
What is compared is the cost of one object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from benchmarks.fleet import Fleet
from benchmarks.operators import bench
from benchmarks.peers import Peer
from benchmarks.process import Program
from benchmarks.report import Figure, Medians, Run, in_turns

Change: TypeAlias = Callable[[Sequence[str]], Awaitable[None]]

TIMES: Final = 10

FIGURES: Final = (
    Figure("growth_created", f"growth of the CPU an object created, {TIMES} times the objects", 2),
    Figure("growth_updated", f"growth of the CPU an object updated, {TIMES} times the objects", 2),
    Figure("growth_kb_object", "memory that one more object takes, kB", 1),
)


async def measure(peers: Sequence[Peer], objects: int) -> Medians:
    """The figures by peer, each with an API server of its own: removing so many objects takes longer than a start."""

    async def run(peer: Peer) -> Run:
        return await _run(peer, objects)

    return await in_turns(peers, 1, run, FIGURES)


async def _run(peer: Peer, objects: int) -> Run:
    few = [f"few-{number}" for number in range(objects)]
    more = [f"more-{number}" for number in range(objects * (TIMES - 1))]
    async with bench() as there, Fleet(there.cluster.client) as widgets, there.running(peer) as operator:
        await widgets.create(["first"])
        await widgets.converged()  # so that it has started
        created = await _cost(operator, widgets, widgets.create, few)
        updated = await _cost(operator, widgets, widgets.update, few)
        before = operator.rss
        created_late = await _cost(operator, widgets, widgets.create, more)
        grown = operator.rss - before
        updated_late = await _cost(operator, widgets, widgets.update, more[: len(few)])
        await widgets.check()
    return {
        "growth_created": created_late / created,
        "growth_updated": updated_late / updated,
        "growth_kb_object": grown / len(more) / 1e3,
    }


async def _cost(operator: Program, widgets: Fleet, change: Change, names: Sequence[str]) -> float:
    """Seconds of CPU for each of the objects that are changed."""
    await operator.settle()
    before = operator.cpu
    await change(names)
    await widgets.converged()
    await operator.settle()
    return (operator.cpu - before) / len(names)
