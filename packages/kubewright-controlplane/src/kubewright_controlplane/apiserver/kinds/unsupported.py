"""Subresources of a real API server that are not supported here. They are rejected with a message that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never

from kubewright.http.message import Request
from kubewright.machinery.errors import MethodNotAllowed
from kubewright_controlplane.apiserver.registry.model import Attributes, Connection


@dataclass(frozen=True)
class Unsupported(Connection):
    """Answers every request with MethodNotAllowed."""

    async def connect(self, request: Request, attributes: Attributes) -> Never:
        raise MethodNotAllowed(
            f"the embedded API server does not support {attributes.resource.plural}/{attributes.subresource}"
        )
