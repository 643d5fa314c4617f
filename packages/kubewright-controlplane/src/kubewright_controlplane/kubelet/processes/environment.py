"""The environment of a container: what its image, its ConfigMaps and Secrets and it itself say, and where the API is.

In this order, what comes later first: the container's own `env`, its `envFrom`, the address of the API server, the
image's, and what this machine has (PATH and the locale). `$(NAME)` in a value is what was set before it.

Follows k8s.io/kubernetes pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Container, EnvVarSource
from kubewright.client._client import Client
from kubewright.client._config import SANDBOX
from kubewright.manager._serving import BIND_HOST
from kubewright_controlplane.kubelet.processes import downward, sources
from kubewright_controlplane.kubelet.processes.downward import Placed
from kubewright_controlplane.kubelet.processes.expansion import expand
from kubewright_controlplane.kubelet.processes.images import Image
from kubewright_controlplane.kubelet.processes.ports import port_of_process
from kubewright_controlplane.kubelet.processes.sources import Missing

IMAGE: Final = "KUBEWRIGHT_IMAGE"
"""The variable that says what a container calls its image: one command may stand for many."""
PORT: Final = "KUBEWRIGHT_PORT_"
"""With a port behind it, the variable that says which port a process has to open for that one."""
_OURS: Final = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
"""What is told of this machine. The home folder is not: it may hold an administrator's kubeconfig."""


@dataclass(frozen=True, slots=True)
class APIAddress:
    """Where Pods find the API server."""

    host: str
    port: int

    def variables(self) -> dict[str, str]:
        """What a kubelet sets for the Service `kubernetes`."""
        host, port = self.host, str(self.port)
        url = f"tcp://{host}:{port}"
        return {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
            "KUBERNETES_PORT": url,
            "KUBERNETES_PORT_443_TCP": url,
            "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
            "KUBERNETES_PORT_443_TCP_PORT": port,
            "KUBERNETES_PORT_443_TCP_ADDR": host,
        }


async def environment_of(
    container: Container, image: Image, placed: Placed, api: APIAddress, root: Path, client: Client
) -> dict[str, str]:
    """The variables of a container whose files are under `root`. Raises Missing."""
    machine = {name: os.environ[name] for name in _OURS if name in os.environ}
    spec = placed.pod.spec
    given = {
        "HOME": str(root),
        "TMPDIR": str(root / "tmp"),
        "HOSTNAME": spec.hostname or placed.pod.metadata.name,
        SANDBOX: str(root),
        BIND_HOST: placed.address,
        IMAGE: container.image or "",
    }
    ports = {*image.ports, *(each.container_port for each in container.ports)}
    given |= {f"{PORT}{port}": str(port_of_process(port)) for port in sorted(ports)}
    values = machine | given | image.env | api.variables()
    values |= await _from_sources(container, placed, client)
    for variable in container.env:
        if variable.value_from is None:
            values[variable.name] = expand(variable.value or "", values)
            continue
        value = await _value(container, variable.value_from, placed, client)
        if value is not None:
            values[variable.name] = value
    return values


async def _from_sources(container: Container, placed: Placed, client: Client) -> dict[str, str]:
    namespace = placed.pod.metadata.namespace or ""
    values: dict[str, str] = {}
    for source in container.env_from:
        found: Mapping[str, bytes] | None = None
        if source.config_map_ref is not None:
            ref = source.config_map_ref
            found = await sources.config_map(client, namespace, ref.name or "", optional=bool(ref.optional))
        elif source.secret_ref is not None:
            secret = source.secret_ref
            found = await sources.secret(client, namespace, secret.name or "", optional=bool(secret.optional))
        values |= {f"{source.prefix or ''}{key}": _text(value) for key, value in (found or {}).items()}
    return values


async def _value(container: Container, source: EnvVarSource, placed: Placed, client: Client) -> str | None:
    """The value that is referred to; None when it is not there and need not be."""
    namespace = placed.pod.metadata.namespace or ""
    if source.field_ref is not None:
        try:
            return downward.field(placed, source.field_ref.field_path)
        except KeyError:
            raise Missing(f"unsupported fieldPath: {source.field_ref.field_path}") from None
    if source.resource_field_ref is not None:
        name = source.resource_field_ref.container_name
        spec = placed.pod.spec
        of = next((each for each in (*spec.init_containers, *spec.containers) if each.name == name), container)
        try:
            return downward.resource(placed, of, source.resource_field_ref)
        except KeyError:
            raise Missing(f"unsupported container resource: {source.resource_field_ref.resource}") from None
    if source.config_map_key_ref is not None:
        ref = source.config_map_key_ref
        found = await sources.config_map(client, namespace, ref.name or "", optional=bool(ref.optional))
        return _entry(found, ref.key, f"ConfigMap {namespace}/{ref.name}", optional=bool(ref.optional))
    if source.secret_key_ref is not None:
        key = source.secret_key_ref
        found = await sources.secret(client, namespace, key.name or "", optional=bool(key.optional))
        return _entry(found, key.key, f"Secret {namespace}/{key.name}", optional=bool(key.optional))
    raise Missing("a variable's fileKeyRef is not supported for containers that are processes")


def _entry(found: Mapping[str, bytes] | None, key: str, where: str, *, optional: bool) -> str | None:
    if found is not None and key in found:
        return _text(found[key])
    if optional:
        return None
    raise Missing(f"couldn't find key {key} in {where}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")
