"""Rows of events.k8s.io: an Event is shown in its core form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core.events import to_core
from kubewright_controlplane.apiserver.printers import core
from kubewright_controlplane.apiserver.registry.model import Cells


def _event(obj: JSONObject, now: datetime) -> list[object]:
    return core.CELLS["events"](to_core(obj), now)


CELLS: Final[Mapping[str, Cells]] = {"events": _event}
