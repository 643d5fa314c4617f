"""Cordoned nodes, from the moment at which the scheduler knows of it.

A scheduler uses its own copy of a node for a while. It may still bind a Pod to a node that was just cordoned.
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
    """Cordon these nodes while the block lasts."""
    try:
        await cordon(client, nodes)
        yield
    finally:
        await _mark(client, nodes, unschedulable=False)


async def cordon(client: Client, nodes: Sequence[str]) -> None:
    """Cordon these nodes. Returns when the scheduler knows. Raises AssertionError."""
    await _mark(client, nodes, unschedulable=True)
    for node in nodes:
        await eventually(_is_passed_by, client, node)


async def _mark(client: Client, nodes: Sequence[str], *, unschedulable: bool) -> None:
    for node in nodes:
        await client.patch(Node, MergePatch({"spec": {"unschedulable": unschedulable}}), name=node)


async def _is_passed_by(client: Client, node: str) -> None:
    """Raise AssertionError if a Pod that requires `node` is bound to it."""
    spec = PodSpec(node_selector={"kubernetes.io/hostname": node}, containers=[Container(name="probe", image="probe")])
    probe = await client.create(Pod(metadata=ObjectMeta(generate_name="probe-", namespace=_NAMESPACE), spec=spec))
    try:
        decided = await client.wait_for(Pod, probe.metadata.name, _is_decided, namespace=_NAMESPACE)
    finally:
        await client.delete(probe, grace_period=0)
    assert not decided.spec.node_name, f"the scheduler still puts Pods on {node}"


def _is_decided(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or has_condition("PodScheduled", "False")(pod)
