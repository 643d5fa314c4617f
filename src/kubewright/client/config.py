"""Where the API server is and who we are: from a kubeconfig, or from the Pod we run in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials (kubeconfig `users[].user.exec`; client.authentication.k8s.io)."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster_info: bool = False
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom the requests are made as (`as`, `as-groups`, `as-uid`, `as-user-extra` of a kubeconfig user)."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Config:
    """Address of an API server, and the credentials to use there. Change one with `dataclasses.replace`.

    Certificates and keys are PEM: bytes, or the path of a file.
    """

    server: str
    """`https://host:port`, with a path when the API is served under one."""
    namespace: str = "default"
    ca: bytes | Path | None = None
    client_cert: bytes | Path | None = None
    client_key: bytes | Path | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """Read again once a minute: kubelets rotate it."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec: ExecPlugin | None = None
    proxy_url: str | None = None
    """`http://host:port`. None: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    impersonate: Impersonation | None = None

    @classmethod
    def load(cls, *, context: str | None = None) -> Config:
        """`$KUBECONFIG` when set, else the Pod's service account when in a cluster, else `~/.kube/config`."""
        raise NotImplementedError

    @classmethod
    def from_kubeconfig(cls, path: str | Path | None = None, *, context: str | None = None) -> Config:
        """What `context` (None: the current one) of a kubeconfig says. None: `$KUBECONFIG`, else `~/.kube/config`."""
        raise NotImplementedError

    @classmethod
    def in_cluster(cls) -> Config:
        """The service account of the Pod that this process runs in."""
        raise NotImplementedError
