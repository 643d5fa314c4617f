"""Objects are created, changed and deleted, and leave nothing in the memory of the operator and the server."""

from __future__ import annotations

import gc
import sys

import pytest

from integration.gizmo_operator import Gizmo, reconcile
from kubewright_controlplane import Environment
from kubewright_controlplane.apiserver.options import ServerOptions
from robustness.gizmos import Gizmos, operator

WARM_UP = 18
"""Rounds until all bounded histories are full."""
ROUNDS = WARM_UP + 2 * 11
"""Rounds of one measurement. The history of a thousand objects is released at once, about every ninth round."""
GIZMOS = 50
OBJECTS = GIZMOS * 4
"""Each Gizmo has up to three ConfigMaps."""


@pytest.mark.long
async def test_memory_is_constant_while_8000_objects_are_created_and_deleted() -> None:
    held: list[int] = []
    async with Environment(server=ServerOptions(history=64)) as cluster, cluster.namespace() as namespace:
        await cluster.install(Gizmo)
        gizmos = Gizmos(cluster.client, namespace)
        async with operator(cluster.config, [reconcile]):
            for number in range(ROUNDS):
                await gizmos.come_and_go(f"round-{number}", GIZMOS)
                gc.collect()
                held.append(sys.getallocatedblocks())
    rounds = ROUNDS - WARM_UP
    grown = min(held[-rounds // 2 :]) - min(held[WARM_UP : -rounds // 2])
    assert grown < OBJECTS * rounds, f"blocks of memory after each round: {held}"
