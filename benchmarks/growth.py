"""Growth of the cost per object with ten times the objects, in each toolkit.

An operator receives objects and an update of each, then nine times as many more objects, and updates of as many as
before. Compared is the cost per object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.fleet import Fleet
from benchmarks.operators import Change, Load, bench, of_workload
from benchmarks.peers import Peer
from benchmarks.process import Program
from benchmarks.report import Figure, Measured, Run, in_turns

TIMES: Final = 10

FIGURES: Final = (
    Figure("growth_created", f"growth of CPU per created object, {TIMES} times the objects", 2),
    Figure("growth_updated", f"growth of CPU per updated object, {TIMES} times the objects", 2),
    Figure("growth_kb_object", "memory per additional object, kB", 1, depends_on_load=False),
)


async def measure(peers: Sequence[Peer], load: Load) -> Measured:
    """Return the figures by peer. Each peer gets a new API server, because deleting the objects would take longer."""

    async def run(peer: Peer) -> Run:
        return await _run(peer, load)

    return await in_turns(of_workload(peers, load.workload), 1, run, FIGURES)


async def _run(peer: Peer, load: Load) -> Run:
    few = [f"few-{number}" for number in range(load.objects)]
    more = [f"more-{number}" for number in range(load.objects * (TIMES - 1))]
    async with bench(load) as server, server.fleet() as fleet, server.running(peer) as operator:
        await fleet.create(["first"])
        await fleet.converged()  # the operator has started
        created = await _cost(operator, fleet, fleet.create, few)
        updated = await _cost(operator, fleet, fleet.update, few)
        before = operator.rss
        created_late = await _cost(operator, fleet, fleet.create, more)
        grown = operator.rss - before
        updated_late = await _cost(operator, fleet, fleet.update, more[: len(few)])
        await fleet.check()
    return {
        "growth_created": created_late / created,
        "growth_updated": updated_late / updated,
        "growth_kb_object": grown / len(more) / 1e3,
    }


async def _cost(operator: Program, fleet: Fleet, change: Change, names: Sequence[str]) -> float:
    """Return the CPU seconds per changed object."""
    await operator.settle()
    before = operator.cpu
    await change(names)
    await fleet.converged()
    await operator.settle()
    return (operator.cpu - before) / len(names)
