"""Widgets on an API server, and whether an operator has reconciled them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from benchmarks.peers.kubewright.widgets import Widget, WidgetSpec
from benchmarks.report import NotMeasured
from benchmarks.workers import run_concurrently
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer, copy_of
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch

NAMESPACE: Final = "default"
_AT_ONCE: Final = 16
_PROGRESS_WITHIN: Final = 120.0
_TOUCHED: Final = "bench.kubewright.dev/touched"


class Fleet:
    """Creates and updates Widgets, and waits until their status shows that the operator has reconciled them."""

    def __init__(self, client: Client, *, remove: bool = False) -> None:
        """With `remove`, leaving the block deletes all Widgets and ConfigMaps."""
        self._client = client
        self._remove = remove
        self._informer = Informer(client, Widget, namespaces=NAMESPACE)
        self._messages: dict[str, str] = {}
        self._behind: set[str] = set()
        self._edition = 0
        self._informer.add_handler(on_add=self._look, on_update=self._look)

    async def __aenter__(self) -> Fleet:
        self._informer.start()
        await self._informer.wait_synced(_PROGRESS_WITHIN)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._informer.stop()
        for kind in (Widget, ConfigMap) if self._remove else ():  # this control plane has no garbage collector
            await self._client.delete_all_of(kind, namespace=NAMESPACE)

    async def create(self, names: Iterable[str]) -> None:
        """Create Widgets."""
        await run_concurrently((self._create(name, self._message(name)) for name in names), _AT_ONCE)

    async def update(self, names: Iterable[str]) -> None:
        """Change the spec of these Widgets."""
        await run_concurrently((self._update(name, self._message(name)) for name in names), _AT_ONCE)

    async def touch(self, names: Iterable[str]) -> None:
        """Change an annotation of these Widgets that no program reads."""
        self._edition += 1
        patch = MergePatch({"metadata": {"annotations": {_TOUCHED: f"edition {self._edition}"}}})
        await run_concurrently((self._patch(name, patch) for name in names), _AT_ONCE)

    async def converged(self) -> None:
        """Wait until every Widget's status is up to date with its spec. Raises NotMeasured if progress stops."""
        behind = len(self._behind) + 1
        while len(self._behind) < behind:
            behind = len(self._behind)
            if await copy_of(self._informer).until(lambda: not self._behind, _PROGRESS_WITHIN):
                return
        raise NotMeasured(f"{behind} Widgets have not converged, and none did in the last {_PROGRESS_WITHIN:g} s")

    async def check(self) -> None:
        """Raise NotMeasured unless each Widget's ConfigMap matches its spec."""
        config_maps = await self._client.list(ConfigMap, namespace=NAMESPACE)
        held = {each.metadata.name: each.data.get("message") for each in config_maps}
        wrong = [name for name, message in self._messages.items() if held.get(name) != message]
        if wrong:
            raise NotMeasured(f"the ConfigMaps of {len(wrong)} Widgets do not match their specs, such as {wrong[0]!r}")

    def _message(self, name: str) -> str:
        """Return a new message for a Widget. The Widget counts as behind until it has converged."""
        self._edition += 1
        message = self._messages[name] = f"edition {self._edition}"
        self._behind.add(name)
        return message

    async def _create(self, name: str, message: str) -> None:
        metadata = ObjectMeta(name=name, namespace=NAMESPACE)
        await self._client.create(Widget(metadata=metadata, spec=WidgetSpec(message=message, size=3)))

    async def _update(self, name: str, message: str) -> None:
        await self._patch(name, MergePatch({"spec": {"message": message}}))

    async def _patch(self, name: str, patch: MergePatch) -> None:
        await self._client.patch(Widget, patch, name=name, namespace=NAMESPACE)

    def _look(self, event: Event[Widget]) -> None:
        if event.new is None:
            return
        widget = event.new.decode()
        name = widget.metadata.name
        if (
            widget.spec.message == self._messages.get(name)
            and widget.status.observed_generation == widget.metadata.generation
        ):
            self._behind.discard(name)
