"""Where the API server is and who we are: from a kubeconfig, or from the Pod we run in.

A `Config` is a value: complete, checked, and independent of the files it came from, except for the files that it names
(certificates, a token that rotates). What is wrong is a ConfigError that names the file, the field and the way out.

Sources: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ and
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/; the order of `load` is controller-runtime's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

SANDBOX: Final = "CONTAINER_SANDBOX_MOUNT_POINT"
"""The variable that names the folder under which a container that is a process of the host has its mounts:
https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/#volume-mounts."""


def service_account_folder() -> Path:
    """Where the Pod that we run in finds its token, the cluster's CA and its namespace."""
    return Path(os.environ.get(SANDBOX) or "/", "var/run/secrets/kubernetes.io/serviceaccount")


InteractiveMode: TypeAlias = Literal["Never", "IfAvailable", "Always"]
"""`IfAvailable`: when standard input is a terminal. `Always`: an error when it is none."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials: `users[].user.exec` of a kubeconfig."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the environment of this process."""
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    """How to install the program, in its author's words."""
    interactive_mode: InteractiveMode = "IfAvailable"
    """Whether the program gets the terminal, to ask its user something."""
    cluster: JSONObject | None = None
    """What the program learns about the cluster, if it asks for it (`provideClusterInfo`)."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user that requests are made as: `as`, `as-groups`, `as-uid` and `as-user-extra` of a kubeconfig's user."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Config:
    """Address of an API server, and the credentials to use there. Change one with `dataclasses.replace`.

    Certificates and keys are PEM: bytes, or the path of a file, which may be renewed: new connections use what it holds
    by then. Of several credentials the first of `exec`, `token_file`, `token`, `username` is sent; a client certificate
    goes with any of them.
    """

    server: str
    """`https://host:port`, with a path when the API is served under one."""
    namespace: str = "default"
    """The default namespace of the context."""
    ca: bytes | Path | None = None
    """The certificate authorities to trust; None: those of the system."""
    client_cert: bytes | Path | None = None
    client_key: bytes | Path | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """Read again every minute: a kubelet rotates it."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec: ExecPlugin | None = None
    proxy_url: str | None = None
    """`http://[user:password@]host:port`, `https://` or `socks5://`. None: what HTTPS_PROXY and NO_PROXY say."""
    tls_server_name: str | None = None
    """The name that the server's certificate must have, when it is not that of `server`."""
    insecure_skip_tls_verify: bool = False
    impersonate: Impersonation | None = None
    image_table: Path | None = None
    """Of an embedded control plane on this machine: the file that says which images are run as processes. In a
    kubeconfig the extension `kubewright.dev/embedded` of the cluster names it."""

    @classmethod
    def load(cls, *, context: str | None = None) -> Config:
        """From `$KUBECONFIG` where it is set, else from the Pod that we run in, else from `~/.kube/config`.

        A `context` that is asked for can only be in a kubeconfig: the Pod is left out then.
        """
        if os.environ.get("KUBECONFIG"):
            return cls.from_kubeconfig(context=context)
        if (
            context is None
            and os.environ.get("KUBERNETES_SERVICE_HOST")
            and (service_account_folder() / "token").exists()
        ):
            return cls.in_cluster()
        return cls.from_kubeconfig(context=context)

    @classmethod
    def from_kubeconfig(cls, path: str | Path | None = None, *, context: str | None = None) -> Config:
        """Return what a kubeconfig says of `context` (None: its current one).

        Without a `path`: the files of `$KUBECONFIG`, merged as kubectl merges them, else `~/.kube/config`.
        """
        from kubewright.client import _kubeconfig as kubeconfig  # YAML is not loaded in a Pod

        return kubeconfig.load(path, context)

    @classmethod
    def in_cluster(cls, service_account: Path | None = None) -> Config:
        """Return the API server and the service account of the Pod that this process runs in.

        `service_account` is the folder that holds `token`, `ca.crt` and `namespace`, when that is not where a kubelet
        puts it.
        """
        service_account = service_account or service_account_folder()
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise ConfigError(
                "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
                "outside of a Pod use a kubeconfig"
            )
        token, ca = service_account / "token", service_account / "ca.crt"
        for each in (token, ca):
            if not each.is_file():
                raise ConfigError(f"{each} is missing: does the Pod have automountServiceAccountToken: false?")
        named = service_account / "namespace"
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=named.read_text().strip() if named.is_file() else "default",
            ca=ca,
            token_file=token,
        )
