"""The folder `manager`: the Namespace and the Deployment.

The Pod meets the `restricted` pod security standard: an unprivileged user, no privilege escalation, a read-only root
file system, the runtime's seccomp profile. It runs the image's entry point with flags that follow from the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubewright.machinery.json import JSONObject
from kubewright.models._values import plain
from kubewright.webhooks import ManagedCertificate, webhook_objects
from kubewright_cli.manifests.names import MANAGER, Names
from kubewright_cli.manifests.program import Program
from kubewright_cli.manifests.settings import CERT_MANAGER, Settings

HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8443
USER: Final = 65532
"""The user nonroot of distroless images."""
_METRICS_CERTIFICATE: Final = "metrics-certificate"
WEBHOOK_CERTIFICATE: Final = "webhook-certificate"
"""The volume with the certificate of the webhooks."""
WEBHOOK_PREFIX_FLAG: Final = "--webhook-name-prefix="
_FOLDERS: Final = {name: f"/etc/{name}" for name in (_METRICS_CERTIFICATE, WEBHOOK_CERTIFICATE)}
"""Where the certificates are mounted, by the name of their volume."""
OWN_NAMESPACE: Final = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}


def documents(program: Program, settings: Settings, names: Names) -> dict[str, list[JSONObject]]:
    """Return the documents by file name, without `.yaml`."""
    return {"manager": [_namespace(settings, names), _deployment(program, settings, names)]}


def selector(settings: Settings) -> dict[str, str]:
    """Return the labels that select the manager's Pods."""
    return {"app.kubernetes.io/name": settings.name, "control-plane": MANAGER}


def own_labels(settings: Settings) -> dict[str, str]:
    """Return the labels by which a deployment finds its objects."""
    return {"app.kubernetes.io/name": settings.name, "app.kubernetes.io/managed-by": "kubewright"}


def _namespace(settings: Settings, names: Names) -> JSONObject:
    labels = {
        "control-plane": MANAGER,
        "pod-security.kubernetes.io/enforce": settings.enforced_pod_security,
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.namespace, "labels": labels}}


def _deployment(program: Program, settings: Settings, names: Names) -> JSONObject:
    found = selector(settings)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names.of(MANAGER),
            "namespace": names.namespace,
            "labels": {"control-plane": MANAGER},
        },
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": found},
            "template": {
                "metadata": {
                    "labels": {**settings.labels, **settings.pod_labels, **found},
                    "annotations": {"kubectl.kubernetes.io/default-container": "manager", **settings.pod_annotations},
                },
                "spec": _pod(program, settings, names),
            },
        },
    }


def _pod(program: Program, settings: Settings, names: Names) -> JSONObject:
    pod: JSONObject = {
        "serviceAccountName": names.account,
        "securityContext": pod_security_context(),
        "terminationGracePeriodSeconds": program.termination_grace_period,
        "containers": [_container(program, settings)],
        "volumes": list(_volumes(program, settings)),
        "imagePullSecrets": [{"name": each} for each in settings.image_pull_secrets],
        "nodeSelector": settings.node_selector,
        "tolerations": [plain(each) for each in settings.tolerations],
        "affinity": plain(settings.affinity),
        "topologySpreadConstraints": spread(settings),
        "priorityClassName": settings.priority_class,
    }
    return _stated(pod)


def _container(program: Program, settings: Settings) -> JSONObject:
    container: JSONObject = {
        "name": "manager",
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": list(flags(program, settings)),
        "env": environment(settings),
        "ports": list(_ports(program, settings)),
        "securityContext": security_context(),
        "livenessProbe": _probe("/healthz", delay=15, period=20),
        "readinessProbe": _probe("/readyz", delay=5, period=10),
        "resources": plain(settings.resources),
        "volumeMounts": list(_mounts(program, settings)),
    }
    return _stated(container)


