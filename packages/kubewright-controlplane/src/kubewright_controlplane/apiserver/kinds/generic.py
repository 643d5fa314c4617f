"""Strategies, subresources and helpers that several built-in kinds share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never

from kubewright.http.message import Request
from kubewright.machinery.errors import MethodNotAllowed, Status
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.registry.model import Attributes, Connection, Strategy
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


class PlainStrategy(Strategy):
    """A kind without a generation."""

    has_generation = False


class UpsertStrategy(PlainStrategy):
    """A kind without a generation, which PUT may create."""

    allow_create_on_update = True


@dataclass(frozen=True)
class Unsupported(Connection):
    """A subresource of a real API server that is not supported here. Answers every request with MethodNotAllowed."""

    async def connect(self, request: Request, attributes: Attributes) -> Never:
        raise MethodNotAllowed(
            f"the embedded API server does not support {attributes.resource.plural}/{attributes.subresource}"
        )


def existing(resources: ResourceSet, qualified: str, name: str, namespace: str = "") -> JSONObject:
    """Return another object that must exist. Raises NotFound."""
    return resources.decode(resources.registry(qualified).entry(name, namespace).data)


def success() -> JSONObject:
    """Return the answer of an action without a result."""
    return Status(code=201, status="Success").to_dict()
