"""The names that containers in a sandbox know: their host name, `/etc/hosts` and `/etc/resolv.conf`.

Follows k8s.io/kubernetes pkg/kubelet/kubelet_pods.go and pkg/kubelet/network/dns.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Pod

DOMAIN: Final = "cluster.local"
_LOCAL: Final = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)
_HOST_NAME_LENGTH: Final = 63


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
        "resolv.conf": "\n".join(_resolver(pod, nameserver)) + "\n",
    }
    for name, content in contents.items():
        (folder / name).write_text(content)
    return [(folder / name, f"/etc/{name}") for name in contents]


def _hosts(pod: Pod, address: str) -> Iterator[str]:
    yield "# Kubernetes-managed hosts file."
    yield from _LOCAL
    name = hostname_of(pod)
    domain = domain_of(pod)
    yield f"{address}\t{name}.{domain}\t{name}" if domain and "." not in name else f"{address}\t{name}"
    if pod.spec.host_aliases:
        yield "\n# Entries added by HostAliases."
    for alias in pod.spec.host_aliases:
        yield "\t".join((alias.ip, *alias.hostnames))


def _resolver(pod: Pod, nameserver: str | None) -> Iterator[str]:
    """Yield the lines of `/etc/resolv.conf`, by the Pod's DNS policy and its own configuration."""
    servers, searches, options = _policy(pod, nameserver)
    config = pod.spec.dns_config
    if config is not None:
        servers = [*servers, *config.nameservers]
        searches = [*searches, *config.searches]
        own = {
            each.name or "": f"{each.name}:{each.value}" if each.value else each.name or "" for each in config.options
        }
        options = [*(each for each in options if each.partition(":")[0] not in own), *own.values()]
    yield from (f"nameserver {each}" for each in dict.fromkeys(servers))
    if searches:
        yield f"search {' '.join(dict.fromkeys(searches))}"
    if options:
        yield f"options {' '.join(options)}"


def _policy(pod: Pod, nameserver: str | None) -> tuple[list[str], list[str], list[str]]:
    """Return the name servers, search domains and options of the Pod's DNS policy. Without a DNS server of the
    cluster, they are those of this machine.
    """
    policy = pod.spec.dns_policy or "ClusterFirst"
    if policy == "None":
        return [], [], []
    servers, searches, options = _of_machine()
    is_cluster = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)
    if nameserver is None or not is_cluster:
        return servers, searches, options
    domains = [f"{pod.metadata.namespace}.svc.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN]
    return [nameserver], [*domains, *searches], ["ndots:5"]


def _of_machine() -> tuple[list[str], list[str], list[str]]:
    """Return the name servers, search domains and options of this machine."""
    path, found = Path("/etc/resolv.conf"), {"nameserver": list[str](), "search": list[str](), "options": list[str]()}
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        word, *values = line.split() or [""]
        if word in found:
            found[word] = [*found[word], *values] if word == "nameserver" else values
    return found["nameserver"], found["search"], found["options"]
