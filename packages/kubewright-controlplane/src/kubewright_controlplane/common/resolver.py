"""The `/etc/resolv.conf` of this machine and of a Pod: how programs find names.

Follows k8s.io/kubernetes pkg/kubelet/network/dns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Pod

DOMAIN: Final = "cluster.local"
"""The domain of all names of Services and Pods."""
_NDOTS: Final = "ndots:5"
"""Names with fewer dots are looked up in the search domains first: `web.default.svc` has two."""
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32


@dataclass(frozen=True, slots=True)
class Resolver:
    """The content of a `resolv.conf`."""

    nameservers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()
    others: Sequence[str] = field(default=())
    """Lines that are kept as they are."""

    @classmethod
    def read(cls, path: Path) -> Resolver:
        """Read a file; an empty resolver if the file can't be read."""
        try:
            return cls.parse(path.read_text(errors="replace"))
        except OSError:
            return cls()

    @classmethod
    def parse(cls, text: str) -> Resolver:
        """Read the text of a file. The last `search` line counts."""
        nameservers, searches, options, others = list[str](), list[str](), list[str](), list[str]()
        for line in text.splitlines():
            match line.split("#")[0].split():
                case ["nameserver", address, *_]:
                    nameservers.append(address)
                case ["search", *domains]:
                    searches = domains
                case ["options", *words]:
                    options += words
                case []:
                    pass
                case words:
                    others.append(" ".join(words))
        return cls(nameservers, searches, options, others)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file. Resolvers ignore more than three name servers."""
        yield from (f"nameserver {each}" for each in self.nameservers[:_MAX_NAMESERVERS])
        if self.searches:
            yield f"search {' '.join(self.searches[:_MAX_SEARCHES])}"
        if self.options:
            yield f"options {' '.join(self.options)}"
        yield from self.others


def wants_cluster(pod: Pod) -> bool:
    """Return whether a Pod wants the DNS server of the cluster."""
    policy = pod.spec.dns_policy or "ClusterFirst"
    return policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not pod.spec.host_network)


def resolver_of(pod: Pod, nameserver: str | None, machine: Resolver) -> Resolver:
    """Return the resolver of a Pod. `nameserver` is the DNS server of the cluster; `machine` is this machine's."""
    if pod.spec.dns_policy == "None":
        base = Resolver()
    elif nameserver is not None and wants_cluster(pod):
        service = f"svc.{DOMAIN}"
        own = (f"{pod.metadata.namespace}.{service}", service, DOMAIN)
        base = Resolver([nameserver], _unique(own, machine.searches), [_NDOTS])
    else:
        base = machine
    config = pod.spec.dns_config
    if config is None:
        return base
    options = [f"{each.name}:{each.value}" if each.value else each.name or "" for each in config.options]
    replaced = {each.partition(":")[0] for each in options}
    return Resolver(
        _unique(base.nameservers, config.nameservers),
        _unique(base.searches, config.searches),
        [*(each for each in base.options if each.partition(":")[0] not in replaced), *options],
        base.others,
    )


def _unique(*groups: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(each for group in groups for each in group))
