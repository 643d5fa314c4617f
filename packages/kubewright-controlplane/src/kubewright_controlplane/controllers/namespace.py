"""The namespace controller: empties a namespace that is being deleted, then removes its finalizer.

It deletes Pods first, because they may need the other objects until they end. Once no Pods remain, it deletes objects
of every other kind that the API server serves. What blocks the deletion (objects with finalizers, kinds that can't be
listed) is reported in conditions of the namespace.

Follows kubernetes/pkg/controller/namespace/deletion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from kubewright._runtime.clock import Clock
from kubewright.apis.core.v1 import Namespace, NamespaceCondition
from kubewright.client._client import Client
from kubewright.client._dynamic import PartialObjectMetadata
from kubewright.client._mapper import RESTMapper, ServedResource
from kubewright.controllers import Context, Controller, DeletedContext, Result, controller
from kubewright.machinery.errors import APIError, MethodNotAllowed, NotFound

FINALIZER: Final = "kubernetes"
_SOON: Final = timedelta(milliseconds=250)
_LATE: Final = timedelta(seconds=5)
_NEEDED: Final = frozenset({"delete", "list"})


@dataclass
class _Content:
    """What an attempt to empty a namespace left in it."""

    failures: list[str] = field(default_factory=list[str])
    left: Counter[str] = field(default_factory=Counter[str])
    """The number of remaining objects of each resource."""
    finalizers: Counter[str] = field(default_factory=Counter[str])
    """The number of remaining objects with each finalizer."""
    pods_remain: bool = False
    """No other objects have been deleted, because Pods remain."""

    def count(self, served: ServedResource, remaining: Sequence[PartialObjectMetadata]) -> None:
        if remaining:
            self.left[f"{served.api.plural}.{served.api.group}"] += len(remaining)
            self.finalizers.update(finalizer for each in remaining for finalizer in each.metadata.finalizers)


class NamespaceReconciler:
    """Finalizes namespaces."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._mapper = RESTMapper(client)

    async def reconcile(self, ctx: Context[Namespace] | DeletedContext[Namespace]) -> Result | None:
        if isinstance(ctx, DeletedContext):
            return None
        namespace = ctx.object
        if namespace.metadata.deletion_timestamp is None or FINALIZER not in namespace.spec.finalizers:
            return None
        content = await self._empty(namespace.metadata.name)
        if not content.failures and not content.left:
            namespace.spec.finalizers = [each for each in namespace.spec.finalizers if each != FINALIZER]
            await ctx.client.update(namespace, subresource="finalize")
            return None
        await self._report(ctx, content)
        return Result(requeue_after=self._pause(namespace))

    def _pause(self, namespace: Namespace) -> timedelta:
        """Return the pause before the next attempt, which grows with the age of the deletion. Each attempt lists every
        kind.
        """
        since = namespace.metadata.deletion_timestamp or self._clock.now()
        return min(max((self._clock.now() - since) / 4, _SOON), _LATE)

    async def _empty(self, name: str) -> _Content:
        """Delete the Pods of a namespace, and all other objects if no Pods remain."""
        content = _Content()
        resources = [each for each in await self._mapper.resources() if _can_be_emptied(each)]
        for served in sorted(resources, key=_is_pods, reverse=True):
            try:
                remaining = await self._clear(served, name)
            except APIError as error:
                content.failures.append(f"{served.api.gvr.qualified_resource}: {error}")
                continue
            content.count(served, remaining)
            if remaining and _is_pods(served):
                content.pods_remain = True
                break
        return content

    async def _clear(self, served: ServedResource, namespace: str) -> Sequence[PartialObjectMetadata]:
        kind = PartialObjectMetadata.of(served.api)
        present = await self._client.list(kind, namespace=namespace)
        if not present:
            return []
        if "deletecollection" in served.verbs:
            await self._delete_all(kind, namespace, present.items)
        else:
            await self._delete_each(kind, namespace, present.items)
        return (await self._client.list(kind, namespace=namespace)).items

    async def _delete_all(
        self, kind: type[PartialObjectMetadata], namespace: str, present: Sequence[PartialObjectMetadata]
    ) -> None:
        try:
            await self._client.delete_all_of(kind, namespace=namespace, propagation="Background")
        except MethodNotAllowed:
            await self._delete_each(kind, namespace, present)

    async def _delete_each(
        self, kind: type[PartialObjectMetadata], namespace: str, present: Sequence[PartialObjectMetadata]
    ) -> None:
        for each in present:
            try:
                await self._client.delete(each, propagation="Background")
            except NotFound:
                continue

    async def _report(self, ctx: Context[Namespace], content: _Content) -> None:
        remaining, holding = "", ""
        if not content.pods_remain:  # kube-controller-manager reports what remains only after the Pods
            remaining = _listed(content.left, "{} has {} resource instances")
            holding = _listed(content.finalizers, "{} in {} resource instances")
        namespace = ctx.object
        namespace.status.conditions = [
            self._condition(
                namespace,
                "NamespaceDeletionDiscoveryFailure",
                ("DiscoveryFailed", ""),  # a discovery that fails is retried
                ("ResourcesDiscovered", "All resources successfully discovered"),
            ),
            self._condition(
                namespace,
                "NamespaceDeletionGroupVersionParsingFailure",
                ("GroupVersionParsingFailed", ""),
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ),
            self._condition(
                namespace,
                "NamespaceDeletionContentFailure",
                ("ContentDeletionFailed", "; ".join(content.failures)),
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            ),
            self._condition(
                namespace,
                "NamespaceContentRemaining",
                ("SomeResourcesRemain", f"Some resources are remaining: {remaining}" if remaining else ""),
                ("ContentRemoved", "All content successfully removed"),
            ),
            self._condition(
                namespace,
                "NamespaceFinalizersRemaining",
                (
                    "SomeFinalizersRemain",
                    f"Some content in the namespace has finalizers remaining: {holding}" if holding else "",
                ),
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            ),
        ]
        await ctx.update_status(namespace.status)

    def _condition(
        self, namespace: Namespace, kind: str, holds: tuple[str, str], clear: tuple[str, str]
    ) -> NamespaceCondition:
        """Return the condition: True with `holds` if that has a message, else False with `clear`."""
        reason, message = holds if holds[1] else clear
        status = "True" if holds[1] else "False"
        before = next((each for each in namespace.status.conditions if each.type == kind), None)
        moved = before.last_transition_time if before is not None and before.status == status else self._clock.now()
        return NamespaceCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=moved)


def _can_be_emptied(served: ServedResource) -> bool:
    return served.api.namespaced and served.preferred and served.verbs >= _NEEDED


def _is_pods(served: ServedResource) -> bool:
    return served.api.gvr.qualified_resource == "pods"


def _listed(counts: Counter[str], form: str) -> str:
    return ", ".join(form.format(name, count) for name, count in sorted(counts.items()))


def namespace_controller(client: Client, clock: Clock) -> Controller[Namespace]:
    """Return the controller `namespace-controller`.

    `client` reads from the server, because a cache may not show new objects yet.
    """
    declare = controller(Namespace, name="namespace-controller", reconcile_deleted=True, workers=4)
    return declare(NamespaceReconciler(client, clock))
