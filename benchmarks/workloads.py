"""The operators that can be measured, and the objects that they reconcile: `python -m benchmarks --operator <name>`.

Each toolkit has the same operator. `benchmarks.peers` has the programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.peers.kubewright.sites import Site, SiteSpec
from benchmarks.peers.kubewright.widgets import Widget, WidgetSpec
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Service
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.models import CustomResource, Object

NAMESPACE: Final = "default"
SITES_PER_SECRET: Final = 10


@dataclass(frozen=True)
class Observed:
    """What the spec and the status of an object say."""

    message: str
    is_current: bool
    """Whether the status is up to date with the spec."""
    secret_version: str = ""


@dataclass(frozen=True)
class Workload:
    """The objects of an operator. Each owns a ConfigMap of its name with the message of its spec."""

    name: str
    title: str
    kind: type[CustomResource]
    new: Callable[[str, str], Object]
    """Returns a new object with this name and message."""
    observe: Callable[[Object], Observed]
    owns: Sequence[type[Object]]
    kilobytes: int
    """The size of a message by default."""
    secret_of: Callable[[str], str] | None = None
    """Returns the name of the Secret to which the object of this name refers. None if objects refer to nothing."""


def _new_widget(name: str, message: str) -> Widget:
    return Widget(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=WidgetSpec(message=message, size=3))


def _observe_widget(widget: Object) -> Observed:
    assert isinstance(widget, Widget)
    return Observed(widget.spec.message, widget.status.observed_generation == widget.metadata.generation)


def _new_site(name: str, message: str) -> Site:
    spec = SiteSpec(message=message, size=3, secret=_secret_of_site(name))
    return Site(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec)


def _observe_site(site: Object) -> Observed:
    assert isinstance(site, Site)
    is_current = site.status.observed_generation == site.metadata.generation
    return Observed(site.spec.message, is_current, site.status.secret_version)


def _secret_of_site(name: str) -> str:
    """Return the Secret of a Site: every tenth Site begins a new one. Names end with a number, except the first."""
    number = name.rpartition("-")[2]
    return f"secret-{int(number) // SITES_PER_SECRET if number.isdigit() else 0}"


WORKLOADS: Final = {
    each.name: each
    for each in (
        Workload(
            "widgets",
            "a Widget owns a ConfigMap",
            kind=Widget,
            new=_new_widget,
            observe=_observe_widget,
            owns=(ConfigMap,),
            kilobytes=0,
        ),
        Workload(
            "sites",
            "a Site of 20 KB owns a ConfigMap, a Service and a Deployment, and refers to a Secret that ten Sites share",
            kind=Site,
            new=_new_site,
            observe=_observe_site,
            owns=(ConfigMap, Service, Deployment),
            kilobytes=20,
            secret_of=_secret_of_site,
        ),
    )
}