def flags(program: Program, settings: Settings) -> Iterator[str]:
    """Yield the flags of the manager. Disabled features are stated, too, because the program may enable them."""
    yield "--leader-elect" if settings.leader_election else "--leader-elect=false"
    yield f"--health-probe-bind-address=:{HEALTH_PORT}"
    yield f"--metrics-bind-address={f':{METRICS_PORT}' if settings.metrics != 'off' else '0'}"
    if settings.metrics != "off":
        yield "--metrics-secure" if settings.metrics == "https" else "--metrics-secure=false"
    if settings.metrics_certificate:
        yield f"--metrics-cert-path={_FOLDERS[_METRICS_CERTIFICATE]}"
    yield from _webhook_flags(program, settings)
    if settings.watch_namespaces == "own":
        yield f"--namespace=$({OWN_NAMESPACE['name']})"
    elif settings.watch_namespaces != "all":
        yield f"--namespace={','.join(settings.watch_namespaces)}"
    yield from settings.args


def _webhook_flags(program: Program, settings: Settings) -> Iterator[str]:
    if not program.webhooks:
        return
    yield f"--webhook-port={program.webhook_port}"
    if settings.webhook_certificate:
        yield f"--webhook-cert-path={_FOLDERS[WEBHOOK_CERTIFICATE]}"
    elif isinstance(program.manager.options.webhook_certificate, ManagedCertificate):
        yield f"{WEBHOOK_PREFIX_FLAG}{settings.name_prefix}"


def image_parts(image: str) -> tuple[str, str, str]:
    """Return the name, tag and digest of an image. Without tag and digest, the tag is `latest`."""
    name, _, digest = image.partition("@")
    path, _, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{path}/{last}" if path else last, tag or ("" if digest else "latest"), digest


def environment(settings: Settings) -> list[JSONObject]:
    """Return the container's environment, in the order of the settings."""
    own = [OWN_NAMESPACE] if settings.watch_namespaces == "own" else []
    return own + [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": plain(value)}
        for name, value in settings.env.items()
    ]


def spread(settings: Settings) -> list[JSONObject]:
    """Return the topology spread constraints. The default selector is the manager's: without one they select no Pod."""
    found = {"labelSelector": {"matchLabels": selector(settings)}}
    return [{**found, **plain(each)} for each in settings.topology_spread_constraints]


def pod_security_context() -> JSONObject:
    return {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}}


def security_context() -> JSONObject:
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def _ports(program: Program, settings: Settings) -> Iterator[JSONObject]:
    yield {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}
    if settings.metrics != "off":
        yield {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}
    if program.webhooks:
        yield {"name": "webhook-server", "containerPort": program.webhook_port, "protocol": "TCP"}


def _certificates(program: Program, settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the volumes with a certificate, and their Secrets."""
    if settings.metrics_certificate:
        yield _METRICS_CERTIFICATE, settings.metrics_certificate
    if program.webhooks and settings.webhook_certificate:
        made = webhook_objects((), prefix=settings.name_prefix).secret
        by_cert_manager = settings.webhook_certificate == CERT_MANAGER
        yield WEBHOOK_CERTIFICATE, made if by_cert_manager else settings.webhook_certificate


def _volumes(program: Program, settings: Settings) -> Iterator[JSONObject]:
    yield {"name": "tmp", "emptyDir": {}}
    for name, secret in _certificates(program, settings):
        yield {"name": name, "secret": {"secretName": secret}}


def _mounts(program: Program, settings: Settings) -> Iterator[JSONObject]:
    yield {"name": "tmp", "mountPath": "/tmp"}
    for name, _ in _certificates(program, settings):
        yield {"name": name, "mountPath": _FOLDERS[name], "readOnly": True}


def _probe(path: str, *, delay: int, period: int) -> JSONObject:
    return {
        "httpGet": {"path": path, "port": HEALTH_PORT},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
    }


def _stated(structure: dict[str, Any]) -> JSONObject:
    """Return the structure without unset fields."""
    return {key: value for key, value in structure.items() if value not in (None, "", [], {})}
