"""What can be set on an API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.http.message import Handler
from kubewright_controlplane.apiserver.user import UserInfo


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Settings of an API server. The defaults make a server in memory, with RBAC on."""

    data: Path | None = None
    """Folder to keep objects and keys in; None: memory only."""
    history: int = 8192
    """How many events of each resource are kept for watches and for lists at an older revision; fewer where their
    objects are large: no more than 16 MiB of them.
    """
    tokens: Mapping[str, UserInfo] = field(default_factory=dict[str, UserInfo])
    """Static bearer tokens."""
    anonymous: bool = True
    """Requests without credentials are `system:anonymous`; False: they get 401."""
    issuer: str = "https://kubernetes.default.svc.cluster.local"
    """Issuer of service account tokens."""
    service_cidr: str = "10.96.0.0/16"
    """Cluster IPs of Services are taken from it."""
    node_ports: range = range(30000, 32768)
    disabled_admission: frozenset[str] = frozenset()
    """Names of admission plugins that are left out."""
    kubelet: Handler | None = None
    """Answers as kubelets do for the containers that run: `/containerLogs/{namespace}/{pod}/{container}`, and 404 for
    containers that it does not know. None: no container runs."""
    clock: Clock = field(default_factory=SystemClock)
