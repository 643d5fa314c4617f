"""Objects whose reconciles keep failing, according to the Events of the deployed manager.

The manager records a warning Event on such an object, and another Event when a reconcile of the object succeeds again:
the later one of the two counts. Only Events of the process that reconciles now count, because the failures of an
earlier process say nothing about this one. Kubernetes deletes an Event about an hour after its last occurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kubewright.apis.core.v1 import Event, Pod
from kubewright.client import Client, PartialObjectMetadata
from kubewright.controllers._loop import PAUSED
from kubewright.controllers._reconcile import ALREADY_OWNED, RECONCILE_FAILED, RECONCILE_SUCCEEDED
from kubewright.machinery.errors import NotFound
from kubewright.models import APIResource
from kubewright_cli.deployment.pods import CONTAINER, lease_of, pods_of
from kubewright_cli.manifests import Manifests

_FAILURES: Final = (RECONCILE_FAILED, ALREADY_OWNED)
_LOOKED_UP: Final = 100
"""Objects that are looked up; more are reported as the Events name them."""


@dataclass(frozen=True, slots=True)
class FailingObject:
    """An object whose reconciles keep failing."""

    kind: str
    group: str
    namespace: str | None
    name: str
    uid: str
    error: str
    """The last error: its class and its message."""

    @property
    def why(self) -> str:
        return f"its reconciles fail: {self.error}"


async def failing_objects(client: Client, manifests: Manifests) -> list[FailingObject]:
    """Return the objects whose reconciles keep failing in the deployed manager, by kind, namespace and name.

    Objects that are deleted or paused by now are left out. Raises Forbidden if this client may not list Events.
    """
    manager = manifests.program.manager
    is_current = await _current_process(client, manifests)
    last: dict[str, Event] = {}
    for each in sorted(await client.list(Event, fields={"reportingComponent": manager.name}), key=seen_at):
        if is_current(each) and each.reason in (*_FAILURES, RECONCILE_SUCCEEDED):
            last[each.involved_object.uid or ""] = each
    found = sorted(map(_failing, (each for each in last.values() if each.reason in _FAILURES)), key=_place)
    apis = {(kind.__api__.group, kind.__api__.kind): kind.__api__ for kind in (c.kind for c in manager.controllers)}
    checked = [each for each in found[:_LOOKED_UP] if await _is_active(client, apis.get((each.group, each.kind)), each)]
    return checked + found[_LOOKED_UP:]


def seen_at(event: Event) -> datetime:
    """Return when an Event occurred the last time."""
    series = event.series.last_observed_time if event.series is not None else None
    times = (series, event.last_timestamp, event.event_time)
    created = event.metadata.creation_timestamp
    assert created is not None, "every object from an API server has a creation time"
    return next((each for each in times if each is not None), created)


async def _current_process(client: Client, manifests: Manifests) -> Callable[[Event], bool]:
    """Return whether an Event is of the process that reconciles now: the leader, or else the container of a Pod."""
    if manifests.settings.leader_election:
        lease = await lease_of(client, manifests)
        holder = (lease.spec.holder_identity if lease is not None else None) or ""
        return lambda event: bool(holder) and event.reporting_instance == holder
    started = {each.metadata.name: _started_at(each) for each in await pods_of(client, manifests)}

    def is_of_pod(event: Event) -> bool:
        since = started.get((event.reporting_instance or "").rpartition("_")[0])
        return since is not None and seen_at(event) >= since

    return is_of_pod


def _started_at(pod: Pod) -> datetime | None:
    """Return when the manager's container started; None if it does not run."""
    states = [each.state for each in pod.status.container_statuses if each.name == CONTAINER]
    return next((each.running.started_at for each in states if each is not None and each.running is not None), None)


def _failing(event: Event) -> FailingObject:
    about = event.involved_object
    group = (about.api_version or "").rpartition("/")[0]
    namespace, name, uid = about.namespace or None, about.name or "", about.uid or ""
    return FailingObject(about.kind or "", group, namespace, name, uid, event.message or "")


def _place(found: FailingObject) -> tuple[str, str, str]:
    return found.kind, found.namespace or "", found.name


async def _is_active(client: Client, api: APIResource | None, found: FailingObject) -> bool:
    """Return whether the object still exists and is reconciled."""
    if api is None:  # a controller that the program no longer has
        return False
    try:
        obj = await client.get(PartialObjectMetadata.of(api), found.name, namespace=found.namespace)
    except NotFound:
        return False
    return obj.metadata.uid == found.uid and obj.metadata.annotations.get(PAUSED) != "true"
