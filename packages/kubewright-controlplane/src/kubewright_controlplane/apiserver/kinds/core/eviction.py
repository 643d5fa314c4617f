"""Eviction: a delete that respects the Pod's disruption budget.

Follows k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest, InternalError, StatusCause, StatusDetails, TooManyRequests
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright.machinery.selectors import Selector
from kubewright_controlplane.apiserver.kinds.generic import existing, success
from kubewright_controlplane.apiserver.registry.deletion import check_preconditions
from kubewright_controlplane.apiserver.registry.model import Action, Attributes
from kubewright_controlplane.apiserver.registry.objects import set_condition
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteCall, WriteOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

_BUDGETS: Final = "poddisruptionbudgets.policy"
_RETRY_SECONDS: Final = 10

_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_KIND: Final = GroupVersionKind("policy", "v1", "Eviction")


@dataclass(frozen=True, kw_only=True)
class Eviction(Action):
    kind: GroupVersionKind | None = _KIND
    resources: ResourceSet

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        if (body.get("metadata") or {}).get("name") != attributes.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        document: JSONObject = body.get("deleteOptions") or {}
        _set_dry_run(document, attributes)
        pod = existing(self.resources, "pods", attributes.name, attributes.namespace)
        if not _ignores_budget(pod):
            self._take_from_budget(pod, attributes, dry_run=bool(document.get("dryRun")))
        self._delete(document, attributes)
        return success()

    def _take_from_budget(self, pod: JSONObject, attributes: Attributes, *, dry_run: bool) -> None:
        """Count one disruption against the Pod's budget. Raises TooManyRequests if the budget allows none."""
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
        if not _is_ready(pod) and _allows_unready_eviction(budget):
            return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            cause = f"The disruption budget {name} is still being processed by the server."
            raise _too_many(cause, retry_after_seconds=_RETRY_SECONDS)
        if status.get("disruptionsAllowed", 0) <= 0:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise _too_many(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        if dry_run:
            return
        target = registry.open(name, attributes.namespace, "status")
        disrupted = target.draft()
        disrupted["status"]["disruptionsAllowed"] -= 1
        disrupted_pods: JSONObject = disrupted["status"].setdefault("disruptedPods", {})
        disrupted_pods[attributes.name] = time.format(registry.clock.now())
        registry.replace(target, disrupted)

    def _delete(self, document: JSONObject, attributes: Attributes) -> None:
        """Record in the Pod's status that it is evicted, and delete it."""
        registry = self.resources.registry("pods")
        if not document.get("dryRun"):
            target = registry.open(attributes.name, attributes.namespace, "status")
            preconditions: JSONObject = document.get("preconditions") or {}
            required = DeleteOptions(
                uid=preconditions.get("uid") or None, resource_version=preconditions.get("resourceVersion") or None
            )
            check_preconditions(registry.resource, target.old["metadata"], required)
            pod = target.draft()
            set_condition(pod, _CONDITION, time.format(registry.clock.now()))
            written = registry.replace(target, pod, WriteCall(WriteOptions(user=attributes.user, field_manager="")))
            if required.resource_version:
                preconditions["resourceVersion"] = written.object["metadata"]["resourceVersion"]
        registry.delete(attributes.name, attributes.namespace, DeleteOptions.of(document, attributes.user))


def _set_dry_run(document: JSONObject, attributes: Attributes) -> None:
    """Take over the dry run of the request. Raises InternalError if the Eviction has a different one."""
    requested: list[str] = attributes.options.get("dryRun") or []
    given: list[str] = document.get("dryRun") or []
    if requested and given and requested != given:
        why = f"[{' '.join(requested)}] and [{' '.join(given)}]"
        raise InternalError(f"Non-matching dry-run options in request and content: {why}", reason="")
    if requested:
        document["dryRun"] = requested


def _ignores_budget(pod: JSONObject) -> bool:
    """Return whether a Pod counts for no budget: it has not started, has ended, or is being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _selects(budget: JSONObject, labels: dict[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and bool(Selector.from_dict(selector).matches(labels))


def _is_ready(pod: JSONObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _allows_unready_eviction(budget: JSONObject) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _too_many(cause: str, *, retry_after_seconds: int = 0) -> TooManyRequests:
    """Return the error of a denied eviction. Clients retry after `retry_after_seconds`; 0 if waiting cannot help."""
    causes = (StatusCause("DisruptionBudget", cause),)
    details = StatusDetails(causes=causes, retry_after_seconds=retry_after_seconds)
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", details=details)
