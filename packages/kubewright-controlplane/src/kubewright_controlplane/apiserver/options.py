"""Settings of an API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubewright._runtime.clock import Clock, SystemClock
from kubewright.http.message import Handler
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.gvk import GroupVersion
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.admission import names
from kubewright_controlplane.apiserver.admission.podsecurity.configuration import PodSecurity
from kubewright_controlplane.apiserver.user import UserInfo


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Settings of an API server. With the defaults, it keeps objects in memory and uses RBAC.

    Raises ConfigError for an API in `runtime_config` that cannot be switched, and for an admission plugin that does not
    exist or is not supported.
    """

    data: Path | None = None
    """Folder for objects and keys; None: memory only."""
    sync: bool = True
    """Whether a write is on disk before its answer. False: the operating system writes later, as with etcd's
    --unsafe-no-fsync, and only a crash of the machine loses writes.
    """
    history: int = 8192
    """Changes of each resource that are kept at most, for watches and for lists at an older revision. Fewer are kept
    of large objects: about 16 MiB.
    """
    history_seconds: float = 300.0
    """Seconds that changes are kept, as with kube-apiserver's --etcd-compaction-interval."""
    event_seconds: float = 3600.0
    """Seconds that an Event is kept after its last write, as with kube-apiserver's --event-ttl."""
    tokens: Mapping[str, UserInfo] = field(default_factory=dict[str, UserInfo])
    """Static bearer tokens."""
    anonymous: bool = True
    """Requests without credentials are `system:anonymous`; False: they are answered with 401."""
    issuer: str = "https://kubernetes.default.svc.cluster.local"
    """Issuer of service account tokens."""
    further_issuers: tuple[str, ...] = ()
    """Other issuers whose service account tokens are accepted."""
    audiences: tuple[str, ...] = ()
    """The audiences of the API server in service account tokens; empty: all issuers."""
    signing_key: bytes | None = None
    """Private key of service account tokens, in PEM; None: that in the data folder, or a new one."""
    verifying_keys: tuple[bytes, ...] = ()
    """Further public keys of service account tokens, in PEM; also as certificates."""
    allow_all: bool = False
    """Allow every request, as with kube-apiserver's --authorization-mode=AlwaysAllow, instead of asking RBAC."""
    node_authorizer: bool = True
    """Allow nodes, the users `system:node:NAME` in the group `system:nodes`, what their Pods need, as with
    kube-apiserver's --authorization-mode=Node,RBAC. False: RBAC alone decides.
    """
    service_cidr: str = "10.96.0.0/16"
    """Range of the cluster IPs of Services."""
    node_ports: range = range(30000, 32768)
    runtime_config: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """APIs that are off by default, as with kube-apiserver's --runtime-config, but without a feature gate:
    `{"storagemigration.k8s.io/v1beta1": True}`.
    """
    disabled_admission: frozenset[str] = frozenset()
    """Names of admission plugins that are on by default, and are off in this server."""
    enabled_admission: frozenset[str] = frozenset({"NodeRestriction"})
    """Names of admission plugins that are on in this server, of those that are off by default in kube-apiserver. A
    plugin that is disabled too is off.
    """
    pod_security: PodSecurity = field(default_factory=PodSecurity)
    """Pod security in namespaces without labels, and what is exempt from it, as in the file that is named by
    kube-apiserver's --admission-control-config-file.
    """
    kubelet: Handler | None = None
    """Answers like kubelets for running containers: `/containerLogs/{namespace}/{pod}/{container}`, and 404 for
    unknown containers. None: no container runs.
    """
    webhooks: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    """Admission webhooks in this process, by host name: that of a configuration's `url`, or `name.namespace.svc` for
    its `service`. They are called without a connection. They may be added and removed while the server runs.
    """
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        known = [str(gv) for gv in catalog.OPTIONAL]
        for name in self.runtime_config:
            if name not in known:
                raise ConfigError(
                    f'runtime config: "{name}" cannot be switched on or off here; choose from: {", ".join(known)}'
                )

        errors = list(names.errors(self.enabled_admission, self.disabled_admission))
        if errors:
            raise ConfigError("; ".join(errors))

    def is_on(self, gv: GroupVersion) -> bool:
        """Return whether the server serves a built-in group version."""
        return gv not in catalog.OPTIONAL or self.runtime_config.get(str(gv), False)
