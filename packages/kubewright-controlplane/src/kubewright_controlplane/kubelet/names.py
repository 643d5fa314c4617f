"""The names that containers in a sandbox know: their host name, `/etc/hosts` and `/etc/resolv.conf`.

Follows k8s.io/kubernetes pkg/kubelet/kubelet_pods.go and pkg/kubelet/network/dns.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.common.resolver import DOMAIN, Resolver, resolver_of

_LOCAL: Final = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)
_HOSTS: Final = Path("/etc/hosts")
_HOST_NAME_LENGTH: Final = 63
_MACHINE: Final = Path("/etc/resolv.conf")


def hostname_of(pod: Pod) -> str:
    """Return the host name of a Pod; that of this machine if it uses the network of its host."""
    if pod.spec.host_network:
        return socket.gethostname()
    if pod.spec.hostname_override:
        return pod.spec.hostname_override
    name = (pod.spec.hostname or pod.metadata.name)[:_HOST_NAME_LENGTH].rstrip("-.")
    return f"{name}.{domain}" if pod.spec.set_hostname_as_fqdn and (domain := domain_of(pod)) else name


def domain_of(pod: Pod) -> str:
    """Return the domain of a Pod with a subdomain; empty for others."""
    return f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{DOMAIN}" if pod.spec.subdomain else ""


def pod_files(pod: Pod, folder: Path, address: str, nameserver: str | None) -> Sequence[tuple[Path, str]]:
    """Write the files of a Pod to `folder`, and return where containers see them."""
    folder.mkdir(exist_ok=True)
    contents = {
        "hosts": "\n".join(_hosts(pod, address)) + "\n",
        "hostname": f"{hostname_of(pod)}\n",
        "resolv.conf": "\n".join(resolver_of(pod, nameserver, Resolver.read(_MACHINE)).lines()) + "\n",
    }
    for name, content in contents.items():
        (folder / name).write_text(content)
    return [(folder / name, f"/etc/{name}") for name in contents]


def _hosts(pod: Pod, address: str) -> Iterator[str]:
    if pod.spec.host_network:
        yield "# Kubernetes-managed hosts file (host network)."
        yield from _HOSTS.read_text(errors="replace").splitlines() if _HOSTS.is_file() else _LOCAL
    else:
        yield "# Kubernetes-managed hosts file."
        yield from _LOCAL
        name = hostname_of(pod)
        domain = domain_of(pod)
        yield f"{address}\t{name}.{domain}\t{name}" if domain and "." not in name else f"{address}\t{name}"
    if pod.spec.host_aliases:
        yield "\n# Entries added by HostAliases."
    for alias in pod.spec.host_aliases:
        yield "\t".join((alias.ip, *alias.hostnames))
