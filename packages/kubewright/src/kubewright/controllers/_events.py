"""What a reconciler tells the users of an object: Kubernetes Events."""

from __future__ import annotations

from typing import Protocol

from kubewright.models import Object


class EventRecorder(Protocol):
    """Records Events about objects. Never waits, never fails: an Event that can't be written is logged and dropped."""

    def normal(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile", related: Object | None = None
    ) -> None:
        """Something happened as it should. `reason` is a CamelCase word for machines, `note` a sentence for people."""
        ...

    def warning(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile", related: Object | None = None
    ) -> None:
        """Something is wrong that the users of `regarding` should know of."""
        ...


class NoEvents:
    """The recorder of a program that writes no Events."""

    def normal(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile", related: Object | None = None
    ) -> None: ...

    def warning(
        self, regarding: Object, reason: str, note: str, *, action: str = "Reconcile", related: Object | None = None
    ) -> None: ...
