"""Images that run as processes on this machine, on a control plane that is already up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager

from kubewright.apis.core.v1 import Node
from kubewright.client._client import Client
from kubewright.client._config import Config
from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.cordon import cordon, cordoned
from kubewright_controlplane.kubelet.images import Image, ImageTable
from kubewright_controlplane.processnode import LABEL as PROCESSES
from kubewright_controlplane.processnode import ProcessNode
from kubewright_controlplane.real import SIMULATED


@asynccontextmanager
async def installed(images: Mapping[str, Image], config: Config, client: Client) -> AsyncGenerator[None]:
    """Run new Pods of `images` as processes on this machine while the block lasts.

    An embedded control plane runs them on its own nodes. In a `RealControlPlane` a `ProcessNode` joins, and all new
    Pods are scheduled to it. Raises ConfigError for any other cluster.
    """
    if config.image_table is not None:
        with _added(ImageTable(config.image_table), images):
            yield
        return
    nodes = await client.list(Node)
    if not all(_is_ours(each) for each in nodes):
        raise ConfigError(
            f"{config.server} has nodes that run images; join a ProcessNode, and have Pods tolerate its taint"
        )
    others = [each.metadata.name for each in nodes]
    async with ProcessNode(config, images, untainted=True) as own, cordoned(client, others):
        try:
            yield
        finally:
            await cordon(client, [own])  # a Pod may be bound to the node while it leaves


def _is_ours(node: Node) -> bool:
    labels = node.metadata.labels
    return PROCESSES in labels or SIMULATED.items() <= labels.items()


@contextmanager
def _added(table: ImageTable, images: Mapping[str, Image]) -> Generator[None]:
    for name, image in images.items():
        table.put(name, image)
    try:
        yield
    finally:
        for name in images:
            table.remove(name)
