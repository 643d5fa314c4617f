"""Widgets on an API server, and how far an operator has got with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from benchmarks.hands import share
from benchmarks.peers.kubewright.widgets import Widget, WidgetSpec
from benchmarks.report import NotMeasured
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.cache._entry import Event
from kubewright.cache._informer import Informer, copy_of
from kubewright.client._client import Client
from kubewright.client._patch import MergePatch

NAMESPACE: Final = "default"
_AT_ONCE: Final = 16
_PATIENCE: Final = 120.0
_TOUCHED: Final = "bench.kubewright.dev/touched"


class Fleet:
    """Creates and updates Widgets, and waits until their status says that the operator is done with them."""

    def __init__(self, client: Client, *, remove: bool = False) -> None:
        """With `remove`, nothing of the fleet is left on the server when its block is left."""
        self._client = client
        self._remove = remove
        self._informer = Informer(client, Widget, namespaces=NAMESPACE)
        self._messages: dict[str, str] = {}
        self._behind: set[str] = set()
        self._edition = 0
        self._informer.add_handler(on_add=self._look, on_update=self._look)

    async def __aenter__(self) -> Fleet:
        self._informer.start()
        await self._informer.wait_synced(_PATIENCE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._informer.stop()
        for kind in (Widget, ConfigMap) if self._remove else ():  # no garbage collector does it here
            await self._client.delete_all_of(kind, namespace=NAMESPACE)

    async def create(self, names: Iterable[str]) -> None:
        """Create Widgets."""
        await share((self._create(name, self._message(name)) for name in names), _AT_ONCE)

    async def update(self, names: Iterable[str]) -> None:
        """Change the spec of these Widgets."""
        await share((self._update(name, self._message(name)) for name in names), _AT_ONCE)

    async def touch(self, names: Iterable[str]) -> None:
        """Change an annotation of these Widgets, which means nothing to anybody."""
        self._edition += 1
        patch = MergePatch({"metadata": {"annotations": {_TOUCHED: f"edition {self._edition}"}}})
        await share((self._patch(name, patch) for name in names), _AT_ONCE)

    async def converged(self) -> None:
        """Until every Widget's status is about its spec. Raises NotMeasured when there is no progress any more."""
        behind = len(self._behind) + 1
        while len(self._behind) < behind:
            behind = len(self._behind)
            if await copy_of(self._informer).until(lambda: not self._behind, _PATIENCE):
                return
        raise NotMeasured(f"{behind} Widgets have not converged, and none has in {_PATIENCE:g} s")

    async def check(self) -> None:
        """Raise NotMeasured unless each Widget's ConfigMap says what its spec says."""
        config_maps = await self._client.list(ConfigMap, namespace=NAMESPACE)
        held = {each.metadata.name: each.data.get("message") for each in config_maps}
        wrong = [name for name, message in self._messages.items() if held.get(name) != message]
        if wrong:
            raise NotMeasured(f"the ConfigMaps of {len(wrong)} Widgets are wrong, {wrong[0]!r} among them")

    def _message(self, name: str) -> str:
        """A new message for a Widget, which is now behind until it has converged."""
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
