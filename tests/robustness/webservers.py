"""WebServers that change all the time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from kubewright import Client, NotFound, ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.client import MergePatch
from webserver_operator.api.v1.webserver import WebServer, WebServerSpec


class Churn:
    """Creates, changes and deletes up to `count` WebServers of one namespace, and damages their dependents."""

    def __init__(self, client: Client, namespace: str, count: int, chance: random.Random) -> None:
        self._client = client
        self._namespace = namespace
        self._chance = chance
        self._names = [f"web-{number}" for number in range(count)]
        self.done = Counter[str]()

    async def run(self, pause: float = 0.005) -> None:
        """Run until canceled, with `pause` seconds between two steps."""
        for name in self._names:
            await self._create(name)
        while True:
            step = self._chance.choice([self._create, self._change, self._change, self._delete, self._damage])
            await step(self._chance.choice(self._names))
            await asyncio.sleep(pause)

    async def _create(self, name: str) -> None:
        metadata = ObjectMeta(name=name, namespace=self._namespace)
        if not await self._exists(WebServer, name):
            await self._client.create(WebServer(metadata=metadata, spec=WebServerSpec(**self._spec())))
            self.done["created"] += 1

    async def _change(self, name: str) -> None:
        if await self._exists(WebServer, name):
            patch = MergePatch({"spec": self._spec()})
            await self._client.patch(WebServer, patch, name=name, namespace=self._namespace)
            self.done["changed"] += 1

    async def _delete(self, name: str) -> None:
        if await self._exists(WebServer, name):
            await self._client.delete(WebServer, name, namespace=self._namespace)
            self.done["deleted"] += 1

    async def _damage(self, name: str) -> None:
        try:
            await self._client.delete(Deployment, name, namespace=self._namespace)
            self.done["damaged"] += 1
        except NotFound:
            return

    async def _exists(self, kind: type[WebServer], name: str) -> bool:
        try:
            await self._client.get(kind, name, namespace=self._namespace)
        except NotFound:
            return False
        return True

    def _spec(self) -> dict[str, object]:
        return {"replicas": self._chance.randint(0, 2), "image": f"nginx:1.{self._chance.randint(20, 25)}"}
