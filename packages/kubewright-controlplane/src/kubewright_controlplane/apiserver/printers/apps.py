"""Rows of apps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.printers.cells import (
    NONE,
    age_of,
    at,
    containers,
    items,
    labels,
    name,
    number,
    replicas,
    selector,
    text,
)
from kubewright_controlplane.apiserver.registry.model import Cells

_POD = ("spec", "template", "spec")


def _ready(obj: JSONObject) -> str:
    return f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"


def _deployment(obj: JSONObject, now: datetime) -> list[object]:
    return [
        name(obj),
        _ready(obj),
        number(obj, "status", "updatedReplicas"),
        number(obj, "status", "availableReplicas"),
        age_of(obj, now),
        *containers(obj, *_POD),
        selector(at(obj, "spec", "selector")),
    ]


def _replica_set(obj: JSONObject, now: datetime) -> list[object]:
    return [
        name(obj),
        *replicas(obj),
        age_of(obj, now),
        *containers(obj, *_POD),
        selector(at(obj, "spec", "selector")),
    ]


def _stateful_set(obj: JSONObject, now: datetime) -> list[object]:
    return [name(obj), _ready(obj), age_of(obj, now), *containers(obj, *_POD)]


def _daemon_set(obj: JSONObject, now: datetime) -> list[object]:
    return [
        name(obj),
        number(obj, "status", "desiredNumberScheduled"),
        number(obj, "status", "currentNumberScheduled"),
        number(obj, "status", "numberReady"),
        number(obj, "status", "updatedNumberScheduled"),
        number(obj, "status", "numberAvailable"),
        labels(at(obj, *_POD, "nodeSelector")),
        age_of(obj, now),
        *containers(obj, *_POD),
        selector(at(obj, "spec", "selector")),
    ]


def _controller_revision(obj: JSONObject, now: datetime) -> list[object]:
    owner = next((each for each in items(obj, "metadata", "ownerReferences") if each.get("controller")), None)
    return [name(obj), _owner(owner) if owner else NONE, number(obj, "revision"), age_of(obj, now)]


def _owner(owner: JSONObject) -> str:
    group = GroupVersion.parse(text(owner, "apiVersion")).group
    return f"{text(owner, 'kind').lower()}{'.' if group else ''}{group}/{owner['name']}"


CELLS: Final[Mapping[str, Cells]] = {
    "controllerrevisions": _controller_revision,
    "daemonsets": _daemon_set,
    "deployments": _deployment,
    "replicasets": _replica_set,
    "statefulsets": _stateful_set,
}
