"""Eviction: a delete that asks the Pod's disruption budget first.

Follows k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest, InternalError, StatusCause, StatusDetails, TooManyRequests
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.kinds.lookup import existing, success
from kubewright_controlplane.apiserver.registry.conditions import set_condition
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteOptions
from kubewright_controlplane.apiserver.registry.subresource import Action

if TYPE_CHECKING:
    from kubewright_controlplane.apiserver.registry.attributes import Attributes
    from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_BUDGETS: Final = "poddisruptionbudgets.policy"
_RETRY_SECONDS: Final = 10

_KIND: Final = GroupVersionKind("policy", "v1", "Eviction")


@dataclass(frozen=True, kw_only=True)
class Eviction(Action):
    kind: GroupVersionKind | None = _KIND
    resources: ResourceSet

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        if (body.get("metadata") or {}).get("name") != attributes.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        pod = existing(self.resources, "pods", attributes.name, attributes.namespace)
        if not _needs_no_budget(pod):
            self._take_from_budget(pod, attributes)
        self._delete(body.get("deleteOptions") or {}, attributes)
        return success()

    def _take_from_budget(self, pod: JSONObject, attributes: Attributes) -> None:
        registry = self.resources.registry(_BUDGETS)
        labels = pod["metadata"].get("labels") or {}
        budgets = [each for each in registry.read_all(attributes.namespace) if _selects(each, labels)]
        if len(budgets) > 1:
            raise InternalError(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        if not budgets:
            return
        budget = budgets[0]
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        if not _is_ready(pod) and _lets_unready_go(budget):
            return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            cause = f"The disruption budget {name} is still being processed by the server."
            raise _too_many(cause, retry_after_seconds=_RETRY_SECONDS)
        if status.get("disruptionsAllowed", 0) <= 0:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise _too_many(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")

        def disrupt(obj: JSONObject) -> None:
            obj["status"]["disruptionsAllowed"] -= 1
            disrupted = obj["status"].setdefault("disruptedPods", {})
            disrupted[attributes.name] = time.format(registry.clock.now())

        if not attributes.dry_run:
            registry.modify(name, disrupt, attributes.namespace, "status")

    def _delete(self, options: JSONObject, attributes: Attributes) -> None:
        registry = self.resources.registry("pods")
        now = time.format(registry.clock.now())
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        writer = WriteOptions(user=attributes.user, dry_run=attributes.dry_run)
        registry.modify(
            attributes.name, lambda pod: set_condition(pod, condition, now), attributes.namespace, "status", writer
        )
        preconditions = options.get("preconditions") or {}
        delete = DeleteOptions(
            user=attributes.user,
            dry_run=attributes.dry_run,
            grace_seconds=options.get("gracePeriodSeconds"),
            propagation=options.get("propagationPolicy") or "",
            uid=preconditions.get("uid") or "",
        )
        registry.delete(attributes.name, attributes.namespace, delete)


def _needs_no_budget(pod: JSONObject) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _selects(budget: JSONObject, labels: dict[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and bool(Selector.from_dict(selector).matches(labels))


def _is_ready(pod: JSONObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _lets_unready_go(budget: JSONObject) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _too_many(cause: str, *, retry_after_seconds: int = 0) -> TooManyRequests:
    """A client that is told when to come again does so by itself: so it is told only when waiting helps."""
    causes = (StatusCause("DisruptionBudget", cause),)
    details = StatusDetails(causes=causes, retry_after_seconds=retry_after_seconds)
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", details=details)
