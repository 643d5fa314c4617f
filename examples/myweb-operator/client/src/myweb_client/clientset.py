# Made by `kubewright generate client`, which writes it anew: change nothing here.
"""The clientset: a door to each kind."""

from __future__ import annotations

from typing import Self

from kubewright.client import Client, Config

from . import operator_v1
from .resource import Resource


class Clientset:
    """Clients of all kinds, over one connection to an API server. Closed by `async with`, or by `close`."""

    def __init__(self, config: Config | Client | None = None) -> None:
        """Of the server that `config` names, or that kubectl would talk to; in a Pod, the cluster's own.

        Raises ConfigError when there is none.
        """
        self._owned = not isinstance(config, Client)
        self.client = config if isinstance(config, Client) else Client(config or Config.load())
        """For every other kind, verb and option."""
        self.operator_v1 = OperatorV1(self.client)
        """operator.k8s-summit.org/v1"""

    async def close(self) -> None:
        """Close the connections; those of a Client that was given are its owner's."""
        if self._owned:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended_by: object) -> None:
        await self.close()


class OperatorV1:
    """The kinds of operator.k8s-summit.org/v1."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def mywebs(self, namespace: str | None = None) -> Resource[operator_v1.MyWeb]:
        """Each MyWeb of a namespace, or of all."""
        return Resource(self._client, operator_v1.MyWeb, namespace)
