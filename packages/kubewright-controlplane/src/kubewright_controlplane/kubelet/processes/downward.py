"""What a container is told of its own Pod: the downward API.

Source: https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubewright.apis.core.v1 import Container, Pod, ResourceFieldSelector
from kubewright.machinery.quantity import Quantity

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources of which a container without a limit may take all that the node has."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A Pod, and where it is. Its status may not say so yet."""

    pod: Pod
    address: str
    host: str
    allocatable: Mapping[str, str]
    """What the node has."""


def field(placed: Placed, path: str) -> str:
    """The value of a field of the Pod. Raises KeyError for one that there is not."""
    meta, spec = placed.pod.metadata, placed.pod.spec
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        values = meta.labels if subscript[1] == "labels" else meta.annotations
        return values.get(subscript[2], "")
    match path:
        case "metadata.name":
            return meta.name
        case "metadata.namespace":
            return meta.namespace or ""
        case "metadata.uid":
            return meta.uid or ""
        case "metadata.labels":
            return _lines(meta.labels)
        case "metadata.annotations":
            return _lines(meta.annotations)
        case "spec.nodeName":
            return spec.node_name or ""
        case "spec.serviceAccountName":
            return spec.service_account_name or ""
        case "status.podIP" | "status.podIPs":
            return placed.address
        case "status.hostIP" | "status.hostIPs":
            return placed.host
        case _:
            raise KeyError(path)


def resource(placed: Placed, container: Container, selector: ResourceFieldSelector) -> str:
    """A limit or a request of a container, in units of the divisor, rounded up. Raises KeyError for what is neither."""
    kind, _, name = selector.resource.partition(".")
    declared = container.resources
    given = {"limits": declared.limits, "requests": declared.requests}.get(kind) if declared is not None else {}
    if given is None:
        raise KeyError(selector.resource)
    amount = given.get(name)
    if amount is None and kind == "limits" and name in _LIMITED:
        amount = placed.allocatable.get(name)
    wanted = Quantity.of(amount or "0")
    divisor = Quantity.of(selector.divisor or "1")
    if not divisor:
        divisor = Quantity.from_int(1)
    if name == "cpu":
        return str(-(-wanted.milli_value // divisor.milli_value))
    return str(-(-wanted.value // divisor.value))


def _lines(values: Mapping[str, str]) -> str:
    """`key="value"` lines, the values quoted as in Go."""
    return "\n".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values))
