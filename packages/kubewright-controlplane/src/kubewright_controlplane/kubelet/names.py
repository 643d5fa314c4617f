"""The names that containers in a sandbox know: their host name, `/etc/hosts` and `/etc/resolv.conf`.

Follows k8s.io/kubernetes pkg/kubelet/kubelet_pods.go and pkg/kubelet/network/dns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Pod
from kubewright_controlplane.kubelet.sandbox import PodSandbox

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
    """Return the host name of a Pod."""
    if pod.spec.hostname_override:
        return pod.spec.hostname_override
    name = (pod.spec.hostname or pod.metadata.name)[:_HOST_NAME_LENGTH].rstrip("-.")
    return f"{name}.{domain}" if pod.spec.set_hostname_as_fqdn and (domain := domain_of(pod)) else name


def domain_of(pod: Pod) -> str:
    """Return the domain of a Pod with a subdomain; empty for others."""
    return f"{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{DOMAIN}" if pod.spec.subdomain else ""


def pod_files(pod: Pod, sandbox: PodSandbox) -> Sequence[tuple[Path, str]]:
    """Write the files of a Pod, and return where containers see them."""
    folder = sandbox.folder / "etc"
    folder.mkdir(exist_ok=True)
    contents = {
        "hosts": "\n".join(_hosts(pod, sandbox.address)) + "\n",
        "hostname": f"{hostname_of(pod)}\n",
        "resolv.conf": "\n".join(_resolver(pod, sandbox.nameserver)) + "\n",
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
    """Yield the lines of `/etc/resolv.conf`: those of the Pod's DNS policy, then those of its own configuration.

    `nameserver` is the cluster's. Without one, the policy ClusterFirst is that of this machine, like Default.
    """
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    of_cluster = pod.spec.dns_policy == "ClusterFirstWithHostNet" or (
        pod.spec.dns_policy in (None, "ClusterFirst") and not pod.spec.host_network
    )
    if pod.spec.dns_policy != "None":
        servers, searches, options = _of_machine()
    if of_cluster and nameserver is not None:
        own = f"svc.{DOMAIN}"
        servers, options = [nameserver], {"ndots": "5"}
        searches = [f"{pod.metadata.namespace}.{own}", own, DOMAIN, *searches]
    if (config := pod.spec.dns_config) is not None:
        servers += config.nameservers
        searches += config.searches
        options |= {each.name or "": each.value or "" for each in config.options}
    yield from (f"nameserver {each}" for each in dict.fromkeys(servers))
    if searches:
        yield f"search {' '.join(dict.fromkeys(searches))}"
    if options:
        yield "options " + " ".join(f"{name}:{value}" if value else name for name, value in options.items())


def _of_machine() -> tuple[list[str], list[str], dict[str, str]]:
    """Return the name servers, search domains and options of this machine."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    path = Path("/etc/resolv.conf")
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        match line.split():
            case ["nameserver", address, *_]:
                servers.append(address)
            case ["search", *domains]:
                searches = domains
            case ["options", *pairs]:
                options |= {name: value for name, _, value in (each.partition(":") for each in pairs)}
            case _:
                pass
    return servers, searches, options
