"""Nodes that get no more Pods, from a moment on that one can tell.

A scheduler goes on for a while with what it knew of a node. A Pod that it then puts on a cordoned node runs there, and
one on a node that is gone by then runs nowhere.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from kubewright.apis.core.v1 import Container, Node, Pod, PodSpec
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.client._wait import has_condition
from kubewright.models._meta import ObjectMeta
from kubewright.testing._waiting import eventually

_NAMESPACE: Final = "default"


@asynccontextmanager
async def cordoned(client: Client, nodes: Sequence[str]) -> AsyncGenerator[None]:
    """For as long as the block lasts, no new Pods come to these nodes."""
    try:
        await cordon(client, nodes)
        yield
    finally:
        await _mark(client, nodes, unschedulable=False)


async def cordon(client: Client, nodes: Sequence[str]) -> None:
    """Have no more Pods come to these nodes. Returns when the scheduler knows. Raises AssertionError."""
    await _mark(client, nodes, unschedulable=True)
    for node in nodes:
        await eventually(_is_passed_by, client, node)


async def _mark(client: Client, nodes: Sequence[str], *, unschedulable: bool) -> None:
    for node in nodes:
        await client.patch(Node, MergePatch({"spec": {"unschedulable": unschedulable}}), name=node)


async def _is_passed_by(client: Client, node: str) -> None:
    """Fails while a Pod that can go to `node` alone is put there."""
    spec = PodSpec(node_selector={"kubernetes.io/hostname": node}, containers=[Container(name="probe", image="probe")])
    probe = await client.create(Pod(metadata=ObjectMeta(generate_name="probe-", namespace=_NAMESPACE), spec=spec))
    try:
        decided = await client.wait_for(Pod, probe.metadata.name, _is_decided, namespace=_NAMESPACE)
    finally:
        await client.delete(probe, grace_period=0)
    assert not decided.spec.node_name, f"the scheduler still puts Pods on {node}"


def _is_decided(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or has_condition("PodScheduled", "False")(pod)
