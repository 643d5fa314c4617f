"""The parts of a server that the strategies of its kinds work with."""

from __future__ import annotations

from dataclasses import dataclass

from kubewright.apiserver.authentication.authentication import Authentication
from kubewright.apiserver.authorization.rbac import RBAC
from kubewright.apiserver.options import ServerOptions
from kubewright.apiserver.registry.resourceset import ResourceSet


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What a server is made of before its first kind is: all but the way of a request."""

    options: ServerOptions
    resources: ResourceSet
    authentication: Authentication
    authorizer: RBAC
