"""Strategies of events.k8s.io, which serves the Events of the core group in another form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.kinds.core.events import EventsV1Strategy, from_core, to_stored
from kubewright_controlplane.apiserver.registry.model import Conversion, Strategy, VersionedPlural

CONVERSIONS: Final[Mapping[VersionedPlural, Conversion]] = {
    ("v1", "events"): Conversion("events", "v1", to_stored, from_core)
}


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"events": EventsV1Strategy()}
