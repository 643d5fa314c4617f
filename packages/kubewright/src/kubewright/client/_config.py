"""Address of the API server and credentials, from a kubeconfig or from the Pod that this process runs in.

A `Config` is a complete, validated value. It does not depend on the kubeconfig after loading, but it may name files
that are replaced at run time (certificates, tokens). An invalid configuration raises a ConfigError that names the file,
the field and the remedy.

Sources: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ and
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/; `load` searches in the order of
controller-runtime.
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
"""Environment variable with the folder of a HostProcess container's mounts:
https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/#volume-mounts."""


def service_account_folder() -> Path:
    """Return the folder in which a Pod finds its token, the cluster's CA and its namespace."""
    return Path(os.environ.get(SANDBOX) or "/", "var/run/secrets/kubernetes.io/serviceaccount")


InteractiveMode: TypeAlias = Literal["Never", "IfAvailable", "Always"]
"""`IfAvailable`: if standard input is a terminal. `Always`: an error if standard input is not a terminal."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials: `users[].user.exec` of a kubeconfig."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that are added to the environment of this process."""
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    """Instructions for installing the program, shown if it is missing."""
    interactive_mode: InteractiveMode = "IfAvailable"
    """Whether the program gets the terminal, to prompt the user."""
    cluster: JSONObject | None = None
    """Data about the cluster that the program receives if `provideClusterInfo` is set."""


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

    Certificates and keys are PEM, as bytes or as the path of a file. If a file is renewed, new connections use its new
    content. The first of `exec`, `token_file`, `token` and `username` that is set is sent. A client certificate can be
    combined with any of them.
    """

    server: str
    """`https://host:port`, followed by a path if the API is served under a path."""
    namespace: str = "default"
    """The default namespace of the context."""
    ca: bytes | Path | None = None
    """The certificate authorities to trust; None: the system's."""
    client_cert: bytes | Path | None = None
    client_key: bytes | Path | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """File with a bearer token. It is read again every minute, because the kubelet rotates it."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec: ExecPlugin | None = None
    proxy_url: str | None = None
    """`http://[user:password@]host:port`, `https://` or `socks5://`. None: follow HTTPS_PROXY and NO_PROXY."""
    tls_server_name: str | None = None
    """The name in the server's certificate, if it differs from the host of `server`."""
    insecure_skip_tls_verify: bool = False
    impersonate: Impersonation | None = None
    image_table: Path | None = None
    """For an embedded control plane on this machine: the file that lists the images that run as processes. A
    kubeconfig names it in the cluster's extension `kubewright.dev/embedded`."""

    @classmethod
    def load(cls, *, context: str | None = None) -> Config:
        """Load from `$KUBECONFIG` if it is set, else from the Pod that this process runs in, else from
        `~/.kube/config`.

        If `context` is given, only kubeconfigs are searched.
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
        """Load a context of a kubeconfig (None: the current context).

        Without a `path`, load the files of `$KUBECONFIG`, merged as by kubectl, or else `~/.kube/config`.
        """
        from kubewright.client import _kubeconfig as kubeconfig  # YAML is not loaded in a Pod

        return kubeconfig.load(path, context)

    @classmethod
    def in_cluster(cls, service_account: Path | None = None) -> Config:
        """Return the API server and the service account of the Pod that this process runs in.

        `service_account` is the folder with `token`, `ca.crt` and `namespace`, if it differs from the usual folder.
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
