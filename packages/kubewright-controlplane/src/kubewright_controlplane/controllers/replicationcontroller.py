"""The ReplicationController controller: the reconciler of ReplicaSets, for the kind that came before them.

Follows kubernetes/pkg/controller/replication.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubewright._runtime.clock import Clock
from kubewright.apis.apps.v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus
from kubewright.apis.core.v1 import (
    Pod,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client._client import Client
from kubewright.controllers import Controller, controller
from kubewright_controlplane.common.selection import SELECTOR, by_required_label
from kubewright_controlplane.controllers.claims import orphans
from kubewright_controlplane.controllers.replicaset import ReplicaSetReconciler


def _view(replication: ReplicationController) -> ReplicaSet:
    """Return a ReplicationController as a ReplicaSet."""
    spec = replication.spec
    conditions = [
        ReplicaSetCondition(
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message,
            last_transition_time=each.last_transition_time,
        )
        for each in replication.status.conditions
    ]
    return ReplicaSet(
        metadata=replication.metadata,
        spec=ReplicaSetSpec(
            replicas=spec.replicas,
            min_ready_seconds=spec.min_ready_seconds,
            selector=LabelSelector(match_labels=spec.selector),
            template=spec.template,
        ),
        status=ReplicaSetStatus(conditions=conditions),
    )


def _status(status: ReplicaSetStatus) -> ReplicationControllerStatus:
    conditions = [
        ReplicationControllerCondition(
            type=each.type,
            status=each.status,
            reason=each.reason,
            message=each.message,
            last_transition_time=each.last_transition_time,
        )
        for each in status.conditions
    ]
    return ReplicationControllerStatus(
        replicas=status.replicas,
        fully_labeled_replicas=status.fully_labeled_replicas,
        ready_replicas=status.ready_replicas,
        available_replicas=status.available_replicas,
        observed_generation=status.observed_generation,
        conditions=conditions,
    )


def _by_selector(replication: ReplicationController) -> Iterable[str]:
    return [by_required_label(replication.metadata.namespace, replication.spec.selector)]


def replicationcontroller_controller(live: Client, clock: Clock) -> Controller[ReplicationController]:
    """Return the controller `replicationcontroller-controller`. `live` reads from the server."""
    declare = controller(
        ReplicationController,
        name="replicationcontroller-controller",
        owns=[Pod],
        watches=[orphans(Pod)],
        indexers={SELECTOR: _by_selector},
        namespace_ending="stop",
        workers=5,
    )
    return declare(ReplicaSetReconciler(live, clock, _view, _status))
