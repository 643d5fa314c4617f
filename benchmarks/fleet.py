"""The objects of an operator on an API server, and whether the operator has reconciled them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from benchmarks.report import NotMeasured
from benchmarks.workers import run_concurrently
from benchmarks.workloads import NAMESPACE, Workload
from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer, copy_of
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch
from kubewright.models import CustomResource

_PROGRESS_WITHIN: Final = 120.0
_TOUCHED: Final = "bench.kubewright.dev/touched"
_FILLER: Final = "The quick brown fox jumps over the lazy dog. "


class Fleet:
    """Creates and updates objects, and waits until their status shows that the operator has reconciled them."""

    def __init__(
        self, client: Client, workload: Workload, *, kilobytes: int = 0, at_once: int = 16, remove: bool = False
    ) -> None:
        """Write `at_once` objects at a time, each with a message of this size.

        With `remove`, leaving the block deletes all objects and what they own.
        """
        self._client = client
        self._workload = workload
        self._filler = (_FILLER * (kilobytes * 1000 // len(_FILLER) + 1))[: kilobytes * 1000]
        self._at_once = at_once
        self._remove = remove
        self._informer: Informer[CustomResource] = Informer(client, workload.kind, namespaces=NAMESPACE)
        self._messages: dict[str, str] = {}
        self._secret_versions: dict[str, str] = {}
        self._behind: set[str] = set()
        self._edition = 0
        self._informer.add_handler(on_add=self._look, on_update=self._look)

    async def __aenter__(self) -> Fleet:
        self._informer.start()
        await self._informer.wait_synced(_PROGRESS_WITHIN)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._informer.stop()
        if not self._remove:
            return
        for kind in (self._workload.kind, *self._workload.owns):  # this control plane has no garbage collector
            await self._client.delete_all_of(kind, namespace=NAMESPACE)
        for secret in self._secret_versions:
            await self._client.delete(Secret, secret, namespace=NAMESPACE)

    async def create(self, names: Iterable[str]) -> None:
        """Create objects, and the Secrets to which they refer."""
        names = list(names)
        if self._workload.secret_of is not None:
            await self._set_secrets({self._workload.secret_of(name) for name in names} - self._secret_versions.keys())
        await run_concurrently((self._create(name, self._message(name)) for name in names), self._at_once)

    async def update(self, names: Iterable[str]) -> None:
        """Change the spec of these objects."""
        await run_concurrently((self._update(name, self._message(name)) for name in names), self._at_once)

    async def touch(self, names: Iterable[str]) -> None:
        """Change an annotation of these objects that no program reads."""
        self._edition += 1
        patch = MergePatch({"metadata": {"annotations": {_TOUCHED: f"edition {self._edition}"}}})
        await run_concurrently((self._patch(name, patch) for name in names), self._at_once)

    async def change_secrets(self, names: Iterable[str]) -> None:
        """Change the Secrets to which these objects refer. All objects that refer to them count as behind."""
        secret_of = self._workload.secret_of
        assert secret_of is not None
        secrets = {secret_of(name) for name in names}
        concerned = [name for name in self._messages if secret_of(name) in secrets]
        self._behind.update(concerned)
        await self._set_secrets(secrets)
        for name in concerned:  # the operator may have been faster than the answer to the write
            if (entry := self._informer.lister.get(name, NAMESPACE)) is not None:
                self._settle(name, entry)

    async def converged(self) -> None:
        """Wait until every object's status is up to date with its spec. Raises NotMeasured if progress stops."""
        behind = len(self._behind) + 1
        while len(self._behind) < behind:
            behind = len(self._behind)
            if await copy_of(self._informer).until(lambda: not self._behind, _PROGRESS_WITHIN):
                return
        raise NotMeasured(f"{behind} objects have not converged, and none did in the last {_PROGRESS_WITHIN:g} s")

    async def check(self) -> None:
        """Raise NotMeasured unless each object has all its owned objects, and its ConfigMap matches its spec."""
        for kind in self._workload.owns:
            found = await self._client.list(kind, namespace=NAMESPACE)
            owned = {each.metadata.name for each in found if each.metadata.owner_references}
            if missing := self._messages.keys() - owned:
                kind_name = kind.__api__.kind
                raise NotMeasured(f"{len(missing)} objects have no {kind_name}, such as {min(missing)!r}")
        config_maps = await self._client.list(ConfigMap, namespace=NAMESPACE)
        held = {each.metadata.name: each.data.get("message") for each in config_maps}
        wrong = [name for name, message in self._messages.items() if held.get(name) != message]
        if wrong:
            raise NotMeasured(f"the ConfigMaps of {len(wrong)} objects do not match their specs, such as {wrong[0]!r}")

    def _message(self, name: str) -> str:
        """Return a new message for an object. The object counts as behind until it has converged."""
        self._edition += 1
        message = self._messages[name] = f"edition {self._edition}{self._filler}"
        self._behind.add(name)
        return message

    async def _create(self, name: str, message: str) -> None:
        await self._client.create(self._workload.new(name, message))

    async def _update(self, name: str, message: str) -> None:
        await self._patch(name, MergePatch({"spec": {"message": message}}))

    async def _patch(self, name: str, patch: MergePatch) -> None:
        await self._client.patch(self._workload.kind, patch, name=name, namespace=NAMESPACE)

    async def _set_secrets(self, names: Iterable[str]) -> None:
        """Create or change these Secrets."""
        self._edition += 1
        await run_concurrently((self._set_secret(name, f"edition {self._edition}") for name in names), self._at_once)

    async def _set_secret(self, name: str, value: str) -> None:
        secret = Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE), string_data={"password": value})
        applied = await self._client.apply(secret)
        self._secret_versions[name] = applied.metadata.resource_version

    def _look(self, event: Event[CustomResource]) -> None:
        if event.new is not None and event.key.name in self._behind:
            self._settle(event.key.name, event.new.decode())

    def _settle(self, name: str, found: CustomResource) -> None:
        """Stop waiting for an object whose status is up to date."""
        seen = self._workload.observe(found)
        secret_of = self._workload.secret_of
        secret_version = self._secret_versions.get(secret_of(name)) if secret_of else ""
        if seen.is_current and seen.message == self._messages.get(name) and seen.secret_version == secret_version:
            self._behind.discard(name)
