"""The parts of a server that the strategies of its kinds work with."""

from __future__ import annotations

from dataclasses import dataclass

from kubewright_controlplane.apiserver.authentication.authentication import Authentication
from kubewright_controlplane.apiserver.authorization.rbac import RBAC
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What a server is made of before its first kind is: all but the way of a request."""

    options: ServerOptions
    resources: ResourceSet
    authentication: Authentication
    authorizer: RBAC
