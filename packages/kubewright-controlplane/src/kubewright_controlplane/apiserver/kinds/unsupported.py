"""Subresources that a real API server has and this one has not: they are refused in so many words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never

from kubewright.http.message import Request
from kubewright.machinery.errors import MethodNotAllowed
from kubewright_controlplane.apiserver.registry.model import Attributes, Connection


@dataclass(frozen=True)
class Unsupported(Connection):
    """Anything asked of it is MethodNotAllowed."""

    async def connect(self, request: Request, attributes: Attributes) -> Never:
        raise MethodNotAllowed(
            f"the embedded API server does not support {attributes.resource.plural}/{attributes.subresource}"
        )
